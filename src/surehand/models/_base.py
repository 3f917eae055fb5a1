"""The model boundary: what the loop needs of a model, and bridges for models that have only one colour.

An adapter overrides ``generate`` or ``agenerate`` (or both) and may override ``stream`` and ``astream``;
whatever is missing is made from what is there, so that every model works in every mode.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from .._checks import checked_response, is_async
from .._colour import portal, run_in_pool
from ..errors import UserError
from ..messages import (
    ChatParameters,
    ChatRequest,
    ChatResponse,
    ReasoningPiece,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCallReady,
)

__all__ = ["ChatModel"]


class ChatModel:
    """A chat model (spec 2.7). Subclass it and override ``generate`` or ``agenerate``.

    ``name`` and ``provider`` identify the model in records and traces; ``defaults`` are parameters that a
    request may override (spec 2.6.6).
    """

    name: str = "model"
    provider: str = "custom"
    defaults: ChatParameters = ChatParameters()

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, blocking."""
        self._require("agenerate")
        return portal().call(self.agenerate(request))

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, awaitable. Cancelling it aborts the exchange where the provider allows that."""
        self._require("generate")
        return await asyncio.wrap_future(run_in_pool(self.generate, request))

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        """The reply in pieces, the last one a ``ResponseDone``; closing the iterator ends the exchange."""
        if type(self).astream is not ChatModel.astream:
            yield from portal().iterate(self.astream(request))
        else:
            yield from whole_reply_as_pieces(self.generate(request))

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        """The reply in pieces, awaitable; see ``stream``."""
        for piece in whole_reply_as_pieces(await self.agenerate(request)):
            yield piece

    def close(self) -> None:
        """Release connections; the model cannot be used afterwards."""

    async def aclose(self) -> None:
        """Release connections; the awaitable form of ``close``."""
        self.close()

    def _require(self, other: str) -> None:
        # Without this check a model that overrides neither would call itself for ever.
        if getattr(type(self), other) is getattr(ChatModel, other):
            raise UserError(f"{type(self).__name__} must override generate() or agenerate()")


def colours_checked(model: ChatModel) -> ChatModel:
    """The model; raises ``UserError`` if an async method stands under a blocking one's name."""
    for name in ("generate", "stream"):
        if is_async(getattr(model, name)):
            raise UserError(f"{type(model).__name__}.{name} is async; name it a{name}, or make it a plain function")
    return model


def whole_reply_as_pieces(response: ChatResponse) -> Iterator[StreamPiece]:
    """A complete reply in the form of a stream."""
    message = checked_response(response).message
    if message.reasoning:
        yield ReasoningPiece(message.reasoning)
    if message.text:
        yield TextPiece(message.text)
    for index, call in enumerate(message.tool_calls):
        yield ToolCallReady(index, call)
    yield ResponseDone(response)
