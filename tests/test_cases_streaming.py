"""Faults that users reported in systems of this kind: streams, cut-off and odd replies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    CancelToken,
    ChatResponse,
    EmptyReplyError,
    FinishReason,
    MessageWindow,
    Outcome,
    ReplyCutOffError,
    RunCancelled,
    ToolCall,
    ToolCallComplete,
    ToolMessage,
    ToolStarted,
    UserMessage,
    tool,
)
from surehand.testing import ScriptedModel, call, say

from .modes import Mode, answer_of, ask, scripted

REASONS = [FinishReason.STOP, FinishReason.OTHER, FinishReason.CONTENT_FILTER, None]
CUT = FinishReason.LENGTH


class Desk:
    """Books and takes back; ``log`` tells in which order."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def tools(self) -> list[Any]:
        def cancel(value: str) -> None:
            self.log.append(f"undo {value}")

        @tool(undo=cancel)
        def book(title: str = "", body: str = "") -> str:
            self.log.append(f"book {title}")
            return title

        return [book]


def book(title: str, id: str = "b") -> ToolCall:
    return call("book", f'{{"title": "{title}"}}', id=id)


def reply(*calls: ToolCall, text: str | None = None, finish: FinishReason | None = None) -> ChatResponse:
    return ChatResponse(AssistantMessage(text, calls), None, finish)


# ---------------------------------------------------------------- leaving a stream


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("how", ["break", "cancel"])
def test_STR_08_STR_09_consumer_leaves_after_the_first_tool_has_begun(is_async: bool, parallel: bool, how: str) -> None:
    desk, memory = Desk(), MessageWindow(50)
    model = ScriptedModel([ask(book("one")), ask(book("two"), book("three", "c")), say("Never")])
    agent = scripted(model, tools=desk.tools(), memory=memory, parallel=parallel)

    def leave_at(event: Any) -> bool:
        return isinstance(event, ToolStarted) and event.key.startswith("2.")

    def main() -> Any:
        with agent.stream("Go") as run:
            for event in run:
                if leave_at(event):
                    if how == "cancel":
                        run.cancel()
                    break
        return run

    async def main_async() -> Any:
        async with agent.astream("Go") as run:
            async for event in run:
                if leave_at(event):
                    if how == "cancel":
                        await run.cancel()
                    break
        return run

    run = asyncio.run(main_async()) if is_async else main()
    done = [entry.removeprefix("book ") for entry in desk.log if entry.startswith("book")]
    assert done[0] == "one"
    assert sorted(entry for entry in desk.log if entry.startswith("undo")) == sorted(f"undo {title}" for title in done)
    assert desk.log[-1] == "undo one"  # newest first
    assert len(model.requests) == 2
    messages = memory.messages()
    assert [m.call_id for m in messages if isinstance(m, ToolMessage)] == ["b", "b", "c"]
    assert list(run.undone.messages) == messages
    assert {e.outcome for e in run.undone.executions} <= {Outcome.DONE, Outcome.NOT_RUN}


@pytest.mark.parametrize("is_async", [False, True])
def test_STR_10_abort_after_the_call_was_streamed_before_it_ran(is_async: bool) -> None:
    desk, memory = Desk(), MessageWindow(50)
    model = ScriptedModel([ask(book("one")), say("I am back")])
    agent = scripted(model, tools=desk.tools(), memory=memory, stream_buffer=1)  # so the run does not hurry ahead

    async def main_async() -> None:
        async with agent.astream("Go") as run:
            async for event in run:
                if isinstance(event, ToolCallComplete):
                    break

    if is_async:
        asyncio.run(main_async())
    else:
        with agent.stream("Go") as run:
            for event in run:
                if isinstance(event, ToolCallComplete):
                    break
    assert desk.log == []
    assert memory.messages()[0] == UserMessage.of("Go")
    assert Mode("run", False).drive(agent, "And now?").answer.output == "I am back"
    asked = [m.id for r in model.requests[-1].messages if isinstance(r, AssistantMessage) for m in r.tool_calls]
    assert asked == [m.call_id for m in model.requests[-1].messages if isinstance(m, ToolMessage)]


def test_STR_10_a_token_cancelled_between_the_reply_and_the_tool(mode: Mode) -> None:
    desk, memory, token = Desk(), MessageWindow(50), CancelToken()

    def cancel(event: Any) -> None:
        if type(event).__name__ == "ResponseReceived":
            token.cancel()

    ended = mode.play(ask(book("one")), tools=desk.tools(), memory=memory, listeners=[cancel], run={"cancel": token})
    assert type(ended.error) is RunCancelled
    assert desk.log == []
    assert memory.messages()[:2] == [UserMessage.of("Go"), AssistantMessage(None, (book("one"),))]
    assert [m.is_error for m in memory.messages()[2:] if isinstance(m, ToolMessage)] == [True]


