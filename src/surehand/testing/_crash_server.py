"""A process that has everything loaded, and forks a child for each process of a case: that takes milliseconds.

It must never start a thread: a child would inherit the locks that it holds.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..errors import UserError
from ._crash_checks import learned_from, problems_of
from ._crash_child import run_once, settle, the_agent
from ._crash_story import story_of
from ._crash_warm import warm_up
from ._crash_watch import Watch, notes_of
from ._crash_world import Case, Kill, Learned, Plan, Verdict

__all__ = ["serve"]


def serve(connection: Connection[Any, Any], plan_data: bytes) -> None:
    """Play cases as they come in, and give a verdict on each, until nobody asks any more."""
    os.setpgrp()  # so that whoever ends this process can end its children with it
    try:
        plan: Plan = pickle.loads(plan_data)
        the_agent(plan)
        warm_up()
    except BaseException:
        what = "the agent and the scenario cannot be loaded in another process, which has the same sys.path"
        connection.send(_broken(what, traceback.format_exc()))
        return
    connection.send(None)
    gc.collect()
    gc.freeze()  # children then share what is there, instead of copying it as soon as they count references
    with suppress(EOFError):  # whoever asked has had enough
        while True:
            connection.send(_play(plan, connection.recv()))


def _broken(problem: str, details: str) -> Verdict:
    return Verdict((problem,), f"{problem}:\n{details}" if details else problem, Learned(), is_broken=True)


def _play(plan: Plan, case: Case) -> Verdict:
    """One case: a process that runs the scenario, and as many that recover it as are killed, and one more."""
    (case.folder / "world").mkdir(parents=True)
    kills = [*case.kills, None] if len(case.kills) else [None, None]
    killed, seconds = 0, 0.0
    for process, kill in enumerate(kills, 1):
        ended = _forked(plan, case, process, kill)
        if ended.is_killed:
            killed += 1
        elif isinstance(ended.answer, float):
            seconds = ended.answer
        elif isinstance(ended.answer, Verdict):
            learned = replace(ended.answer.learned, seconds=seconds)
            return replace(ended.answer, learned=learned, killed=killed)
        else:
            return _broken(f"process {process} of the case {ended.problem}", _diary(case))
    return _broken("the last process of the case was killed by somebody else", _diary(case))


def _diary(case: Case) -> str:
    return "\n".join(
        f"  {note.process} {note.kind} {note.text} {note.step}" for note in notes_of(case.folder / "diary")
    )


# ---------------------------------------------------------------- one process


class _Ended(Struct, frozen=True):
    """How a process of a case ended: killed as it was meant to be, with an answer, or with a problem."""

    is_killed: bool = False
    answer: Any = None
    problem: str = ""


def _forked(plan: Plan, case: Case, process: int, kill: Kill | None) -> _Ended:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(plan, case, process, kill, writing)
    os.close(writing)
    try:
        data, ending = _followed(pid, reading, kill, plan.timeout)
    finally:
        os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and ending != "hung":
        if kill is not None and kill.after is not None:
            Watch(case.folder / "diary", process).note(
                "killed", f"from outside, {kill.after * 1000:.1f} ms after its start"
            )
        return _Ended(is_killed=True)
    if ending == "hung":
        return _Ended(problem=f"did not end within {plan.timeout} s")
    answer = pickle.loads(data[1:]) if len(data) > 1 else None
    if isinstance(answer, str):
        return _Ended(problem=f"failed:\n{answer}")
    return _Ended(answer=answer, problem=f"ended with the status {status} and said nothing")


def _followed(pid: int, pipe: int, kill: Kill | None, timeout: float) -> tuple[bytes, str]:
    """What the child writes until it ends; it is killed at its time, which counts from its first byte."""
    data, deadline, ending = b"", time.monotonic() + timeout, "hung"
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            while part := os.read(pipe, 1 << 16):  # it may have ended by itself in this very moment
                data += part
            return data, ending
        part = os.read(pipe, 1 << 16)
        if not part:
            return data, "ended"
        if not data and kill is not None and kill.after is not None:
            deadline, ending = time.monotonic() + kill.after, "killed"
        data += part


def _child(plan: Plan, case: Case, process: int, kill: Kill | None, pipe: int) -> None:
    status = 1
    try:
        watch = Watch(case.folder / "diary", process, kill)
        told: list[int] = []

        def started() -> None:
            if not told:  # what follows the first byte is the answer
                told.append(os.write(pipe, b"s"))

        try:
            answer: Any = (run_once if process == 1 else _verdict)(plan, case, watch, started)
        except Exception as error:
            started()
            answer = str(error) if isinstance(error, UserError) else traceback.format_exc()
        data = pickle.dumps(answer)
        while data:
            data = data[os.write(pipe, data) :]
        status = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # what the parent has registered to happen at its exit is not for its children


def _verdict(plan: Plan, case: Case, watch: Watch, started: Callable[[], object]) -> Verdict:
    facts = settle(plan, case, watch, started)
    problems = problems_of(facts, case.learned)
    moments = [note.text for note in facts.notes if note.kind == "moment" and note.process == 1]
    return Verdict(tuple(problems), story_of(case, facts, problems), learned_from(facts, moments, 0.0))
