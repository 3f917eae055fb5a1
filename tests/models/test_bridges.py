"""A model that has one of the four methods works in all four ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    NetworkError,
    ResponseDone,
    StreamPiece,
    TextPiece,
    UserError,
)

REPLY = ChatResponse(AssistantMessage("one two"))
PIECES: list[StreamPiece] = [TextPiece("one "), TextPiece("two"), ResponseDone(REPLY)]


class Generates(ChatModel):
    def generate(self, request: ChatRequest) -> ChatResponse:
        return REPLY


class GeneratesAwaitably(ChatModel):
    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        await asyncio.sleep(0)
        return REPLY


class Streams(ChatModel):
    pieces = PIECES

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        yield from self.pieces


class StreamsAwaitably(ChatModel):
    pieces = PIECES

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        for piece in self.pieces:
            await asyncio.sleep(0)
            yield piece


def text_in(way: str, model: ChatModel) -> tuple[str | None, list[str]]:
    """The output and the pieces of text; ways that do not stream have none."""
    agent = Agent(model)
    if way == "run":
        return agent.run("go").output, []
    if way == "arun":
        return asyncio.run(agent.arun("go")).output, []
    if way == "stream":
        with agent.stream("go") as run:
            pieces = list(run.text())
        return run.result.output, pieces

    async def read() -> tuple[str | None, list[str]]:
        async with agent.astream("go") as run:
            pieces = [piece async for piece in run.text()]
        return run.result.output, pieces

    return asyncio.run(read())


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
@pytest.mark.parametrize("kind", [Generates, GeneratesAwaitably, Streams, StreamsAwaitably])
def test_one_method_is_enough_for_every_way(kind: type[ChatModel], way: str) -> None:
    whole = [] if way in ("run", "arun") else ["one ", "two"] if kind in (Streams, StreamsAwaitably) else ["one two"]
    assert text_in(way, kind()) == ("one two", whole)


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
@pytest.mark.parametrize("kind", [Streams, StreamsAwaitably])
def test_a_stream_without_an_end_is_an_incomplete_reply_in_every_way(kind: type[Streams], way: str) -> None:
    model = kind()
    model.pieces = PIECES[:-1]
    with pytest.raises(NetworkError, match="without a ResponseDone"):
        text_in(way, model)


@pytest.mark.parametrize("way", ["run", "arun", "stream", "astream"])
def test_a_model_with_none_of_the_methods_is_told_which_there_are(way: str) -> None:
    with pytest.raises(
        UserError, match=r"Nothing must override generate\(\), agenerate\(\), stream\(\) or astream\(\)"
    ):
        text_in(way, type("Nothing", (ChatModel,), {})())


def test_an_asynchronous_stream_is_taken_only_inside_its_block() -> None:
    async def take() -> None:
        async for _ in Agent(Generates()).astream("go"):
            pass

    with pytest.raises(UserError, match="async with"):
        asyncio.run(take())
