"""A journal in this process: for tests, and for runs that need no more than to be told apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future

from msgspec import Struct
from msgspec.structs import replace

from ..errors import RecordExists, RunExists, StaleClaim, UnknownRun
from ._journal import EMPTY, Claim, Damage, Draft, Record, RunRow, chained
from ._owners import Driven

__all__ = ["MemoryJournal"]


class _Run(Struct):
    row: RunRow
    records: list[Record]
    once: set[tuple[str, str]]


class MemoryJournal:
    """The protocol of ``Journal`` over plain lists; gone when the process is."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._driven = Driven()

    @property
    def owner(self) -> str:
        """The name under which this process claims runs: always the same, as nobody else can see them."""
        return "here"

    def is_alive(self, owner: str) -> bool:
        """Whether that is this process."""
        return owner == self.owner

    def drive(self, run_id: str, driver: object = None, *, take_over: bool = False) -> bool:
        """Note that this process drives that run now; False if it does so already."""
        return self._driven.add(run_id, driver, take_over=take_over)

    def release(self, run_id: str, driver: object = None) -> None:
        """Note that this one does not drive that run any more; nothing happens if another has taken it over."""
        self._driven.remove(run_id, driver)

    def is_driven(self, run_id: str) -> bool:
        """Whether this process drives that run now."""
        return run_id in self._driven

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        """A new run with its first records."""
        with self._lock:
            if run_id in self._runs:
                raise RunExists(f"there is a run {run_id!r} already; give another run_id, or resume that one")
            now = self._now()
            run = _Run(RunRow(run_id, state, owner, 1, 0, EMPTY, now, now), [], set())
            self._write(run, drafts, state)
            self._runs[run_id] = run
            return Claim(run_id, owner, 1)

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        """The right to write, taken from whoever held it at that epoch."""
        with self._lock:
            run = self._known(run_id)
            if run.row.epoch != epoch:
                raise StaleClaim(f"run {run_id!r} was claimed by {run.row.owner!r} meanwhile")
            run.row = replace(run.row, owner=owner, epoch=epoch + 1, changed_at=self._now())
            return Claim(run_id, owner, epoch + 1)

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records, all or none."""
        future: Future[None] = Future()
        try:
            with self._lock:
                run = self._known(claim.run_id)
                if run.row.epoch != claim.epoch:
                    raise StaleClaim(f"run {claim.run_id!r} was claimed by {run.row.owner!r}: it must not go on here")
                self._write(run, drafts, state)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(None)
        return future

    def _write(self, run: _Run, drafts: Sequence[Draft], state: str | None) -> None:
        written: list[Record] = []
        once: set[tuple[str, str]] = set()
        row = run.row
        for draft in drafts:
            if draft.once and ((draft.kind, draft.step) in run.once or (draft.kind, draft.step) in once):
                raise RecordExists(f"run {row.run_id!r} has a record {draft.kind} of {draft.step!r} already")
            if draft.once:
                once.add((draft.kind, draft.step))
            seq = row.count + 1
            digest = chained(row.digest, seq, row.epoch, draft)
            written.append(Record(seq, row.epoch, draft.kind, draft.step, draft.body, digest))
            row = replace(row, count=seq, digest=digest)
        run.records += written
        run.once |= once
        run.row = replace(row, state=row.state if state is None else state, changed_at=self._now())

    def _known(self, run_id: str) -> _Run:
        try:
            return self._runs[run_id]
        except KeyError:
            raise UnknownRun(f"there is no run {run_id!r} in this journal") from None

    def row(self, run_id: str) -> RunRow | None:
        """What is known of that run."""
        with self._lock:
            run = self._runs.get(run_id)
            return None if run is None else run.row

    def rows(self, states: Collection[str] | None = None) -> list[RunRow]:
        """All runs, or those in these states, oldest first."""
        with self._lock:
            found = [run.row for run in self._runs.values() if states is None or run.row.state in states]
        return sorted(found, key=lambda row: (row.started_at, row.run_id))

    def having(self, kind: str) -> list[str]:
        """The ids of the runs that have a record of that kind, oldest run first."""
        return [row.run_id for row in self.rows() if any(record.kind == kind for record in self._history(row.run_id))]

    def _history(self, run_id: str) -> Sequence[Record]:
        with self._lock:
            run = self._runs.get(run_id)  # it may have been forgotten since the rows were listed
            return () if run is None else list(run.records)

    def records(self, run_id: str) -> list[Record]:
        """The history of that run."""
        with self._lock:
            return list(self._known(run_id).records)

    def prune(self, *, before: float, states: Collection[str]) -> int:
        """Forget runs in these states that have not changed since; gives how many."""
        with self._lock:
            old = [i for i, run in self._runs.items() if run.row.state in states and run.row.changed_at < before]
            for run_id in old:
                del self._runs[run_id]
            return len(old)

    def check(self) -> list[Damage]:
        """Nothing: what is in this process is as it was written."""
        return []

    def close(self) -> None:
        """Nothing is waiting."""
