"""What the statements on a journal's tables are, and how what they give is checked."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from ..errors import JournalDamaged, UnknownRun
from ._journal import EMPTY, Claim, Damage, Draft, Record, RunRow, chained

__all__ = [
    "FAILURES",
    "all_damage",
    "all_rows",
    "broken_chain",
    "forget",
    "insert",
    "is_damage",
    "known",
    "records_of",
    "row_of",
    "runs_having",
    "set_owner",
    "snapshot",
    "write",
]

_ROW = ", ".join(RunRow.__struct_fields__)
_ROW_TYPES = (str, str, str, int, int, bytes, float, float)
_RECORD = ", ".join(Record.__struct_fields__)
_RECORD_TYPES = (int, int, str, str, bytes, bytes)


# Python's module raises the second when SQLite's own message quotes bytes of a damaged file.
FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What a statement can raise."""


def is_damage(error: Exception) -> bool:
    """Whether the file is at fault, and not the disk, a lock or what was asked for."""
    if isinstance(error, sqlite3.OperationalError):
        # Tables that are gone, and text that is none, which Python's module reports without a code.
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR
    if isinstance(error, sqlite3.IntegrityError):
        # A record of that number can be there already only if its run tells of fewer than there are.
        return "record.seq" in str(error)
    return isinstance(error, FAILURES)


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Generator[None]:
    """All that is read within is of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


# ---------------------------------------------------------------- reading


def row_of(connection: sqlite3.Connection, run_id: str) -> RunRow | None:
    """What is known of that run."""
    found = connection.execute(f"SELECT {_ROW} FROM run WHERE run_id = ?", (run_id,)).fetchone()
    return None if found is None else _run_row(found)


def _run_row(values: tuple[Any, ...]) -> RunRow:
    if tuple(map(type, values)) != _ROW_TYPES:
        raise JournalDamaged(f"what is known of run {values[0]!r} is not what was written")
    return RunRow(*values)


def known(connection: sqlite3.Connection, run_id: str) -> RunRow:
    """What is known of that run, which has to be there."""
    row = row_of(connection, run_id)
    if row is None:
        raise UnknownRun(f"there is no run {run_id!r} in this journal")
    return row


def all_rows(connection: sqlite3.Connection, states: Collection[str] | None) -> list[RunRow]:
    """All runs, or those in these states, oldest first."""
    wanted = "" if states is None else f"WHERE state IN ({', '.join('?' * len(states))})"
    query = f"SELECT {_ROW} FROM run {wanted} ORDER BY started_at, run_id"
    return [_run_row(row) for row in connection.execute(query, tuple(states or ()))]


def runs_having(connection: sqlite3.Connection, kind: str) -> list[str]:
    """The ids of the runs that have a record of that kind, oldest first."""
    wanted = "SELECT run_id FROM record WHERE kind = ?"
    found = connection.execute(
        f"SELECT run_id FROM run WHERE run_id IN ({wanted}) ORDER BY started_at, run_id", (kind,)
    )
    return [run_id for (run_id,) in found]


def records_of(connection: sqlite3.Connection, run_id: str) -> list[Record]:
    """The records of that run as they are there, whatever was written."""
    found = connection.execute(f"SELECT {_RECORD} FROM record WHERE run_id = ? ORDER BY seq", (run_id,)).fetchall()
    if any(tuple(map(type, values)) != _RECORD_TYPES for values in found):
        raise JournalDamaged(f"a record of run {run_id!r} is not what was written")
    return [Record(*values) for values in found]


# ---------------------------------------------------------------- writing


def insert(connection: sqlite3.Connection, row: RunRow) -> None:
    """A new run, of which nothing is recorded yet."""
    values = [getattr(row, name) for name in RunRow.__struct_fields__]
    connection.execute(f"INSERT INTO run ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
    _change_head(connection, runs=1, records=0, change=_share_of(row))


def set_owner(connection: sqlite3.Connection, row: RunRow, claim: Claim, now: float) -> None:
    """The run of that row is that claim's from now on."""
    _replace(connection, row, replace(row, owner=claim.owner, epoch=claim.epoch, changed_at=now))


def forget(connection: sqlite3.Connection, row: RunRow) -> None:
    """The run of that row and its records are there no more."""
    connection.execute("DELETE FROM record WHERE run_id = ?", (row.run_id,))
    connection.execute("DELETE FROM run WHERE run_id = ?", (row.run_id,))
    _change_head(connection, runs=-1, records=-row.count, change=_share_of(row))


