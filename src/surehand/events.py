"""What a run reports while it goes on: one stream of frozen events, the same in every mode (spec 7.8, 16.2).

Events only report; to change or stop a call, use a hook. Every event carries the run's id and ``path``, which is
empty for the run itself; for the run of an agent that is called as a tool it is the key of that call, such as ``"3.0"``
or, within that one, ``"3.0/1.0"``.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from ._checks import misfit
from ._codec import JsonValue
from .errors import UserError
from .messages import ChatRequest, ChatResponse, ToolCall, Usage
from .tools._tool import Repair, ToolExecution

__all__ = [
    "ArgumentRepaired",
    "Event",
    "LimitWarning",
    "Listeners",
    "ProviderEventReceived",
    "ReasoningDelta",
    "RequestIssued",
    "ResponseReceived",
    "RunCancelledEvent",
    "RunFailed",
    "RunFinished",
    "RunStarted",
    "RunSuspended",
    "TextDelta",
    "ToolCallComplete",
    "ToolCallDelta",
    "ToolExecuted",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "ToolUndone",
    "UndoReason",
]

_log = logging.getLogger("surehand")


class UndoReason(enum.Enum):
    """Why calls were undone (spec 11.6.1)."""

    TOOL_FAILED = "tool_failed"  # another tool failed, under ON_TOOL_ERROR; the run goes on
    RUN_GIVEN_UP = "run_given_up"  # an error, a limit, a model failure
    RUN_CANCELLED = "run_cancelled"


class _Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    """What all events carry."""

    run_id: str
    path: str = ""


class RunStarted(_Event, frozen=True):
    """The run begins; no model has been called yet (spec 16.2.1)."""

    memory_id: Any


class RequestIssued(_Event, frozen=True):
    """A request is about to go to the model (spec 16.2.2). ``number`` counts from 1."""

    number: int
    request: ChatRequest


class TextDelta(_Event, frozen=True):
    """A piece of the model's text."""

    text: str


class ReasoningDelta(_Event, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class ToolCallDelta(_Event, frozen=True):
    """A piece of a call's arguments; ``index`` tells which call of the reply."""

    index: int
    id: str | None
    name: str
    arguments: str


class ToolCallComplete(_Event, frozen=True):
    """The model has finished writing this call; the reply may go on."""

    index: int
    call: ToolCall


class ProviderEventReceived(_Event, frozen=True):
    """Something a provider sent for which there is no event of ours."""

    raw: JsonValue


class ResponseReceived(_Event, frozen=True):
    """The model's reply is complete (spec 16.2.3)."""

    number: int
    request: ChatRequest
    response: ChatResponse


class ArgumentRepaired(_Event, frozen=True):
    """What the model sent was changed so that it could be read: ``repair.path`` is ``name`` or an argument's path."""

    call: ToolCall
    repair: Repair


class ToolStarted(_Event, frozen=True):
    """The body is about to run: arguments were decoded and nobody refused (spec 7.4.1). ``attempt`` counts from 1."""

    key: str
    call: ToolCall
    attempt: int


class ToolProgress(_Event, frozen=True):
    """A running tool tells how far it is."""

    key: str
    call: ToolCall
    value: Any


class ToolFinished(_Event, frozen=True):
    """A call has ended; sent in the order in which tools finish. ``late`` means after its run had given up on it."""

    execution: ToolExecution[Any]
    late: bool = False


class ToolExecuted(_Event, frozen=True):
    """A call of a settled round; sent in request order (spec 16.2.4)."""

    execution: ToolExecution[Any]


class ToolUndone(_Event, frozen=True):
    """Undoing a call was tried; ``execution.undo`` tells whether it worked (spec 16.2.5)."""

    execution: ToolExecution[Any]
    reason: UndoReason


class LimitWarning(_Event, frozen=True):
    """Something was held back or is about to be: the text says what."""

    text: str


class RunFinished(_Event, frozen=True):
    """The run has its answer (spec 16.2.7); ``output`` is ``None`` when tools ended it without one."""

    output: Any
    response: ChatResponse
    usage: Usage | None


class RunFailed(_Event, frozen=True):
    """The run was given up because of ``error`` (spec 16.2.8); what it had done has been dealt with."""

    error: BaseException


class RunCancelledEvent(_Event, frozen=True, tag="RunCancelled"):
    """The run was cancelled (spec 16.2.9); what it had done has been dealt with."""


class RunSuspended(_Event, frozen=True):
    """The run waits: ``pending`` calls need somebody's word. It is not given up, and nothing was undone."""

    pending: tuple[ToolExecution[Any], ...]


Event: TypeAlias = (
    RunStarted
    | RequestIssued
    | TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ToolCallComplete
    | ProviderEventReceived
    | ResponseReceived
    | ArgumentRepaired
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ToolExecuted
    | ToolUndone
    | LimitWarning
    | RunFinished
    | RunFailed
    | RunCancelledEvent
    | RunSuspended
)
"""Anything that a run reports."""

Listener: TypeAlias = Callable[[Any], None]
"""A function of one event."""


class Listeners:
    """Callables that are told about events, in the order in which they were added (spec 16.3). Thread-safe.

    They run inline wherever the event arises, so they have to be quick. What a listener raises is logged and
    ignored, unless ``propagate`` is true: then it ends the run.
    """

    def __init__(self, *listeners: Listener, propagate: bool = False) -> None:
        self._lock = threading.Lock()
        self._entries: tuple[tuple[Listener, tuple[type, ...]], ...] = ()
        self._propagate = propagate
        for listener in listeners:
            self.add(listener)

    def add(self, listener: Listener, *types: type) -> None:
        """Tell the listener about events of these types, or of all; adding the same pair again changes nothing."""
        if not callable(listener):
            raise UserError(f"listener {listener!r} is not callable; pass a function of one event")
        expected = misfit(listener, "event", may_be_async=False)
        if expected is not None:
            raise UserError(f"listener {listener!r}: expected {expected}")
        for kind in types:
            if not isinstance(kind, type):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UserError(f"listener {listener!r}: {kind!r} is no type of event, such as ToolFinished")
        with self._lock:
            if (listener, types) not in self._entries:
                self._entries = (*self._entries, (listener, types))

    def remove(self, listener: Listener) -> None:
        """Tell the listener nothing any more; an unknown one is ignored."""
        with self._lock:
            self._entries = tuple(entry for entry in self._entries if entry[0] != listener)

    def with_more(self, listeners: Iterable[Listener]) -> Listeners:
        """These listeners and more, as a new value: for one run."""
        more = Listeners(propagate=self._propagate)
        more._entries = self._entries
        for listener in listeners:
            more.add(listener)
        return more

    def __len__(self) -> int:
        return len(self._entries)

    def tell(self, event: Event) -> None:
        """Tell everyone who asked for events of this type."""
        for listener, types in self._entries:
            if types and not isinstance(event, types):
                continue
            try:
                listener(event)
            except Exception:
                if self._propagate:
                    raise
                _log.warning("listener %r failed on %s", listener, type(event).__name__, exc_info=True)
