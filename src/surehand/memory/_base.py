"""What a conversation's memory must be able to do (spec 13.1), and where messages may be stored (spec 13.6)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..messages import Message

__all__ = ["ChatMemory", "InProcessStore", "MessageStore"]


@runtime_checkable
class ChatMemory(Protocol):
    """The messages of one conversation, across runs.

    A memory may also offer awaitable twins (``aadd``, ``aadd_all``, ``amessages``, ``aset``), which the
    awaitable modes prefer; without them it is used on a worker thread there. ``offload = False`` forbids that,
    ``inline = True`` says that nothing in it blocks.
    """

    id: Any

    def add(self, message: Message, /) -> None:
        """Add one message at the end."""
        ...

    def add_all(self, messages: Sequence[Message], /) -> None:
        """Add several messages as one batch."""
        ...

    def set(self, messages: Sequence[Message], /) -> None:
        """Replace everything; used when results of undone calls are corrected."""
        ...

    def messages(self) -> list[Message]:
        """What a model may be shown now: possibly fewer messages than were added."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


@runtime_checkable
class MessageStore(Protocol):
    """Keeps whole conversations by id. What it gives is a copy: changing that changes nothing in the store."""

    def get(self, id: Any, /) -> list[Message]: ...

    def update(self, id: Any, messages: Sequence[Message], /) -> None: ...

    def delete(self, id: Any, /) -> None: ...


class InProcessStore:
    """Conversations in this process's own memory. Thread-safe."""

    inline = True

    def __init__(self) -> None:
        self._conversations: dict[Any, tuple[Message, ...]] = {}
        self._lock = threading.Lock()

    def get(self, id: Any, /) -> list[Message]:
        """The conversation's messages; an unknown one has none."""
        return list(self._conversations.get(id, ()))

    def update(self, id: Any, messages: Sequence[Message], /) -> None:
        """Replace the conversation's messages."""
        with self._lock:
            self._conversations[id] = tuple(messages)

    def delete(self, id: Any, /) -> None:
        """Forget the conversation."""
        with self._lock:
            self._conversations.pop(id, None)
