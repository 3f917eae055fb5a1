"""Faults that users reported in systems of this kind: errors of tools. Each name starts with the case's id."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    ConsecutiveErrorsError,
    Limits,
    MessageWindow,
    Outcome,
    ToolArgumentsError,
    ToolContext,
    ToolError,
    ToolExecutionError,
    ToolFinished,
    ToolMessage,
    tell_safely,
    tool,
)
from surehand.testing import call, say

from .modes import Ended, Mode, ask

SECRETS = ["postgres://u:p@10.0.0.5/db", "sk-live-123", "/home/ann/.ssh/id_rsa", "SELECT * FROM users"]
ACT = call("act", id="a")


def raising(error: BaseException, **options: Any) -> Any:
    """A tool named ``act`` that raises this."""

    @tool(name="act", **options)
    def act() -> None:
        raise error

    return act


def seen_by_model(ended: Ended) -> str:
    """Everything that was sent to the model or would be sent next."""
    return repr((ended.requests, ended.messages))


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What bodies that outlive their timeout wait for."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", [RuntimeError, ConnectionError, KeyError])
def test_ERR_01_exception_text_with_secrets(mode: Mode, secret: str, kind: type[Exception]) -> None:
    error = kind(secret)
    ended = mode.play(ask(ACT), tools=[raising(error)])
    assert ended.error is error and secret in str(ended.error)
    assert secret not in seen_by_model(ended)
    choices: list[dict[str, Any]] = [
        {"tools": [raising(error, repeat="safe")]},
        {"tools": [raising(error)], "on_error": tell_safely},
    ]
    for options in choices:
        told = mode.play(ask(ACT), say("Ok"), **options)
        assert told.results == [("act", f"Tool 'act' failed with {kind.__name__}.", True)]
        assert secret not in seen_by_model(told)


@pytest.mark.parametrize("words", ["name is needed", "  two\nlines ", "ä “quoted” {braces} %s", "x" * 5000])
def test_ERR_02_deliberate_message(mode: Mode, words: str) -> None:
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(ToolError(words))])
    assert ended.results == [("act", words, True)]


@pytest.mark.parametrize("words", ["", " ", "\n\t"])
@pytest.mark.parametrize("kind", [ToolError, ValueError, TimeoutError])
def test_ERR_03_exception_with_empty_text(mode: Mode, words: str, kind: type[Exception]) -> None:
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(kind(words), repeat="safe")])
    assert ended.results == [("act", f"Tool 'act' failed with {kind.__name__}.", True)]


@pytest.mark.parametrize("is_async", [False, True])
def test_ERR_04_keyboard_interrupt_in_a_tool(mode: Mode, is_async: bool) -> None:
    undone, memory = [], MessageWindow(50)

    def cancel(value: str) -> None:
        undone.append(value)

    @tool(undo=cancel)
    def book() -> str:
        return "seat"

    @tool(name="act")
    def act() -> None:
        raise KeyboardInterrupt

    @tool(name="act")
    async def act_async() -> None:
        raise KeyboardInterrupt

    ended = mode.play(ask(call("book")), ask(ACT), tools=[book, act_async if is_async else act], memory=memory)
    assert type(ended.error) is KeyboardInterrupt
    assert undone == ["seat"]
    assert [e.outcome for e in ended.executions] == [Outcome.DONE, Outcome.UNKNOWN]
    assert memory.messages() == list(ended.messages)
    assert [m.is_error for m in memory.messages() if isinstance(m, ToolMessage)] == [True, True]


@pytest.mark.parametrize("code", [0, 1, None, "bye"])
def test_ERR_05_system_exit_in_a_tool(mode: Mode, code: Any) -> None:
    @tool(name="act")
    def act() -> None:
        sys.exit(code)

    ended = mode.play(ask(ACT), tools=[act])
    assert type(ended.error) is ToolExecutionError and type(ended.error.__cause__) is SystemExit
    told = mode.play(ask(ACT), say("Ok"), tools=[act], on_error=tell_safely)
    assert told.answer.output == "Ok"
    assert told.results == [("act", "Tool 'act' failed with ToolExecutionError.", True)]


@pytest.mark.parametrize("kind", [LookupError, ToolError, KeyboardInterrupt])
def test_ERR_07_handler_that_fails(mode: Mode, kind: type[BaseException]) -> None:
    raised, error, memory = kind("handler"), ValueError("tool"), MessageWindow(50)

    def handler(caught: BaseException, context: Any) -> str:
        raise raised

    ended = mode.play(ask(ACT), tools=[raising(error)], on_error=handler, memory=memory)
    assert ended.error is raised
    assert raised.__cause__ is error
    assert memory.messages() == list(ended.messages)
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN]


def test_ERR_09_sync_timeout(mode: Mode, release: threading.Event) -> None:
    written, finished_late = [], threading.Event()

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.late:
            finished_late.set()

    @tool(name="act", timeout=0.3)  # long enough for a busy machine to begin, since what has not begun writes nothing
    def act() -> str:
        release.wait(10)
        written.append("file")
        return "late value"

    ended = mode.play(ask(ACT), say("Ok"), tools=[act], listeners=[listener])
    text = "This call of 'act' may have happened; it is not known. Do not repeat it."
    assert ended.results == [("act", text, True)]
    assert [e.call for e in ended.report.standing] == [ACT] == [e.call for e in ended.report.unknown]
    messages = ended.answer.messages
    release.set()
    assert finished_late.wait(5)
    assert written == ["file"]
    assert ended.answer.messages == messages and "late value" not in repr(messages)
    assert [e.value for e in ended.answer.undone.done] == ["late value"]


@pytest.mark.parametrize("is_async", [False, True])
def test_ERR_11_timeout_of_a_code_tool_that_calls_tools_in_a_loop(
    mode: Mode, release: threading.Event, is_async: bool
) -> None:
    @tool(name="act", timeout=0.05, repeat="safe")
    def run_code() -> None:
        for _ in range(10_000):  # each step is far shorter than the limit; all of them together are not
            if release.wait(0.005):
                return

    @tool(name="act", timeout=0.05, repeat="safe")
    async def run_code_async() -> None:
        for _ in range(10_000):
            await asyncio.sleep(0.005)

    ended = mode.play(ask(ACT), say("Ok"), tools=[run_code_async if is_async else run_code])
    assert ended.results == [("act", "Tool 'act' failed with ToolTimeout.", True)]


@pytest.mark.parametrize("limit", [1, 2, 4])
@pytest.mark.parametrize("arguments", ["{", "[]", '{"count": "many"}', "{}"])
def test_ERR_12_retry_budget_used_up(mode: Mode, limit: int, arguments: str) -> None:
    @tool(name="act")
    def act(count: int) -> None:
        raise AssertionError("the body must not be entered")

    asked = [ask(call("act", arguments))] * (limit + 1)
    ended = mode.play(*asked, tools=[act], limits=Limits(consecutive_errors=limit))
    assert isinstance(ended.error, ConsecutiveErrorsError)
    assert "'act'" in str(ended.error) and f"in {limit} rounds" in str(ended.error)
    assert ended.executions[-1].result.text in str(ended.error)
    assert type(ended.error.__cause__) is ToolArgumentsError
    assert len(ended.requests) == limit


@pytest.mark.parametrize("kind", [ValueError, OSError, ZeroDivisionError, TimeoutError])
@pytest.mark.parametrize("repeat", ["safe", "never"])
def test_ERR_14_default_policy_is_the_same_in_all_modes(mode: Mode, kind: type[Exception], repeat: Any) -> None:
    error = kind("broken")
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(error, repeat=repeat)])
    if repeat == "safe":
        assert ended.results == [("act", f"Tool 'act' failed with {kind.__name__}.", True)]
    else:
        assert ended.error is error
        text = "This call of 'act' may have happened; it is not known. Do not repeat it."
        assert ended.results == [("act", text, True)]


@pytest.mark.parametrize("made", ["a", "b"])
def test_SFX_14_model_cannot_choose_the_key(mode: Mode, made: str) -> None:
    keys: list[str] = []

    @tool(name="act", repeat="with_key")
    def act(ctx: ToolContext[Any]) -> None:
        keys.append(ctx.idempotency_key)

    arguments = f'{{"idempotency_key": "{made}", "ctx": {{"idempotency_key": "{made}"}}}}'
    ended = mode.play(ask(call("act", arguments)), say("Ok"), tools=[act])
    assert keys == ["run-1:1.0"]
    assert "idempotency_key" not in repr(ended.requests[0].tools)
