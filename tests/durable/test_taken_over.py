"""A run that is taken away from a process which was merely stopped, and then goes on: its writes are refused."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surehand import Agent, RunGivenUp, RunInProgress, SQLiteJournal, StaleClaim

from .acting import ROOT, Held, Outside, made, whole

POINTS = [
    "good ask 1",
    "good before look 1.0",
    "good after look 1.0",
    "good ask 2",
    "good before book 2.0",
    "good after book 2.0",
    "good after pay 3.0",
    "good ask 4",
    "bad before book 2.0",
    "bad before unbook 2.0",
    "bad after unbook 2.0",
    "bad before unbook 1.0",
]
BOTH = ("good before book 2.0", "good after pay 3.0", "bad before unbook 2.0")
CASES = [
    (("run", "arun")[n % 2 ^ is_other], where)
    for n, where in enumerate(POINTS)
    for is_other in ((0, 1) if where in BOTH else (0,))
]


def stopped(folder: Path, mode: str, run_id: str, point: str) -> subprocess.Popen[str]:
    """A process that has stopped at that point."""
    command = [sys.executable, "-m", "tests.durable.stopping", str(folder), mode, run_id, point]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status
    return process


def gone_on(process: subprocess.Popen[str]) -> str:
    """What a stopped process says in the end, once it goes on."""
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=60)
    return said


def taken_over(agent: Agent[None], mode: str, run_id: str) -> str | None:
    """The output of the run, taken over here; None if it had been given up, and is undone now."""

    def resume() -> Any:
        if mode == "run":
            return agent.resume(run_id, take_over=True)
        return asyncio.run(agent.aresume(run_id, take_over=True))

    if run_id == "good":
        return resume().output
    with pytest.raises((RunGivenUp, OSError), match="the model is gone"):
        resume()
    return None


@pytest.mark.parametrize(("mode", "where"), CASES)
def test_the_writes_of_a_process_that_was_stopped_are_refused(tmp_path: Path, mode: str, where: str) -> None:
    run_id, _, point = where.partition(" ")
    process = stopped(tmp_path, mode, run_id, point)
    agent, journal, outside = made(tmp_path, who=["second"]), SQLiteJournal(tmp_path / "runs.db"), Outside(tmp_path)
    with pytest.raises(RunInProgress, match="take_over=True"):
        agent.resume(run_id)
    assert agent.recover() == []
    assert taken_over(agent, mode, run_id) == ("done" if run_id == "good" else None)
    records, row, done = journal.records(run_id), journal.row(run_id), outside.lines()

    said = gone_on(process)

    assert said.startswith(f"StaleClaim: run {run_id!r} was claimed by ")
    assert (journal.records(run_id), journal.row(run_id), journal.check()) == (records, row, [])
    assert row is not None
    assert (row.state, row.epoch) == ("SUCCEEDED" if run_id == "good" else "UNDONE", 2)
    # In the middle of its step it could not know; it finishes that step, and begins no other.
    late = outside.lines()[len(done) :]
    words = point.replace("before ", "").split()
    assert late == ([] if point.startswith("after") else [f"first {words[0]} {run_id}:{words[1]}"])
    agent.close()
    journal.close()
    effects = {line.partition(" ")[2] for line in outside.lines()}  # each key counts once for a service that knows it
    assert Counter(effects) == Counter(whole(run_id))


class InThread(threading.Thread):
    """A run on a thread, and how it ended."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._run, self.ended = run, None
        self.start()

    def run(self) -> None:
        try:
            self.ended: Any = self._run().output
        except Exception as error:
            self.ended = error


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_a_run_taken_over_in_its_own_process_is_as_much_at_work_as_any(tmp_path: Path, mode: str) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    at_first, at_second = Held("good before book 2.0"), Held("good after pay 3.0")
    first, second = made(tmp_path, at_first, journal=journal), made(tmp_path, at_second, journal=journal)

    def take_over() -> Any:
        if mode == "run":
            return second.resume("good", take_over=True)
        return asyncio.run(second.aresume("good", take_over=True))

    begun = InThread(lambda: first.run("good", run_id="good"))
    at_first.wait()
    taken = InThread(take_over)
    at_second.wait()
    assert (first.recover(), second.recover()) == ([], [])
    at_first.let_go()
    begun.join()
    assert isinstance(begun.ended, StaleClaim)
    assert (first.recover(), second.recover()) == ([], [])  # he who has lost it has not set it free
    at_second.let_go()
    taken.join()
    assert taken.ended == "done"
    assert Outside(tmp_path).times() == Counter(whole("good")) + Counter(["book good:2.0"])
    row = journal.row("good")
    assert row is not None
    assert (row.state, row.epoch) == ("SUCCEEDED", 2)
    journal.close()
