"""The OpenAI adapter against llama.cpp's server, which decodes valid calls for real, in every mode."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from surehand.errors import ContextLengthError
from surehand.messages import (
    AssistantMessage,
    ChatParameters,
    ChatRequest,
    FinishReason,
    ResponseDone,
    StreamPiece,
    TextContent,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from surehand.models import ChatModel
from surehand.models.openai import OpenAIChat

from .asking import WAYS, async_pieces_of, pieces_of

Pieces = Callable[[ChatModel, ChatRequest], list[StreamPiece]]

WEATHER = ToolSpec(
    "get weather",  # not a name that the wire takes
    "Tells the weather.",
    {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]},
)
TIMER = ToolSpec("set_timer", None, {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]})
REQUEST = ChatRequest(
    (UserMessage.of("What is the weather?"),),
    ChatParameters(
        tools=(WEATHER, TIMER),
        tool_choice=ToolChoice.REQUIRED,
        max_output_tokens=2000,
        extra={"parallel_tool_calls": False},
    ),
)


@pytest.fixture
def model(llama_server: str) -> Iterator[OpenAIChat]:
    model = OpenAIChat("tiny", base_url=llama_server, max_retries=0)
    yield model
    model.close()


def assert_valid_calls(message: AssistantMessage) -> None:
    """One call or more: the server samples, and lets about one reply in eighty make two whatever was asked of it."""
    assert message.tool_calls
    for call in message.tool_calls:
        arguments = json.loads(call.arguments)
        if call.name == "get weather":
            assert arguments in ({"city": "Rome"}, {"city": "Oslo"})
        else:
            assert call.name == "set_timer"
            assert arguments in ({"on": True}, {"on": False})
        assert call.id


@pytest.mark.parametrize("way", WAYS)
def test_each_mode_gives_valid_calls_of_an_offered_tool(model: ChatModel, way: str) -> None:
    response = WAYS[way](model, REQUEST)
    assert_valid_calls(response.message)
    assert response.finish_reason is FinishReason.TOOL_EXECUTION
    assert response.usage is not None
    assert response.usage.input
    assert response.usage.output
    assert response.id
    assert response.model


@pytest.mark.parametrize("pieces", [pieces_of, async_pieces_of], ids=["stream", "astream"])
def test_the_pieces_of_a_stream_add_up_to_its_calls(model: ChatModel, pieces: Pieces) -> None:
    *parts, done = pieces(model, REQUEST)
    assert isinstance(done, ResponseDone)
    calls = done.response.message.tool_calls
    assert [part for part in parts if isinstance(part, ToolCallReady)] == [
        ToolCallReady(index, call) for index, call in enumerate(calls)
    ]
    arguments = [""] * len(calls)
    for part in parts:
        if isinstance(part, ToolCallPiece):
            assert (part.id, part.name) == (calls[part.index].id, calls[part.index].name)
            arguments[part.index] += part.arguments
    assert arguments == [call.arguments for call in calls]


@pytest.mark.parametrize("way", WAYS)
def test_a_history_with_broken_calls_is_accepted(model: ChatModel, way: str) -> None:
    response = WAYS[way](model, ChatRequest((*REQUEST.messages, *_broken_round()), REQUEST.parameters))
    assert_valid_calls(response.message)


def _broken_round() -> tuple[AssistantMessage, ToolMessage]:
    said = AssistantMessage(tool_calls=(ToolCall(None, "get weather", "{'city'"), ToolCall("", "", "")))
    return said, ToolMessage(None, "get weather", (TextContent("those are no arguments"),))


def test_one_model_serves_several_event_loops_and_a_blocking_caller(model: ChatModel) -> None:
    request = ChatRequest((UserMessage.of("hi"),), ChatParameters(max_output_tokens=3))

    async def ask() -> FinishReason | None:
        both = await asyncio.gather(model.agenerate(request), model.agenerate(request))
        await model.aclose()
        assert both[0].finish_reason is both[1].finish_reason
        return both[0].finish_reason

    reasons = [asyncio.run(ask()), asyncio.run(ask()), model.generate(request).finish_reason]
    assert reasons == [FinishReason.LENGTH] * 3


def test_the_context_length_is_told_apart(model: ChatModel) -> None:
    with pytest.raises(ContextLengthError, match="context size"):
        model.generate(ChatRequest((UserMessage.of("word " * 9000),)))
