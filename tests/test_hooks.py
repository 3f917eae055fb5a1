"""Hooks around calls, and who may refuse one (spec 7.4, design 2)."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ErrorPolicy,
    Outcome,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    UserError,
    UserMessage,
    tool,
)
from surehand.testing import call, say

from .modes import Mode, answer_of, ask

DO = call("do", '{"what": "x"}', id="d")


@tool
def do(what: str) -> str:
    """Do it."""
    return f"did {what}"


class Hooks:
    """Notes what before and after hooks are told."""

    def __init__(self, answer: Any = None) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._answer = answer

    def before(self, context: ToolContext[Any]) -> Any:
        self.seen.append(("before", context.call))
        return self._answer

    def after(self, execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        self.seen.append(("after", execution))

    async def before_async(self, context: ToolContext[Any]) -> Any:
        return self.before(context)

    async def after_async(self, execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        self.after(execution, context)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_after_hook_gets_the_same_record_as_the_caller_with_its_times(mode: Mode, is_async: bool) -> None:
    hooks = Hooks()
    before, after = (hooks.before_async, hooks.after_async) if is_async else (hooks.before, hooks.after)
    ended = mode.play(ask(DO), say("Ok"), tools=[do], before_tool=before, after_tool=after)
    (execution,) = ended.executions
    assert hooks.seen == [("before", DO), ("after", execution)]
    assert (execution.started_at, execution.finished_at, execution.duration) == (1000.0, 1000.0, 0.0)


def test_hooks_get_the_context_of_the_call(mode: Mode) -> None:
    contexts: list[ToolContext[Any]] = []
    ended = mode.play(
        ask(DO), say("Ok"), tools=[do],
        before_tool=contexts.append, after_tool=lambda execution, context: contexts.append(context),
        run={"deps": "shop", "parameters": {"user": 7}},
    )  # fmt: skip
    assert ended.answer.output == "Ok"
    for context in contexts:
        assert (context.call, context.run_id, context.memory_id, context.deps) == (DO, "run-1", "default", "shop")
        assert (context.idempotency_key, dict(context.parameters)) == ("run-1:1.0", {"user": 7})


@tool(name="fails")
def fails() -> None:
    """Fail."""
    raise ValueError("x")


@tool(name="says_no")
def says_no() -> None:
    """Say no."""
    raise ToolError("no")


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [
        (DO, Outcome.DONE),
        (call("fails"), Outcome.UNKNOWN),
        (call("says_no"), Outcome.FAILED),
        (call("nope"), Outcome.REJECTED),
        (call("do", "{"), Outcome.REJECTED),
    ],
    ids=["done", "gives_up", "tool_error", "unknown_name", "arguments"],
)
def test_after_fires_for_every_call_for_which_before_has_fired(mode: Mode, asked: ToolCall, outcome: Outcome) -> None:
    hooks = Hooks()
    ended = mode.play(
        ask(asked), say("Ok"), tools=[do, fails, says_no], before_tool=hooks.before, after_tool=hooks.after
    )
    assert hooks.seen == [("before", asked), ("after", ended.executions[0])]
    assert ended.executions[0].outcome is outcome


def test_a_before_hook_may_change_the_call(mode: Mode) -> None:
    other = call("do", '{"what": "y"}', id="d")
    ended = mode.play(ask(DO), say("Ok"), tools=[do], before_tool=Hooks(other).before)
    assert [(e.call, e.value) for e in ended.executions] == [(other, "did y")]
    # History keeps what the model asked for, so that it stays a true record of the model's words.
    assert ended.requests[1].messages[1:] == (AssistantMessage(None, (DO,)), answer_of(DO, "did y"))


@pytest.mark.parametrize(
    ("answer", "text", "is_error"),
    [("not now", "not now", True), (ToolResult.of("cached"), "cached", False), (ToolResult.error("no"), "no", True)],
)
def test_a_before_hook_may_answer_the_call_itself(mode: Mode, answer: Any, text: str, is_error: bool) -> None:
    hooks = Hooks(answer)
    ended = mode.play(ask(DO), say("Ok"), tools=[do], before_tool=hooks.before, after_tool=hooks.after)
    assert ended.results == [("do", text, is_error)]
    assert ended.executions[0].outcome is Outcome.DENIED
    assert "ToolStarted" not in ended.names
    assert [what for what, _ in hooks.seen] == ["before", "after"]


def test_a_hook_of_the_run_comes_behind_that_of_the_agent_and_sees_what_that_changed(mode: Mode) -> None:
    other, own = call("do", '{"what": "y"}', id="d"), Hooks()
    mode.play(ask(DO), say("Ok"), tools=[do], before_tool=Hooks(other).before, run={"before_tool": own.before})
    assert own.seen == [("before", other)]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_hook_that_raises_gives_the_run_up_and_is_not_for_error_handlers(mode: Mode, where: str) -> None:
    error = LookupError("hook")

    def hook(*args: Any) -> None:
        raise error

    def never(error: BaseException, context: Any) -> str:
        raise AssertionError("a hook's failure is no failure of the tool")

    options: Any = {f"{where}_tool": hook}
    ended = mode.play(ask(DO), tools=[do], on_error=ErrorPolicy(execution=never, tool_error=never), **options)
    assert ended.error is error
    assert ended.executions[0].outcome is (Outcome.NOT_RUN if where == "before" else Outcome.DONE)


def test_after_fires_also_when_before_has_raised(mode: Mode) -> None:
    hooks = Hooks()

    def before(context: ToolContext[Any]) -> None:
        hooks.before(context)
        raise LookupError("hook")

    mode.play(ask(DO), tools=[do], before_tool=before, after_tool=hooks.after)
    assert [what for what, _ in hooks.seen] == ["before", "after"]


def test_a_before_hook_that_returns_something_else_is_named(mode: Mode) -> None:
    ended = mode.play(ask(DO), tools=[do], before_tool=Hooks(7).before)
    assert isinstance(ended.error, UserError) and "returned 7; expected None, a ToolCall" in str(ended.error)


# ---------------------------------------------------------------- authorisation


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("on_tool", [False, True])
@pytest.mark.parametrize("answer", [True, False, "not on Sundays"])
def test_authorise_is_asked_with_decoded_arguments_and_may_refuse(
    mode: Mode, answer: Any, on_tool: bool, is_async: bool
) -> None:
    asked: list[Any] = []

    def authorise(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        asked.append((context.call, arguments))
        return answer

    async def authorise_async(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        return authorise(context, arguments)

    ran: list[int] = []
    chosen = authorise_async if is_async else authorise

    @tool(name="do", authorise=chosen if on_tool else None)
    def guarded(seats: int) -> str:
        ran.append(seats)
        return "did"

    call_ = call("do", '{"seats": "3"}', id="d")
    ended = mode.play(ask(call_), say("Ok"), tools=[guarded], authorise=None if on_tool else chosen)
    assert asked == [(call_, {"seats": 3})]
    assert ran == ([3] if answer is True else [])
    text = {True: "did", False: "The call of 'do' was not allowed. It did not run."}.get(answer, "not on Sundays")
    assert ended.results == [("do", text, answer is not True)]
    assert ended.executions[0].outcome is (Outcome.DONE if answer is True else Outcome.DENIED)
    assert ended.answer.messages[0] == UserMessage.of("Go")


def test_the_agent_is_asked_before_the_tool_and_both_must_agree(mode: Mode) -> None:
    log: list[str] = []

    def agents(context: Any, arguments: Any) -> bool:
        log.append("agent")
        return True

    def tools(context: Any, arguments: Any) -> bool:
        log.append("tool")
        return False

    @tool(name="do", authorise=tools)
    def guarded() -> None:
        log.append("body")

    mode.play(ask(call("do")), say("Ok"), tools=[guarded], authorise=agents)
    assert log == ["agent", "tool"]


@pytest.mark.parametrize("answer", [None, 1, []])
def test_an_authorisation_that_says_nothing_clear_gives_the_run_up(mode: Mode, answer: Any) -> None:
    ended = mode.play(ask(DO), tools=[do], authorise=lambda context, arguments: answer)
    assert isinstance(ended.error, UserError) and "expected True, False, or text" in str(ended.error)
    assert ended.executions[0].outcome is Outcome.NOT_RUN


def test_an_authorisation_that_raises_gives_the_run_up_and_the_body_does_not_run(mode: Mode) -> None:
    error, ran = LookupError("directory is down"), []

    def authorise(context: Any, arguments: Any) -> bool:
        raise error

    @tool(name="do")
    def guarded() -> None:
        ran.append(1)

    ended = mode.play(ask(call("do")), tools=[guarded], authorise=authorise)
    assert (ended.error, ran) == (error, [])
    assert ended.executions[0].outcome is Outcome.NOT_RUN
