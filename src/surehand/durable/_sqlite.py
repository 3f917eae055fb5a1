"""A journal in an SQLite file: many processes may use it at once, and it survives their death (design 5)."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..errors import (
    JournalDamaged,
    JournalError,
    JournalTooNew,
    JournalUnavailable,
    RecordExists,
    RunExists,
    StaleClaim,
    UnknownRun,
    UserError,
)
from . import _owners
from ._journal import EMPTY, Claim, Damage, Draft, Record, RunRow, chained, share_of
from ._owners import Driven, Owner
from ._schema import APPLICATION, VERSION, create, migrate
from ._writer import Writer

__all__ = ["SQLiteJournal", "Sync"]

T = TypeVar("T")
Sync = Literal["full", "normal"]
_ROW = "run_id, state, owner, epoch, count, digest, started_at, changed_at"


class SQLiteJournal:
    """The protocol of ``Journal`` in one file (with ``-wal`` and ``-shm`` beside it while it is open).

    ``sync="full"``: what is acknowledged survives a loss of power. ``"normal"``: it survives the death of the process;
    after a loss of power a valid beginning of it remains. ``wait``: seconds to wait for other processes' writes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: Sync = "full",
        wait: float = 30.0,
        now: Callable[[], float] = time.time,
    ) -> None:
        if sync not in ("full", "normal"):
            raise UserError(f"journal sync={sync!r}; expected 'full' or 'normal'")
        self.path = Path(path)
        self._sync, self._wait, self._now = sync, wait, now
        self._owner, self._driven = Owner(self.path), Driven()
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._closed = False
        self._reader = self._translated(self._prepared)
        self._writer = Writer(self._connect, self._error_of)

    def _prepared(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            _prepare(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=self._wait, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {self._sync}")
        return connection

    # ------------------------------------------------------------ who drives what

    @property
    def owner(self) -> str:
        """The name under which this process claims runs; its lock is held from the first time it is asked for."""
        with self._lock:
            self._check_open()
            return self._translated(lambda: self._owner.name)

    def is_alive(self, owner: str) -> bool:
        """Whether the process of that name still runs, or is merely stopped; the empty name is nobody's."""
        return self._translated(lambda: _owners.is_alive(self.path, owner))

    def drive(self, run_id: str) -> bool:
        """Note that this process drives that run now; False if it does so already."""
        return self._driven.add(run_id)

    def release(self, run_id: str) -> None:
        """Note that this process does not drive that run any more."""
        self._driven.remove(run_id)

    def is_driven(self, run_id: str) -> bool:
        """Whether this process drives that run now, through this journal."""
        return run_id in self._driven

    # ------------------------------------------------------------ writing

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        """A new run with its first records."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> Claim:
            row = RunRow(run_id, state, owner, 1, 0, EMPTY, now, now)
            if _row(connection, run_id) is not None:
                raise RunExists(f"there is a run {run_id!r} already; give another run_id, or resume that one")
            connection.execute(f"INSERT INTO run ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", tuple(_fields(row)))
            connection.execute("UPDATE head SET runs = runs + 1")
            _write(connection, row, drafts, state, now)
            return Claim(run_id, owner, 1)

        return self._done(job)

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        """The right to write, taken from whoever held it at that epoch."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> Claim:
            row = _known(connection, run_id)
            if row.epoch != epoch:
                raise StaleClaim(f"run {run_id!r} was claimed by {row.owner!r} meanwhile")
            connection.execute(
                "UPDATE run SET owner = ?, epoch = ?, changed_at = ? WHERE run_id = ?", (owner, epoch + 1, now, run_id)
            )
            return Claim(run_id, owner, epoch + 1)

        return self._done(job)

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records, all or none."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> None:
            row = _known(connection, claim.run_id)
            if row.epoch != claim.epoch:
                raise StaleClaim(f"run {claim.run_id!r} was claimed by {row.owner!r}: it must not go on here")
            _write(connection, row, drafts, row.state if state is None else state, now)

        return self._writing().submit(job)

    def prune(self, *, before: float, states: Collection[str]) -> int:
        """Forget runs in these states that have not changed since; gives how many."""

        def job(connection: sqlite3.Connection) -> int:
            old = [row for row in _rows(connection, states) if row.changed_at < before]
            for row in old:
                connection.execute("DELETE FROM record WHERE run_id = ?", (row.run_id,))
                connection.execute("DELETE FROM run WHERE run_id = ?", (row.run_id,))
                connection.execute("UPDATE head SET runs = runs - 1, records = records - ?", (row.count,))
                _exchange(connection, share_of(row.run_id, row.count, row.digest), 0)
            return len(old)

        return self._done(job)

    def _done(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return self._writing().submit(job).result()

    def _writing(self) -> Writer:
        with self._lock:
            self._check_open()
            return self._writer

    # ------------------------------------------------------------ reading

    def row(self, run_id: str) -> RunRow | None:
        """What is known of that run."""
        return self._read(lambda connection: _row(connection, run_id))

    def rows(self, states: Collection[str] | None = None) -> list[RunRow]:
        """All runs, or those in these states, oldest first."""
        return self._read(lambda connection: _rows(connection, states))

    def having(self, kind: str) -> list[str]:
        """The ids of the runs that have a record of that kind, oldest run first."""
        return self._read(lambda connection: _having(connection, kind))

    def records(self, run_id: str) -> list[Record]:
        """The history of that run; raises ``JournalDamaged`` if it is not the one that was written."""

        def read(connection: sqlite3.Connection) -> list[Record]:
            connection.execute("BEGIN")  # the row and the records have to be of the same moment
            try:
                row = _known(connection, run_id)
                records = _records(connection, run_id)
            finally:
                connection.execute("COMMIT")
            problem = _broken_chain(row, records)
            if problem is not None:
                raise JournalDamaged(f"run {run_id!r} in {self.path}: {problem}; `surehand journal check` tells more")
            return records

        return self._read(read)

    def check(self) -> list[Damage]:
        """Everything that is wrong with the journal; nothing when all is well."""
        return self._read(_check)

    def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            self._check_open()
            return self._translated(lambda: job(self._reader))

    # ------------------------------------------------------------ the rest

    def close(self) -> None:
        """Write what is waiting and let go of the file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._pid == os.getpid():
                self._writer.close()
                self._reader.close()
            self._owner.close()

    def _check_open(self) -> None:
        if self._closed:
            raise UserError(f"the journal {self.path} is closed; open it again: SQLiteJournal({str(self.path)!r})")
        if self._pid != os.getpid():
            self._open()  # a fork has no threads but its own, and must not use its parent's connections

    def _translated(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (sqlite3.Error, OSError) as error:
            raise self._error_of(error) from error

    def _error_of(self, error: sqlite3.Error | OSError) -> JournalError:
        if isinstance(error, sqlite3.IntegrityError):
            return RecordExists(f"{self.path}: a record that may exist once is there already ({error})")
        if isinstance(error, (sqlite3.OperationalError, OSError)):
            return JournalUnavailable(
                f"the journal {self.path} cannot be used: {error}; see that its folder exists and can be written, that "
                "the disk is not full, and that no other program has locked it; then the run can be resumed"
            )
        return JournalDamaged(f"{self.path} is damaged or no journal ({error}); `surehand journal check` tells more")


# ---------------------------------------------------------------- statements


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file; bring an old one up to date; refuse a newer one, and what is no journal."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may open a new file at once
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application != APPLICATION and tables:
            raise JournalDamaged(f"{path} is a database of something else; give the journal a file of its own")
        if version > VERSION:
            raise JournalTooNew(
                f"{path} was written by a newer surehand (form {version}; this one reads up to {VERSION}); "
                "update surehand, or give the journal another file"
            )
        if not tables:
            create(connection)
        else:
            migrate(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _fields(row: RunRow) -> list[Any]:
    return [getattr(row, name) for name in RunRow.__struct_fields__]


def _row(connection: sqlite3.Connection, run_id: str) -> RunRow | None:
    found = connection.execute(f"SELECT {_ROW} FROM run WHERE run_id = ?", (run_id,)).fetchone()
    return None if found is None else RunRow(*found)


def _known(connection: sqlite3.Connection, run_id: str) -> RunRow:
    row = _row(connection, run_id)
    if row is None:
        raise UnknownRun(f"there is no run {run_id!r} in this journal")
    return row


def _rows(connection: sqlite3.Connection, states: Collection[str] | None) -> list[RunRow]:
    found = [RunRow(*row) for row in connection.execute(f"SELECT {_ROW} FROM run ORDER BY started_at, run_id")]
    return [row for row in found if states is None or row.state in states]


def _having(connection: sqlite3.Connection, kind: str) -> list[str]:
    wanted = "SELECT run_id FROM record WHERE kind = ?"
    found = connection.execute(
        f"SELECT run_id FROM run WHERE run_id IN ({wanted}) ORDER BY started_at, run_id", (kind,)
    )
    return [run_id for (run_id,) in found]


def _records(connection: sqlite3.Connection, run_id: str) -> list[Record]:
    columns = "seq, epoch, kind, step, body, digest"
    found = connection.execute(f"SELECT {columns} FROM record WHERE run_id = ? ORDER BY seq", (run_id,))
    return [Record(*row) for row in found]


def _write(connection: sqlite3.Connection, row: RunRow, drafts: Sequence[Draft], state: str, now: float) -> None:
    count, digest = row.count, row.digest
    for draft in drafts:
        count += 1
        digest = chained(digest, count, row.epoch, draft)
        connection.execute(
            "INSERT INTO record (run_id, seq, epoch, kind, step, body, digest, once) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row.run_id, count, row.epoch, draft.kind, draft.step, draft.body, digest, 1 if draft.once else None),
        )
    connection.execute(
        "UPDATE run SET state = ?, count = ?, digest = ?, changed_at = ? WHERE run_id = ?",
        (state, count, digest, now, row.run_id),
    )
    if drafts:
        connection.execute("UPDATE head SET records = records + ?", (len(drafts),))
        _exchange(connection, share_of(row.run_id, row.count, row.digest), share_of(row.run_id, count, digest))


def _exchange(connection: sqlite3.Connection, before: int, after: int) -> None:
    (digest,) = connection.execute("SELECT digest FROM head").fetchone()
    changed = int.from_bytes(digest, "big") ^ before ^ after
    connection.execute("UPDATE head SET digest = ?", (changed.to_bytes(32, "big"),))


# ---------------------------------------------------------------- checking


def _broken_chain(row: RunRow, records: Sequence[Record]) -> str | None:
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


def _check(connection: sqlite3.Connection) -> list[Damage]:
    found: list[Damage] = []
    try:
        problems = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
        found += [Damage("", problem) for problem in problems]
        share = records = 0
        rows = _rows(connection, None)
        for row in rows:
            problem = _broken_chain(row, _records(connection, row.run_id))
            if problem is not None:
                found.append(Damage(row.run_id, problem))
            share ^= share_of(row.run_id, row.count, row.digest)
            records += row.count
        head = connection.execute("SELECT runs, records, digest FROM head").fetchone()
        if head != (len(rows), records, share.to_bytes(32, "big")):
            found.append(Damage("", _head_problem(head, len(rows), records)))
    except sqlite3.DatabaseError as error:
        found.append(Damage("", str(error)))
    return found


def _head_problem(head: Any, runs: int, records: int) -> str:
    if head is None:
        return "the head is missing"
    if head[:2] == (runs, records):
        return "the head has the digest of other records"
    return f"the head tells of {head[0]} runs and {head[1]} records; there are {runs} and {records}"
