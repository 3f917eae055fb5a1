"""The same in every mode: equal inputs give equal results, messages, executions and undo reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from surehand import (
    CancelToken,
    ErrorPolicy,
    Limits,
    MessageWindow,
    ModelError,
    ReturnBehavior,
    ToolContext,
    ToolError,
    ToolResult,
    UndoPolicy,
    Usage,
    tell_model,
    tell_safely,
    tool,
)
from surehand.testing import call, calls, say

from .modes import IN_A_FILE, IN_SEQUENCE, RECORDED, SIDE_BY_SIDE, Ended, Mode, ask
from .shop import Shop, book, pay

Scenario = Callable[[Mode], Ended]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


@tool(repeat="safe")
def read(what: int = 0) -> dict[str, int]:
    """Read."""
    return {"read": what}


@tool(repeat="safe")
async def fetch(what: int) -> list[int]:
    """Fetch."""
    return [what, what]


@tool(repeat="safe")
def fails() -> str:
    """Fail."""
    raise OSError("secret words")


@tool(returns=ReturnBehavior.IMMEDIATE)
def show() -> ToolResult:
    """Show."""
    return ToolResult.of("shown", value=7, attributes={"shown": True})


TOOLS = [read, fetch, fails, show]


@scenario
def answers_at_once(mode: Mode) -> Ended:
    return mode.play(say("Hi", usage=Usage(1, 2)), instructions="Be kind", tools=TOOLS)


@scenario
def three_rounds_of_everything(mode: Mode) -> Ended:
    return mode.play(
        calls(call("read", '{"what": 1}'), call("fetch", '{"what": 2}'), call("fails"), usage=Usage(3, 4)),
        ask(call("nope", id=None), call("read", "{", id=None), call("read", '{"what": "5"}', id=None)),
        ask(call("functions.read", id="x"), call("fetch", '{"what": 9}', id="x")),
        say("Done", usage=Usage(5, 6)),
        tools=TOOLS, memory=MessageWindow(4),
    )  # fmt: skip


@scenario
def returns_at_once(mode: Mode) -> Ended:
    return mode.play(ask(call("read")), ask(call("show"), call("show")), tools=TOOLS)


@scenario
def gives_up_after_bookings(mode: Mode) -> Ended:
    return mode.play(
        ask(book("seat", None)), ask(book("bed", None)), ask(pay("badly")),
        tools=[Shop(fails_to_cancel=["bed"])], memory=MessageWindow(50),
    )  # fmt: skip


@scenario
def undoes_on_a_tool_error_and_goes_on(mode: Mode) -> Ended:
    return mode.play(
        ask(book("seat", "x")), ask(book("bed", "x"), pay("politely")), ask(book("car")), say("Done"),
        tools=[Shop()], undo=UndoPolicy.ON_TOOL_ERROR,
    )  # fmt: skip


@scenario
def reaches_a_limit(mode: Mode) -> Ended:
    return mode.play(ask(book("seat")), ask(book("bed")), tools=[Shop()], limits=Limits(rounds=1))


@scenario
def tells_the_model_everything(mode: Mode) -> Ended:
    return mode.play(
        ask(pay("badly"), pay("politely"), call("pay", "[]")), say("Ok"), tools=[Shop()],
        on_error=ErrorPolicy(execution=tell_model, tool_error=tell_safely, arguments=tell_safely),
    )  # fmt: skip


@scenario
def loses_the_model(mode: Mode) -> Ended:
    return mode.play(ask(book("seat"), call("email")), ModelError("down", status=503), tools=[Shop()])


@scenario
def is_cancelled_by_a_tool(mode: Mode) -> Ended:
    token = CancelToken()

    @tool
    def stop() -> str:
        token.cancel()
        return "stopped"

    return mode.play(ask(book("seat")), ask(call("stop")), tools=[Shop(), stop], run={"cancel": token})


@scenario
def is_interrupted(mode: Mode) -> Ended:
    @tool
    def stop() -> str:
        raise KeyboardInterrupt

    return mode.play(ask(book("seat")), ask(call("stop")), tools=[Shop(), stop])


@scenario
def has_hooks_that_change_calls(mode: Mode) -> Ended:
    def before(context: ToolContext[Any]) -> Any:
        match context.call.arguments:
            case '{"what": 1}':
                return call("read", '{"what": 10}')
            case '{"what": 2}':
                return "not today"
        return None

    asked = [call("read", f'{{"what": {n}}}') for n in range(3)]
    return mode.play(calls(*asked), say("Ok"), tools=TOOLS, before_tool=before)


@scenario
def retries_with_a_key(mode: Mode) -> Ended:
    @tool(repeat="with_key", retries=2)
    def send(ctx: ToolContext[Any]) -> str:
        if ctx.attempt < 3:
            raise ToolErrorLike(ctx.idempotency_key)
        return ctx.idempotency_key

    return mode.play(ask(call("send")), ask(call("send"), call("send")), say("Ok"), tools=[send])


class ToolErrorLike(Exception):
    """Is no ``ToolError``."""


@scenario
def a_model_that_never_learns(mode: Mode) -> Ended:
    @tool
    def refuse() -> str:
        raise ToolError("no")

    return mode.play(*[ask(call("refuse"))] * 9, tools=[refuse], limits=Limits(consecutive_errors=4))


def said(ended: Ended) -> dict[str, Any]:
    """Everything that must not depend on the mode. Errors are compared by type and text."""
    error = ended.error
    return {
        "result": ended.result,
        "error": None if error is None else (type(error), str(error), getattr(error, "__notes__", [])),
        "messages": ended.messages,
        "executions": ended.executions,
        "report": ended.report,
        "requests": list(ended.requests),
    }


@pytest.mark.parametrize("modes", [IN_SEQUENCE, SIDE_BY_SIDE], ids=["in_sequence", "side_by_side"])
@pytest.mark.parametrize("play", SCENARIOS)
def test_equal_inputs_give_equal_outcomes_in_every_mode(play: Scenario, modes: list[Mode]) -> None:
    first, *others = [play(mode) for mode in modes]
    for mode, ended in zip(modes[1:], others, strict=True):
        assert said(ended) == said(first), str(mode)


@pytest.mark.parametrize("play", SCENARIOS)
def test_in_sequence_the_events_are_the_same_in_every_mode(play: Scenario) -> None:
    first, *others = [play(mode).names for mode in IN_SEQUENCE]
    assert others == [first] * 3


@pytest.mark.parametrize("play", SCENARIOS)
def test_with_a_journal_everything_is_as_without_one(play: Scenario) -> None:
    for recorded in (*RECORDED, *IN_A_FILE):
        plain = Mode(recorded.way, recorded.parallel)
        ours, theirs = play(recorded), play(plain)
        assert said(ours) == said(theirs), str(recorded)
        assert ours.names == theirs.names or recorded.parallel, str(recorded)


def test_two_runs_of_the_same_script_are_equal_and_of_another_are_not(mode: Mode) -> None:
    same = [mode.play(ask(call("read")), say("Ok"), tools=TOOLS).answer for _ in range(2)]
    other = mode.play(ask(call("read")), say("No"), tools=TOOLS).answer
    assert same[0] == same[1] != other
    assert repr(other) == "RunResult(output='No', calls=1, usage=None)"
