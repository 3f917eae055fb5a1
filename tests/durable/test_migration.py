"""Files of other forms: an older one is brought up to date once, whoever opens it; an unknown one is refused."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from surehand.durable import _schema
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalDamaged, JournalTooNew

from .test_journals import draft, started
from .test_sqlite_file import plain

# Form 0 had another name for a column; bringing it up to date leaves a mark for each time that it was done.
STEPS = """
def up(connection):
    connection.execute("ALTER TABLE run RENAME COLUMN touched_at TO changed_at")
    connection.execute("CREATE TABLE IF NOT EXISTS mark (n)")
    connection.execute("INSERT INTO mark VALUES (1)")
"""
OPEN = f"""
import sys
from surehand.durable import _schema
from surehand.durable._sqlite import SQLiteJournal
{STEPS}
_schema._STEPS = {{0: up}}
print("here", flush=True)
journal = SQLiteJournal(sys.argv[1])
assert [r.step for r in journal.records("a")] == ["1", "2"]
assert journal.check() == []
journal.close()
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    journal = SQLiteJournal(tmp_path / "runs.db")
    started(journal, draft("1"), draft("2"), run_id="a")
    journal.close()
    plain(journal.path, "ALTER TABLE run RENAME COLUMN changed_at TO touched_at", "PRAGMA user_version = 0")
    return journal.path


def test_an_older_form_is_brought_up_to_date_once_by_many_processes_that_open_it_at_once(old: Path) -> None:
    with contextlib.closing(sqlite3.connect(old, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # so that all of them find the old form before one of them can change it
        processes = [
            subprocess.Popen([sys.executable, "-c", OPEN, str(old)], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        other.execute("ROLLBACK")
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert plain(old, "SELECT count(*) FROM mark") == [(1,)]
    assert plain(old, "PRAGMA user_version") == [(_schema.VERSION,)]


def test_a_step_that_fails_leaves_the_older_form_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def up(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE run RENAME COLUMN touched_at TO changed_at")
        raise RuntimeError("no more")

    monkeypatch.setattr(_schema, "_STEPS", {0: up})
    with pytest.raises(RuntimeError, match="no more"):
        SQLiteJournal(old)
    assert plain(old, "SELECT touched_at > 0 FROM run") == [(1,)]
    assert plain(old, "PRAGMA user_version") == [(0,)]


@pytest.mark.parametrize("form", [0, -3])
def test_a_form_that_nobody_wrote_is_damage(old: Path, form: int) -> None:
    plain(old, f"PRAGMA user_version = {form}")
    with pytest.raises(JournalDamaged, match=f"form {form}, which no surehand has written"):
        SQLiteJournal(old)


def test_a_journal_whose_tables_are_gone_is_damage_and_not_a_new_one(old: Path) -> None:
    plain(old, f"PRAGMA user_version = {_schema.VERSION}", "DROP TABLE run", "DROP TABLE record", "DROP TABLE head")
    with pytest.raises(JournalDamaged, match="its tables are gone"):
        SQLiteJournal(old)


def test_a_newer_form_is_refused_and_left_alone(old: Path) -> None:
    plain(old, f"PRAGMA user_version = {_schema.VERSION + 7}")
    with pytest.raises(JournalTooNew, match=f"form {_schema.VERSION + 7}; .* update surehand"):
        SQLiteJournal(old)
    assert plain(old, "SELECT touched_at > 0 FROM run") == [(1,)]


def test_opening_does_not_wait_for_what_others_write(tmp_path: Path) -> None:
    SQLiteJournal(tmp_path / "runs.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with contextlib.closing(SQLiteJournal(tmp_path / "runs.db", wait=0.05)) as journal:
            assert journal.rows() == []
