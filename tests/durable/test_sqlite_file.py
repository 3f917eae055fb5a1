"""The file behind a journal: damage, other processes, other versions, and a disk that does not take any more."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from surehand.durable._journal import Claim, Damage, Draft
from surehand.durable._schema import APPLICATION, VERSION
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalDamaged, JournalTooNew, JournalUnavailable, StaleClaim, UserError

from .test_journals import draft, started


def plain(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """What somebody else does to the file."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found: list[tuple[object, ...]] = []
        for statement in statements:
            found = connection.execute(statement).fetchall()
        return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A closed journal with two runs of three records."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    for run_id in ("a", "b"):
        claim = started(journal, draft("1"), draft("2"), run_id=run_id)
        journal.append(claim, [draft("3")]).result()
    journal.close()
    return tmp_path / "runs.db"


def damages(path: Path) -> list[Damage]:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        return journal.check()


def test_it_is_there_after_it_was_closed_and_opened(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        assert [r.step for r in journal.records("b")] == ["1", "2", "3"]
        assert journal.check() == []


@pytest.mark.parametrize(
    ("statement", "run_id", "problem"),
    [
        ("DELETE FROM record WHERE run_id = 'a' AND seq = 3", "a", "3 records were written and 2 are there"),
        ("DELETE FROM record WHERE run_id = 'a' AND seq = 2", "a", "record 2 is missing"),
        ("UPDATE record SET body = x'00' WHERE run_id = 'a' AND seq = 2", "a", "record 2 (K of '2') is not what"),
        ("UPDATE record SET epoch = 2 WHERE run_id = 'a' AND seq = 1", "a", "record 1 (K of '1') is not what"),
        ("DELETE FROM record WHERE run_id = 'a'", "a", "3 records were written and 0 are there"),
    ],
)
def test_a_changed_history_is_reported_and_never_read_as_a_shorter_one(
    path: Path, statement: str, run_id: str, problem: str
) -> None:
    plain(path, statement)
    (damage,) = [damage for damage in damages(path) if damage.run_id]
    assert damage.run_id == run_id
    assert damage.problem.startswith(problem)
    with contextlib.closing(SQLiteJournal(path)) as journal:
        with pytest.raises(JournalDamaged, match=f"run 'a' in .*{re.escape(problem)}"):
            journal.records("a")
        assert len(journal.records("b")) == 3


def test_a_history_cut_together_with_its_row_shows_in_the_head(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        digest = journal.records("a")[1].digest
    plain(path, "DELETE FROM record WHERE run_id = 'a' AND seq = 3")
    plain(path, f"UPDATE run SET count = 2, digest = x'{digest.hex()}' WHERE run_id = 'a'")
    assert damages(path) == [Damage("", "the head tells of 2 runs and 6 records; there are 2 and 5")]


def test_a_run_that_is_gone_shows_in_the_head(path: Path) -> None:
    plain(path, "DELETE FROM record WHERE run_id = 'a'", "DELETE FROM run WHERE run_id = 'a'")
    assert damages(path) == [Damage("", "the head tells of 2 runs and 6 records; there are 1 and 3")]


def test_overwritten_pages_are_reported(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 512):
        data[at : at + 64] = os.urandom(64)
    path.write_bytes(data)
    try:
        assert damages(path) != []
    except JournalDamaged as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("content", [b"not a database, but some text " * 100, b"\x00" * 5000])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(JournalDamaged, match="damaged or no journal"):
        SQLiteJournal(path)
    assert path.read_bytes() == content


def test_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    plain(tmp_path / "x.db", "CREATE TABLE t (n)")
    with pytest.raises(JournalDamaged, match="a database of something else"):
        SQLiteJournal(tmp_path / "x.db")
    assert plain(tmp_path / "x.db", "SELECT name FROM sqlite_master") == [("t",)]
    assert plain(tmp_path / "x.db", "PRAGMA journal_mode") == [("delete",)]
    assert os.listdir(tmp_path) == ["x.db"]


def test_a_newer_form_is_refused_and_says_what_to_do(path: Path) -> None:
    plain(path, f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(JournalTooNew, match="update surehand"):
        SQLiteJournal(path)
    assert plain(path, "PRAGMA user_version", "PRAGMA application_id") == [(APPLICATION,)]


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        JournalUnavailable, match=re.escape(f"there is no folder {str(tmp_path / 'missing')!r}; see that")
    ):
        SQLiteJournal(tmp_path / "missing" / "runs.db")


def test_a_folder_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="it is a folder; give the path of a file"):
        SQLiteJournal(tmp_path)


@pytest.mark.parametrize("name", ["", ":memory:"])
def test_a_journal_without_a_file_is_another_one(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"journal '{name}'; expected the path of a file, .* is MemoryJournal\(\)"):
        SQLiteJournal(name)
    assert os.listdir(tmp_path) == []


def test_who_has_gone_to_another_folder_still_sees_who_is_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with contextlib.closing(SQLiteJournal("x.db")) as ours, contextlib.closing(SQLiteJournal("x.db")) as theirs:
        owner = theirs.owner
        os.chdir("elsewhere")
        assert ours.is_alive(owner) and theirs.is_alive(ours.owner)
    assert os.listdir(tmp_path / "elsewhere") == []


def test_whoever_opens_a_journal_through_a_link_sees_who_is_alive(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("x.db")
    with (
        contextlib.closing(SQLiteJournal(tmp_path / "x.db")) as ours,
        contextlib.closing(SQLiteJournal(tmp_path / "link.db")) as theirs,
    ):
        assert ours.is_alive(theirs.owner) and theirs.is_alive(ours.owner)


def test_a_file_that_another_program_locks_is_an_error_and_works_again_afterwards(path: Path) -> None:
    journal = SQLiteJournal(path, wait=0.05)
    row = journal.row("a")
    assert row is not None
    claim = journal.claim("a", "me", epoch=row.epoch)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable, match="locked"):
            journal.append(claim, [draft("4")]).result()
        assert [r.step for r in journal.records("a")] == ["1", "2", "3"]
    journal.append(claim, [draft("4")]).result()
    assert [r.step for r in journal.records("a")] == ["1", "2", "3", "4"]
    assert journal.check() == []
    journal.close()


def test_a_full_disk_is_an_error_nothing_is_half_written_and_it_works_again_afterwards(path: Path) -> None:
    journal = SQLiteJournal(path)
    claim = journal.claim("a", "me", epoch=1)
    # The limit of the file's size stands for a disk that is full.
    pages = journal._submit(lambda c: c.execute("PRAGMA page_count").fetchone()[0]).result()
    journal._submit(lambda c: c.execute(f"PRAGMA max_page_count = {pages + 2}").fetchone()).result()
    with pytest.raises(JournalUnavailable, match="full"):
        journal.append(claim, [draft("4"), draft("5", b"x" * 100_000)], state="SUCCEEDED").result()
    row = journal.row("a")
    assert row is not None
    assert (row.state, row.count) == ("RUNNING", 3)
    journal._submit(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchone()).result()
    journal.append(claim, [draft("4"), draft("5", b"x" * 100_000)]).result()
    assert len(journal.records("a")) == 5
    assert journal.check() == []
    journal.close()


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = SQLiteJournal(path)
    journal.close()
    journal.close()
    with pytest.raises(UserError, match="is closed; open it again"):
        journal.records("a")


def test_a_closed_journal_has_let_go_of_its_runs(path: Path) -> None:
    journal = SQLiteJournal(path)
    name = journal.owner
    with contextlib.closing(SQLiteJournal(path)) as other:
        assert (other.owner != name, other.is_alive(name)) == (True, True)
        journal.close()
        assert not other.is_alive(name)
    with pytest.raises(UserError, match="is closed"):
        print(journal.owner)


def test_locks_that_cannot_be_placed_beside_the_journal_are_an_error(path: Path) -> None:
    path.with_name("runs.db.owners").write_bytes(b"a file where the folder should be")
    with (
        contextlib.closing(SQLiteJournal(path)) as journal,
        pytest.raises(JournalUnavailable, match=r"runs\.db\.owners"),
    ):
        print(journal.owner)


def test_an_unknown_sync_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected 'full' or 'normal'"):
        SQLiteJournal(tmp_path / "x.db", sync="off")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_closing_writes_what_is_waiting(tmp_path: Path) -> None:
    journal = SQLiteJournal(tmp_path / "x.db")
    claim = started(journal)
    for number in range(200):
        journal.append(claim, [draft(str(number))])
    journal.close()
    with contextlib.closing(SQLiteJournal(tmp_path / "x.db")) as again:
        assert len(again.records("r")) == 201


def test_a_fork_writes_with_connections_of_its_own(path: Path) -> None:
    journal = SQLiteJournal(path)
    claim = journal.claim("a", "me", epoch=1)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            journal.append(claim, [draft("child")]).result(timeout=20)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    journal.append(claim, [draft("parent")]).result()
    assert [r.step for r in journal.records("a")] == ["1", "2", "3", "child", "parent"]
    journal.close()


TAKE_OVER = """
import sys
import threading
from collections.abc import Callable
from surehand.durable._sqlite import SQLiteJournal
journal = SQLiteJournal(sys.argv[1])
journal.claim("a", "other process", epoch=journal.row("a").epoch)
journal.close()
"""


def test_another_process_takes_a_run_over_and_the_first_is_fenced(path: Path) -> None:
    journal = SQLiteJournal(path)
    claim = journal.claim("a", "me", epoch=1)
    subprocess.run([sys.executable, "-c", TAKE_OVER, str(path)], check=True, timeout=60)
    with pytest.raises(StaleClaim, match="other process"):
        journal.append(claim, [draft("4")]).result()
    assert len(journal.records("a")) == 3
    journal.close()


KILLED = """
import os, sys
from surehand.durable._journal import Draft
from surehand.durable._sqlite import SQLiteJournal
journal = SQLiteJournal(sys.argv[1], sync=sys.argv[2])
claim = journal.start("k", "me", [Draft("K", "start", b"")], state="RUNNING")
for number in range(1000):
    journal.append(claim, [Draft("K", str(number), b"x" * 100)]).result()
    os.write(1, b"%d\\n" % number)
"""


@pytest.mark.parametrize("sync", ["full", "normal"])
def test_what_was_acknowledged_is_there_after_the_process_was_killed(path: Path, sync: str) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path), sync], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(20):
            process.stdout.readline()
        process.kill()
        acknowledged = 20 + len(process.stdout.read().split())
    with contextlib.closing(SQLiteJournal(path)) as journal:
        steps = [r.step for r in journal.records("k")]
        assert steps == ["start", *map(str, range(len(steps) - 1))]
        assert acknowledged <= len(steps) - 1 <= acknowledged + 1
        assert journal.check() == []


