"""A body may change the arguments it was given; nobody else sees that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from surehand import Outcome, ToolTimeout, tool
from surehand.testing import call, say

from .modes import ALL_MODES, IN_SEQUENCE, Mode, ask

ITEMS = '{"items": ["a", "b"]}'


@pytest.mark.parametrize("mode", ALL_MODES, ids=str)
def test_a_retry_gets_the_arguments_that_the_model_sent(mode: Mode) -> None:
    seen: list[list[str]] = []

    @tool(repeat="safe", retries=1)
    def take(items: list[str]) -> str:
        seen.append(list(items))
        items.clear()
        if len(seen) == 1:
            raise RuntimeError("again")
        return "ok"

    ended = mode.play(ask(call("take", ITEMS)), say("done"), tools=[take])
    assert (seen, ended.results) == ([["a", "b"], ["a", "b"]], [("take", "ok", False)])


@dataclass
class Order:
    items: list[str]


@pytest.mark.parametrize("mode", ALL_MODES, ids=str)
def test_an_undo_gets_the_arguments_that_the_model_sent(mode: Mode) -> None:
    undone: list[Any] = []

    def put_back(order: Order) -> None:
        undone.append(order)

    @tool(undo=put_back)
    def take(order: Order) -> str:
        order.items.clear()
        return "ok"

    @tool
    def fail() -> None:
        raise RuntimeError("no")

    ended = mode.play(ask(call("take", f'{{"order": {ITEMS}}}')), ask(call("fail")), tools=[take, fail])
    assert isinstance(ended.error, RuntimeError)
    assert undone == [Order(["a", "b"])]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_a_call_whose_outcome_is_unknown_is_recognised_when_the_model_asks_again(mode: Mode) -> None:
    runs: list[int] = []

    @tool
    def pay(items: list[str]) -> str:
        runs.append(len(items))
        items.clear()
        raise ToolTimeout("nobody knows")

    ended = mode.play(ask(call("pay", ITEMS)), ask(call("pay", ITEMS)), say("done"), tools=[pay])
    assert runs == [2]
    assert [execution.outcome for execution in ended.executions] == [Outcome.UNKNOWN, Outcome.DENIED]
