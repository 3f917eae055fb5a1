"""What the blocking and the awaitable performer share: what a streaming model yields, and the schedule of a round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from ._books import Round, Run
from ._effects import CallModel, Core
from ._schedule import Schedule, width_of
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

__all__ = ["Model", "Performer", "broken_stream", "unfit_stream"]


class Model(Protocol):
    """What a performer needs of a model; ``models.ChatModel`` is the class to subclass."""

    def generate(self, request: ChatRequest) -> ChatResponse: ...

    async def agenerate(self, request: ChatRequest) -> ChatResponse: ...

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]: ...

    def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]: ...


def _event_of(run: Run, piece: StreamPiece) -> Event | None:
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


class Performer:
    """What both performers do alike: take a model's pieces, start calls early, keep the schedule of the round."""

    def __init__(self, run: Run, model: Model) -> None:
        self._run = run
        self._model = model
        self._schedule: Schedule | None = None

    def _take(self, effect: CallModel, piece: StreamPiece) -> None:
        event = _event_of(self._run, piece)
        if event is not None:
            self._run.emit(event)
        if isinstance(piece, ToolCallReady):
            core, round_ = effect.start(piece.index, piece.call), self._run.round
            if core is not None and round_ is not None:
                self.begin(round_, piece.index, core)

    def begin(self, round_: Round, slot: int, core: Core[None]) -> None:
        """Run the core of a call of that round now, beside everything else."""
        self._schedule_of(round_).started(slot)
        self._start(slot, core)

    def _schedule_of(self, round_: Round) -> Schedule:
        if self._schedule is None or self._schedule.round is not round_:
            self._schedule = Schedule(round_, self._run.toolset.tools, width_of(self._run.parallel))
        return self._schedule

    def _start(self, slot: int, core: Core[None]) -> None:
        """Run the core of a call beside everything else, and see to it that its slot is settled when it has ended."""
        raise NotImplementedError
