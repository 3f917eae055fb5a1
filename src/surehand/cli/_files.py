"""A journal's file, opened to look at it: nothing is created and no run is claimed."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from .._recorded import Recorded, recorded
from .._records import OVER, State
from ..durable._journal import RunRow
from ..durable._schema import APPLICATION
from ..durable._sqlite import SQLiteJournal
from ..errors import JournalDamaged, JournalUnavailable, UserError

__all__ = ["JournalFile", "known_of", "opened", "process_of"]

JournalFile = Annotated[Path, typer.Argument(help="The journal's file.", show_default=False)]


@contextmanager
def opened(file: Path) -> Generator[SQLiteJournal]:
    """The journal in that file; raises ``UserError`` if there is none, and leaves other files as they are."""
    if not file.is_file():
        raise UserError(f"there is no file {str(file)!r}; give the path that Agent(journal=…) has")
    _check_is_journal(file)
    with closing(SQLiteJournal(file)) as journal:
        yield journal


def _check_is_journal(file: Path) -> None:
    # Opening a journal makes one of an empty file, and changes the mode of a database: so ask first.
    if file.stat().st_size == 0 and not file.with_name(f"{file.name}-wal").exists():
        raise JournalDamaged(f"{file} is no journal: it is empty")
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.OperationalError as error:
        raise JournalUnavailable(f"the journal {file} cannot be read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise JournalDamaged(f"{file} is damaged or no journal ({error})") from error
    if application != APPLICATION:
        raise JournalDamaged(f"{file} is a database of something else, and no journal")


def known_of(journal: SQLiteJournal, row: RunRow) -> Recorded:
    """What the records of that run say."""
    return recorded(journal.records(row.run_id), row.state)


def process_of(journal: SQLiteJournal, row: RunRow) -> str:
    """Whether the run's process lives; nothing for a run that is over or waits."""
    if row.state in (*OVER, State.SUSPENDED):
        return "-"
    return "alive" if journal.is_alive(row.owner) else "gone"
