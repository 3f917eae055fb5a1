"""Any sequence of appends, claims, stale writers, prunings and crashes keeps what a journal promises."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from surehand.durable._journal import Claim, Draft
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
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(before=st.integers(100, 130))
    def prune(self, before: int) -> None:
        self.both(lambda journal: journal.prune(before=before, states={"SUCCEEDED"}))

    @rule()
    def crash(self) -> None:
        """What is on disk now, without the log being folded into the file, is what another process finds."""
        self.crashes += 1
        copy = self.folder / f"{self.crashes}.db"
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{self.file.path}{suffix}", f"{copy}{suffix}")
        self.file.close()
        self.file = SQLiteJournal(copy, sync="normal", now=self.clock)

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


TestJournals = Journals.TestCase
TestJournals.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