def write(connection: sqlite3.Connection, row: RunRow, drafts: Sequence[Draft], state: str, now: float) -> None:
    """Add records to the run of that row, and give it that state."""
    count, digest = row.count, row.digest
    for draft in drafts:
        count += 1
        digest = chained(digest, count, row.epoch, draft)
        connection.execute(
            "INSERT INTO record (run_id, seq, epoch, kind, step, body, digest, once) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row.run_id, count, row.epoch, draft.kind, draft.step, draft.body, digest, 1 if draft.once else None),
        )
    _replace(connection, row, replace(row, state=state, count=count, digest=digest, changed_at=now))


def _replace(connection: sqlite3.Connection, old: RunRow, new: RunRow) -> None:
    connection.execute(
        "UPDATE run SET state = ?, owner = ?, epoch = ?, count = ?, digest = ?, changed_at = ? WHERE run_id = ?",
        (new.state, new.owner, new.epoch, new.count, new.digest, new.changed_at, new.run_id),
    )
    _change_head(connection, runs=0, records=new.count - old.count, change=_share_of(old) ^ _share_of(new))


def _share_of(row: RunRow) -> int:
    """What a run contributes to the digest of the whole journal, which is the exclusive or of all of these."""
    return int.from_bytes(hashlib.sha256(msgspec.json.encode(row)).digest(), "big")


def _change_head(connection: sqlite3.Connection, *, runs: int, records: int, change: int) -> None:
    # The id is named though there is one row: without it SQLite prepares to undo a statement of many rows.
    (digest,) = _head_of(connection)[2:]
    changed = (int.from_bytes(digest, "big") ^ change).to_bytes(32, "big")
    connection.execute(
        "UPDATE head SET runs = runs + ?, records = records + ?, digest = ? WHERE id = 1", (runs, records, changed)
    )


def _head_of(connection: sqlite3.Connection) -> tuple[int, int, bytes]:
    head: Any = connection.execute("SELECT runs, records, digest FROM head WHERE id = 1").fetchone()
    if head is None:
        raise JournalDamaged("the head is missing")
    if tuple(map(type, head)) != (int, int, bytes) or len(head[2]) != 32:
        raise JournalDamaged("the head is not what was written")
    runs, records, digest = head
    return runs, records, digest


# ---------------------------------------------------------------- checking


def broken_chain(row: RunRow, records: Sequence[Record]) -> str | None:
    """What shows that these are not the records that were written; None if they are."""
    digest = EMPTY
    for seq, record in enumerate(records, 1):
        if record.seq != seq:
            return f"record {seq} is missing"
        digest = chained(digest, seq, record.epoch, Draft(record.kind, record.step, record.body))
        if digest != record.digest:
            return f"record {seq} ({record.kind} of {record.step!r}) is not what was written"
    if (row.count, row.digest) != (len(records), digest):
        return f"{row.count} records were written and {len(records)} are there"
    return None


def all_damage(connection: sqlite3.Connection) -> list[Damage]:
    """Everything that is wrong with the file; raises ``sqlite3.Error`` if it cannot be read now."""
    run_ids: list[str] = []
    found = [Damage("", problem) for look in (_of_pages, _of_head) for problem in _problems(look, connection)]
    found += [Damage("", problem) for problem in _problems(_list_runs, connection, run_ids)]
    for run_id in run_ids:
        found += [Damage(str(run_id), problem) for problem in _problems(_of_run, connection, run_id)]
    return list(dict.fromkeys(found))


def _problems(look: Callable[..., Iterable[str]], *args: Any) -> list[str]:
    try:
        return list(look(*args))
    except JournalDamaged as error:
        return [str(error)]
    except FAILURES as error:
        if not is_damage(error):
            raise
        return [str(error)]


def _list_runs(connection: sqlite3.Connection, run_ids: list[str]) -> Iterable[str]:
    # Also runs of which nothing but records is left.
    run_ids.extend(i for (i,) in connection.execute("SELECT run_id FROM run UNION SELECT run_id FROM record"))
    return ()


def _of_pages(connection: sqlite3.Connection) -> Iterable[str]:
    return [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]


def _of_run(connection: sqlite3.Connection, run_id: str) -> Iterable[str]:
    row = row_of(connection, run_id)
    if row is None:
        return ["its records are there, but not the run itself"]
    problem = broken_chain(row, records_of(connection, run_id))
    return [] if problem is None else [problem]


def _of_head(connection: sqlite3.Connection) -> Iterable[str]:
    rows = all_rows(connection, None)
    there = (len(rows), sum(row.count for row in rows))
    share = 0
    for row in rows:
        share ^= _share_of(row)
    runs, records, digest = _head_of(connection)
    if (runs, records) != there:
        yield f"the head tells of {runs} runs and {records} records; there are {there[0]} and {there[1]}"
    elif digest != share.to_bytes(32, "big"):
        yield "what is known of a run is not what was written: the head has another digest"
