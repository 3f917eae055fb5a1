"""What a streaming model yields, turned into events of a run; shared by the blocking and the awaitable performer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from ._books import Run
from .errors import NetworkError, UserError
from .events import Event, ProviderEventReceived, ReasoningDelta, TextDelta, ToolCallComplete, ToolCallDelta
from .messages import (
    ChatRequest,
    ChatResponse,
    ProviderEvent,
    ReasoningPiece,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
)

__all__ = ["Model", "broken_stream", "event_of", "unfit_stream"]


class Model(Protocol):
    """What a performer needs of a model; ``models.ChatModel`` is the class to subclass."""

    def generate(self, request: ChatRequest) -> ChatResponse: ...

    async def agenerate(self, request: ChatRequest) -> ChatResponse: ...

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]: ...

    def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]: ...


def event_of(run: Run, piece: StreamPiece) -> Event | None:
    """The event for a piece; the end of the reply has none of its own (``ResponseReceived`` follows)."""
    run_id, path = run.run_id, run.path
    match piece:
        case TextPiece(text):
            return TextDelta(run_id=run_id, path=path, text=text)
        case ReasoningPiece(text):
            return ReasoningDelta(run_id=run_id, path=path, text=text)
        case ToolCallPiece(index, id_, name, arguments):
            return ToolCallDelta(run_id=run_id, path=path, index=index, id=id_, name=name, arguments=arguments)
        case ToolCallReady(index, ToolCall() as call):
            return ToolCallComplete(run_id=run_id, path=path, index=index, call=call)
        case ProviderEvent(raw):
            return ProviderEventReceived(run_id=run_id, path=path, raw=raw)
        case ResponseDone():
            return None
        case _:
            raise UserError(f"the model's stream gave {piece!r}; expected a piece such as TextPiece or ResponseDone")


def unfit_stream(stream: object) -> UserError:
    """For what is no stream at all."""
    return UserError(f"the model's stream is {stream!r}; expected an iterator of pieces, such as TextPiece")


def broken_stream() -> NetworkError:
    """For a stream that ended without its end."""
    return NetworkError("the model's stream ended without a ResponseDone; the reply is incomplete")