def test_a_log_cut_at_any_byte_leaves_a_valid_beginning(tmp_path: Path) -> None:
    source = tmp_path / "runs.db"
    journal = SQLiteJournal(source)
    claim = started(journal)
    for number in range(6):
        journal.append(claim, [Draft("K", str(number), b"x" * 50)]).result()
    main, log = source.read_bytes(), Path(f"{source}-wal").read_bytes()
    journal.close()
    assert len(log) > 20_000
    lengths = set()
    for at in [*range(0, len(log), 997), len(log)]:
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal", "-shm"):
            Path(f"{copy}{suffix}").unlink(missing_ok=True)
        copy.write_bytes(main)
        Path(f"{copy}-wal").write_bytes(log[:at])
        with contextlib.closing(SQLiteJournal(copy)) as found:
            assert found.check() == []
            steps = [r.step for r in found.records("r")] if found.row("r") else []
            assert steps == ["start", *map(str, range(6))][: len(steps)]
            lengths.add(len(steps))
    assert max(lengths) == 7
    assert len(lengths) > 3


def test_what_a_fork_acknowledges_stays_though_its_parent_closes_the_journal(path: Path) -> None:
    journal = SQLiteJournal(path)
    claim = journal.claim("a", "me", epoch=1)
    parent_closed, said = os.pipe()
    appended, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            journal.append(claim, [draft("one")]).result(timeout=20)
            os.write(told, b"x")
            os.read(parent_closed, 1)
            journal.append(claim, [draft("two")]).result(timeout=20)
            code = 0
        finally:
            os._exit(code)
    os.read(appended, 1)
    journal.close()
    os.write(said, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for pipe in (parent_closed, said, appended, told):
        os.close(pipe)
    with contextlib.closing(SQLiteJournal(path)) as again:
        assert [r.step for r in again.records("a")] == ["1", "2", "3", "one", "two"]


def test_forks_while_other_threads_write_and_read_and_fork_lose_nothing_and_hang_nobody(path: Path) -> None:
    journal = SQLiteJournal(path, sync="normal")
    claims = [journal.claim(run_id, "me", epoch=1) for run_id in ("a", "b")]
    done = threading.Event()
    failures: list[BaseException] = []

    def guarded(action: Callable[[], object]) -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    def write(claim: Claim) -> None:
        for number in range(100):
            journal.append(claim, [draft(str(number))]).result(timeout=20)

    def read() -> None:
        while not done.is_set():
            assert journal.check() == []

    def fork() -> None:
        for _ in range(10):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if journal.row("a") is not None else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    actions: list[Callable[[], object]] = [lambda: write(claims[0]), lambda: write(claims[1]), fork, fork]
    threads = [threading.Thread(target=guarded, args=(action,)) for action in actions]
    reader = threading.Thread(target=guarded, args=(read,))
    for thread in [*threads, reader]:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    done.set()
    reader.join(timeout=60)
    assert failures == []
    assert [len(journal.records(run_id)) for run_id in ("a", "b")] == [103, 103]
    journal.close()


def test_an_append_cannot_be_taken_back_so_that_nobody_takes_it_for_unwritten(path: Path) -> None:
    with contextlib.closing(SQLiteJournal(path)) as journal:
        claim = journal.claim("a", "me", epoch=1)
        assert not journal.append(claim, [draft("4")]).cancel()
        journal.append(claim, [draft("5")]).result(timeout=20)
        assert [r.step for r in journal.records("a")] == ["1", "2", "3", "4", "5"]


def test_an_append_to_a_closed_journal_says_so_at_once(path: Path) -> None:
    journal = SQLiteJournal(path)
    claim = journal.claim("a", "me", epoch=1)
    journal.close()
    with pytest.raises(UserError, match="is closed"):
        journal.append(claim, [draft("4")])


@pytest.mark.parametrize("attempt", range(10))
def test_appends_that_race_with_closing_are_written_or_refused(path: Path, attempt: int) -> None:
    journal = SQLiteJournal(path, sync="normal")
    claim = journal.claim("a", "me", epoch=1)
    begun = threading.Semaphore(0)
    written: list[str] = []

    def write(name: str) -> None:
        with contextlib.suppress(UserError):
            for at in itertools.count():
                journal.append(claim, [draft(f"{name}.{at}")]).result(timeout=20)
                written.append(f"{name}.{at}")
                begun.release()

    threads = [threading.Thread(target=write, args=(str(n),), daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10 * attempt + 1):
        begun.acquire(timeout=20)
    journal.close()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    with contextlib.closing(SQLiteJournal(path)) as again:
        assert sorted(r.step for r in again.records("a")[3:]) == sorted(written)
