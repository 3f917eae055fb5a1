"""A store that fails in the middle of a run: a typed error, nothing lost or repeated, and it goes on once mended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from surehand import Agent, JournalError, JournalUnavailable, RunResult, SQLiteJournal, ToolContext, Usage, tool
from surehand.testing import ScriptedModel, call, calls, say

from .acting import ROOT, Outside, made, whole

REMEDY = r"cannot be used: .*; see that its folder exists and can be written, that the disk is not full, and that no"


def done(agent: Agent[None], mode: str, run_id: str) -> RunResult[str]:
    """The result of a run that begins."""
    if mode == "run":
        return agent.run(run_id, run_id=run_id)
    return asyncio.run(agent.arun(run_id, run_id=run_id))


def resumed(agent: Agent[None], mode: str, run_id: str) -> str | None:
    """The output of a run that is gone on with; None if it was given up and is undone now."""
    try:
        return (agent.resume(run_id) if mode == "run" else asyncio.run(agent.aresume(run_id))).output
    except JournalError:
        raise
    except Exception as error:
        assert "the model is gone" in str(error), error
        return None


class Full:
    """No file may become longer than the log is now; what is outside is far shorter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def begin(self) -> None:
        log = self._path.with_name(self._path.name + "-wal")
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, self._limits[1]))

    def end(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


class Locked:
    """Another program holds the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._other: sqlite3.Connection | None = None

    def begin(self) -> None:
        self._other = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._other.execute("BEGIN EXCLUSIVE")

    def end(self) -> None:
        if self._other is not None:
            self._other.close()


@pytest.fixture(params=[Full, Locked], ids=["full", "locked"])
def trouble(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Full | Locked]:
    """What the store has, from ``begin`` to ``end``."""
    made_up: Full | Locked = request.param(tmp_path / "runs.db")
    yield made_up
    made_up.end()


# Where the trouble begins, and what is done once more because it could not be recorded: a model is asked again, a read
# is repeated, a service is given the same key again. What must never be repeated is not: its probe tells.
POINTS = {
    "good ask 1": ["ask good:1"],
    "good before look 1.0": ["look good:1.0"],
    "good ask 2": ["ask good:2"],
    "good before book 2.0": ["book good:2.0"],
    "good after book 2.0": ["book good:2.0"],
    "good before pay 3.0": [],
    "good after pay 3.0": [],
    "good ask 4": ["ask good:4"],
    "bad after book 2.0": ["book bad:2.0"],
    "bad ask 3": ["ask bad:3"],
    "bad before unbook 2.0": ["unbook bad:2.0"],
    "bad after unbook 1.0": ["unbook bad:1.0"],
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["resumed here", "recovered elsewhere"])
@pytest.mark.parametrize("mode", ["run", "arun"])
@pytest.mark.parametrize("where", POINTS)
def test_a_run_whose_store_fails_halts_and_goes_on_once_that_is_mended(
    tmp_path: Path, trouble: Full | Locked, where: str, mode: str, elsewhere: bool
) -> None:
    journal, run_id = SQLiteJournal(tmp_path / "runs.db", wait=0.02), where.partition(" ")[0]
    begin: list[Callable[[], None]] = [trouble.begin]
    agent = made(tmp_path, lambda point: begin.pop()() if point == where and begin else None, journal=journal)
    with pytest.raises(JournalUnavailable, match=REMEDY) as caught:
        done(agent, mode, run_id)
    assert str(tmp_path / "runs.db") in str(caught.value)
    assert f"once that is mended, agent.resume({run_id!r}) goes on with it" in "".join(caught.value.__notes__)
    before = Outside(tmp_path).lines()
    with pytest.raises(JournalUnavailable, match=REMEDY):  # still in trouble
        resumed(agent, mode, run_id)
    assert Outside(tmp_path).lines() == before
    trouble.end()
    if elsewhere:
        journal.close()  # as its process' end would: whoever looks now sees that its owner is gone
        with made(tmp_path) as other:
            assert [one.run_id for one in other.recover()] == [run_id]
    else:
        assert resumed(agent, mode, run_id) == ("done" if run_id == "good" else None)
        journal.close()
    assert Outside(tmp_path).times() == Counter(whole(run_id)) + Counter(POINTS[where])
    with contextlib.closing(SQLiteJournal(tmp_path / "runs.db")) as after:
        row = after.row(run_id)
        assert row is not None
        assert (row.state, after.check()) == ("SUCCEEDED" if run_id == "good" else "UNDONE", [])


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_a_run_that_cannot_be_begun_does_nothing_and_can_be_begun_later(
    tmp_path: Path, trouble: Full | Locked, mode: str
) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db", wait=0.02)
    agent = made(tmp_path, journal=journal)
    trouble.begin()
    with pytest.raises(JournalUnavailable, match=REMEDY):
        done(agent, mode, "good")
    assert (Outside(tmp_path).lines(), journal.rows()) == ([], [])
    trouble.end()
    assert done(agent, mode, "good").output == "done"
    assert Outside(tmp_path).lines() == whole("good")
    journal.close()


def test_a_program_that_holds_the_file_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    journal, trouble = SQLiteJournal(tmp_path / "runs.db", wait=30), Locked(tmp_path / "runs.db")

    def at(point: str) -> None:
        if point == "good after book 2.0":
            trouble.begin()
            threading.Timer(0.1, trouble.end).start()

    assert done(made(tmp_path, at, journal=journal), "run", "good").output == "done"
    assert Outside(tmp_path).lines() == whole("good")
    journal.close()


LEFT = "from tests.durable.racing import leave_behind, Path; leave_behind(Path({!r}), {!r})"
READ_ONLY = """
import os
from tests.durable.racing import load, made, Path
load(Path({elsewhere!r}))  # everything that is loaded: nobody may not read it later
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)  # for root nothing is read-only
try:
    made(Path({folder!r})).recover()
