"""Any sequence of appends, claims, stale writers, prunings and crashes keeps what a journal promises."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from surehand.durable._journal import Claim, Draft, Journal, Record, RunRow
from surehand.durable._memory import MemoryJournal
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalError, StaleClaim
from surehand.testing import FakeClock

RUNS = st.sampled_from(["a", "b", "c"])
DRAFTS = st.lists(
    st.builds(
        Draft,
        st.sampled_from(["DONE", "INTENT"]),
        st.sampled_from(["1", "2"]),
        st.binary(max_size=20),
        st.booleans(),
    ),
    max_size=3,
)
STATES = st.sampled_from(["RUNNING", "SUCCEEDED", None])


SURVIVED: Counter[tuple[int, int]] = Counter()
"""How often so many of so many appends that nobody had waited for were found after a crash."""


def contents(journal: Journal) -> list[tuple[RunRow, list[Record]]]:
    return [(row, journal.records(row.run_id)) for row in journal.rows()]


def copy_of(model: MemoryJournal, clock: FakeClock) -> MemoryJournal:
    copy = MemoryJournal(now=clock)
    copy._runs = {i: replace(run, records=list(run.records), once=set(run.once)) for i, run in model._runs.items()}
    return copy


class Journals(RuleBasedStateMachine):
    """The file behaves as the plain lists do, also when its process is killed between two steps."""

    claims: Bundle[Claim] = Bundle("claims")

    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.clock = FakeClock(100.0)
        self.model = MemoryJournal(now=self.clock)
        self.file = SQLiteJournal(self.folder / "runs.db", sync="normal", now=self.clock)
        self.crashes = 0

    def both(self, action: Any) -> Any:
        outcomes: list[Any] = []
        for journal in (self.model, self.file):
            try:
                outcomes.append(action(journal))
            except JournalError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    @rule(target=claims, run_id=RUNS, drafts=DRAFTS)
    def start(self, run_id: str, drafts: list[Draft]) -> Any:
        outcome = self.both(lambda journal: journal.start(run_id, "first", drafts, state="RUNNING"))
        return outcome if isinstance(outcome, Claim) else Claim(run_id, "nobody", 99)

    @rule(target=claims, run_id=RUNS, epoch=st.integers(1, 3))
    def claim(self, run_id: str, epoch: int) -> Any:
        outcome = self.both(lambda journal: journal.claim(run_id, "next", epoch=epoch))
        return outcome if isinstance(outcome, Claim) else Claim(run_id, "nobody", 99)

    @rule(claim=claims, drafts=DRAFTS, state=STATES)
    def append(self, claim: Claim, drafts: list[Draft], state: str | None) -> None:
        row = self.model.row(claim.run_id)
        before = [] if row is None else self.model.records(claim.run_id)
        outcome = self.both(lambda journal: journal.append(claim, drafts, state=state).result())
        if row is not None and row.epoch != claim.epoch:
            assert outcome is StaleClaim
            assert self.file.records(claim.run_id) == before

    @rule(seconds=st.integers(1, 5))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(before=st.integers(100, 130))
    def prune(self, before: int) -> None:
        self.both(lambda journal: journal.prune(before=before, states={"SUCCEEDED"}))

    @rule(
        pending=st.lists(st.tuples(RUNS, DRAFTS, STATES), max_size=4),
        cut=st.sampled_from([1.0, 0.9, 0.6, 0.3]) | st.floats(0, 1),
        garbage=st.binary(max_size=40),
    )
    def crash(self, pending: list[tuple[str, list[Draft], str | None]], cut: float, garbage: bytes) -> None:
        """The log ends at any byte after what was acknowledged, and may go on with what was never written."""
        source = self.file.path
        acknowledged = Path(f"{source}-wal").stat().st_size
        possible = self.append_without_waiting(pending)
        main, log = source.read_bytes(), Path(f"{source}-wal").read_bytes()
        self.file.close()
        self.crashes += 1
        copy = self.folder / f"{self.crashes}.db"
        copy.write_bytes(main)
        end = acknowledged + round(cut * (len(log) - acknowledged))
        Path(f"{copy}-wal").write_bytes(log[:end] + garbage)
        self.file = SQLiteJournal(copy, sync="normal", now=self.clock)
        said = contents(self.file)
        (self.model, *_) = [model for model in possible if contents(model) == said]
        SURVIVED[possible.index(self.model), len(possible) - 1] += 1

    def append_without_waiting(self, pending: list[tuple[str, list[Draft], str | None]]) -> list[MemoryJournal]:
        """The states in which the journal may be found if its process dies now: after each of these, or none."""
        possible = [self.model]
        futures: list[Future[None]] = []
        for run_id, drafts, state in pending:
            row = possible[-1].row(run_id)
            if row is None:
                continue
            claim = Claim(run_id, row.owner, row.epoch)
            futures.append(self.file.append(claim, drafts, state=state))
            possible.append(copy_of(possible[-1], self.clock))
            possible[-1].append(claim, drafts, state=state).exception()
        wait(futures)
        return possible

    @rule(claim=consumes(claims))
    def forget(self, claim: Claim) -> None:
        """Whoever held it is gone."""

    @invariant()
    def all_is_there(self) -> None:
        if not hasattr(self, "file"):
            return
        assert self.file.rows() == self.model.rows()
        for row in self.model.rows():
            assert self.file.records(row.run_id) == self.model.records(row.run_id)
            seen = [(r.kind, r.step) for r in self.file.records(row.run_id)]
            assert len(seen) == row.count
        assert self.file.check() == []

    def teardown(self) -> None:
        if hasattr(self, "file"):
            self.file.close()
            shutil.rmtree(self.folder)


def test_any_sequence_of_steps_and_crashes_keeps_what_a_journal_promises() -> None:
    SURVIVED.clear()
    run_state_machine_as_test(
        Journals,
        settings=settings(max_examples=40, stateful_step_count=25, deadline=None),
    )
    lost = sum(times for (found, possible), times in SURVIVED.items() if found < possible)
    kept = sum(times for (found, possible), times in SURVIVED.items() if found and found == possible)
    assert (lost > 0, kept > 0) == (True, True), SURVIVED