# ---------------------------------------------------------------- odd replies


@pytest.mark.parametrize("finish", REASONS)
def test_STR_11_finish_stop_with_tool_calls(mode: Mode, finish: FinishReason | None) -> None:
    desk = Desk()
    ended = mode.play(reply(book("one"), finish=finish), say("Ok"), tools=desk.tools())
    assert (ended.answer.output, desk.log) == ("Ok", ["book one"])


@pytest.mark.parametrize("text", [None, ""])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_STR_12_finish_tool_calls_with_none(mode: Mode, text: str | None, times: int) -> None:
    empty = reply(text=text, finish=FinishReason.TOOL_EXECUTION)
    ended = mode.play(*[empty] * times, say("Here"))
    if times == 1:
        assert ended.answer.output == "Here"
        assert ended.answer.messages == (UserMessage.of("Go"), AssistantMessage("Here"))
    else:
        assert isinstance(ended.error, EmptyReplyError)
        assert len(ended.requests) == 2
        assert list(ended.messages) == [UserMessage.of("Go")]


@pytest.mark.parametrize("text", [None, "", " "])
@pytest.mark.parametrize("count", [1, 2])
def test_STR_13_empty_content_with_a_call(mode: Mode, text: str | None, count: int) -> None:
    desk, asked = Desk(), [book("one", f"b{n}") for n in range(count)]
    ended = mode.play(ask(*asked, text=text), say("Ok"), tools=desk.tools())
    assert ended.requests[1].messages[1:] == (
        AssistantMessage(text, tuple(asked)),
        *[answer_of(c, "one") for c in asked],
    )


@pytest.mark.parametrize("finish", [*REASONS, FinishReason.TOOL_EXECUTION])
@pytest.mark.parametrize("text", [None, "Found"])
@pytest.mark.parametrize("name", ["book", "web_search"])
def test_STR_14_provider_executed_tool_call_in_the_stream(
    mode: Mode, finish: FinishReason | None, text: str | None, name: str
) -> None:
    desk = Desk()
    theirs = ToolCall("p", name, '{"title": "x"}', executed_by_provider=True)
    ended = mode.play(reply(theirs, text=text, finish=finish), tools=desk.tools(), early_start="all")
    assert (ended.answer.output, desk.log, len(ended.requests)) == (text, [], 1)
    assert ended.answer.messages[1:] == (AssistantMessage(text, (theirs,)),)


# ---------------------------------------------------------------- cut off by the token limit


@pytest.mark.parametrize("arguments", ['{"title": "example"', '{"title": "exam', "{", "", '{"title": "x"}'])
def test_ARG_30_cut_by_the_token_limit(mode: Mode, arguments: str) -> None:
    desk = Desk()
    half = call("book", arguments, id="h")
    ended = mode.play(reply(half, finish=CUT), say("Ok"), tools=desk.tools())
    assert desk.log == []
    (_, text, is_error) = ended.results[0]
    assert is_error and "cut off" in text and "token limit" in text
    assert not any(word in text for word in ("missing", "required", "JSON"))


@pytest.mark.parametrize("whole", [1, 2, 3])
def test_ARG_31_cut_call_next_to_complete_calls(mode: Mode, whole: int) -> None:
    desk = Desk()
    asked = [*[book("one", f"b{n}") for n in range(whole)], call("book", '{"title": "tw', id="h")]
    ended = mode.play(reply(*asked, finish=CUT), say("Ok"), tools=desk.tools())
    assert desk.log == []
    assert [m.call_id for m in ended.requests[1].messages if isinstance(m, ToolMessage)] == [c.id for c in asked]
    assert [e.outcome for e in ended.executions] == [Outcome.NOT_RUN] * len(asked)


@pytest.mark.parametrize("times", [2, 3, 50])
def test_ARG_32_cut_again_and_again(mode: Mode, times: int) -> None:
    desk = Desk()
    cut = reply(call("book", '{"title": "tw', id="h"), finish=CUT)
    ended = mode.play(*[cut] * times, tools=desk.tools())
    assert isinstance(ended.error, ReplyCutOffError)
    assert (len(ended.requests), desk.log) == (2, [])
