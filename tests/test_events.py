"""Events: which come, in which order, what they carry, and how every run ends with exactly one (spec 7.11, 16.2)."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Limits,
    Listeners,
    MessageWindow,
    Outcome,
    RequestIssued,
    ResponseReceived,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallComplete,
    ToolContext,
    ToolExecuted,
    ToolExecution,
    ToolFinished,
    ToolStarted,
    Usage,
    UserError,
    UserMessage,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, calls, say

from .modes import PIECES, Mode, answer_of, ask, scripted

DO = call("do", id="d")


@tool
def do() -> str:
    """Do it."""
    return "done"


ONE_ROUND = [
    "RunStarted",
    "RequestIssued",
    "ResponseReceived",
    "ToolStarted",
    "ToolFinished",
    "ToolExecuted",
    "RequestIssued",
    "ResponseReceived",
    "RunFinished",
]


def test_a_run_with_one_round_reports_in_the_canonical_order(mode: Mode) -> None:
    assert mode.play(ask(DO), say("Ok"), tools=[do]).names == ONE_ROUND


def test_hooks_bodies_memory_and_transformer_take_their_turn_in_the_canonical_order(mode: Mode) -> None:
    log: list[str] = []

    class Noting(MessageWindow):
        def add_all(self, messages: Any, /) -> None:
            log.append("memory " + " ".join(type(message).__name__ for message in messages))
            super().add_all(messages)

    @tool(name="do")
    def noting_do() -> None:
        log.append("body")

    def transform(request: ChatRequest, memory_id: Any) -> ChatRequest:
        log.append("transformer")
        return request

    mode.play(
        ask(DO), say("Ok"),
        tools=[noting_do], memory=Noting(50), transform_request=transform,
        before_tool=lambda context: log.append("before, agent"),
        after_tool=lambda execution, context: log.append("after, agent"),
        listeners=[lambda event: log.append(type(event).__name__) if not isinstance(event, PIECES) else None],
        run={"before_tool": lambda context: log.append("before, run"),
             "after_tool": lambda execution, context: log.append("after, run")},
    )  # fmt: skip
    assert log == [
        "RunStarted", "memory UserMessage", "transformer", "RequestIssued", "ResponseReceived",
        "before, agent", "before, run", "ToolStarted", "body", "after, agent", "after, run", "ToolFinished",
        "ToolExecuted", "memory AssistantMessage ToolMessage",
        "transformer", "RequestIssued", "ResponseReceived", "memory AssistantMessage", "RunFinished",
    ]  # fmt: skip


def test_events_carry_the_run_and_whole_values(mode: Mode) -> None:
    ended = mode.play(calls(DO, usage=Usage(1, 2)), say("Ok", usage=Usage(3, 4)), tools=[do], run={"deps": 1})
    assert {event.run_id for event in ended.events} == {"run-1"} and {event.path for event in ended.events} == {""}
    assert ended.of(RunStarted)[0].memory_id == "default"
    first, second = ended.of(RequestIssued)
    assert (first.number, first.request) == (1, ended.requests[0])
    assert (second.number, second.request) == (2, ended.requests[1])
    received = ended.of(ResponseReceived)
    assert [event.response.message for event in received] == [AssistantMessage(None, (DO,)), AssistantMessage("Ok")]
    assert [event.request for event in received] == list(ended.requests)
    assert [(event.key, event.call, event.attempt) for event in ended.of(ToolStarted)] == [("1.0", DO, 1)]
    assert [event.execution for event in ended.of(ToolExecuted)] == list(ended.executions)
    assert [event.execution for event in ended.of(ToolFinished)] == list(ended.executions)
    (finished,) = ended.of(RunFinished)
    assert (finished.output, finished.response, finished.usage) == ("Ok", say("Ok", usage=Usage(3, 4)), Usage(4, 6))


def test_streams_give_the_pieces_of_the_model_where_they_arise(mode: Mode) -> None:
    ended = mode.play(ask(DO, text="Let me see"), say("It is done"), tools=[do])
    pieces = [(type(event), getattr(event, "text", getattr(event, "call", None)))
              for event in ended.events if isinstance(event, (TextDelta, ToolCallComplete))]  # fmt: skip
    if not mode.streams:
        assert pieces == []
        return
    assert pieces == [
        (TextDelta, "Let "), (TextDelta, "me "), (TextDelta, "see"), (ToolCallComplete, DO),
        (TextDelta, "It "), (TextDelta, "is "), (TextDelta, "done"),
    ]  # fmt: skip


def test_in_sequence_a_stream_and_a_listener_hear_the_same_in_the_same_order(sequential: Mode) -> None:
    recorder = Recorder()
    ended = sequential.play(ask(DO, DO), say("Ok"), tools=[do], listeners=[recorder])
    assert list(ended.events) == recorder.events


def test_executed_comes_in_request_order_and_finished_as_tools_finish(concurrent: Mode) -> None:
    import threading

    fast_done = threading.Event()

    @tool
    def slow() -> str:
        assert fast_done.wait(5)
        return "slow"

    @tool
    def fast() -> str:
        return "fast"

    def after(execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        pass

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.execution.call.name == "fast":
            fast_done.set()

    ended = concurrent.play(
        ask(call("slow"), call("fast")), say("Ok"), tools=[slow, fast], listeners=[listener], after_tool=after
    )
    assert [event.execution.value for event in ended.of(ToolFinished)] == ["fast", "slow"]
    assert [event.execution.value for event in ended.of(ToolExecuted)] == ["slow", "fast"]
    assert [execution.value for execution in ended.executions] == ["slow", "fast"]
    names = ended.names
    assert names.index("ToolExecuted") > max(n for n, name in enumerate(names) if name == "ToolFinished")


def test_a_refused_call_is_not_reported_as_started(mode: Mode) -> None:
    ended = mode.play(ask(DO), say("Ok"), tools=[do], authorise=lambda context, arguments: False)
    assert ended.names == [name for name in ONE_ROUND if name != "ToolStarted"]
    assert ended.executions[0].outcome is Outcome.DENIED


ENDINGS: dict[str, Any] = {
    "RunFinished": lambda: ([say("Ok")], {}),
    "RunFailed": lambda: ([ask(DO)], {"limits": Limits(rounds=0)}),
}


@pytest.mark.parametrize("last", ENDINGS)
def test_every_run_ends_with_exactly_one_ending(mode: Mode, last: str) -> None:
    script, options = ENDINGS[last]()
    ended = mode.play(*script, tools=[do], **options)
    endings = [name for name in ended.names if name in ("RunFinished", "RunFailed", "RunCancelledEvent")]
    assert endings == [last] == ended.names[-1:]
    if last == "RunFailed":
        assert ended.of(RunFailed)[0].error is ended.error


# ---------------------------------------------------------------- listeners


def test_a_listener_that_fails_is_logged_and_changes_nothing(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Any) -> None:
        raise LookupError("listener")

    ended = mode.play(ask(DO), say("Ok"), tools=[do], listeners=[broken])
    assert ended.names == ONE_ROUND
    assert "failed on RunStarted" in caplog.text


@pytest.mark.parametrize("kind", ["RunStarted", "ResponseReceived", "ToolStarted", "ToolFinished", "ToolExecuted"])
def test_a_listener_that_may_propagate_gives_the_run_up(mode: Mode, kind: str) -> None:
    error = LookupError("listener")

    def broken(event: Any) -> None:
        if type(event).__name__ == kind:
            raise error

    ended = mode.play(ask(DO), say("Never"), tools=[do], listeners=Listeners(broken, propagate=True))
    assert ended.error is error
    assert all(call.outcome is not None for call in ended.executions)
    assert ended.names[-1] == "RunFailed"


def test_listeners_hear_only_the_types_they_asked_for() -> None:
    heard: list[Any] = []
    listeners = Listeners()
    listeners.add(heard.append, RunStarted, RunFinished)
    listeners.add(heard.append, RunStarted, RunFinished)  # the same again changes nothing
    scripted(ScriptedModel([say("Ok")]), listeners=listeners).run("Go")
    assert [type(event) for event in heard] == [RunStarted, RunFinished]
    listeners.remove(heard.append)
    listeners.remove(print)  # an unknown one is ignored
    assert len(listeners) == 0


def test_a_listener_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(UserError, match="listener 7 is not callable"):
        Listeners(7)  # type: ignore[arg-type]


def test_two_runs_of_one_stream_are_two_runs(mode: Mode) -> None:
    model = ScriptedModel([say("One"), say("Two")])
    agent = scripted(model)
    assert [mode.drive(agent).answer.output for _ in range(2)] == ["One", "Two"]
    assert len(model.requests) == 2


def test_the_answer_of_calls_is_what_the_model_is_sent(mode: Mode) -> None:
    ended = mode.play(ask(DO), say("Ok"), tools=[do])
    assert ended.requests[1].messages == (UserMessage.of("Go"), AssistantMessage(None, (DO,)), answer_of(DO, "done"))
    assert ended.answer.response == ChatResponse(AssistantMessage("Ok"), None, FinishReason.STOP)
