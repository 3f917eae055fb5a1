"""Callbacks on streams: one registration of each kind, in the order of the events (spec 7.8.2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ProviderEvent,
    ReasoningPiece,
    ResponseDone,
    RunCancelled,
    TextPiece,
    ToolCallPiece,
    ToolCallReady,
    Usage,
    UserError,
    report_of,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

from .modes import ask, scripted

DO = call("do", id="d")


@tool
def do() -> str:
    """Do it."""
    return "done"


@pytest.fixture(params=["stream", "astream"])
def start(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Opens a stream, lets the test register, and starts it."""

    def begin(script: list[Any], register: Callable[[Any], Any], **options: Any) -> None:
        agent = scripted(ScriptedModel(script), tools=[do], **options)
        if request.param == "stream":
            run = agent.stream("Go")
            register(run)
            run.start()
            return

        async def main() -> None:
            run = agent.astream("Go")
            register(run)
            await run.start()

        asyncio.run(main())

    return begin


def test_each_callback_gets_its_value_in_the_order_of_the_run(start: Callable[..., None]) -> None:
    log: list[Any] = []
    pieces = [
        ReasoningPiece("hm"),
        TextPiece("Let me see"),
        ToolCallPiece(0, "d", "do", "{}"),
        ToolCallReady(0, DO),
        ProviderEvent({"ping": 1}),
        ResponseDone(ChatResponse(AssistantMessage("Let me see", (DO,)), Usage(1, 1), FinishReason.TOOL_EXECUTION)),
    ]

    def note(kind: str) -> Callable[[Any], None]:
        return lambda value: log.append((kind, value))

    def register(run: Any) -> None:
        run.on_text(note("text")).on_reasoning(note("reasoning")).on_provider_event(note("raw"))
        run.on_tool_call(lambda piece: log.append(("piece", piece.index, piece.id, piece.name, piece.arguments)))
        run.on_intermediate_response(lambda response: log.append(("intermediate", response.message.text)))
        run.on_before_tool(note("before")).on_tool_executed(lambda execution: log.append(("executed", execution.value)))
        run.on_complete(lambda response: log.append(("complete", response.message.text, response.usage)))
        run.on_error(note("error"))

    start([pieces, say("Done", usage=Usage(2, 2))], register)
    assert log == [
        ("reasoning", "hm"),
        ("text", "Let me see"),
        ("piece", 0, "d", "do", "{}"),
        ("raw", {"ping": 1}),
        ("intermediate", "Let me see"),
        ("before", DO),
        ("executed", "done"),
        ("text", "Done"),
        ("complete", "Done", Usage(3, 3)),
    ]


def test_an_awaitable_callback_is_awaited(start: Callable[..., None]) -> None:
    log: list[str] = []

    async def note(text: str) -> None:
        await asyncio.sleep(0)
        log.append(text)

    start([say("One two")], lambda run: run.on_text(note).ignore_errors())
    assert log == ["One ", "two"]


def test_a_callback_with_the_run_may_cancel_it() -> None:
    log: list[str] = []

    def stop(text: str, run: Any) -> None:
        log.append(text)
        run.cancel()

    run = scripted(ScriptedModel([say("One two three")])).stream("Go")
    run.on_text(stop, with_run=True).ignore_errors()
    run.start()
    assert log == ["One "]


def test_an_awaitable_callback_with_the_run_may_cancel_it() -> None:
    log: list[str] = []

    async def stop(text: str, run: Any) -> None:
        log.append(text)
        await run.cancel()

    async def main() -> None:
        run = scripted(ScriptedModel([say("One two three")])).astream("Go")
        await run.on_text(stop, with_run=True).ignore_errors().start()

    asyncio.run(main())
    assert log[:1] == ["One "]


@pytest.mark.parametrize("kind", ["text", "reasoning", "tool_call", "intermediate_response", "before_tool",
                                  "tool_executed", "provider_event", "complete"])  # fmt: skip
@pytest.mark.parametrize("with_run", [False, True])
def test_each_kind_can_be_registered_once_in_either_form(kind: str, with_run: bool) -> None:
    run: Any = scripted(ScriptedModel([])).stream("Go")
    getattr(run, f"on_{kind}")(print)
    with pytest.raises(UserError, match=f"on_{kind} is registered already"):
        getattr(run, f"on_{kind}")(print, with_run=with_run)


def test_on_error_can_be_registered_once() -> None:
    run: Any = scripted(ScriptedModel([])).stream("Go").on_error(print)
    with pytest.raises(UserError, match="on_error is registered already"):
        run.on_error(print)


@pytest.mark.parametrize("register", [lambda run: run, lambda run: run.on_error(print).ignore_errors()])
def test_exactly_one_way_to_deal_with_errors_is_needed(start: Callable[..., None], register: Any) -> None:
    with pytest.raises(UserError, match=r"exactly one of on_error\(…\) and ignore_errors\(\)"):
        start([say("Ok")], register)


def test_what_ends_the_run_reaches_on_error_once_with_its_report(start: Callable[..., None]) -> None:
    error, told = LookupError("model is down"), []
    start([ask(DO), error], lambda run: run.on_error(told.append))
    assert told == [error]
    report = report_of(told[0])
    assert report is not None and [execution.value for execution in report.done] == ["done"]


def test_what_a_callback_raises_reaches_on_error_once_and_ends_the_run(start: Callable[..., None]) -> None:
    error, told, completed = LookupError("callback"), [], []

    def broken(execution: Any) -> None:
        raise error

    start(
        [ask(DO), say("Never")],
        lambda run: run.on_tool_executed(broken).on_complete(completed.append).on_error(told.append),
    )
    assert (told, completed) == ([error], [])


def test_an_error_of_complete_reaches_on_error(start: Callable[..., None]) -> None:
    error, told = LookupError("complete"), []

    def broken(response: Any) -> None:
        raise error

    start([say("Ok")], lambda run: run.on_complete(broken).on_error(told.append))
    assert told == [error]


def test_ignored_errors_are_logged_as_warnings(start: Callable[..., None], caplog: pytest.LogCaptureFixture) -> None:
    start([LookupError("model is down")], lambda run: run.ignore_errors())
    assert [(record.levelname, "errors are ignored" in record.message) for record in caplog.records] == [
        ("WARNING", True)
    ]


def test_an_on_error_that_fails_itself_is_logged_with_both_errors(
    start: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(error: BaseException) -> None:
        raise LookupError("on_error is broken")

    start([ValueError("model is down")], lambda run: run.on_error(broken))
    assert "on_error is broken" in caplog.text and "model is down" in caplog.text


def test_a_reply_that_is_no_round_is_no_intermediate_response(start: Callable[..., None]) -> None:
    log: list[Any] = []
    start([calls(DO), say("Ok")], lambda run: run.on_intermediate_response(log.append).ignore_errors())
    assert [response.message.tool_calls for response in log] == [(DO,)]


def test_cancelling_a_stream_that_was_never_taken_runs_nothing() -> None:
    model = ScriptedModel([say("Never")])
    run = scripted(model).stream("Go")
    run.cancel()
    with pytest.raises((StopIteration, RunCancelled)):
        next(run)
    assert model.requests == []
