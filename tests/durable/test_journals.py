"""What every journal does, whatever it is stored in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from surehand.durable._journal import EMPTY, Claim, Draft, Journal, Record, RunRow, chained
from surehand.durable._memory import MemoryJournal
from surehand.durable._sqlite import SQLiteJournal
from surehand.errors import RecordExists, RunExists, StaleClaim, UnknownRun
from surehand.testing import FakeClock

MakeJournal = Callable[[], Journal]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100.0)


@pytest.fixture(params=["memory", "sqlite full", "sqlite normal"])
def journal(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Journal]:
    made: Journal
    if request.param == "memory":
        made = MemoryJournal(now=clock)
    else:
        made = SQLiteJournal(tmp_path / "runs.db", sync=request.param.split()[1], now=clock)
    yield made
    made.close()


def draft(step: str = "s", body: bytes = b"{}", *, kind: str = "K", once: bool = False) -> Draft:
    return Draft(kind, step, body, once)


def started(journal: Journal, *drafts: Draft, run_id: str = "r", owner: str = "me") -> Claim:
    return journal.start(run_id, owner, drafts or [draft("start")], state="RUNNING")


def history(journal: Journal, run_id: str = "r") -> list[tuple[int, int, str, str, bytes]]:
    return [(r.seq, r.epoch, r.kind, r.step, r.body) for r in journal.records(run_id)]


def test_a_run_is_what_was_appended_in_order(journal: Journal) -> None:
    claim = started(journal, draft("a", b"1"), draft("b", b"2"))
    journal.append(claim, [draft("c", b"3", kind="L")]).result()
    journal.append(claim, []).result()
    assert history(journal) == [(1, 1, "K", "a", b"1"), (2, 1, "K", "b", b"2"), (3, 1, "L", "c", b"3")]


def test_each_record_carries_the_digest_of_the_ones_before_it(journal: Journal) -> None:
    started(journal, draft("a"), draft("b"))
    first, second = journal.records("r")
    assert first == Record(1, 1, "K", "a", b"{}", chained(EMPTY, 1, 1, draft("a")))
    assert second.digest == chained(first.digest, 2, 1, draft("b"))


def test_the_row_tells_the_state_the_owner_and_the_times(journal: Journal, clock: FakeClock) -> None:
    claim = started(journal)
    clock.advance(5)
    journal.append(claim, [draft("end")], state="SUCCEEDED").result()
    digest = journal.records("r")[-1].digest
    assert journal.row("r") == RunRow("r", "SUCCEEDED", "me", 1, 2, digest, 100.0, 105.0)
    assert journal.row("other") is None


def test_a_run_starts_once(journal: Journal) -> None:
    started(journal)
    with pytest.raises(RunExists, match="'r'"):
        started(journal, draft("again"))
    assert [step for _, _, _, step, _ in history(journal)] == ["start"]


def test_what_may_exist_once_is_refused_the_second_time_and_nothing_of_that_append_is_written(journal: Journal) -> None:
    claim = started(journal)
    journal.append(claim, [draft("pay", kind="DONE", once=True)]).result()
    with pytest.raises(RecordExists):
        journal.append(claim, [draft("x"), draft("pay", kind="DONE", once=True)], state="SUCCEEDED").result()
    journal.append(claim, [draft("pay", kind="OTHER", once=True), draft("pay", kind="DONE")]).result()
    assert [(kind, step) for _, _, kind, step, _ in history(journal)] == [
        ("K", "start"),
        ("DONE", "pay"),
        ("OTHER", "pay"),
        ("DONE", "pay"),
    ]
    row = journal.row("r")
    assert row is not None
    assert row.state == "RUNNING"


def test_another_run_may_have_the_same_step(journal: Journal) -> None:
    for run_id in ("a", "b"):
        started(journal, draft("pay", once=True), run_id=run_id)
    assert [len(journal.records(run_id)) for run_id in ("a", "b")] == [1, 1]


def test_who_was_taken_over_can_write_no_more(journal: Journal) -> None:
    old = started(journal)
    new = journal.claim("r", "you", epoch=old.epoch)
    assert new == Claim("r", "you", 2)
    with pytest.raises(StaleClaim, match="'you'"):
        journal.append(old, [draft("late")], state="SUCCEEDED").result()
    journal.append(new, [draft("mine")]).result()
    assert [(epoch, step) for _, epoch, _, step, _ in history(journal)] == [(1, "start"), (2, "mine")]


def test_of_two_who_claim_at_once_one_gets_the_run(journal: Journal) -> None:
    started(journal)
    outcomes: list[Any] = []
    barrier = threading.Barrier(8)

    def claim(name: str) -> None:
        barrier.wait()
        try:
            outcomes.append(journal.claim("r", name, epoch=1))
        except StaleClaim as error:
            outcomes.append(error)

    threads = [threading.Thread(target=claim, args=(f"n{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, Claim)]
    assert len(outcomes) == 8
    row = journal.row("r")
    assert row is not None
    assert (row.owner, row.epoch) == (winner.owner, 2)


def test_a_run_that_is_not_there_is_named(journal: Journal) -> None:
    for action in (
        lambda: journal.records("x"),
        lambda: journal.claim("x", "me", epoch=1),
        lambda: journal.append(Claim("x", "me", 1), [draft()]).result(),
    ):
        with pytest.raises(UnknownRun, match="'x'"):
            action()


def test_runs_are_listed_oldest_first_and_by_state(journal: Journal, clock: FakeClock) -> None:
    for run_id in ("b", "a", "c"):
        claim = started(journal, run_id=run_id)
        clock.advance(1)
        if run_id == "a":
            journal.append(claim, [draft("end")], state="SUCCEEDED").result()
    assert [row.run_id for row in journal.rows()] == ["b", "a", "c"]
    assert [row.run_id for row in journal.rows({"RUNNING"})] == ["b", "c"]
    assert journal.rows(set()) == []


def test_old_runs_in_the_given_states_are_forgotten_and_the_rest_is_whole(journal: Journal, clock: FakeClock) -> None:
    for run_id, state in (("old", "SUCCEEDED"), ("open", "RUNNING"), ("young", "SUCCEEDED")):
        if run_id == "young":
            clock.advance(10)
        claim = started(journal, run_id=run_id)
        journal.append(claim, [draft("end")], state=state).result()
    assert journal.prune(before=105.0, states={"SUCCEEDED"}) == 1
    assert [row.run_id for row in journal.rows()] == ["open", "young"]
    assert [len(journal.records(run_id)) for run_id in ("open", "young")] == [2, 2]
    assert journal.check() == []
    started(journal, run_id="old")


def test_appends_from_many_threads_lose_nothing(journal: Journal) -> None:
    claims = [started(journal, run_id=f"r{n}") for n in range(8)]

    def write(claim: Claim) -> None:
        for number in range(25):
            journal.append(claim, [draft(str(number))]).result()

    threads = [threading.Thread(target=write, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for claim in claims:
        assert [r.step for r in journal.records(claim.run_id)] == ["start", *map(str, range(25))]
    assert journal.check() == []


def test_an_append_that_fails_leaves_the_others_that_wait_with_it(journal: Journal) -> None:
    old = started(journal, run_id="old")
    journal.claim("old", "you", epoch=1)
    good = started(journal, run_id="good")
    futures = [journal.append(old, [draft("x")]), journal.append(good, [draft("y")]), journal.append(old, [draft("z")])]
    assert [type(future.exception()) for future in futures] == [StaleClaim, type(None), StaleClaim]
    assert [r.step for r in journal.records("good")] == ["start", "y"]


@pytest.mark.parametrize("body", [b"", b"\x00\xff", b"x" * 1_000_000])
def test_any_bytes_come_back_as_they_are(journal: Journal, body: bytes) -> None:
    started(journal, draft("s\u00e9\n", body, kind="K'"))
    assert history(journal) == [(1, 1, "K'", "s\u00e9\n", body)]
    assert journal.check() == []


def test_runs_that_have_a_record_of_a_kind_are_listed_oldest_first(journal: Journal, clock: FakeClock) -> None:
    for run_id, kind in (("b", "IN_DOUBT"), ("c", "K"), ("a", "IN_DOUBT")):
        claim = started(journal, run_id=run_id)
        journal.append(claim, [draft("1", kind=kind), draft("2", kind=kind)]).result()
        clock.advance(1)
    assert journal.having("IN_DOUBT") == ["b", "a"]
    assert journal.having("OTHER") == []


def test_this_process_is_alive_and_nobody_is_not(journal: Journal) -> None:
    assert journal.owner != ""
    assert journal.owner == journal.owner
    assert [journal.is_alive(name) for name in (journal.owner, "", "1-00", "..", "x/y")] == [True, *[False] * 4]


def test_a_run_is_driven_by_one_at_a_time(journal: Journal) -> None:
    assert [journal.drive("a"), journal.drive("a"), journal.drive("b")] == [True, False, True]
    assert [journal.is_driven(run_id) for run_id in ("a", "b", "c")] == [True, True, False]
    journal.release("a")
    journal.release("c")
    assert [journal.is_driven("a"), journal.is_driven("b"), journal.drive("a")] == [False, True, True]


def test_of_many_threads_that_want_to_drive_a_run_one_does(journal: Journal) -> None:
    outcomes: list[bool] = []
    barrier = threading.Barrier(8)

    def drive() -> None:
        barrier.wait()
        outcomes.append(journal.drive("a"))

    threads = [threading.Thread(target=drive) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


def test_a_fork_drives_nothing_yet(journal: Journal) -> None:
    journal.drive("a")
    pid = os.fork()
    if pid == 0:
        os._exit([journal.is_driven("a"), journal.drive("a"), journal.drive("a")] != [False, True, False])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert journal.is_driven("a")
