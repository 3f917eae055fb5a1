"""The ledger: which finished calls can be undone, in the order in which they finished (spec 11.2, 11.7).

It is the one place where a call that completes and a run that is given up meet. Whoever takes an entry out has it
alone, and whoever claims an effect undoes it alone, so nothing is undone twice; whoever comes after the close is told
so, so nothing is lost.
No code of the user's runs while the lock is held.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from .tools._tool import Tool, ToolContext, ToolExecution, UndoOutcome

if TYPE_CHECKING:
    from ._books import Run

__all__ = ["Entry", "Ledger"]


class Entry(Struct, frozen=True, eq=False):
    """A finished call that can be undone, and the run in whose books it is."""

    tool: Tool
    execution: ToolExecution[Any]
    arguments: dict[str, Any]
    context: ToolContext[Any]
    run: Run

    @property
    def effect(self) -> str:
        """What names the effect: a model that asks again gets the same key, and so the same effect."""
        return self.context.idempotency_key


class Ledger(Struct, eq=False):
    """Entries in order of completion.

    A run that is part of another has a ``part`` of that one's ledger: the entries are in one list and an effect is
    undone once, whoever undoes it, but what the part takes out or closes is its own calls alone (a savepoint).
    """

    prefix: str = ""  # what the keys of its calls begin with
    whole: Ledger | None = None  # the ledger that it is a part of
    closed: tuple[str, ...] = ()  # the prefixes of the parts that are
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: list[Entry] = []
    _sharers: dict[str, list[str]] = {}  # the keys of the calls that share an effect
    _undone: dict[str, UndoOutcome | None] = {}  # effects whose undoing has begun, and what became of it

    def part(self, prefix: str) -> Ledger:
        """The part of the calls whose keys begin so."""
        return Ledger(prefix, self.whole or self)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be entered any more, in this part."""
        closed = (self.whole or self).closed
        return bool(closed) and self.prefix.startswith(closed)

    def add(self, entry: Entry) -> bool:
        """Enter a finished call; false when the ledger is closed, which leaves the entry to the caller."""
        whole = self.whole or self
        with whole._lock:
            # The call that first had the key may never have been known to be done: it shares the effect all the same.
            sharers = whole._sharers.setdefault(entry.effect, [entry.effect.rpartition(":")[2]])
            if entry.execution.key not in sharers:
                sharers.append(entry.execution.key)
            if self.is_closed:
                return False
            whole._entries.append(entry)
            return True

    def waiting(self, keys: Collection[str] | None = None) -> list[Entry]:
        """What ``take`` would give, left where it is."""
        whole = self.whole or self
        with whole._lock:
            return [entry for entry in whole._entries if self._is_meant(entry, keys)][::-1]

    def take(self, keys: Collection[str] | None = None) -> list[Entry]:
        """All entries, or those of the calls with these keys and of what is part of them, newest first.

        The ledger stays open without them.
        """
        whole = self.whole or self
        with whole._lock:
            taken = [entry for entry in whole._entries if self._is_meant(entry, keys)]
            whole._entries = [entry for entry in whole._entries if not self._is_meant(entry, keys)]
            return taken[::-1]

    def _is_meant(self, entry: Entry, keys: Collection[str] | None) -> bool:
        key = entry.execution.key
        if keys is None:
            return key.startswith(self.prefix)
        return key in keys or any(key.startswith(f"{outer}/") for outer in keys)

    def claim(self, entry: Entry) -> bool:
        """Whether it falls to the caller to undo the entry's effect: true once, whichever calls share the effect."""
        whole = self.whole or self
        with whole._lock:
            if entry.effect in whole._undone:
                return False
            whole._undone[entry.effect] = None
            return True

    def settle(self, entry: Entry, outcome: UndoOutcome) -> list[str]:
        """Note what became of undoing a claimed effect; gives the keys of the calls that share it."""
        whole = self.whole or self
        with whole._lock:
            whole._undone[entry.effect] = outcome
            return list(whole._sharers.get(entry.effect, (entry.execution.key,)))

    def outcome(self, entry: Entry) -> UndoOutcome | None:
        """What became of undoing the entry's effect, once that is known."""
        whole = self.whole or self
        with whole._lock:
            return whole._undone.get(entry.effect)

    def close(self) -> list[Entry]:
        """All entries, newest first; nothing can be entered any more."""
        whole = self.whole or self
        with whole._lock:
            whole.closed = (*whole.closed, self.prefix)
            taken = [entry for entry in whole._entries if entry.execution.key.startswith(self.prefix)]
            whole._entries = [entry for entry in whole._entries if not entry.execution.key.startswith(self.prefix)]
            return taken[::-1]
