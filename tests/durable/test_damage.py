"""Whatever happens to a journal's file, its histories are read as they were written or not at all."""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from msgspec import Struct

from surehand.durable._journal import Record, RunRow
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import JournalDamaged, JournalTooNew, UnknownRun

from .test_journals import draft
from .test_sqlite_file import plain

PAGE = 4096
RUNS = ("a", "b", "c")


class Whole(Struct, frozen=True):
    """A file, and what it says."""

    data: bytes
    rows: list[RunRow]
    records: dict[str, list[Record]]


def whole() -> Whole:
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        with contextlib.closing(SQLiteJournal(path, now=lambda: 100.0)) as journal:
            for run_id in RUNS:
                claim = journal.start(run_id, "me", [draft("start", rng.randbytes(300))], state="RUNNING")
                for number in range(12):
                    body = rng.randbytes(9000 if number == 5 else 150)
                    journal.append(claim, [draft(str(number), body, kind="DONE", once=True)]).result()
            rows, records = journal.rows(), {run_id: journal.records(run_id) for run_id in RUNS}
        return Whole(path.read_bytes(), rows, records)


WHOLE = whole()
PAGES = len(WHOLE.data) // PAGE


def told(data: bytes) -> str:
    """What a journal with this file tells, after it was made sure that it tells nothing that was not written."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        path.write_bytes(data)
        try:
            journal = SQLiteJournal(path)
        except (JournalDamaged, JournalTooNew) as error:  # the number of the form may be what was changed
            assert str(path) in str(error)
            return "refused"
        with contextlib.closing(journal):
            damages = journal.check()
            if is_as_written(journal):
                return "reported" if damages else "harmless"
            assert damages, "something is not as it was written, and the check finds nothing"
            return "reported"


def is_as_written(journal: SQLiteJournal) -> bool:
    as_written = True
    for run_id in RUNS:
        try:
            assert journal.records(run_id) == WHOLE.records[run_id], "another history than was written"
        except (JournalDamaged, UnknownRun):
            as_written = False
    try:
        return as_written and journal.rows() == WHOLE.rows
    except JournalDamaged:
        return False


def flipped(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    changed = bytearray(data)
    for at, mask in changes:
        changed[at] ^= mask
    return bytes(changed)


def test_the_file_that_nothing_happened_to_is_harmless() -> None:
    assert told(WHOLE.data) == "harmless"
    assert PAGES > 10


def test_changed_bytes_are_never_read_as_another_history() -> None:
    seen: Counter[str] = Counter()
    places = st.integers(0, len(WHOLE.data) - 1)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=12))
    @example([(3998, 128)])  # a letter of the tables' definitions, which SQLite's message quotes
    def change(changes: list[tuple[int, int]]) -> None:
        seen[told(flipped(WHOLE.data, changes))] += 1

    change()
    assert seen["reported"] + seen["refused"] >= 30, seen  # they did hit places that matter


@settings(max_examples=60, deadline=None)
@given(st.integers(0, PAGES - 1), st.integers(0, PAGES - 1), st.sampled_from(["cut", "zero", "swap", "lost write"]))
def test_lost_and_swapped_pages_are_never_read_as_another_history(one: int, other: int, kind: str) -> None:
    pages = [WHOLE.data[n * PAGE : (n + 1) * PAGE] for n in range(PAGES)]
    if kind == "cut":
        del pages[max(1, one) :]
    elif kind == "zero":
        pages[one] = bytes(PAGE)
    elif kind == "swap":
        pages[one], pages[other] = pages[other], pages[one]
    else:
        pages[one] = pages[other]
    data = b"".join(pages)
    assert (told(data) == "harmless") == (data == WHOLE.data)


CHANGES = {
    "a record in the middle is gone": ["DELETE FROM record WHERE run_id = 'a' AND seq = 5"],
    "the last record is gone": ["DELETE FROM record WHERE run_id = 'a' AND seq = 13"],
    "the last record is gone and the run says so": [
        "DELETE FROM record WHERE run_id = 'a' AND seq = 13",
        "UPDATE run SET count = 12, digest = (SELECT digest FROM record WHERE run_id = 'a' AND seq = 12) "
        "WHERE run_id = 'a'",
    ],
    "a run is gone": ["DELETE FROM record WHERE run_id = 'b'", "DELETE FROM run WHERE run_id = 'b'"],
    "a run is gone but for its records": ["DELETE FROM run WHERE run_id = 'b'"],
    "a run has no records": ["DELETE FROM record WHERE run_id = 'b'"],
    "a body is another": ["UPDATE record SET body = x'00' WHERE run_id = 'c' AND seq = 3"],
    "a body is text": ["UPDATE record SET body = '{}' WHERE run_id = 'c' AND seq = 3"],
    "a kind is another": ["UPDATE record SET kind = 'FAILED', once = NULL WHERE run_id = 'c' AND seq = 3"],
    "a step is no text": ["UPDATE record SET step = x'ff' WHERE run_id = 'c' AND seq = 3"],
    "a digest is text": ["UPDATE record SET digest = 'x' WHERE run_id = 'c' AND seq = 3"],
    "two records changed places": [
        "UPDATE record SET seq = 99 WHERE run_id = 'a' AND seq = 3",
        "UPDATE record SET seq = 3 WHERE run_id = 'a' AND seq = 4",
        "UPDATE record SET seq = 4 WHERE run_id = 'a' AND seq = 99",
    ],
    "a record moved to another run": [
        "UPDATE record SET run_id = 'b', seq = 14, step = '99' WHERE run_id = 'a' AND seq = 13"
    ],
    "a state is another": ["UPDATE run SET state = 'SUCCEEDED' WHERE run_id = 'a'"],
    "an owner is another": ["UPDATE run SET owner = 'you' WHERE run_id = 'a'"],
    "an epoch is another": ["UPDATE run SET epoch = 9 WHERE run_id = 'a'"],
    "a count is text": ["UPDATE run SET count = 'many' WHERE run_id = 'a'"],
    "a time is another": ["UPDATE run SET changed_at = 1.0 WHERE run_id = 'a'"],
    "the head is gone": ["DELETE FROM head"],
    "the head is of another kind": ["UPDATE head SET digest = 'x'"],
    "a table is gone": ["DROP TABLE record"],
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_in_the_tables_is_reported(tmp_path: Path, change: str) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(WHOLE.data)
    plain(path, *CHANGES[change])
    with contextlib.closing(SQLiteJournal(path)) as journal:
        assert journal.check() != []


@pytest.mark.parametrize("change", ["the last record is gone", "the head is gone", "a state is another"])
def test_what_is_written_later_does_not_heal_damage(tmp_path: Path, change: str) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(WHOLE.data)
    plain(path, *CHANGES[change])
    with contextlib.closing(SQLiteJournal(path)) as journal:
        for run_id in RUNS:
            with contextlib.suppress(JournalDamaged):
                claim = journal.claim(run_id, "you", epoch=1)
                journal.append(claim, [draft("later")], state="RUNNING").result()
        assert journal.check() != []


def test_a_record_under_a_number_that_is_taken_is_damage_and_not_a_record_that_may_exist_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(WHOLE.data)
    plain(path, "UPDATE run SET count = 12 WHERE run_id = 'a'")
    with contextlib.closing(SQLiteJournal(path)) as journal:
        claim = journal.claim("a", "you", epoch=1)
        with pytest.raises(JournalDamaged, match=r"record\.seq"):
            journal.append(claim, [draft("later")]).result()


def test_a_check_while_others_write_finds_nothing(tmp_path: Path) -> None:
    done = threading.Event()
    with contextlib.closing(SQLiteJournal(tmp_path / "runs.db", sync="normal")) as journal:
        claim = journal.start("r", "me", [draft(str(number)) for number in range(200)], state="RUNNING")

        def write() -> None:
            while not done.is_set():
                journal.append(claim, [draft("later")]).result()

        writer = threading.Thread(target=write)
        writer.start()
        found = [journal.check() for _ in range(100)]
        done.set()
        writer.join()
    assert found == [[]] * 100
