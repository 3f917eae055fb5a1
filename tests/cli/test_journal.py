"""``surehand journal check``, as a shell sees it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from surehand.cli import main
from surehand.durable._journal import Draft
from surehand.durable._sqlite import SQLiteJournal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with contextlib.closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
        journal.start("a", "me", [Draft("K", "1", b""), Draft("K", "2", b"")], state="RUNNING")
    return tmp_path / "runs.db"


def test_a_whole_journal_is_said_to_be_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "check", str(path)]) == 0
    assert capsys.readouterr().out == "1 run, all as they were written\n"


def test_what_is_wrong_is_told_with_the_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM record WHERE seq = 2")
    assert main(["journal", "check", str(path)]) == 1
    assert capsys.readouterr().out == "run a: 2 records were written and 1 are there\n"


def test_what_is_no_journal_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"text " * 1000)
    assert main(["journal", "check", str(tmp_path / "x")]) == 1
    assert "damaged or no journal" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "check", str(tmp_path / "missing")]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert not (tmp_path / "missing").exists()
