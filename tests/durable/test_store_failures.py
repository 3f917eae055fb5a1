"""A full disk, what may not be written, and a file that others hold: typed errors, and it works again once mended."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalUnavailable

from .test_journals import draft, started

REMEDY = r"see that its folder exists and can be written, that the disk is not full, and that no other program"

FULL = """
import resource, sys
from pathlib import Path
from surehand.durable._journal import Draft
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalUnavailable

path, sync, room = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
journal = SQLiteJournal(path, sync=sync)
claim = journal.start("r", "me", [Draft("K", "start", b"")], state="RUNNING")
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
written = Path(f"{path}-wal").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (written + room, hard))
for step in ("lost", "lost too"):
    try:
        journal.append(claim, [Draft("K", step, b"x" * 50_000)], state="SUCCEEDED").result(timeout=20)
    except JournalUnavailable as error:
        print(error)
assert [r.step for r in journal.records("r")] == ["start"]
assert journal.row("r").state == "RUNNING"
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
journal.append(claim, [Draft("K", "kept", b"x" * 50_000)], state="SUCCEEDED").result(timeout=20)
assert [r.step for r in journal.records("r")] == ["start", "kept"]
assert journal.check() == []
import os
os._exit(0)  # without closing: what is in the log has to do
"""


@pytest.mark.parametrize("room", [0, 1, 5000, 20_000])
@pytest.mark.parametrize("sync", ["full", "normal"])
def test_a_disk_that_takes_no_more_loses_and_doubles_nothing(tmp_path: Path, sync: str, room: int) -> None:
    path = tmp_path / "runs.db"
    found = subprocess.run(
        [sys.executable, "-c", FULL, str(path), sync, str(room)], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"the journal {path} cannot be used: ") for line in lines)
    with contextlib.closing(SQLiteJournal(path)) as journal:
        assert [r.step for r in journal.records("r")] == ["start", "kept"]
        assert journal.check() == []


OPEN_AS_NOBODY = """
import os, sys
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalUnavailable
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)  # for root nothing is read-only
try:
    journal = SQLiteJournal(sys.argv[1])
    print("opened", journal.owner)
except JournalUnavailable as error:
    print(error)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach, unlike those that pytest makes."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)
        os.chmod(name, 0o755)


def opened_by_nobody(path: Path) -> str:
    found = subprocess.run(
        [sys.executable, "-c", OPEN_AS_NOBODY, str(path)], capture_output=True, text=True, timeout=60
    )
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


@pytest.mark.parametrize("what", ["file", "folder", "folder without a file"])
def test_what_may_not_be_written_is_named_with_what_to_do(folder: Path, what: str) -> None:
    path = folder / "runs.db"
    if what != "folder without a file":
        SQLiteJournal(path).close()
        os.chmod(path, 0o444 if what == "file" else 0o666)
    os.chmod(folder, 0o777 if what == "file" else 0o555)
    told = opened_by_nobody(path)
    assert told.startswith(f"the journal {path} cannot be used: ")
    assert "see that its folder exists and can be written" in told
    os.chmod(folder, 0o777)
    if path.exists():
        os.chmod(path, 0o666)
    assert opened_by_nobody(path).startswith("opened ")


def test_a_file_that_another_program_holds_whole_is_an_error_and_works_again_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with contextlib.closing(SQLiteJournal(path, wait=0.05)) as journal:
        claim = started(journal)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for action in (
                lambda: journal.append(claim, [draft("x")]).result(timeout=20),
                lambda: journal.start("s", "me", [], state="RUNNING"),
                lambda: journal.claim("r", "you", epoch=1),
                lambda: journal.prune(before=1e12, states={"RUNNING"}),
            ):
                with pytest.raises(JournalUnavailable, match=rf"{path}.*locked; {REMEDY}"):
                    action()
            other.execute("ROLLBACK")
        journal.append(claim, [draft("y")]).result(timeout=20)
        assert [r.step for r in journal.records("r")] == ["start", "y"]
        assert [row.run_id for row in journal.rows()] == ["r"]
        assert journal.check() == []


def test_a_file_that_was_locked_for_good_when_it_was_opened_can_be_opened_later(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SQLiteJournal(path).close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(JournalUnavailable, match=f"locked; {REMEDY}"):
            SQLiteJournal(path, wait=0.05)
    SQLiteJournal(path, wait=0.05).close()


def test_a_journal_that_cannot_be_opened_again_after_a_fork_fails_and_works_once_mended(tmp_path: Path) -> None:
    path = tmp_path / "there" / "runs.db"
    path.parent.mkdir()
    with contextlib.closing(SQLiteJournal(path)) as journal:
        claim = started(journal)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        path.parent.rename(tmp_path / "elsewhere")
        with pytest.raises(JournalUnavailable, match=REMEDY):
            journal.append(claim, [draft("x")]).result(timeout=20)
        with pytest.raises(JournalUnavailable, match=REMEDY):
            journal.records("r")
        (tmp_path / "elsewhere").rename(path.parent)
        journal.append(claim, [draft("y")]).result(timeout=20)
        assert [r.step for r in journal.records("r")] == ["start", "y"]
