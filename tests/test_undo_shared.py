"""A model that asks again while a call's outcome is unknown gets the same effect, which is undone once (design 3)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from surehand import ModelError, Outcome, ToolContext, UndoPolicy, tool, undoes
from surehand.testing import call, say

from .modes import Mode, ask

PAY = call("pay", "{}", id="p")


class Bank:
    """Pays once for each key, whatever is asked; the first answer comes too late."""

    def __init__(self, late: threading.Event) -> None:
        self.late = late
        self.payments: dict[str, str] = {}
        self.refunds: list[str] = []
        self.asked = 0

    @tool(repeat="with_key", timeout=0.3)
    def pay(self, ctx: ToolContext[None]) -> str:
        """Pay."""
        reference = self.payments.setdefault(ctx.idempotency_key, f"payment {len(self.payments) + 1}")
        self.asked += 1
        if self.asked == 1:
            self.late.wait(10)
        return reference

    @undoes(pay)
    def refund(self, reference: str) -> None:
        self.refunds.append(reference)


@pytest.fixture
def late() -> Iterator[threading.Event]:
    """What the first payment waits for; set at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_calls_that_share_an_effect_are_undone_once(sequential: Mode, late: threading.Event) -> None:
    bank = Bank(late)
    ended = sequential.play(ask(PAY), ask(PAY), ask(PAY), ModelError("gone"), tools=[bank])
    assert type(ended.error) is ModelError
    assert (list(bank.payments.values()), bank.refunds) == (["payment 1"], ["payment 1"])
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN, Outcome.DONE, Outcome.DONE]
    assert all(e.undo is not None and e.undo.is_undone for e in ended.executions)
    assert (ended.report.undone, ended.report.unknown, ended.report.standing) == (ended.executions, (), ())


def test_once_the_effect_is_undone_an_identical_call_is_a_new_one(sequential: Mode, late: threading.Event) -> None:
    bank = Bank(late)

    @tool(repeat="safe")
    def fail() -> str:
        raise ValueError

    ended = sequential.play(
        ask(PAY),
        ask(PAY),
        ask(call("fail", "{}", id="f")),
        ask(PAY),
        say("Paid"),
        tools=[bank, fail],
        undo=UndoPolicy.ON_TOOL_ERROR,
    )
    assert ended.answer.output == "Paid"
    assert list(bank.payments.values()) == ["payment 1", "payment 2"]
    assert bank.refunds == ["payment 1"]
