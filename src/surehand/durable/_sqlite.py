"""A journal in an SQLite file: many processes may use it at once, and it survives their death (design 5)."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from ..errors import (
    JournalDamaged,
    JournalError,
    JournalUnavailable,
    RecordExists,
    RunExists,
    StaleClaim,
    UserError,
)
from . import _owners
from ._journal import EMPTY, Claim, Damage, Draft, Record, RunRow
from ._owners import Driven, Owner
from ._schema import prepare, refuse_others
from ._tables import (
    FAILURES,
    all_damage,
    all_rows,
    broken_chain,
    forget,
    insert,
    is_damage,
    known,
    records_of,
    row_of,
    runs_having,
    set_owner,
    snapshot,
    write,
)
from ._writer import Writer

__all__ = ["SQLiteJournal", "Sync"]

T = TypeVar("T")
Sync = Literal["full", "normal"]
_PAGES_OF_LOG = 4000  # 16 MB: a page that was written again and again is copied into the file once


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
        if os.fspath(path) in ("", ":memory:"):
            raise UserError(
                f"journal {os.fspath(path)!r}; expected the path of a file, such as 'runs.db'; one without a file is "
                "MemoryJournal()"
            )
        self.path = Path(path)
        # Under one name for all: who looks elsewhere for a live process's lock, after os.chdir() or through a link,
        # takes it for dead and its runs away.
        self._file = Path(os.path.realpath(path))
        self._sync, self._wait, self._now = sync, wait, now
        self._owner, self._driven = Owner(self._file), Driven()
        # Taken in this order; the second for moments only, so that a long history that is read holds up no run.
        self._reading, self._lock = threading.Lock(), threading.Lock()
        self._connections: tuple[sqlite3.Connection, Writer] | None = None
        self._closed = False
        self._opened()
        _JOURNALS.add(self)

    def _opened(self) -> tuple[sqlite3.Connection, Writer]:
        """What reads and what writes, opened again if a fork came between; only under the lock."""
        if self._closed:
            raise UserError(f"the journal {self.path} is closed; open it again: SQLiteJournal({str(self.path)!r})")
        if self._connections is None:
            self._connections = self._translated(self._connected)
        return self._connections

    def _connected(self) -> tuple[sqlite3.Connection, Writer]:
        reader = self._connect()
        try:
            prepare(reader, self.path)
            return reader, Writer(self._connect(), self._error_of)
        except BaseException:
            reader.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        _check_place(self._file)
        connection = sqlite3.connect(self._file, timeout=self._wait, isolation_level=None, check_same_thread=False)
        try:
            refuse_others(connection, self.path)  # before its mode is changed
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._sync}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_OF_LOG}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._connections is not None:
            reader, writer = self._connections
            self._connections = None
            writer.close()
            reader.close()

    def before_fork(self) -> None:
        """Wait for what is being written and hold still: SQLite's locks and threads do not live on in a fork.

        A connection that merely exists while the process forks makes SQLite take its parent's locks for the child's,
        and another process then removes the log to which the child writes.
        """
        self._reading.acquire()
        self._lock.acquire()
        self._disconnect()

    def after_fork(self, *, is_child: bool) -> None:
        """Go on, in the parent as in the child; what is needed is opened again when it is."""
        if is_child:
            self._owner.after_fork()
        self._lock.release()
        self._reading.release()

    # ------------------------------------------------------------ who drives what

    @property
    def owner(self) -> str:
        """The name under which this process claims runs; its lock is held from the first time it is asked for."""
        with self._lock:
            self._opened()
            return self._translated(lambda: self._owner.name)

    def is_alive(self, owner: str) -> bool:
        """Whether the process of that name still runs, or is merely stopped; the empty name is nobody's."""
        return self._translated(lambda: _owners.is_alive(self._file, owner))

    def drive(self, run_id: str, driver: object = None, *, take_over: bool = False) -> bool:
        """Note that this process drives that run now; False if it does so already."""
        return self._driven.add(run_id, driver, take_over=take_over)

    def release(self, run_id: str, driver: object = None) -> None:
        """Note that this one does not drive that run any more; nothing happens if another has taken it over."""
        self._driven.remove(run_id, driver)

    def is_driven(self, run_id: str) -> bool:
        """Whether this process drives that run now, through this journal."""
        return run_id in self._driven

    # ------------------------------------------------------------ writing

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        """A new run with its first records."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> Claim:
            row = RunRow(run_id, state, owner, 1, 0, EMPTY, now, now)
            if row_of(connection, run_id) is not None:
                raise RunExists(f"there is a run {run_id!r} already; give another run_id, or resume that one")
            insert(connection, row)
            write(connection, row, drafts, state, now)
            return Claim(run_id, owner, 1)

        return self._done(job)

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        """The right to write, taken from whoever held it at that epoch."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> Claim:
            row = known(connection, run_id)
            if row.epoch != epoch:
                raise StaleClaim(f"run {run_id!r} was claimed by {row.owner!r} meanwhile")
            claim = Claim(run_id, owner, epoch + 1)
            set_owner(connection, row, claim, now)
            return claim

        return self._done(job)

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records, all or none; a callback of the future must not wait for the journal."""
        now = self._now()

        def job(connection: sqlite3.Connection) -> None:
            row = known(connection, claim.run_id)
            if row.epoch != claim.epoch:
                raise StaleClaim(f"run {claim.run_id!r} was claimed by {row.owner!r}: it must not go on here")
            write(connection, row, drafts, row.state if state is None else state, now)

        return self._submit(job)

    def prune(self, *, before: float, states: Collection[str]) -> int:
        """Forget runs in these states that have not changed since; gives how many."""

        def job(connection: sqlite3.Connection) -> int:
            old = [row for row in all_rows(connection, states) if row.changed_at < before]
            for row in old:
                forget(connection, row)
            return len(old)

        return self._done(job)

    def _done(self, job: Callable[[sqlite3.Connection], T]) -> T:
        return self._submit(job).result()

    def _submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        with self._lock:  # so that nothing is submitted to a writer that has been closed
            try:
                _, writer = self._opened()
            except JournalError as error:
                failed: Future[T] = Future()
                failed.set_exception(error)
                return failed
            return writer.submit(job)

    # ------------------------------------------------------------ reading

    def row(self, run_id: str) -> RunRow | None:
        """What is known of that run."""
        return self._read(lambda connection: row_of(connection, run_id))

    def rows(self, states: Collection[str] | None = None) -> list[RunRow]:
        """All runs, or those in these states, oldest first."""
        return self._read(lambda connection: all_rows(connection, states))

    def having(self, kind: str) -> list[str]:
        """The ids of the runs that have a record of that kind, oldest run first."""
        return self._read(lambda connection: runs_having(connection, kind))

    def records(self, run_id: str) -> list[Record]:
        """The history of that run; raises ``JournalDamaged`` if it is not the one that was written."""

        def read(connection: sqlite3.Connection) -> list[Record]:
            with snapshot(connection):
                row, records = known(connection, run_id), records_of(connection, run_id)
            problem = broken_chain(row, records)
            if problem is not None:
                raise JournalDamaged(f"run {run_id!r} in {self.path}: {problem}; `surehand journal check` tells more")
            return records

        return self._read(read)

    def check(self) -> list[Damage]:
        """Everything that is wrong with the journal; nothing when all is well."""

        def read(connection: sqlite3.Connection) -> list[Damage]:
            with snapshot(connection):
                return all_damage(connection)

        return self._read(read)

    def _read(self, job: Callable[[sqlite3.Connection], T]) -> T:
        with self._reading:
            with self._lock:
                reader, _ = self._opened()
            return self._translated(lambda: job(reader))

    # ------------------------------------------------------------ the rest

    def close(self) -> None:
        """Write what is waiting and let go of the file; this process is then nobody's owner any more."""
        with self._reading, self._lock:
            self._closed = True
            self._disconnect()
            self._owner.close()

    def _translated(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except (*FAILURES, OSError) as error:
            raise self._error_of(error) from error

    def _error_of(self, error: Exception) -> JournalError:
        if is_damage(error):
            return JournalDamaged(
                f"{self.path} is damaged or no journal ({error}); `surehand journal check` tells more of a journal; "
                "if the file is something else, give the journal another one"
            )
        if isinstance(error, sqlite3.IntegrityError):
            return RecordExists(f"{self.path}: a record that may exist once is there already ({error})")
        return JournalUnavailable(
            f"the journal {self.path} cannot be used: {error}; see that its folder exists and can be written, that "
            "the disk is not full, and that no other program has locked it; then the run can be resumed"
        )


def _check_place(path: Path) -> None:
    """Raise ``OSError`` in words for what SQLite has one sentence for, or would not mind."""
    if path.is_dir():
        raise IsADirectoryError("it is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r}")
    if path.exists() and not os.access(path, os.W_OK):
        # SQLite would open it to be read, and the connection would stay so when the file may be written again.
        raise PermissionError("it may not be written")


_JOURNALS: weakref.WeakSet[SQLiteJournal] = weakref.WeakSet()
_FORKING = threading.Lock()  # two threads may fork at once
_held: list[SQLiteJournal] = []


def _before_fork() -> None:
    _FORKING.acquire()
    _held[:] = _JOURNALS
    for journal in _held:
        journal.before_fork()


def _after_fork(*, is_child: bool) -> None:
    while _held:
        _held.pop().after_fork(is_child=is_child)
    _FORKING.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=partial(_after_fork, is_child=False),
        after_in_child=partial(_after_fork, is_child=True),
    )
