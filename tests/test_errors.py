"""What becomes of a call that fails: the table of spec 9.6, handlers, in every mode (spec 9)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any

import pytest

from surehand import (
    AsyncNotSupportedError,
    ChatModel,
    ChatRequest,
    ChatResponse,
    ConsecutiveErrorsError,
    ErrorContext,
    ErrorPolicy,
    Limits,
    MessageWindow,
    Outcome,
    Parameters,
    TextContent,
    ToolArgumentsError,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecutionError,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserError,
    abort,
    tell_model,
    tell_safely,
    tool,
)
from surehand.testing import call, say

from .modes import Ended, Mode, answer_of, ask, scripted

SECRET = "postgres://user:secret@10.0.0.5/db"


def raising(error: BaseException, repeat: Any = "never", is_async: bool = False) -> Any:
    """A tool named ``act`` that raises this."""

    def act(text: str = "") -> str:
        raise error

    async def act_async(text: str = "") -> str:
        raise error

    return tool(name="act", repeat=repeat)(act_async if is_async else act)


class ExceptionOfOurs(Exception):
    """An application's own."""


@tool(repeat="safe")
def fine() -> str:
    """Always works."""
    return "fine"


ACT = call("act", id="a")


def only(ended: Ended) -> tuple[Outcome, str, bool]:
    """How the only call ended: outcome, text, whether the model reads an error."""
    (execution,) = ended.executions
    return execution.outcome, execution.result.text, execution.has_failed


# ---------------------------------------------------------------- the table, row by row


def test_arguments_that_do_not_fit_are_explained_to_the_model(mode: Mode) -> None:
    @tool
    def book(seats: int, day: str) -> str:
        raise AssertionError("the body must not be entered")

    ended = mode.play(ask(call("book", '{"seats": "many"}', id="b")), say("Sorry"), tools=[book])
    outcome, text, is_error = only(ended)
    assert (ended.answer.output, outcome, is_error) == ("Sorry", Outcome.REJECTED, True)
    assert all(word in text for word in ("book", "seats", "many", "day")), text
    assert "ToolStarted" not in ended.names


@pytest.mark.parametrize("repeat", ["safe", "never"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_error_reaches_the_model_word_for_word(mode: Mode, repeat: Any, is_async: bool) -> None:
    words = "no seat left on  LH 7;\n try «tomorrow»"
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(ToolError(words), repeat, is_async)])
    assert only(ended) == (Outcome.FAILED, words, True)
    assert ended.requests[1].messages[-1] == answer_of(ACT, words, is_error=True)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error", [ValueError(SECRET), KeyError(SECRET), OSError(2, SECRET)], ids=lambda e: type(e).__name__
)
def test_a_safe_tool_that_fails_is_reported_without_its_words(mode: Mode, error: Exception, is_async: bool) -> None:
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(error, "safe", is_async)])
    assert only(ended) == (Outcome.FAILED, f"Tool 'act' failed with {type(error).__name__}.", True)
    assert SECRET not in repr(ended.requests)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", [ValueError, TimeoutError, FutureCancelledError, ExceptionOfOurs])
def test_any_other_error_of_an_ordinary_tool_gives_the_run_up_as_itself(
    mode: Mode, kind: type[Exception], is_async: bool
) -> None:
    error, cause = kind("broken"), LookupError("why")
    error.__cause__ = cause
    ended = mode.play(ask(ACT, call("fine", id="f")), tools=[raising(error, is_async=is_async), fine], run={})
    assert ended.error is error and error.__cause__ is cause
    assert [(e.call.name, e.outcome) for e in ended.report.unknown] == [("act", Outcome.UNKNOWN)]
    assert ended.report.standing == ended.report.unknown
    assert ended.names[-1] == "RunFailed"


def test_in_a_sequence_calls_after_the_one_that_gives_up_do_not_run(sequential: Mode) -> None:
    ended = sequential.play(ask(ACT, call("fine", id="f")), tools=[raising(ValueError("x")), fine])
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN, Outcome.NOT_RUN]
    assert ended.executions[1].result.text == "This call of 'fine' was not run: the round ended before."
    assert ended.executions[1].started_at is None


def test_side_by_side_every_call_settles_and_the_first_failure_in_request_order_surfaces(concurrent: Mode) -> None:
    first, second, early_failed = ValueError("first"), ValueError("second"), threading.Event()

    @tool
    def late() -> None:
        assert early_failed.wait(5)
        raise first

    @tool
    def early() -> None:
        early_failed.set()
        raise second

    ended = concurrent.play(ask(call("late"), call("early")), tools=[late, early])
    assert ended.error is first
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN, Outcome.UNKNOWN]


