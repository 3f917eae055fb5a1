"""Replies that are odd: cut off by the token limit, empty, or with calls that the provider has run itself."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    ChatParameters,
    ChatResponse,
    EmptyReplyError,
    FinishReason,
    MessageWindow,
    Outcome,
    ReplyCutOffError,
    ToolCall,
    Usage,
    UserMessage,
    tool,
)
from surehand.testing import call, say

from .modes import Mode, answer_of, ask

CUT_OFF = (
    "This call of 'do' was not run: your reply was cut off by its token limit, so none of its calls ran. "
    "Ask again, more briefly."
)
WHOLE, HALF = call("do", '{"what": "x"}', id="w"), call("do", '{"what": "y', id="h")


def cut(*calls: ToolCall) -> ChatResponse:
    return ChatResponse(AssistantMessage(None, calls), Usage(1, 1), FinishReason.LENGTH)


class Doing:
    """A tool that notes what it did."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @tool
    def do(self, what: str) -> str:
        self.done.append(what)
        return f"did {what}"


@pytest.mark.parametrize("asked", [(HALF,), (WHOLE, HALF), (HALF, WHOLE), (WHOLE,)])
def test_no_call_of_a_reply_that_was_cut_off_runs_and_each_is_told_so(mode: Mode, asked: tuple[ToolCall, ...]) -> None:
    doing, memory = Doing(), MessageWindow(50)
    ended = mode.play(cut(*asked), ask(WHOLE), say("Done"), tools=[doing], memory=memory)
    assert doing.done == ["x"]
    assert ended.requests[1].messages == (
        UserMessage.of("Go"),
        AssistantMessage(None, asked),
        *[answer_of(c, CUT_OFF, is_error=True) for c in asked],
    )
    assert [e.outcome for e in ended.executions] == [Outcome.NOT_RUN] * len(asked) + [Outcome.DONE]
    assert ended.answer.output == "Done"
    assert memory.messages() == list(ended.answer.messages)


def test_a_second_cut_off_in_a_row_ends_the_run_with_a_typed_error(mode: Mode) -> None:
    doing, memory = Doing(), MessageWindow(50)
    ended = mode.play(cut(HALF), cut(HALF), cut(HALF), tools=[doing], memory=memory)
    assert isinstance(ended.error, ReplyCutOffError) and "max_output_tokens" in str(ended.error)
    assert (doing.done, len(ended.requests)) == ([], 2)
    assert memory.messages() == list(ended.messages)
    assert len(ended.messages) == 5


def test_after_a_round_that_worked_a_cut_off_may_happen_again(mode: Mode) -> None:
    ended = mode.play(cut(HALF), ask(WHOLE), cut(HALF), say("Done"), tools=[Doing()])
    assert ended.answer.output == "Done"


@pytest.mark.parametrize("room", [100, None])
def test_the_model_gets_twice_the_room_after_a_cut_off(mode: Mode, room: int | None) -> None:
    parameters = ChatParameters() if room is None else ChatParameters(max_output_tokens=room)
    ended = mode.play(cut(HALF), say("Done"), tools=[Doing()], chat_parameters=parameters)
    sent = [request.parameters.max_output_tokens for request in ended.requests]
    assert sent == ([100, 200] if room else [parameters.max_output_tokens] * 2)


def test_an_answer_that_was_cut_off_is_an_answer(mode: Mode) -> None:
    ended = mode.play(ChatResponse(AssistantMessage("Once upon"), None, FinishReason.LENGTH))
    assert (ended.answer.output, ended.answer.finish_reason) == ("Once upon", FinishReason.LENGTH)


# ---------------------------------------------------------------- empty replies

EMPTY = ChatResponse(AssistantMessage(), Usage(1, 0), FinishReason.TOOL_EXECUTION)


def test_a_reply_that_says_it_has_calls_and_has_none_is_asked_for_once_more(mode: Mode) -> None:
    ended = mode.play(EMPTY, say("Here", usage=Usage(1, 1)))
    assert ended.answer.output == "Here"
    assert ended.requests[0] == ended.requests[1]
    assert ended.answer.messages == (UserMessage.of("Go"), AssistantMessage("Here"))
    assert ended.answer.usage == Usage(2, 1)


def test_a_second_empty_reply_ends_the_run_with_a_typed_error(mode: Mode) -> None:
    memory = MessageWindow(10)
    ended = mode.play(EMPTY, EMPTY, EMPTY, memory=memory)
    assert isinstance(ended.error, EmptyReplyError)
    assert (len(ended.requests), memory.messages()) == (2, [UserMessage.of("Go")])


# ---------------------------------------------------------------- calls that the provider has run

SEARCHED = ToolCall("s", "web_search", '{"q": "x"}', executed_by_provider=True)


def test_a_call_that_the_provider_has_run_is_kept_and_not_run_again(mode: Mode) -> None:
    response = ChatResponse(AssistantMessage("Found it", (SEARCHED,)), None, FinishReason.TOOL_EXECUTION)
    ended = mode.play(response, tools=[Doing()])
    assert ended.answer.output == "Found it"
    assert ended.answer.messages == (UserMessage.of("Go"), AssistantMessage("Found it", (SEARCHED,)))
    assert ended.answer.executions == ()


@pytest.mark.parametrize("repeat", ["safe", "never"])
@pytest.mark.parametrize("order", [(SEARCHED, WHOLE), (WHOLE, SEARCHED), (SEARCHED, WHOLE, SEARCHED, WHOLE)])
def test_next_to_a_call_that_the_provider_has_run_ours_runs_once(
    mode: Mode, order: tuple[ToolCall, ...], repeat: Any
) -> None:
    done: list[str] = []

    @tool(repeat=repeat)
    def do(what: str) -> str:
        done.append(what)
        return f"did {what}"

    ended = mode.play(ask(*order), say("Done"), tools=[do])
    ours = [c for c in order if c is WHOLE]
    assert done == ["x"] * len(ours)
    assert ended.requests[1].messages[1:] == (AssistantMessage(None, order), *[answer_of(c, "did x") for c in ours])
    assert [e.call for e in ended.executions] == ours
