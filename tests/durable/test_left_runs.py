"""What a run needs when it is gone on with, and who may go on with it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, JournalUnavailable, SQLiteJournal, ToolContext, UserError, tool
from surehand._records import Draft
from surehand.durable._journal import Claim
from surehand.testing import ScriptedModel, call, calls, say


@tool(repeat="with_key")
def charge(ctx: ToolContext[dict[str, int]]) -> int:
    """Charge the card."""
    ctx.deps["charged"] += 1
    return ctx.deps["charged"]


class Failing(SQLiteJournal):
    """A journal that cannot write the intent of the first call."""

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records."""
        if any(draft.kind == "INTENT" for draft in drafts):
            raise JournalUnavailable("the disk is full")
        return super().append(claim, drafts, state=state)


def halted(file: Path, deps: Any) -> SQLiteJournal:
    """A journal with a run that halted because of it, in a process that lives on."""
    journal = Failing(file)
    with pytest.raises(JournalUnavailable):
        Agent(ScriptedModel([calls(call("charge"))]), tools=[charge], journal=journal).run("Go", run_id="r", deps=deps)
    return journal


def test_a_run_that_halted_is_recovered_by_another_agent_while_its_process_lives_on(tmp_path: Path) -> None:
    deps = {"charged": 0}
    with_left = halted(tmp_path / "runs.db", deps)
    with Agent(ScriptedModel([say("Charged")]), tools=[charge], journal=tmp_path / "runs.db") as agent:
        (outcome,) = agent.recover(deps=deps)
    with_left.close()
    assert outcome.result is not None
    assert (outcome.result.output, deps) == ("Charged", {"charged": 1})


def test_a_run_that_had_deps_is_not_gone_on_with_without_them_and_nothing_is_given_up(tmp_path: Path) -> None:
    deps = {"charged": 0}
    with_left = halted(tmp_path / "runs.db", deps)
    with Agent(ScriptedModel([say("Charged")]), tools=[charge], journal=tmp_path / "runs.db") as agent:
        with pytest.raises(UserError, match="run 'r' was begun with deps"):
            agent.resume("r")
        (refused,) = agent.recover()
        assert (refused.result, type(refused.error), refused.undone) == (None, UserError, None)
        assert agent.resume("r", deps=deps).output == "Charged"
        assert agent.resume("r").output == "Charged"  # it is over: nothing needs them any more
    with_left.close()
    assert deps == {"charged": 1}