def test_a_returned_error_is_no_failure_of_the_run(mode: Mode) -> None:
    @tool
    def act() -> ToolResult:
        return ToolResult.error("the shop is closed")

    def never(error: BaseException, context: ErrorContext) -> str:
        raise AssertionError("a returned error is not for handlers")

    policy = ErrorPolicy(arguments=never, tool_error=never, execution=never)
    ended = mode.play(ask(ACT), say("Ok"), tools=[act], on_error=policy)
    assert only(ended) == (Outcome.DONE, "the shop is closed", True)


class Bound:
    """An executor that must not leave its thread."""

    offload = False

    def execute(self, call: ToolCall, context: ToolContext[Any]) -> str:
        return "ran"


def test_a_tool_bound_to_its_thread_works_in_blocking_modes_and_fails_in_the_others(mode: Mode) -> None:
    def never(error: BaseException, context: ErrorContext) -> str:
        raise AssertionError("handlers are bypassed")

    ended = mode.play(ask(ACT), say("Ok"), tools=[(ToolSpec("act"), Bound())], on_error=never)
    if mode.is_async:
        assert isinstance(ended.error, AsyncNotSupportedError) and "'act'" in str(ended.error)
        assert only(ended)[0] is Outcome.REJECTED
    else:
        assert only(ended) == (Outcome.DONE, "ran", False)


# ---------------------------------------------------------------- handlers


@pytest.mark.parametrize("repeat", ["safe", "never"])
@pytest.mark.parametrize("is_async", [False, True])
def test_one_handler_decides_what_the_model_reads_of_failed_bodies(mode: Mode, repeat: Any, is_async: bool) -> None:
    error, seen = ValueError("broken"), []

    def handler(raised: BaseException, context: ErrorContext) -> str:
        seen.append((raised, context))
        return f"try later: {raised}"

    async def handler_async(raised: BaseException, context: ErrorContext) -> str:
        await asyncio.sleep(0)
        return handler(raised, context)

    ended = mode.play(
        ask(ACT), say("Ok"),
        tools=[raising(error, repeat)], on_error=handler_async if is_async else handler,
        run={"parameters": {"user": 7}},
    )  # fmt: skip
    outcome = Outcome.FAILED if repeat == "safe" else Outcome.UNKNOWN
    assert only(ended) == (outcome, "try later: broken", True)
    ((raised, context),) = seen
    assert raised is error and context.raw_error is error
    assert (context.call, context.run_id, context.memory_id) == (ACT, "run-1", "default")
    assert dict(context.parameters) == {"user": 7} and isinstance(context.parameters, Parameters)


HANDLED: dict[str, tuple[Callable[[Any], ErrorPolicy], Any, ToolCall]] = {
    "arguments": (lambda h: ErrorPolicy(arguments=h), raising(ToolError("x")), call("act", '{"text": [')),
    "tool_error": (lambda h: ErrorPolicy(tool_error=h), raising(ToolError("x")), ACT),
    "execution": (lambda h: ErrorPolicy(execution=h), raising(ValueError("x")), ACT),
}


@pytest.mark.parametrize("row", HANDLED)
def test_each_row_of_the_table_has_its_own_handler(mode: Mode, row: str) -> None:
    policy, act, asked = HANDLED[row]
    ended = mode.play(ask(asked), say("Ok"), tools=[act], on_error=policy(lambda error, context: "handled"))
    assert (ended.answer.output, only(ended)[1:]) == ("Ok", ("handled", True))


@pytest.mark.parametrize("row", HANDLED)
def test_a_handler_that_raises_gives_the_run_up_with_the_tools_error_behind_it(mode: Mode, row: str) -> None:
    policy, act, asked = HANDLED[row]
    own = RuntimeError("handler is broken")

    def handler(error: BaseException, context: ErrorContext) -> str:
        raise own

    memory = MessageWindow(10)
    ended = mode.play(ask(asked), tools=[act], on_error=policy(handler), memory=memory)
    assert ended.error is own
    assert isinstance(own.__cause__ or own.__context__, (ToolArgumentsError, ToolError, ValueError))
    assert memory.messages() == list(ended.messages)
    assert [m.is_error for m in memory.messages() if isinstance(m, ToolMessage)] == [True]


@pytest.mark.parametrize("row", HANDLED)
def test_abort_raises_the_error_itself(mode: Mode, row: str) -> None:
    policy, act, asked = HANDLED[row]
    ended = mode.play(ask(asked), tools=[act], on_error=policy(abort))
    kind = {"arguments": ToolArgumentsError, "tool_error": ToolError, "execution": ValueError}[row]
    assert type(ended.error) is kind


