"""A memory of the latest messages that never parts a call from its result (spec 13.2, 13.4, 13.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from .._checks import is_count
from ..errors import UserError
from ..messages import AssistantMessage, Message, SystemMessage, ToolMessage
from ._base import InProcessStore, MessageStore

__all__ = ["MessageWindow"]


class MessageWindow:
    """The latest ``max_messages`` messages of a conversation (or what that function of the id says).

    The system message is protected wherever it stands; at most one is kept. A reply with calls and the results of
    those calls come and go together, and the latest exchange is kept whole even if it is larger than the window.
    ``store`` keeps the messages; by default they live in this object.
    """

    def __init__(
        self,
        max_messages: int | Callable[[Any], int],
        *,
        id: Any = "default",
        store: MessageStore | None = None,
        system_first: bool = False,
    ) -> None:
        self.id = id
        self._max = max_messages
        self._store: MessageStore = InProcessStore() if store is None else store
        self._system_first = system_first
        self._lock = threading.RLock()
        self.inline = bool(getattr(self._store, "inline", False))
        if not callable(max_messages):
            self._limit()

    def add(self, message: Message, /) -> None:
        """Add one message."""
        self.add_all((message,))

    def add_all(self, messages: Sequence[Message], /) -> None:
        """Add messages in order as one batch, evicting once at the end."""
        with self._lock:
            kept = self.messages()
            for message in messages:
                _insert(kept, message, self._system_first)
            self._store.update(self.id, _evicted(kept, self._limit()))

    def set(self, messages: Sequence[Message], /) -> None:
        """Replace everything; an empty list is a ``UserError`` (``clear`` forgets)."""
        if not messages:
            raise UserError("MessageWindow.set([]): expected at least one message; use clear() to forget everything")
        with self._lock:
            self._store.update(self.id, _evicted(list(messages), self._limit()))

    def messages(self) -> list[Message]:
        """The messages in the window; what is stored is not changed by looking."""
        return _evicted(self._store.get(self.id), self._limit())

    def clear(self) -> None:
        """Forget everything."""
        self._store.delete(self.id)

    def _limit(self) -> int:
        limit = self._max(self.id) if callable(self._max) else self._max
        if not is_count(limit):
            raise UserError(f"MessageWindow(max_messages={limit!r}): expected a whole number of at least 1")
        return limit


def _insert(kept: list[Message], message: Message, system_first: bool) -> None:
    if isinstance(message, SystemMessage):
        if message in kept:
            return
        kept[:] = [other for other in kept if not isinstance(other, SystemMessage)]
        if system_first:
            kept.insert(0, message)
            return
    kept.append(message)


def _evicted(messages: list[Message], limit: int) -> list[Message]:
    """The messages without the oldest ones that are too many, and without results whose call is gone."""
    if len(messages) <= limit:
        return _without_orphans(messages)
    groups = _exchanges(messages)
    excess = len(messages) - limit
    dropped: set[int] = set()
    for group in groups:
        if excess <= 0 or (group is groups[-1] and _is_kept_whole(messages, group, dropped)):
            break
        if isinstance(messages[group[0]], SystemMessage):
            continue
        dropped.update(group)
        excess -= len(group)
    return _without_orphans([message for index, message in enumerate(messages) if index not in dropped])


def _is_kept_whole(messages: Sequence[Message], latest: list[int], dropped: set[int]) -> bool:
    # A run that has just asked for tools needs that reply; any other message gives way to a system message
    # (spec 13.2.5), but never to nothing.
    first = messages[latest[0]]
    asks = isinstance(first, AssistantMessage) and first.has_tool_calls
    return asks or len(dropped) + len(latest) == len(messages)


def _exchanges(messages: Sequence[Message]) -> list[list[int]]:
    """Indices that have to stay together: a message, with the results that follow it if it asked for tools."""
    groups: list[list[int]] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage) and groups:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _without_orphans(messages: list[Message]) -> list[Message]:
    """The messages without results that no call of the reply before them asked for, wherever they stand."""
    if all(not isinstance(message, ToolMessage) for message in messages):
        return messages
    kept: list[Message] = []
    open_calls = 0
    for message in messages:
        if isinstance(message, ToolMessage):
            if open_calls == 0:
                continue
            open_calls -= 1
        else:
            calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
            open_calls = sum(not call.executed_by_provider for call in calls)
        kept.append(message)
    return kept
