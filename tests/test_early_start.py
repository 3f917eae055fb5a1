"""Calls that start while the model is still writing its reply (spec 7.8.2, 7.8.4, D-17, D-38)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Limits,
    LimitWarning,
    Outcome,
    ResponseDone,
    ResponseReceived,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallReady,
    ToolContext,
    ToolStarted,
    ToolUndone,
    UserMessage,
    tool,
)
from surehand.models import ChatModel
from surehand.testing import call, say

from .modes import Mode, answer_of, ask, scripted

STREAMING = [Mode("stream", True), Mode("astream", True)]
streaming = pytest.mark.parametrize("mode", STREAMING, ids=str)


class Scenes(ChatModel):
    """A model whose replies are given as pieces; a function among them is called when the stream gets there."""

    provider = "scenes"
    name = "scenes"

    def __init__(self, *replies: list[Any]) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = list(replies)

    def generate(self, request: ChatRequest) -> ChatResponse:
        raise AssertionError("these tests stream")

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        raise AssertionError("these tests stream")

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        self.requests.append(request)
        for piece in self._replies[len(self.requests) - 1]:
            if callable(piece):
                piece()
            else:
                yield piece

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        self.requests.append(request)
        for piece in self._replies[len(self.requests) - 1]:
            if callable(piece):
                await asyncio.get_running_loop().run_in_executor(None, piece)
            else:
                yield piece


def done(*calls: ToolCall, finish: FinishReason = FinishReason.TOOL_EXECUTION) -> ResponseDone:
    return ResponseDone(ChatResponse(AssistantMessage(None, calls), None, finish))


class Started:
    """A tool that tells when it has begun, and a piece of a stream that waits for that."""

    def __init__(self, **options: Any) -> None:
        self.begun = threading.Event()
        self.count = 0

        def do() -> str:
            self.count += 1
            self.begun.set()
            return "done"

        self.tool = tool(name="do", **options)(do)

    def wait(self) -> None:
        assert self.begun.wait(5), "the call has not begun"

    def refuse(self) -> None:
        assert not self.begun.wait(0.02), "the call has begun too early"


DO = call("do", id="d")


@streaming
def test_a_safe_tool_starts_while_the_reply_goes_on(mode: Mode) -> None:
    started = Started(repeat="safe")
    model = Scenes([ToolCallReady(0, DO), started.wait, TextPiece("…"), done(DO)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=[started.tool]))
    assert (ended.answer.output, started.count) == ("Ok", 1)
    kinds = [type(event) for event in ended.events]
    assert kinds.index(ToolStarted) < kinds.index(ResponseReceived)
    assert model.requests[1].messages == (UserMessage.of("Go"), AssistantMessage(None, (DO,)), answer_of(DO, "done"))


@streaming
@pytest.mark.parametrize("repeat", ["never", "with_key"])
def test_any_other_tool_waits_for_the_whole_reply_unless_all_may_start(mode: Mode, repeat: Any) -> None:
    def tool_that(begun: threading.Event) -> Any:
        @tool(name="do", repeat=repeat)
        def do(ctx: ToolContext[Any]) -> str:
            begun.set()
            return "done"

        return do

    def refuse() -> None:
        assert not begun.wait(0.02)

    def wait() -> None:
        assert begun.wait(5)

    for early, scene in (("safe", refuse), ("all", wait)):
        begun = threading.Event()
        model = Scenes([ToolCallReady(0, DO), scene, done(DO)], [ResponseDone(say("Ok"))])
        ended = mode.drive(scripted(model, tools=[tool_that(begun)], early_start=early))
        assert ended.answer.output == "Ok"


def options(**values: Any) -> Any:
    return values


@streaming
@pytest.mark.parametrize(
    ("tool_options", "agent_options", "run_options"),
    [
        ({}, options(early_start="off"), {}),
        ({"exclusive": True}, {}, {}),
        ({}, options(limits=Limits(rounds=0)), {}),
        ({}, options(limits=Limits(calls=0)), {}),
        ({}, {}, options(parallel=False)),
    ],
    ids=["off", "exclusive", "rounds", "calls", "in_sequence"],
)
def test_nothing_starts_early_where_that_was_not_allowed(
    mode: Mode, tool_options: Any, agent_options: Any, run_options: Any
) -> None:
    started = Started(repeat="safe", **tool_options)
    model = Scenes([ToolCallReady(0, DO), started.refuse, done(DO)], [ResponseDone(say("Ok"))])
    mode.drive(scripted(model, tools=[started.tool], **agent_options), **run_options)
    assert started.count == (0 if "limits" in agent_options else 1)


@streaming
def test_no_early_call_passes_an_authorisation(mode: Mode) -> None:
    started = Started(repeat="safe")
    model = Scenes([ToolCallReady(0, DO), started.refuse, done(DO)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=[started.tool], authorise=lambda context, arguments: False))
    assert (started.count, ended.executions[0].outcome) == (0, Outcome.DENIED)


@streaming
def test_calls_that_were_never_announced_start_when_the_reply_is_complete(mode: Mode) -> None:
    started, other = Started(repeat="safe"), call("do", id="e")
    model = Scenes([ToolCallReady(0, DO), started.wait, done(DO, other)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=[started.tool]))
    assert started.count == 2
    assert [(e.key, e.call, e.outcome) for e in ended.executions] == [
        ("1.0", DO, Outcome.DONE),
        ("1.1", other, Outcome.DONE),
    ]


@streaming
@pytest.mark.parametrize("final", [(), (call("other", id="o"),)], ids=["none", "another"])
def test_a_call_that_is_missing_from_the_final_reply_is_awaited_undone_and_dropped(
    mode: Mode, final: tuple[ToolCall, ...]
) -> None:
    undone: list[str] = []

    def cancel(value: str) -> None:
        undone.append(value)

    @tool(repeat="safe")
    def other() -> str:
        return "other"

    started = Started(repeat="safe", undo=cancel)
    if final:
        replies = [[ToolCallReady(0, DO), started.wait, done(*final)], [ResponseDone(say("Ok"))]]
    else:
        replies = [[ToolCallReady(0, DO), started.wait, ResponseDone(say("Ok"))]]
    ended = mode.drive(scripted(Scenes(*replies), tools=[started.tool, other]))
    assert ended.answer.output == "Ok"
    assert undone == ["done"]
    assert [event.execution.call for event in ended.of(ToolUndone)] == [DO]
    assert len(ended.of(LimitWarning)) == 1 and "'do'" in ended.of(LimitWarning)[0].text
    assert [result[:2] for result in ended.results] == [("other", "other")] * len(final)


@streaming
def test_an_early_start_of_another_call_in_the_same_place_keeps_both_apart(mode: Mode) -> None:
    started = Started(repeat="safe")
    renamed = call("do", "{ }", id="d")
    model = Scenes([ToolCallReady(0, DO), started.wait, done(renamed)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=[started.tool]))
    assert started.count == 2  # what started is not what the reply asks for
    assert ended.results == [("do", "done", False)]
    assert model.requests[1].messages[1] == AssistantMessage(None, (renamed,))


@streaming
def test_a_reply_that_is_cut_off_keeps_the_true_result_of_what_ran_early(mode: Mode) -> None:
    started, half = Started(repeat="safe"), call("do", "{", id="h")
    model = Scenes(
        [ToolCallReady(0, DO), started.wait, done(DO, half, finish=FinishReason.LENGTH)], [ResponseDone(say("Ok"))]
    )
    ended = mode.drive(scripted(model, tools=[started.tool]))
    assert started.count == 1
    assert [e.outcome for e in ended.executions] == [Outcome.DONE, Outcome.NOT_RUN]
    assert ended.results[0] == ("do", "done", False) and ended.results[1][2] is True


@streaming
def test_a_stream_that_breaks_after_an_early_start_undoes_it(mode: Mode) -> None:
    undone: list[str] = []

    def cancel(value: str) -> None:
        undone.append(value)

    def break_off() -> None:
        raise ConnectionError("line broke")

    started = Started(repeat="safe", undo=cancel)
    ended = mode.drive(scripted(Scenes([ToolCallReady(0, DO), started.wait, break_off]), tools=[started.tool]))
    assert type(ended.error) is ConnectionError
    assert undone == ["done"]
    assert [(e.call, e.outcome) for e in ended.executions] == [(DO, Outcome.DONE)]
    assert ended.executions[0].undo is not None
    assert list(ended.messages) == [UserMessage.of("Go")]


@streaming
def test_a_name_with_a_stray_space_starts_early_once(mode: Mode) -> None:
    started = Started(repeat="safe")
    stray = call(" do\n", id="d")
    model = Scenes([ToolCallReady(0, stray), started.wait, done(stray)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=[started.tool]))
    assert started.count == 1
    assert [(e.call, e.outcome) for e in ended.executions] == [(DO, Outcome.DONE)]


@streaming
def test_early_calls_keep_request_order_in_results(mode: Mode) -> None:
    log: list[str] = []
    second_done = threading.Event()

    def named(name: str, wait: Callable[[], object]) -> Any:
        @tool(name=name, repeat="safe")
        def do() -> str:
            wait()
            log.append(name)
            if name == "b":
                second_done.set()
            return name

        return do

    tools = [named("a", lambda: second_done.wait(5)), named("b", lambda: None)]
    asked = (call("a", id="1"), call("b", id="2"))
    model = Scenes([ToolCallReady(0, asked[0]), ToolCallReady(1, asked[1]), done(*asked)], [ResponseDone(say("Ok"))])
    ended = mode.drive(scripted(model, tools=tools))
    assert log == ["b", "a"]
    assert [e.value for e in ended.executions] == ["a", "b"]
    assert model.requests[1].messages[2:] == (answer_of(asked[0], "a"), answer_of(asked[1], "b"))


def test_in_other_modes_the_same_script_gives_the_same_result(mode: Mode) -> None:
    started = Started(repeat="safe")
    ended = mode.play(ask(DO), say("Ok"), tools=[started.tool], early_start="all")
    assert (ended.answer.output, started.count, ended.results) == ("Ok", 1, [("do", "done", False)])


@streaming
@pytest.mark.parametrize(
    ("bound", "parallel"), [({"max_parallel": 1}, True), ({}, 2)], ids=["of-the-tool", "of-the-run"]
)
def test_no_more_calls_start_early_than_may_run_at_once(mode: Mode, bound: Any, parallel: bool | int) -> None:
    allowed, lock, running, most = bound.get("max_parallel", parallel), threading.Lock(), list[int](), list[int]()
    enough = threading.Event()

    @tool(repeat="safe", **bound)
    def look(n: int) -> str:
        with lock:
            running.append(n)
            most.append(len(running))
            if len(most) >= allowed:
                enough.set()
        enough.wait(10)
        with lock:
            running.remove(n)
        return "seen"

    asked = [call("look", {"n": n}, id=f"c{n}") for n in range(4)]
    model = Scenes(
        [*[ToolCallReady(n, one) for n, one in enumerate(asked)], ResponseDone(ask(*asked))],
        [ResponseDone(say("Done"))],
    )
    ended = mode.drive(scripted(model, tools=[look]), parallel=parallel)
    assert [execution.result.text for execution in ended.executions] == ["seen"] * 4
    assert max(most) == allowed
