"""Two processes recover one journal at the same time, again and again: ``python -m tests.durable.racing FOLDER TIMES``.

Everything is loaded once and the processes are forked from here, so that a repetition costs little. Prints a line for
each repetition in which something was done twice or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from surehand import Agent, SQLiteJournal

from .acting import Held, Outside, made, whole

# Where each of the runs was when its process was killed; a journal holds those of one line.
LEFT = (
    {"good-start": "ask 1", "good-intent": "before book 2.0", "bad-effect": "after book 2.0"},
    {"good-safe": "before look 1.0", "good-probed": "after pay 3.0", "bad-undo": "before unbook 2.0"},
    {
        "good-ask": "ask 2",
        "good-effect": "after book 2.0",
        "good-absent": "before pay 3.0",
        "bad-undone": "after unbook 2.0",
    },
)
AGAIN = {  # what was done when its process was killed, and is done once more: with the same key, or harmless
    "good-effect": "book good-effect:2.0",
    "bad-effect": "book bad-effect:2.0",
    "bad-undone": "unbook bad-undone:2.0",
}


def expected(run_ids: Iterable[str]) -> Counter[str]:
    """The lines outside once these runs have been recovered."""
    lines = [line for run_id in run_ids for line in whole(run_id)]
    return Counter(lines + [AGAIN[run_id] for run_id in run_ids if run_id in AGAIN])


def in_child(action: Callable[[], object]) -> int:
    """A process that does that and nothing else; gives its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        action()
        code = 0
    except BaseException as error:
        print(f"a process failed: {error!r}", flush=True)
    finally:
        os._exit(code)


def leave_behind(folder: Path, points: Mapping[str, str]) -> None:
    """Runs that were killed at these points, in one process."""
    held = Held(*(f"{run_id} {point}" for run_id, point in points.items()))

    def work() -> None:
        agent = made(folder, held)
        for run_id in points:
            threading.Thread(target=agent.run, args=(run_id,), kwargs={"run_id": run_id}, daemon=True).start()
        held.wait()
        os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(in_child(work), 0)
    assert os.WIFSIGNALED(status), status


def race(folder: Path, repetition: int) -> list[str]:
    """Have two processes recover the journal in that folder at once; gives what is wrong."""
    ready, start = os.pipe(), os.pipe()

    def agent_of() -> Agent[None]:
        return made(folder, journal=SQLiteJournal(folder / "runs.db", sync="normal"))

    def recover(awaitable: bool, opens_early: bool) -> None:
        agent: Agent[None] | None = agent_of() if opens_early else None
        os.close(start[1])
        os.write(ready[1], b".")
        os.read(start[0], 1)  # until nobody has the other end any more
        agent = agent or agent_of()
        if awaitable:
            asyncio.run(agent.arecover())
        else:
            agent.recover()
        agent.close()

    pids = [in_child(lambda: recover(repetition % 2 == 1, repetition % 4 < 2)), in_child(lambda: recover(False, True))]
    for _ in pids:
        os.read(ready[0], 1)
    os.close(start[1])
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    for end in (*ready, start[0]):
        os.close(end)
    return [*(f"a process ended with {status}" for status in statuses if status), *wrong(folder)]


def wrong(folder: Path) -> list[str]:
    """What was done too often or not at all, and what else is not as it should be once all is over."""
    journal = SQLiteJournal(folder / "runs.db")
    rows = journal.rows()
    done, should = Outside(folder).times(), expected([row.run_id for row in rows])
    problems = [
        f"{line}: {done[line]} times instead of {should[line]}" for line in done | should if done[line] != should[line]
    ]
    for row in rows:
        end = "UNDONE" if row.run_id.startswith("bad") else "SUCCEEDED"
        problems += [] if row.state == end else [f"{row.run_id} is {row.state}"]
        # Each process says anew what it is about to do.
        anew = ("INTENT", "UNDO_INTENT")
        kinds = Counter((r.kind, r.step, r.epoch * (r.kind in anew)) for r in journal.records(row.run_id))
        problems += [f"{row.run_id}: {kind} {count} times" for kind, count in kinds.items() if count > 1]
    problems += [str(damage) for damage in journal.check()]
    journal.close()
    return problems


def load(folder: Path) -> None:
    """Run everything once, so that each process has it from its parent."""
    agent = made(folder)
    agent.run("good", run_id="good")
    with contextlib.suppress(OSError):
        agent.run("bad", run_id="bad")
    agent.close()


def main(folder: Path, times: int) -> int:
    """Race that often over copies of one journal; gives how many races went wrong."""
    load(folder)
    failed = 0
    for number, points in enumerate(LEFT):
        (folder / f"original-{number}").mkdir()
        leave_behind(folder / f"original-{number}", points)
    for repetition in range(times):
        copy = folder / f"copy-{repetition}"
        shutil.copytree(folder / f"original-{repetition % len(LEFT)}", copy)
        problems = race(copy, repetition)
        failed += bool(problems)
        for problem in problems:
            print(f"race {repetition}: {problem}", flush=True)
        if not problems:
            shutil.rmtree(copy)
    print(f"{times} races, {failed} went wrong", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
