"""A journal that fails in the middle: a typed error, nothing undone, and once it is mended the run goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from surehand import JournalUnavailable, MemoryJournal, RunGivenUp, ToolContext, tool
from surehand._records import Draft
from surehand.durable._journal import Claim
from surehand.testing import call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, asked, every_mode, raised


class Failing(MemoryJournal):
    """Refuses every append from the n-th on, until it is mended."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self.appends, self.fails_at = 0, fails_at

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        self.appends += 1
        if self.appends < self.fails_at:
            return super().append(claim, drafts, state=state)
        failed: Future[None] = Future()
        failed.set_exception(JournalUnavailable("the disk is full"))
        return failed


def world(life: Life, *, ends_badly: bool) -> list[Any]:
    """``book`` behind a key and undone by its value, ``look``, and ``pay``, which may fail after all."""

    def cancel(booking: str, ctx: ToolContext[Any]) -> None:
        life.log.append(f"cancel {ctx.idempotency_key}")

    @tool(repeat="with_key", undo=cancel)
    def book(what: str, ctx: ToolContext[Any]) -> str:
        life.log.append(f"book {ctx.idempotency_key}")
        return f"booked {what}"

    @tool(repeat="safe")
    def look() -> int:
        return 7

    @tool(repeat="with_key")
    def pay(ctx: ToolContext[Any]) -> str:
        if ends_badly:
            raise ValueError("card reader broke")
        life.log.append(f"pay {ctx.idempotency_key}")
        return "paid"

    return [book, look, pay]


SCRIPT = [
    calls(call("book", {"what": "seat"}), call("look")),
    calls(call("book", {"what": "bed"}), call("book", {"what": "car"})),
    calls(call("pay")),
    say("Done"),
]
BOOKED = [f"{RUN}:1.0", f"{RUN}:2.0", f"{RUN}:2.1"]


def appends(ends_badly: bool) -> int:
    """How many appends the whole run takes."""
    life = Life()
    life.journal = journal = Failing(10**6)
    raised(lambda: agent(life, *SCRIPT, tools=world(life, ends_badly=ends_badly)).run("Go", run_id=RUN))
    return journal.appends


@every_mode
@pytest.mark.parametrize("at", range(1, appends(False) + 1))
def test_a_run_whose_journal_failed_goes_on_once_it_is_mended_with_each_effect_once(mode: Mode, at: int) -> None:
    life = Life()
    life.journal = journal = Failing(at)
    first = agent(life, *SCRIPT, tools=world(life, ends_badly=False))
    error = mode.drive(first, run_id=RUN).error
    assert isinstance(error, JournalUnavailable) and str(error) == "the disk is full"
    assert not [entry for entry in life.log if entry.startswith("cancel")]
    journal.fails_at = 10**6
    recorded = sum(record.kind == "MODEL" for record in journal.records(RUN))
    second = agent(life, *SCRIPT[recorded:], tools=world(life, ends_badly=False))
    ended = mode.drive(second, run_id=RUN)
    assert (ended.answer.output, asked(second)) == ("Done", len(SCRIPT) - recorded)
    # A service behind a key does things once, however often it is asked with that key.
    assert set(life.log) == {*[f"book {key}" for key in BOOKED], f"pay {RUN}:3.0"}
    assert all(count <= 2 for count in Counter(life.log).values())
    assert [e.key for e in ended.executions] == ["1.0", "1.1", "2.0", "2.1", "3.0"]
    assert agent(life, tools=world(life, ends_badly=False)).resume(RUN) == ended.answer


@every_mode
@pytest.mark.parametrize("at", range(1, appends(True) + 1))
def test_a_run_that_is_given_up_while_its_journal_fails_is_undone_once_it_is_mended(mode: Mode, at: int) -> None:
    life = Life()
    life.journal = journal = Failing(at)
    error = mode.drive(agent(life, *SCRIPT, tools=world(life, ends_badly=True)), run_id=RUN).error
    undone_before = [entry for entry in life.log if entry.startswith("cancel")]
    told = "GIVEN_UP" in [record.kind for record in journal.records(RUN)]
    assert told or (isinstance(error, JournalUnavailable) and undone_before == [])
    journal.fails_at = 10**6
    recorded = sum(record.kind == "MODEL" for record in journal.records(RUN))
    second = agent(life, *SCRIPT[recorded:3], tools=world(life, ends_badly=True))
    ended = mode.drive(second, run_id=RUN)
    assert isinstance(ended.error, RunGivenUp if told else ValueError | RunGivenUp)
    assert {entry for entry in life.log if entry.startswith("book")} == {f"book {key}" for key in BOOKED}
    cancels = Counter(entry for entry in life.log if entry.startswith("cancel"))
    assert set(cancels) == {f"cancel {key}" for key in BOOKED}
    assert sum(cancels.values()) <= 4  # one of them may have been tried again, with its key
    assert sorted(e.key for e in ended.report.undone) == ["1.0", "2.0", "2.1"]
    row = journal.row(RUN)
    assert row is not None and row.state == ("STUCK" if ended.report.unknown else "UNDONE")
