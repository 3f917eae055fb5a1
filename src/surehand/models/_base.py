"""The model boundary: what the loop needs of a model, and bridges for models that have only one colour.

An adapter overrides at least one of ``generate``, ``agenerate``, ``stream`` and ``astream``; whatever is missing is
made from what is there, so that every model works in every mode.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from .._checks import checked_response, is_async
from .._colour import from_thread, portal, run_in_pool
from .._pieces import broken_stream
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
    """A chat model (spec 2.7). Subclass it and override at least one of the four methods.

    ``name`` and ``provider`` identify the model in records and traces; ``defaults`` are parameters that a
    request may override (spec 2.6.6). ``supports_json_schema``: its answers fit a ``response_format`` with a schema,
    also beside tools; then ``Agent(output=…)`` makes use of it. A blocking method that is used in an awaitable mode
    runs on a worker thread.
    """

    name: str = "model"
    provider: str = "custom"
    defaults: ChatParameters = ChatParameters()
    supports_json_schema: bool = False

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, blocking."""
        if self._has("agenerate"):
            return portal().call(self.agenerate(request))
        if self._has("stream") or self._has("astream"):
            return end_of(self.stream(request))
        # Without this, a model that overrides nothing would call itself for ever.
        raise UserError(f"{type(self).__name__} must override generate(), agenerate(), stream() or astream()")

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, awaitable. Cancelling it aborts the exchange where the provider allows that."""
        if self._has("astream") and not self._has("generate"):
            async for piece in self.astream(request):
                if isinstance(piece, ResponseDone):
                    return piece.response
            raise broken_stream()
        return await from_thread(run_in_pool(self.generate, request))

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        """The reply in pieces, the last one a ``ResponseDone``; closing the iterator ends the exchange."""
        if self._has("astream"):
            yield from portal().iterate(self.astream(request))
        else:
            yield from whole_reply_as_pieces(self.generate(request))

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        """The reply in pieces, awaitable; see ``stream``."""
        if not self._has("stream"):
            for piece in whole_reply_as_pieces(await self.agenerate(request)):
                yield piece
            return
        pieces = self.stream(request)
        try:
            while True:
                taken = await from_thread(run_in_pool(_next, pieces))
                if taken is None:
                    return
                yield taken
        finally:
            closing = getattr(pieces, "close", None)
            if closing is not None:
                closing()

    def _has(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(ChatModel, name)

    def close(self) -> None:
        """Release connections; the model cannot be used afterwards."""

    async def aclose(self) -> None:
        """Release connections; the awaitable form of ``close``."""
        self.close()


def _next(pieces: Iterator[StreamPiece]) -> StreamPiece | None:
    return next(pieces, None)


def end_of(pieces: Iterator[StreamPiece]) -> ChatResponse:
    """The response at the end of a stream; a stream without an end raises ``NetworkError``."""
    for piece in pieces:
        if isinstance(piece, ResponseDone):
            return piece.response
    raise broken_stream()


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
