"""Asks a model for one reply in each of the four ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from surehand.messages import ChatRequest, ChatResponse, ResponseDone, StreamPiece
from surehand.models import ChatModel

Ask = Callable[[ChatModel, ChatRequest], ChatResponse]


def pieces_of(model: ChatModel, request: ChatRequest) -> list[StreamPiece]:
    """All pieces of a blocking stream."""
    return list(model.stream(request))


def async_pieces_of(model: ChatModel, request: ChatRequest) -> list[StreamPiece]:
    """All pieces of an awaitable stream."""

    async def collect() -> list[StreamPiece]:
        pieces = [piece async for piece in model.astream(request)]
        await _release(model)
        return pieces

    return asyncio.run(collect())


def _awaited(model: ChatModel, request: ChatRequest) -> ChatResponse:
    async def once() -> ChatResponse:
        try:
            return await model.agenerate(request)
        finally:
            await _release(model)

    return asyncio.run(once())


def _streamed(model: ChatModel, request: ChatRequest) -> ChatResponse:
    return _last(pieces_of(model, request))


def _streamed_async(model: ChatModel, request: ChatRequest) -> ChatResponse:
    return _last(async_pieces_of(model, request))


def _last(pieces: list[StreamPiece]) -> ChatResponse:
    assert [isinstance(piece, ResponseDone) for piece in pieces].index(True) == len(pieces) - 1
    done = pieces[-1]
    assert isinstance(done, ResponseDone)
    return done.response


async def _release(model: ChatModel) -> None:
    # Connections belong to the loop that asyncio.run is about to close; a model in this process has none.
    if model.provider != "local":
        await model.aclose()


WAYS: dict[str, Ask] = {
    "generate": lambda model, request: model.generate(request),
    "agenerate": _awaited,
    "stream": _streamed,
    "astream": _streamed_async,
}
