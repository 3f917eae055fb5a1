"""The memories of an agent's conversations: one for everyone, or one for each id (spec 13.7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from ._options import is_memory
from .errors import UserError
from .memory._base import ChatMemory

__all__ = ["Memories"]


class Memories:
    """Finds the memory of a conversation; one that is made for an id is made once. Thread-safe."""

    def __init__(self, memory: ChatMemory | Callable[[Any], ChatMemory] | None) -> None:
        self._shared = cast("ChatMemory | None", memory) if is_memory(memory) else None
        self._make = None if memory is None or is_memory(memory) else cast("Callable[[Any], Any]", memory)
        self._made: dict[Any, ChatMemory] = {}
        self._lock = threading.Lock()

    @property
    def are_there(self) -> bool:
        """Whether any conversation has a memory."""
        return self._shared is not None or self._make is not None

    def of(self, memory_id: Any) -> ChatMemory | None:
        """The memory of that conversation; nothing if the agent has none. Raises ``UserError`` for an unfit id."""
        if self._make is None:
            if self._shared is not None and memory_id != "default":
                raise UserError(
                    f"memory_id={memory_id!r}, but this agent has one memory for everyone; "
                    "give Agent(memory=…) a function that makes a memory for an id"
                )
            return self._shared
        try:
            hash(memory_id)
        except TypeError as error:
            raise UserError(f"memory_id={memory_id!r} has no hash; give text or a number") from error
        with self._lock:
            if memory_id not in self._made:
                made = self._make(memory_id)
                if not is_memory(made):
                    raise UserError(f"memory={self._make!r} made {made!r}; expected a ChatMemory")
                self._made[memory_id] = made
            return self._made[memory_id]

    def wrapped(self, wrap: Callable[[ChatMemory], ChatMemory]) -> Memories:
        """The same, each memory wrapped by that function; nothing made so far is shared."""
        if self._shared is not None:
            return Memories(wrap(self._shared))
        make = self._make
        return Memories(None if make is None else lambda memory_id: wrap(make(memory_id)))
