"""Results that nobody has read yet, and what stands for one that cannot be encoded (spec 5.2). Pure values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from .messages import Message, ToolCall, ToolMessage
from .tools._tool import ToolExecution, ToolResult

__all__ = ["Careful", "Unread", "careful", "read", "unshowable"]


class Careful(Struct, frozen=True, eq=False):
    """Asks a lazy result's supplier, and says in words what cannot be encoded: whoever reads it must not fail."""

    call: ToolCall
    value: Any
    supplier: Callable[[], str | None]

    def __call__(self) -> str | None:
        try:
            return self.supplier()
        except Exception:
            return unshowable(self.call, self.value).text


def careful(result: ToolResult, call: ToolCall) -> ToolResult:
    """The result of a call, safe to be read by anybody at any time."""
    if result.is_encoded or result.supplier is None:
        return result
    return replace(result, supplier=Careful(call, result.value, result.supplier))


class Unread(Struct, frozen=True, eq=False):
    """Stands among a run's messages for one whose result nobody has asked for yet (spec 5.2)."""

    execution: ToolExecution[Any]
    call: ToolCall

    @property
    def message(self) -> ToolMessage:
        """The message, made now."""
        return self.execution.result.to_message(self.call)


def read(messages: Sequence[Message | Unread]) -> tuple[Message, ...]:
    """The messages, each of them encoded."""
    return tuple(entry.message if isinstance(entry, Unread) else entry for entry in messages)


def unshowable(call: ToolCall, value: Any) -> ToolResult:
    """For a value that cannot be encoded: the effect is real, so the call stays done and can be undone."""
    what = f"{type(value).__name__} cannot be encoded"
    text = f"Tool {call.name!r} did run, but its result cannot be shown: {what}. Do not repeat the call."
    return replace(ToolResult.error(text), value=value)
