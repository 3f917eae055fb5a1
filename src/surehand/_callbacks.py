"""Callbacks on a stream (spec 7.8.2): thin sugar over its events, one registration of each kind, validated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Self

from msgspec.structs import replace

from .errors import UserError
from .events import (
    Event,
    ProviderEventReceived,
    ReasoningDelta,
    ResponseReceived,
    RunCancelledEvent,
    RunFailed,
    RunFinished,
    TextDelta,
    ToolCallDelta,
    ToolExecuted,
    ToolStarted,
)
from .tools._tool import Outcome

__all__ = ["Callbacks"]

_log = logging.getLogger("surehand")

_Give = Callable[[Any], Any]

# What a callback of each kind is given; nothing when the event is not one for it.
_GIVES: dict[str, tuple[type, _Give]] = {
    "text": (TextDelta, lambda event: event.text),
    "reasoning": (ReasoningDelta, lambda event: event.text),
    "tool_call": (ToolCallDelta, lambda event: event),
    "intermediate_response": (
        ResponseReceived,
        lambda event: event.response if event.response.message.tool_calls else None,
    ),
    "before_tool": (ToolStarted, lambda event: event.call),
    "tool_executed": (ToolExecuted, lambda event: event.execution),
    "provider_event": (ProviderEventReceived, lambda event: event.raw),
    "complete": (RunFinished, lambda event: replace(event.response, usage=event.usage)),
}


class Callbacks:
    """Registrations of a stream. Each takes a function; ``with_run=True`` gives it the stream too, to cancel it."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[Callable[..., Any], bool]] = {}
        self._on_error: Callable[[BaseException], Any] | None = None
        self._ignores_errors = False
        # A reply that asks for tools is held back until the next event shows that no limit refused it (spec 7.8.2).
        self._held: ResponseReceived | None = None

    def on_text(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each piece of text."""
        return self._register("text", function, with_run)

    def on_reasoning(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each piece of reasoning."""
        return self._register("reasoning", function, with_run)

    def on_tool_call(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each ``ToolCallDelta``."""
        return self._register("tool_call", function, with_run)

    def on_intermediate_response(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each ``ChatResponse`` that asks for tools."""
        return self._register("intermediate_response", function, with_run)

    def on_before_tool(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each ``ToolCall`` whose body is about to run."""
        return self._register("before_tool", function, with_run)

    def on_tool_executed(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with each ``ToolExecution``, in request order."""
        return self._register("tool_executed", function, with_run)

    def on_provider_event(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with what a provider sent that has no event of ours."""
        return self._register("provider_event", function, with_run)

    def on_complete(self, function: Callable[..., Any], *, with_run: bool = False) -> Self:
        """Call it with the final ``ChatResponse``, whose usage is that of the whole run."""
        return self._register("complete", function, with_run)

    def on_error(self, function: Callable[[BaseException], Any]) -> Self:
        """Call it, once, with what ended the run or with what a callback raised."""
        if self._on_error is not None:
            raise UserError("on_error is registered already; each callback can be registered once")
        self._on_error = function
        return self

    def ignore_errors(self) -> Self:
        """Log errors as warnings instead of having an ``on_error``."""
        self._ignores_errors = True
        return self

    def _register(self, kind: str, function: Callable[..., Any], with_run: bool) -> Self:
        if kind in self._functions:
            raise UserError(f"on_{kind} is registered already, with or without with_run=; it can be registered once")
        self._functions[kind] = (function, with_run)
        return self

    def _check(self) -> None:
        if (self._on_error is not None) == self._ignores_errors:
            raise UserError(
                "a stream that is started with callbacks needs exactly one of on_error(…) and ignore_errors()"
            )

    def _told(self, event: Event) -> Iterator[Any]:
        """Calls whoever registered for the event; gives what they return, which may be awaitable."""
        if event.path:
            return  # callbacks are about this run; what agents do that it calls is in its events
        if isinstance(event, ResponseReceived) and event.response.message.tool_calls:
            self._held = event
            return
        held, self._held = self._held, None
        if held is not None and not _refuses(event):
            yield from self._tell(held)
        yield from self._tell(event)

    def _tell(self, event: Event) -> Iterator[Any]:
        for kind, (function, with_run) in self._functions.items():
            event_type, give = _GIVES[kind]
            if isinstance(event, event_type):
                value = give(event)
                if value is not None:
                    yield function(value, self) if with_run else function(value)

    def _failed(self, error: BaseException) -> None:
        if self._on_error is None:
            _log.warning("a stream failed and its errors are ignored", exc_info=error)
            return
        try:
            self._on_error(error)
        except Exception:
            _log.exception("on_error itself failed, on this error: %r", error)


def _refuses(event: Event) -> bool:
    """Whether the event says that the reply before it was refused: none of its calls has been run."""
    if isinstance(event, ToolExecuted):
        return event.execution.outcome is Outcome.NOT_RUN
    return isinstance(event, RunFailed | RunCancelledEvent)
