"""The form of a journal's file, and how older forms are brought up to date."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import JournalDamaged, JournalTooNew

__all__ = ["APPLICATION", "VERSION", "prepare", "refuse_others"]

APPLICATION = 0x53484E44  # "SHND": tells a journal from somebody else's database
VERSION = 1

_TABLES = (
    """CREATE TABLE run (
        run_id TEXT PRIMARY KEY, state TEXT NOT NULL, owner TEXT NOT NULL, epoch INTEGER NOT NULL,
        count INTEGER NOT NULL, digest BLOB NOT NULL, started_at REAL NOT NULL, changed_at REAL NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE record (
        run_id TEXT NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL, step TEXT NOT NULL,
        body BLOB NOT NULL, digest BLOB NOT NULL, once INTEGER, PRIMARY KEY (run_id, seq)
    ) WITHOUT ROWID""",
    "CREATE UNIQUE INDEX record_once ON record (run_id, kind, step) WHERE once = 1",
    "CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), runs INTEGER, records INTEGER, digest BLOB NOT NULL)",
)

_STEPS: Mapping[int, Callable[[sqlite3.Connection], None]] = {}
"""From each older form to the next."""


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file; bring an old one up to date; refuse a newer one, and what is no journal."""
    if _form_of(connection) == (APPLICATION, VERSION, True):
        return  # without a lock: opening does not wait for others' writes
    connection.execute("BEGIN IMMEDIATE")  # two processes may open a new or old file at once
    try:
        refuse_others(connection, path)
        application, version, has_tables = _form_of(connection)
        if application == version == 0 and not has_tables:
            _create(connection)
        elif version > VERSION:
            raise JournalTooNew(
                f"{path} was written by a newer surehand (form {version}; this one reads up to {VERSION}); "
                "update surehand, or give the journal another file"
            )
        elif not has_tables:
            raise JournalDamaged(f"{path} is damaged: its tables are gone")
        else:
            _migrate(connection, version, path)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refuse_others(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ``JournalDamaged`` for somebody else's database, of which nothing is changed."""
    application, version, has_tables = _form_of(connection)
    if application != APPLICATION and (application or version or has_tables):
        raise JournalDamaged(f"{path} is a database of something else; give the journal a file of its own")


def _form_of(connection: sqlite3.Connection) -> tuple[int, int, bool]:
    # Whose it is comes last: another process may be creating it, and tables that are there have their mark.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return application, version, tables > 0


def _create(connection: sqlite3.Connection) -> None:
    """The tables of an empty journal."""
    for statement in _TABLES:
        connection.execute(statement)
    connection.execute("INSERT INTO head (id, runs, records, digest) VALUES (1, 0, 0, ?)", (bytes(32),))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _migrate(connection: sqlite3.Connection, version: int, path: Path) -> None:
    """Bring a file of that form up to date, one form at a time."""
    for form in range(version, VERSION):
        if form not in _STEPS:
            raise JournalDamaged(f"{path} has the form {form}, which no surehand has written")
        _STEPS[form](connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")