except Exception as error:
    print(type(error).__name__, error)
"""


def python(code: str) -> str:
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout


def test_what_a_dead_process_left_in_a_read_only_file_is_recovered_once_it_can_be_written(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as name:  # which everybody can reach, unlike pytest's
        folder, points = Path(name), {"good": "after pay 3.0", "bad": "before unbook 2.0"}
        python(LEFT.format(name, points))
        before = Outside(folder).lines()
        os.chmod(folder / "runs.db", 0o444)
        os.chmod(folder, 0o555)
        told = python(READ_ONLY.format(elsewhere=str(tmp_path), folder=name))
        assert told.startswith(f"JournalUnavailable the journal {folder / 'runs.db'} cannot be used: ")
        assert Outside(folder).lines() == before
        os.chmod(folder, 0o755)
        os.chmod(folder / "runs.db", 0o644)
        with made(folder) as agent:
            assert sorted(one.run_id for one in agent.recover()) == ["bad", "good"]
        assert Outside(folder).times() == Counter(whole("good") + whole("bad"))


# ---------------------------------------------------------------- what has no JSON form


@pytest.mark.parametrize("mode", ["run", "arun"])
@pytest.mark.parametrize("what", ["attributes", "usage"])
def test_a_reply_that_cannot_be_recorded_halts_its_run_until_the_model_is_mended(
    tmp_path: Path, mode: str, what: str
) -> None:
    booked: list[str] = []

    @tool(repeat="with_key")
    def book(ctx: ToolContext) -> str:
        booked.append(ctx.idempotency_key)
        return "booked"

    odd: Any = {"odd": object()}
    reply = say("done")
    if what == "attributes":
        reply = replace(reply, message=replace(reply.message, attributes=odd))
    else:
        reply = replace(reply, usage=Usage(1, 2, extras=odd))
    with contextlib.closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
        broken = Agent(ScriptedModel([calls(call("book")), reply]), tools=[book], journal=journal)
        with pytest.raises(JournalError, match=r"reply 2 of run 'good' cannot be recorded .* mend the model"):
            done(broken, mode, "good")
        assert [record.kind for record in journal.records("good")] == ["RUN_STARTED", "MODEL", "INTENT", "DONE"]
        mended = Agent(ScriptedModel([say("done")]), tools=[book], journal=journal)
        assert resumed(mended, mode, "good") == "done"
    assert booked == ["good:1.0"]


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_a_call_whose_value_has_no_json_form_is_done_and_not_repeated(tmp_path: Path, mode: str) -> None:
    made_: list[object] = []

    @tool(repeat="with_key")
    def make(ctx: ToolContext) -> Any:
        made_.append(object())
        return made_[-1]

    with contextlib.closing(SQLiteJournal(tmp_path / "runs.db", wait=0.02)) as journal:
        trouble, asked = Locked(tmp_path / "runs.db"), []

        def last(request: Any) -> Any:
            asked.append(request.messages[-1].contents)
            if len(asked) == 1:
                trouble.begin()
            return say("done")

        agent = Agent(ScriptedModel([calls(call("make")), last, last]), tools=[make], journal=journal)
        with pytest.raises(JournalUnavailable, match=REMEDY):
            done(agent, mode, "good")
        trouble.end()
        assert resumed(agent, mode, "good") == "done"
    assert len(made_) == 1
    assert asked[0] == asked[1]  # the model reads the same
