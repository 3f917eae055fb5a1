"""Appends that wait together share a transaction, and so a sync; each run keeps its order."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalUnavailable, RecordExists, StaleClaim

from .test_journals import draft, started


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@contextlib.contextmanager
def nobody_writes(path: Path) -> Iterator[None]:
    """What is appended meanwhile waits."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_what_waits_together_is_committed_together_in_the_order_of_each_run(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        claims = [started(journal, run_id=f"r{n}") for n in range(64)]
        statements: list[str] = []
        journal._submit(lambda connection: connection.set_trace_callback(statements.append)).result()
        with nobody_writes(path):
            futures = [journal.append(claim, [draft(str(at))]) for at in range(5) for claim in claims]
        for future in futures:
            future.result(timeout=30)
        journal._submit(lambda connection: connection.set_trace_callback(None)).result()
        # The first may have been alone: it was taken before the others came.
        assert statements.count("COMMIT") in (1, 2, 3)
        assert not any(statement.startswith("SAVEPOINT") for statement in statements)
        for claim in claims:
            assert [r.step for r in journal.records(claim.run_id)] == ["start", "0", "1", "2", "3", "4"]


def test_one_that_is_refused_takes_none_of_its_transaction_with_it(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        good, stale = started(journal, run_id="good"), started(journal, run_id="stale")
        journal.claim("stale", "you", epoch=1)
        once = draft("pay", once=True)
        with nobody_writes(path):
            futures = [
                journal.append(good, [draft("1")]),
                journal.append(stale, [draft("x")]),
                journal.append(good, [once]),
                journal.append(good, [draft("y"), once], state="SUCCEEDED"),
                journal.append(good, [draft("2")]),
            ]
        failures = [type(future.exception(timeout=30)) for future in futures]
        assert failures == [type(None), StaleClaim, type(None), RecordExists, type(None)]
        assert [r.step for r in journal.records("good")] == ["start", "1", "pay", "2"]
        assert [row.state for row in journal.rows()] == ["RUNNING", "RUNNING"]
        assert journal.check() == []


def test_everybody_who_waits_is_told_that_the_store_failed(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path, wait=0.05)) as journal:
        claims = [started(journal, run_id=f"r{n}") for n in range(8)]
        with nobody_writes(path):
            futures = [journal.append(claim, [draft("lost")]) for claim in claims]
            assert {type(future.exception(timeout=30)) for future in futures} == {JournalUnavailable}
        for future in [journal.append(claim, [draft("kept")]) for claim in claims]:
            future.result(timeout=30)
        assert [[r.step for r in journal.records(claim.run_id)] for claim in claims] == [["start", "kept"]] * 8
