"""Journals: where runs are recorded, so that they come back (design 5)."""

from __future__ import annotations

from ._journal import Journal
from ._memory import MemoryJournal
from ._sqlite import SQLiteJournal

__all__ = ["Journal", "MemoryJournal", "SQLiteJournal"]