def test_a_handler_that_returns_neither_text_nor_result_is_named(mode: Mode) -> None:
    ended = mode.play(ask(ACT), tools=[raising(ValueError("x"))], on_error=lambda error, context: 7)
    assert isinstance(ended.error, UserError)
    assert "returned 7; expected text or a ToolResult" in str(ended.error)


def test_a_result_from_a_handler_always_counts_as_an_error(mode: Mode) -> None:
    made = ToolResult.of("soft", attributes={"code": 3})
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(ValueError("x"))], on_error=lambda error, context: made)
    message = ToolMessage("a", "act", (TextContent("soft"),), True, {"code": 3})
    assert ended.requests[1].messages[-1] == message


@pytest.mark.parametrize(
    ("handler", "error", "text"),
    [
        (tell_model, ValueError("broken"), "broken"),
        (tell_model, ValueError("  "), "Tool 'act' failed with ValueError."),
        (tell_safely, ValueError(SECRET), "Tool 'act' failed with ValueError."),
    ],
)
def test_ready_made_handlers_tell_the_words_or_a_safe_sentence(
    mode: Mode, handler: Any, error: Exception, text: str
) -> None:
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(error)], on_error=handler)
    assert only(ended)[1] == text


def test_an_argument_error_of_the_body_is_an_execution_error(mode: Mode) -> None:
    error = ToolArgumentsError("of the body's own")
    policy = ErrorPolicy(arguments=lambda e, c: "arguments", execution=lambda e, c: f"execution: {e}")
    ended = mode.play(ask(ACT), say("Ok"), tools=[raising(error)], on_error=policy)
    assert only(ended)[1] == "execution: of the body's own"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "raised", [SystemExit(1), GeneratorExit(), asyncio.CancelledError()], ids=lambda e: type(e).__name__
)
def test_an_exit_raised_by_a_body_is_an_execution_error_of_its_call(
    mode: Mode, raised: BaseException, is_async: bool
) -> None:
    ended = mode.play(ask(ACT), tools=[raising(raised, is_async=is_async)])
    assert type(ended.error) is ToolExecutionError
    assert "'act'" in str(ended.error) and type(raised).__name__ in str(ended.error)
    assert type(ended.error.__cause__) is type(raised)
    assert ended.names[-1] == "RunFailed"


def test_a_stop_iteration_of_a_body_is_an_execution_error_of_its_call(mode: Mode) -> None:
    @tool
    def act() -> str:
        return next(iter(()))

    ended = mode.play(ask(ACT), tools=[act])
    assert type(ended.error) is ToolExecutionError
    assert str(ended.error) == "tool 'act' raised StopIteration"
    assert type(ended.error.__cause__) is StopIteration


def test_a_run_in_which_nothing_works_round_after_round_ends_with_a_typed_error(mode: Mode) -> None:
    ended = mode.play(
        *[ask(ACT, call("act", id="b"))] * 3, say("Never"),
        tools=[raising(ToolError("still closed"))], limits=Limits(consecutive_errors=3),
    )  # fmt: skip
    assert isinstance(ended.error, ConsecutiveErrorsError)
    assert all(word in str(ended.error) for word in ("3 rounds", "'act'", "still closed", "consecutive_errors"))
    assert (len(ended.requests), len(ended.executions)) == (3, 6)


@pytest.mark.parametrize("good", [(ACT, call("fine", id="f")), (call("fine", id="f"),)], ids=["one_of_two", "all"])
def test_a_call_that_works_starts_the_count_of_failed_rounds_anew(mode: Mode, good: tuple[ToolCall, ...]) -> None:
    bad = ask(ACT)
    ended = mode.play(
        bad, ask(*good), bad, ask(*good), bad, say("Done"),
        tools=[raising(ToolError("x")), fine], limits=Limits(consecutive_errors=2),
    )  # fmt: skip
    assert ended.answer.output == "Done"


class Slow(ChatModel):
    """A blocking model that fails the way sockets do."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def generate(self, request: ChatRequest) -> ChatResponse:
        raise self.error


class SlowAsync(Slow):
    """The same, awaitable."""

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        raise self.error

    generate = ChatModel.generate


@pytest.mark.parametrize("kind", [Slow, SlowAsync])
def test_what_a_model_raises_reaches_the_caller_as_the_same_object(mode: Mode, kind: type[Slow]) -> None:
    error = TimeoutError("no answer for a minute")  # asyncio makes another one of it on its way from a thread
    assert mode.drive(scripted(kind(error))).error is error
