"""The ledger: which finished calls can be undone, in the order in which they finished (spec 11.2, 11.7).

It is the one place where a call that completes and a run that is given up meet. Whoever takes an entry out has it
alone, so nothing is undone twice; whoever comes after the close is told so, so nothing is lost.
No code of the user's runs while the lock is held.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from .tools._tool import Tool, ToolContext, ToolExecution

__all__ = ["Entry", "Ledger"]


class Entry(Struct, frozen=True, eq=False):
    """A finished call that can be undone."""

    tool: Tool
    execution: ToolExecution[Any]
    arguments: dict[str, Any]
    context: ToolContext[Any]


class Ledger(Struct, eq=False):
    """Entries in order of completion."""

    closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: list[Entry] = []

    def add(self, entry: Entry) -> bool:
        """Enter a finished call; false when the ledger is closed, which leaves the entry to the caller."""
        with self._lock:
            if self.closed:
                return False
            self._entries.append(entry)
            return True

    def take(self, keys: Collection[str] | None = None) -> list[Entry]:
        """All entries, or those of the calls with these keys, newest first; the ledger stays open without them."""
        with self._lock:
            taken = [entry for entry in self._entries if keys is None or entry.execution.key in keys]
            self._entries = [entry for entry in self._entries if entry not in taken] if keys is not None else []
            return taken[::-1]

    def close(self) -> list[Entry]:
        """All entries, newest first; nothing can be entered any more."""
        with self._lock:
            self.closed = True
            entries, self._entries = self._entries[::-1], []
            return entries
