"""The ledger: which finished calls can be undone, in the order in which they finished (spec 11.2, 11.7).

It is the one place where a call that completes and a run that is given up meet. Whoever takes an entry out has it
alone, and whoever claims an effect undoes it alone, so nothing is undone twice; whoever comes after the close is told
so, so nothing is lost.
No code of the user's runs while the lock is held.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from .tools._tool import Tool, ToolContext, ToolExecution, UndoOutcome

__all__ = ["Entry", "Ledger"]


class Entry(Struct, frozen=True, eq=False):
    """A finished call that can be undone."""

    tool: Tool
    execution: ToolExecution[Any]
    arguments: dict[str, Any]
    context: ToolContext[Any]

    @property
    def effect(self) -> str:
        """What names the effect: a model that asks again gets the same key, and so the same effect."""
        return self.context.idempotency_key


class Ledger(Struct, eq=False):
    """Entries in order of completion."""

    closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: list[Entry] = []
    _sharers: dict[str, list[str]] = {}  # the keys of the calls that share an effect
    _undone: dict[str, UndoOutcome | None] = {}  # effects whose undoing has begun, and what became of it

    def add(self, entry: Entry) -> bool:
        """Enter a finished call; false when the ledger is closed, which leaves the entry to the caller."""
        with self._lock:
            # The call that first had the key may never have been known to be done: it shares the effect all the same.
            sharers = self._sharers.setdefault(entry.effect, [entry.effect.rpartition(":")[2]])
            if entry.execution.key not in sharers:
                sharers.append(entry.execution.key)
            if self.closed:
                return False
            self._entries.append(entry)
            return True

    def waiting(self, keys: Collection[str] | None = None) -> list[Entry]:
        """What ``take`` would give, left where it is."""
        with self._lock:
            return [entry for entry in self._entries if keys is None or entry.execution.key in keys][::-1]

    def take(self, keys: Collection[str] | None = None) -> list[Entry]:
        """All entries, or those of the calls with these keys, newest first; the ledger stays open without them."""
        with self._lock:
            taken = [entry for entry in self._entries if keys is None or entry.execution.key in keys]
            self._entries = [entry for entry in self._entries if entry not in taken] if keys is not None else []
            return taken[::-1]

    def claim(self, entry: Entry) -> bool:
        """Whether it falls to the caller to undo the entry's effect: true once, whichever calls share the effect."""
        with self._lock:
            if entry.effect in self._undone:
                return False
            self._undone[entry.effect] = None
            return True

    def settle(self, entry: Entry, outcome: UndoOutcome) -> list[str]:
        """Note what became of undoing a claimed effect; gives the keys of the calls that share it."""
        with self._lock:
            self._undone[entry.effect] = outcome
            return list(self._sharers.get(entry.effect, (entry.execution.key,)))

    def outcome(self, entry: Entry) -> UndoOutcome | None:
        """What became of undoing the entry's effect, once that is known."""
        with self._lock:
            return self._undone.get(entry.effect)

    def close(self) -> list[Entry]:
        """All entries, newest first; nothing can be entered any more."""
        with self._lock:
            self.closed = True
            entries, self._entries = self._entries[::-1], []
            return entries
