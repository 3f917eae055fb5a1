"""An exception does not prove that nothing happened: outcomes, retries, probes and timeouts (design 5)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    Absent,
    Happened,
    Limits,
    Outcome,
    RoundLimitError,
    ToolContext,
    ToolError,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    ToolTimeout,
    ToolUndone,
    Unknown,
    tool,
)
from surehand.testing import call, say

from .modes import Ended, Mode, ask

DO = call("do", '{"what": "x"}', id="d")
MAY_HAVE = "This call of 'do' may have happened; it is not known. Do not repeat it."
REPEAT = "An identical call of 'do' may have happened; it is not known. Do not repeat it."


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What bodies that outlive their timeout wait for; set at the latest when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def only(ended: Ended) -> tuple[Outcome, str, bool]:
    """How the only call ended: outcome, text, whether the model reads an error."""
    (execution,) = ended.executions
    return execution.outcome, execution.result.text, execution.has_failed


# ---------------------------------------------------------------- probes


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("repeat", ["never", "with_key"])
@pytest.mark.parametrize("known", ["happened", "absent", "unknown", "broken"])
def test_after_an_exception_the_probe_decides(mode: Mode, repeat: Any, known: str, is_async: bool) -> None:
    error, asked = ValueError("line broke"), []

    def probe(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        asked.append((ctx.idempotency_key, ctx.deps, arguments))
        match known:
            case "happened":
                return Happened("done after all")
            case "absent":
                return Absent()
            case "unknown":
                return Unknown()
        raise OSError("the probe has no line either")

    async def probe_async(ctx: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        return probe(ctx, arguments)

    @tool(repeat=repeat, probe=probe_async if is_async else probe)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        raise error

    ended = mode.play(ask(DO), say("Ok"), tools=[do], run={"deps": "shop"})
    assert asked == [("run-1:1.0", "shop", {"what": "x"})]
    match known:
        case "happened":
            assert only(ended) == (Outcome.DONE, "done after all", False)
            assert ended.executions[0].value == "done after all"
        case "absent":
            assert only(ended) == (Outcome.FAILED, "Tool 'do' failed with ValueError.", True)
            assert ended.report.standing == ()
        case _:
            assert ended.error is error
            assert only(ended) == (Outcome.UNKNOWN, MAY_HAVE, True)


def test_a_call_that_happened_after_all_is_undone_with_the_rest(mode: Mode) -> None:
    cancelled: list[str] = []

    def cancel(value: str) -> None:
        cancelled.append(value)

    @tool(probe=lambda ctx, arguments: Happened("late"), undo=cancel)
    def do(what: str) -> str:
        raise ValueError("x")

    ended = mode.play(ask(DO), ask(DO), tools=[do], limits=Limits(rounds=1))
    assert (type(ended.error), cancelled) == (RoundLimitError, ["late"])


def test_a_tool_error_needs_no_probe(mode: Mode) -> None:
    def probe(ctx: Any, arguments: Any) -> Any:
        raise AssertionError("the tool has said that nothing happened")

    @tool(probe=probe)
    def do(what: str) -> str:
        raise ToolError("no")

    assert only(mode.play(ask(DO), say("Ok"), tools=[do])) == (Outcome.FAILED, "no", True)


# ---------------------------------------------------------------- retries


@pytest.mark.parametrize("repeat", ["safe", "with_key"])
@pytest.mark.parametrize("failures", [0, 1, 2])
def test_retries_go_on_with_the_same_key_until_one_works(mode: Mode, repeat: Any, failures: int) -> None:
    attempts: list[tuple[int, str]] = []

    @tool(repeat=repeat, retries=2)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        attempts.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt <= failures:
            raise OSError("line broke")
        return "done"

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert attempts == [(number, "run-1:1.0") for number in range(1, failures + 2)]
    assert only(ended) == (Outcome.DONE, "done", False)
    assert [event.attempt for event in ended.of(ToolStarted)] == list(range(1, failures + 2))
    assert len(ended.of(ToolFinished)) == 1


def test_a_safe_tool_whose_retries_are_used_up_has_failed(mode: Mode) -> None:
    @tool(repeat="safe", retries=1)
    def do(what: str) -> str:
        raise OSError("line broke")

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert only(ended) == (Outcome.FAILED, "Tool 'do' failed with OSError.", True)
    assert ended.report.standing == ()


def test_a_keyed_tool_whose_retries_are_used_up_is_unknown_and_gives_the_run_up(mode: Mode) -> None:
    error = OSError("line broke")

    @tool(repeat="with_key", retries=1)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        raise error

    ended = mode.play(ask(DO), tools=[do])
    assert ended.error is error
    assert only(ended) == (Outcome.UNKNOWN, MAY_HAVE, True)
    assert ended.report.standing == ended.report.unknown == ended.executions


@pytest.mark.parametrize("repeat", ["safe", "with_key"])
def test_a_tool_error_is_not_retried(mode: Mode, repeat: Any) -> None:
    attempts: list[int] = []

    @tool(repeat=repeat, retries=5)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        attempts.append(ctx.attempt)
        raise ToolError("no")

    mode.play(ask(DO), say("Ok"), tools=[do])
    assert attempts == [1]


# ---------------------------------------------------------------- timeouts


def test_a_body_that_does_not_finish_in_time_may_have_happened_and_the_run_goes_on(
    mode: Mode, release: threading.Event
) -> None:
    @tool(timeout=0.02)
    def do(what: str) -> str:
        release.wait(10)
        return "late"

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert ended.answer.output == "Ok"
    assert only(ended) == (Outcome.UNKNOWN, MAY_HAVE, True)
    assert ended.report.unknown == ended.executions
    release.set()


def test_an_awaitable_body_that_does_not_finish_in_time_is_cancelled_and_unknown(mode: Mode) -> None:
    cancelled = threading.Event()

    @tool(timeout=0.02)
    async def do(what: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert only(ended) == (Outcome.UNKNOWN, MAY_HAVE, True)
    assert cancelled.wait(5)


@pytest.mark.parametrize("known", [Happened("done"), Absent(), Unknown()], ids=lambda known: type(known).__name__)
def test_after_a_timeout_the_probe_decides_and_the_run_goes_on(
    mode: Mode, release: threading.Event, known: Any
) -> None:
    @tool(timeout=0.02, probe=lambda ctx, arguments: known)
    def do(what: str) -> str:
        release.wait(10)
        raise OSError("too late")

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert ended.answer.output == "Ok"
    assert (
        only(ended)
        == {
            Happened: (Outcome.DONE, "done", False),
            Absent: (Outcome.FAILED, "Tool 'do' failed with ToolTimeout.", True),
            Unknown: (Outcome.UNKNOWN, MAY_HAVE, True),
        }[type(known)]
    )


def test_a_safe_tool_that_times_out_is_retried_and_then_has_failed(mode: Mode, release: threading.Event) -> None:
    @tool(repeat="safe", timeout=0.02, retries=1)
    def do(what: str) -> str:
        release.wait(10)
        return "late"

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert only(ended) == (Outcome.FAILED, "Tool 'do' failed with ToolTimeout.", True)
    assert [event.attempt for event in ended.of(ToolStarted)] == [1, 2]


def test_a_keyed_tool_that_times_out_is_retried_with_the_same_key(mode: Mode, release: threading.Event) -> None:
    keys: list[tuple[int, str]] = []

    @tool(repeat="with_key", timeout=0.05, retries=1)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        keys.append((ctx.attempt, ctx.idempotency_key))
        if ctx.attempt == 1:
            release.wait(10)
        return f"done at attempt {ctx.attempt}"

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert keys == [(1, "run-1:1.0"), (2, "run-1:1.0")]
    assert only(ended) == (Outcome.DONE, "done at attempt 2", False)


def test_the_deadline_of_an_attempt_is_told_to_the_body(mode: Mode) -> None:
    deadlines: list[float | None] = []

    @tool(timeout=5)
    def do(what: str, ctx: ToolContext[Any]) -> None:
        deadlines.append(ctx.deadline)

    @tool
    def free(ctx: ToolContext[Any]) -> None:
        deadlines.append(ctx.deadline)

    mode.play(ask(DO), ask(call("free")), say("Ok"), tools=[do, free])
    assert deadlines == [1005.0, None]


def test_a_body_that_finishes_late_becomes_done_in_the_books_and_not_in_history(
    mode: Mode, release: threading.Event
) -> None:
    late = threading.Event()

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.late:
            late.set()

    @tool(timeout=0.02)
    def do(what: str) -> str:
        release.wait(10)
        return "late"

    agent_events: list[Any] = []
    ended = mode.play(ask(DO), say("Ok"), tools=[do], listeners=[listener, agent_events.append])
    before = ended.answer.messages
    release.set()
    assert late.wait(5)
    assert [(e.outcome, e.value) for e in ended.answer.undone.done] == [(Outcome.DONE, "late")]
    assert ended.answer.undone.unknown == ()
    assert ended.answer.messages == before
    assert [e.execution.outcome for e in agent_events if isinstance(e, ToolFinished)] == [Outcome.UNKNOWN, Outcome.DONE]


def test_a_body_that_finishes_after_its_run_was_given_up_is_undone_then(mode: Mode, release: threading.Event) -> None:
    undone, cancelled = threading.Event(), []

    def listener(event: Any) -> None:
        if isinstance(event, ToolUndone):
            undone.set()

    def cancel(value: str) -> None:
        cancelled.append(value)

    @tool(timeout=0.02, undo=cancel)
    def do(what: str) -> str:
        release.wait(10)
        return "late"

    ended = mode.play(ask(DO), ask(DO), tools=[do], limits=Limits(rounds=1), listeners=[listener])
    assert type(ended.error) is RoundLimitError
    assert (cancelled, [e.outcome for e in ended.report.unknown]) == ([], [Outcome.UNKNOWN])
    release.set()
    assert undone.wait(5)
    assert cancelled == ["late"]
    assert [(e.value, e.outcome) for e in ended.report.undone] == [("late", Outcome.DONE)]
    assert ended.report.standing == ()


# ---------------------------------------------------------------- a model that asks again

SAME = [DO, call("do", '{ "what":"x" }', id="again"), call("do", '{"what": "x", "what ": 1}', id="odd")]


@pytest.mark.parametrize("again", SAME[:2], ids=["equal", "other_spacing"])
def test_a_never_tool_that_is_asked_again_while_unknown_is_refused(
    mode: Mode, release: threading.Event, again: Any
) -> None:
    ran: list[str] = []

    @tool(timeout=0.05)
    def do(what: str) -> str:
        ran.append(what)
        if what == "x":
            release.wait(10)
        return what

    other = call("do", '{"what": "y"}', id="o")
    ended = mode.play(ask(DO), ask(again), ask(other), say("Ok"), tools=[do])
    assert ran == ["x", "y"]
    assert [(e.outcome, e.result.text) for e in ended.executions] == [
        (Outcome.UNKNOWN, MAY_HAVE),
        (Outcome.DENIED, REPEAT),
        (Outcome.DONE, "y"),
    ]


def test_a_keyed_tool_that_is_asked_again_while_unknown_gets_the_same_key(mode: Mode, release: threading.Event) -> None:
    keys: list[str] = []

    @tool(repeat="with_key", timeout=0.05)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            release.wait(10)
        return what

    ended = mode.play(ask(DO), ask(DO), ask(DO), say("Ok"), tools=[do])
    assert keys[:2] == ["run-1:1.0", "run-1:1.0"]
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN, Outcome.DONE, Outcome.DONE]


def test_the_key_stays_the_same_although_the_second_call_is_unknown_as_well(mode: Mode) -> None:
    keys: list[str] = []

    @tool(repeat="with_key", probe=lambda context, arguments: Unknown())
    def do(what: str, ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) < 3:
            raise ToolTimeout("the other side is silent")
        return what

    ended = mode.play(ask(DO), ask(DO), ask(DO), say("Ok"), tools=[do])
    assert keys == ["run-1:1.0"] * 3
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.DONE]


def test_an_undo_gets_the_key_that_the_body_was_given(mode: Mode, release: threading.Event) -> None:
    keys: list[str] = []
    undone: list[str] = []

    def take_back(value: str, ctx: ToolContext[Any]) -> None:
        undone.append(ctx.idempotency_key)

    @tool(repeat="with_key", timeout=0.05, undo=take_back)
    def do(what: str, ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            release.wait(10)
        return what

    mode.play(ask(DO), ask(DO), ValueError("no model"), tools=[do], drain_timeout=0)
    assert keys == ["run-1:1.0", "run-1:1.0"]
    assert undone == ["run-1:1.0"]


def test_progress_reaches_listeners_with_its_call(mode: Mode) -> None:
    @tool
    def do(what: str, ctx: ToolContext[Any]) -> str:
        ctx.progress(0.5)
        ctx.progress({"step": 2})
        return what

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert [(e.key, e.call, e.value) for e in ended.of(ToolProgress)] == [("1.0", DO, 0.5), ("1.0", DO, {"step": 2})]


def test_a_safe_tool_with_an_undo_that_raises_is_unknown_and_the_run_goes_on(mode: Mode) -> None:
    @tool(repeat="safe", undo=lambda value: None)
    def do(what: str) -> str:
        raise ValueError("after the effect, perhaps")

    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert ended.result is not None and ended.result.output == "Ok"
    assert only(ended) == (Outcome.UNKNOWN, "Tool 'do' failed with ValueError.", True)
    assert ended.report.unknown == ended.report.standing == ended.executions
