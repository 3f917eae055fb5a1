"""Opening a run of an agent with a journal: begun if its id is new, gone on with if it is not (design 5).

Two processes never drive one run: whoever is at work on it holds its claim, and lives as long as its owner's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future

from msgspec import Struct

from .._books import Run
from .._codec import from_json
from .._recorded import recorded
from .._records import OVER, RUN_STARTED, Draft, Started, State, draft
from ..errors import JournalDamaged, JournalError, RunExists, RunInProgress, StaleClaim, UnknownRun, UserError
from ._journal import Claim, Journal, RunRow

__all__ = ["ClaimedLog", "Opening", "is_free", "started_of"]


_MOMENT = 0.002  # seconds
NOBODY = ""
"""The owner of a run that is left to whoever recovers runs."""


class ClaimedLog:
    """The journal as one run sees it. Without a claim the run is over, and can only be told again."""

    def __init__(self, journal: Journal, run_id: str, claim: Claim | None, driver: object = None) -> None:
        self._journal = journal
        self._run_id = run_id
        self._claim = claim
        self._driver = driver

    def append(self, drafts: Sequence[Draft], state: str | None = None) -> Future[None]:
        """Write records of the run, all or none."""
        if self._claim is None:
            raise JournalError(f"run {self._run_id!r} is over; nothing more is recorded of it")
        return self._journal.append(self._claim, drafts, state=state)

    def release(self) -> None:
        """The run is not driven here any more: it may be resumed."""
        if self._claim is not None:
            self._journal.release(self._run_id, self._driver)

    def give_back(self) -> None:
        """The run has halted: whoever recovers runs may go on with it, also in another process."""
        if self._claim is not None:
            self._journal.claim(self._run_id, NOBODY, epoch=self._claim.epoch)


class Opening(Struct, frozen=True, eq=False):
    """How a run is opened. ``is_new``: its id was made for it. ``joins``: whoever is at work on it is followed.

    ``only``: the states in which it is gone on with, if not in any.
    """

    journal: Journal
    started: Started
    is_new: bool
    joins: bool = True
    take_over: bool = False
    only: Collection[str] | None = None

    def __call__(self, run: Run) -> None:
        """Open it: from here on it is driven here, or told again, or followed while somebody else drives it.

        Raises ``RunInProgress`` in that case if the run is not to be joined.
        """
        while run.log is None and self.joins and not self._is_there(run):
            if self._begun(run):
                return
            time.sleep(_MOMENT)  # somebody else is about to have begun it
        row = self.journal.row(run.run_id)
        if row is None:
            raise UnknownRun(f"run {run.run_id!r} is not in this journal any more: it was pruned")
        if row.state in OVER:
            self._tell(run, row)
        elif (self.take_over or is_free(self.journal, row)) and (self.only is None or row.state in self.only):
            self._claim(run, row)
        else:
            self._follow(run, row)

    def _is_there(self, run: Run) -> bool:
        if self.is_new or self.journal.row(run.run_id) is None:
            return False
        then = started_of(self.journal, run.run_id)
        others = [name for name in _ASKED if getattr(then, name) != getattr(self.started, name)]
        if others:
            raise UserError(_other_input(run.run_id, others))
        return True

    def _begun(self, run: Run) -> bool:
        """Begin the run; false if somebody else has begun it in this very moment."""
        journal, run_id = self.journal, run.run_id
        if not journal.drive(run_id, run):
            return False
        try:
            first = draft(RUN_STARTED, "", self.started)
            claim = journal.start(run_id, journal.owner, [first], state=State.RUNNING)
            run.log = ClaimedLog(journal, run_id, claim, run)
            return True
        except BaseException as error:
            journal.release(run_id, run)
            if isinstance(error, RunExists) and not self.is_new:
                return False
            raise

    def _tell(self, run: Run, row: RunRow, log: ClaimedLog | None = None) -> None:
        if not run.replays:
            run.replays = True
            run.has_listeners, run.listening = run.listening, run.streams
        run.follows = False
        run.log = log or ClaimedLog(self.journal, row.run_id, None)
        run.recorded = recorded(self.journal.records(row.run_id), row.state)

    def _claim(self, run: Run, row: RunRow) -> None:
        journal, run_id = self.journal, row.run_id
        if run.deps is None and started_of(journal, run_id).has_deps:
            raise UserError(
                f"run {run_id!r} was begun with deps, which no journal can keep; give them again: deps=…. Without them "
                "its tools and undos would fail, and it would be given up"
            )
        if not journal.drive(run_id, run) and not self.take_over:
            return self._follow(run, row)
        try:
            claim = journal.claim(run_id, journal.owner, epoch=row.epoch)
            if self.take_over:
                journal.drive(run_id, run, take_over=True)  # whoever has lost it must not set it free
            row = journal.row(run_id) or row  # whoever held it may have written until then
            if row.state in OVER:
                journal.release(run_id, run)
                return self._tell(run, row)
            if row.state == State.SUSPENDED:
                journal.append(claim, (), state=State.RUNNING).result()
            self._tell(run, row, ClaimedLog(journal, run_id, claim, run))
        except BaseException as error:
            journal.release(run_id, run)
            if not isinstance(error, StaleClaim):
                raise
            self._follow(run, row)

    def _follow(self, run: Run, row: RunRow) -> None:
        if not self.joins:
            raise RunInProgress(f"run {row.run_id!r} is at work in {row.owner!r}; {self._remedy(row)}")
        if not run.follows or row.count != run.log_size:
            self._tell(run, row)
        run.follows, run.log_size = True, row.count

    def _remedy(self, row: RunRow) -> str:
        wait = "wait, or take it away with take_over=True"
        if row.owner == self.journal.owner or row.owner.partition("-")[0] != str(os.getpid()):
            return wait
        return f"{wait}; if that is another agent of this process, close it, or let both share one SQLiteJournal(…)"


def is_free(journal: Journal, row: RunRow) -> bool:
    """Whether nobody is at work on that run: it waits, or its process has died, or has stopped working on it."""
    if row.state == State.SUSPENDED:
        return not journal.is_driven(row.run_id)
    if row.owner == journal.owner:
        return not journal.is_driven(row.run_id)
    return not journal.is_alive(row.owner)


def started_of(journal: Journal, run_id: str) -> Started:
    """What the caller asked of that run."""
    if journal.row(run_id) is None:
        raise UnknownRun(f"there is no run {run_id!r} in this journal; `surehand runs` lists those that are there")
    first = next((record for record in journal.records(run_id) if record.kind == RUN_STARTED), None)
    if first is None:
        raise JournalDamaged(f"run {run_id!r} has no record of its beginning")
    return from_json(first.body, Started)


_ASKED = tuple(name for name in Started.__struct_fields__ if name not in ("has_deps", "code"))


def _other_input(run_id: str, names: list[str]) -> str:
    return (
        f"run_id={run_id!r} is the id of a run that was begun with other input ({', '.join(names)}); the same id must "
        "not stand for two runs: give another one"
    )
