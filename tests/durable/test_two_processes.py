"""Two processes with one journal: nobody touches what is at work elsewhere, and nothing is recovered twice."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from surehand import Agent, RunInProgress, SQLiteJournal

from .acting import ROOT, Outside, made, whole
from .busy import POINTS

RACES = os.environ.get("SUREHAND_RACES", "200")


def recovered(agent: Agent[None], awaitable: bool) -> list[str]:
    """The runs that were recovered, by one method or the other."""
    return [one.run_id for one in (asyncio.run(agent.arecover()) if awaitable else agent.recover())]


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has several runs, each held up somewhere; it lets them go on when a line is written to it."""
    command = [sys.executable, "-m", "tests.durable.busy", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "busy\n"
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> int:
    """The exit code, once its runs were let go on and are over."""
    process.communicate("go on\n", timeout=60)
    return process.returncode


@pytest.mark.parametrize("awaitable", [False, True], ids=["recover", "arecover"])
def test_whoever_recovers_leaves_the_live_runs_of_another_process_alone(
    tmp_path: Path, busy: subprocess.Popen[str], awaitable: bool
) -> None:
    agent, journal, outside = made(tmp_path), SQLiteJournal(tmp_path / "runs.db"), Outside(tmp_path)
    before, done = journal.rows(), outside.lines()
    assert {row.run_id: row.state for row in before} == {
        run_id: "UNDOING" if run_id == "bad-1" else "RUNNING" for run_id in POINTS
    }
    assert recovered(agent, awaitable) == []
    assert (journal.rows(), outside.lines()) == (before, done)
    assert ended(busy) == 0
    assert outside.times() == Counter(line for run_id in POINTS for line in whole(run_id))
    assert {row.run_id: (row.state, row.epoch) for row in journal.rows()} == {
        run_id: ("UNDONE" if run_id.startswith("bad") else "SUCCEEDED", 1) for run_id in POINTS
    }
    assert recovered(agent, awaitable) == []
    agent.close()
    journal.close()


def test_only_the_runs_of_the_process_that_is_gone_are_recovered(tmp_path: Path, busy: subprocess.Popen[str]) -> None:
    outside = Outside(tmp_path)
    before = outside.lines()
    leave_behind_elsewhere(tmp_path)
    agent = made(tmp_path)
    assert sorted(recovered(agent, False)) == ["bad-9", "good-9"]  # they were begun at the same time
    assert outside.times() - Counter(before) == Counter(whole("good-9") + whole("bad-9"))
    assert ended(busy) == 0
    agent.close()


def leave_behind_elsewhere(folder: Path) -> None:
    """Two runs of a process that was killed, which this one did not fork: it has threads."""
    points = {"good-9": "ask 2", "bad-9": "before book 2.0"}
    code = f"from tests.durable.racing import leave_behind, Path; leave_behind(Path({str(folder)!r}), {points!r})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


@pytest.mark.parametrize("run_id", list(POINTS))
def test_a_live_run_of_another_process_cannot_be_resumed(
    tmp_path: Path, busy: subprocess.Popen[str], run_id: str
) -> None:
    agent, before = made(tmp_path), Outside(tmp_path).lines()
    with pytest.raises(RunInProgress, match=f"run '{run_id}' is at work in .* take_over=True"):
        agent.resume(run_id)
    with pytest.raises(RunInProgress, match=f"run '{run_id}' is at work in .* take_over=True"):
        asyncio.run(agent.aresume(run_id))
    assert Outside(tmp_path).lines() == before
    agent.close()


def test_once_the_busy_process_is_killed_all_of_its_runs_are_recovered(
    tmp_path: Path, busy: subprocess.Popen[str]
) -> None:
    agent = made(tmp_path)
    assert recovered(agent, False) == []
    busy.send_signal(signal.SIGKILL)
    busy.wait()
    assert sorted(recovered(agent, False)) == sorted(POINTS)
    again = Counter(["book good-2:2.0", "unbook bad-1:2.0"])  # with the same key: killed between effect and record
    assert Outside(tmp_path).times() == Counter(line for run_id in POINTS for line in whole(run_id)) + again
    agent.close()


def test_two_that_recover_at_once_do_nothing_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.durable.racing", str(tmp_path), RACES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr, done.returncode) == (f"{RACES} races, 0 went wrong\n", "", 0)
