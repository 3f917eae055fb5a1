"""Runs with a journal that are stopped: by Ctrl-C, a cancellation, a limit or a body that outlives its time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from surehand import (
    Agent,
    CancelToken,
    Limits,
    Outcome,
    RoundLimitError,
    RunCancelled,
    RunGivenUp,
    SQLiteJournal,
    ToolContext,
    report_of,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, every_mode, raised

ROOT = Path(__file__).parents[2]


def bookings(life: Life) -> Any:
    def cancel(n: int) -> None:
        life.log.append(f"cancel {n}")

    @tool(undo=cancel)
    def book(n: int) -> int:
        life.log.append(f"book {n}")
        return n

    return book


def state(life: Life) -> str:
    row = life.journal.row(RUN)
    assert row is not None
    return row.state


@every_mode
@pytest.mark.parametrize("how", ["cancel", "interrupt", "limit"])
def test_a_run_that_is_stopped_is_undone_and_that_is_what_its_journal_says(mode: Mode, how: str) -> None:
    life, token = Life(), CancelToken()

    @tool(repeat="safe")
    def stop() -> None:
        if how == "cancel":
            token.cancel()
        if how == "interrupt":
            raise KeyboardInterrupt

    tools = [bookings(life), stop]
    script = [calls(call("book", {"n": 1})), calls(call("book", {"n": 2})), calls(call("stop")), calls(call("stop"))]
    options: dict[str, Any] = {"tools": tools, "limits": Limits(rounds=3)}
    ended = mode.drive(agent(life, *script, **options), run_id=RUN, cancel=token)
    kinds = {"cancel": RunCancelled, "interrupt": KeyboardInterrupt, "limit": RoundLimitError}
    assert isinstance(ended.error, kinds[how])
    assert life.log == ["book 1", "book 2", "cancel 2", "cancel 1"]
    assert (state(life), agent(life, **options).recover()) == ("UNDONE", [])
    again = mode.drive(agent(life, **options), run_id=RUN)
    assert isinstance(again.error, RunGivenUp) and again.report == ended.report and len(life.log) == 4


@pytest.mark.parametrize("parallel", [False, True])
def test_a_task_that_is_cancelled_undoes_what_was_done_and_records_it(parallel: bool) -> None:
    life = Life()

    async def scenario() -> BaseException | None:
        begun = asyncio.Event()

        @tool(repeat="with_key")
        async def wait(ctx: ToolContext[Any]) -> str:
            begun.set()
            await asyncio.sleep(0.01)  # what runs is waited for
            return "waited"

        script = [calls(call("book", {"n": 1})), calls(call("wait")), say("Never")]
        one = agent(life, *script, tools=[bookings(life), wait], parallel=parallel)
        task = asyncio.create_task(one.arun("Go", run_id=RUN))
        await begun.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return error
        return None

    error = asyncio.run(scenario())
    assert error is not None
    report = report_of(error)
    assert report is not None and [e.key for e in report.undone] == ["1.0"]
    assert (life.log, state(life)) == (["book 1", "cancel 1"], "STUCK" if report.unknown else "UNDONE")


@every_mode
def test_what_finishes_late_is_recorded_and_told_as_done(mode: Mode) -> None:
    life, release, finished = Life(), threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        release.wait(20)
        return "done after all"

    def listener(event: Any) -> None:
        if getattr(event, "late", False):
            finished.set()

    script = [calls(call("slow")), say("Done")]
    ended = mode.drive(agent(life, *script, tools=[slow], listeners=[listener]), run_id=RUN)
    assert [e.outcome for e in ended.answer.executions] == [Outcome.UNKNOWN]
    other = agent(life, tools=[slow])
    if mode.is_async:  # its event loop is closed: nobody hears of it any more
        assert [u.key for u in other.unknowns()] == [f"{RUN}:1.0"]
        release.set()
        return
    release.set()
    assert finished.wait(20)
    assert [e.outcome for e in other.resume(RUN).undone.executions] == [Outcome.DONE]
    assert other.unknowns() == []


DYING = """
import os, signal, sys
from pathlib import Path
from surehand import Agent, ToolContext, tool
from surehand.testing import ScriptedModel, call, calls, say
log = Path(sys.argv[2])
def note(text):
    with log.open("a") as file:
        file.write(text + "\\n")
@tool(repeat="with_key")
def pay(ctx: ToolContext) -> str:
    note("pay " + ctx.idempotency_key)
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
script = [calls(call("pay")), say("Done")] if os.environ.get("DIES") else [say("Done")]
agent = Agent(ScriptedModel(script), tools=[pay], journal=sys.argv[1])
if os.environ.get("DIES"):
    agent.run("Go", run_id="order-7")
for one in agent.recover():
    note(f"{one.run_id} {one.result.output}")
"""


def test_a_process_that_is_killed_in_a_body_leaves_a_run_that_another_process_recovers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DYING, str(tmp_path / "runs.db"), str(tmp_path / "log")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    first = subprocess.run(command, env={**environment, "DIES": "1"}, timeout=30, check=False)
    assert first.returncode == -signal.SIGKILL
    for _ in range(2):  # the second time there is nothing left to be done
        assert subprocess.run(command, env=environment, timeout=30, check=False).returncode == 0
    key = "pay order-7:1.0"
    assert (tmp_path / "log").read_text().splitlines() == [key, key, "order-7 Done"]
    with Agent(ScriptedModel([]), journal=tmp_path / "runs.db") as told:
        assert isinstance(raised(lambda: told.resume("order-8")), Exception)
        assert [row.state for row in SQLiteJournal(tmp_path / "runs.db").rows()] == ["SUCCEEDED"]
