"""Two people tell at the same time whether a call happened: one word is taken, the other one is refused."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from surehand import Absent, Happened, MemoryJournal, RunInProgress, ToolContext, UserError, tool
from surehand._records import RESOLVED, Draft
from surehand.durable._journal import Claim, Record
from surehand.testing import call, calls, say

from .remains import RUN, Life, agent, raised

KEY = f"{RUN}:1.0"


class Slow(MemoryJournal):
    """Between the claim of the first who tells and its record, ``other`` looks; or it has its whole say."""

    def __init__(self, left: MemoryJournal, *, has_its_say: bool) -> None:
        super().__init__()
        self.__dict__.update(left.__dict__)
        self.other: Any = None
        self._has_its_say, self._thread = has_its_say, threading.Thread(target=lambda: self.other())
        self._has_looked, self._is_written = threading.Event(), threading.Event()

    @property
    def _is_other(self) -> bool:
        return threading.current_thread() is self._thread

    def records(self, run_id: str) -> list[Record]:
        found = super().records(run_id)
        if self._is_other:
            self._has_looked.set()
        return found

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        if self._is_other and not self._has_its_say:
            assert self._is_written.wait(20)
        return super().claim(run_id, owner, epoch=epoch)

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        if self._is_other or not drafts or drafts[0].kind != RESOLVED:
            return super().append(claim, drafts, state=state)
        self._thread.start()
        if self._has_its_say:
            self._thread.join(20)
            return super().append(claim, drafts, state=state)
        assert self._has_looked.wait(20)
        done = super().append(claim, drafts, state=state)
        self._is_written.set()
        self._thread.join(20)
        return done


def told_twice(*, has_its_say: bool) -> tuple[BaseException | None, BaseException | None, Any]:
    """What the two get who tell, ``Happened`` first, and what the call's value is then."""
    life = Life()

    @tool
    def pay(ctx: ToolContext[Any]) -> str:
        life.dies()
        return "paid now"

    agent(life, calls(call("pay")), say("Done"), tools=[pay]).run("Go", run_id=RUN)
    life.next()
    assert agent(life, tools=[pay]).resume(RUN).pending
    assert isinstance(life.journal, MemoryJournal)
    journal = life.journal = Slow(life.journal, has_its_say=has_its_say)
    others: list[BaseException | None] = []
    journal.other = lambda: others.append(raised(lambda: agent(life, tools=[pay]).resolve(KEY, Absent())))
    first = raised(lambda: agent(life, tools=[pay]).resolve(KEY, Happened("paid then")))
    result = agent(life, say("Done"), tools=[pay]).resume(RUN)
    return first, others[0], result.executions[0].value


def test_who_looked_before_the_others_word_was_written_is_refused() -> None:
    first, other, value = told_twice(has_its_say=False)
    assert (first, type(other), value) == (None, UserError, "paid then")


def test_who_claimed_first_and_wrote_last_is_refused() -> None:
    first, other, value = told_twice(has_its_say=True)
    assert (type(first), other, value) == (RunInProgress, None, "paid now")
