"""A call that ended after its run had gone on without it is told again as what became of it then."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from surehand import ChatRequest, MemoryJournal, ToolContext, ToolError, ToolFinished, UndoPolicy, tool
from surehand._records import DONE, GIVEN_UP, RUN_ENDED, UNDO_INTENT, Draft, State
from surehand.durable._journal import Claim
from surehand.testing import call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, every_mode


def slow_and_refuse(life: Life) -> tuple[list[Any], Any]:
    """Two tools and a listener: ``slow`` is given up waiting for, and has ended when ``refuse`` fails."""
    answered, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def cancel(ctx: ToolContext[Any]) -> None:
        life.log.append(f"cancel {ctx.idempotency_key}")

    @tool(repeat="with_key", timeout=0.2, undo=cancel)  # long enough for the body to begin on a busy machine
    def slow(ctx: ToolContext[Any]) -> str:
        assert may_end.wait(20)
        return "slow"

    @tool
    def refuse() -> None:
        assert answered.wait(20)
        may_end.set()
        assert has_ended.wait(20)
        raise ToolError("no")

    def listen(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.execution.call.name == "slow":
            (has_ended if event.late else answered).set()

    return [slow, refuse], listen


@every_mode
@pytest.mark.parametrize("in_one_round", [True, False])
def test_a_call_that_ended_late_and_was_undone_since_another_failed_is_told_again_as_that(
    mode: Mode, in_one_round: bool
) -> None:
    life = Life()
    tools, listen = slow_and_refuse(life)
    asks = [calls(call("slow"), call("refuse"))] if in_one_round else [calls(call("slow")), calls(call("refuse"))]

    def dies(request: ChatRequest) -> Any:
        life.dies()
        return say("Done")

    options: dict[str, Any] = {"tools": tools, "undo": UndoPolicy.ON_TOOL_ERROR}
    first = agent(life, *asks, calls(call("nothing")), dies, **options, listeners=[listen]).run("Go", run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, say("Done"), **options), run_id=RUN)
    assert ended.error is None and ended.report == first.undone
    assert [e.key for e in ended.report.undone] == ["1.0"] and life.log == [f"cancel {RUN}:1.0"]


class Meeting(MemoryJournal):
    """The end of a call is recorded while its run is given up, the end of the run next; then the process dies."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self.may_end, self._has_ended, self._run_ends = threading.Event(), threading.Event(), threading.Event()
        self._run_has_ended, self._life = threading.Event(), life

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        kinds = [draft.kind for draft in drafts]
        is_end = kinds == [RUN_ENDED] or (not kinds and state == State.UNDOING)
        if is_end:
            self._run_ends.set()
        if kinds == [UNDO_INTENT]:
            assert self._run_has_ended.wait(20)
            self._life.dies()
        appended = super().append(claim, drafts, state=state)
        if is_end:
            self._run_has_ended.set()
        if kinds == [GIVEN_UP]:
            self.may_end.set()
            assert self._has_ended.wait(20)
        if kinds == [DONE]:
            self._has_ended.set()
            assert self._run_ends.wait(20)
        return appended


def test_a_call_that_ends_in_the_moment_in_which_its_run_is_closed_is_undone_by_whoever_recovers_it() -> None:
    life = Life()
    journal = life.journal = Meeting(life)
    undone = threading.Event()

    def cancel() -> None:
        life.log.append("cancel")
        undone.set()

    @tool(repeat="with_key", timeout=0.2, undo=cancel)  # long enough for the body to begin on a busy machine
    def slow(ctx: ToolContext[Any]) -> str:
        assert journal.may_end.wait(20)
        return "slow"

    with pytest.raises(OSError, match="down"):
        agent(life, calls(call("slow")), OSError("down"), tools=[slow]).run("Go", run_id=RUN)
    assert undone.wait(20)
    life.next()
    assert life.log == []
    (found,) = agent(life, tools=[slow]).recover()
    assert found.undone is not None and [e.key for e in found.undone.undone] == ["1.0"]
    row = life.journal.row(RUN)
    assert life.log == ["cancel"] and row is not None and row.state == State.UNDONE
