"""A process that is busy with live runs: ``python -m tests.durable.busy FOLDER``, until a line is written to it."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from .acting import Held, made

IN_THREADS = {"good-1": "ask 1", "good-2": "after book 2.0", "bad-1": "after unbook 2.0"}
IN_TASKS = {"good-3": "before look 1.0", "good-4": "before pay 3.0", "bad-2": "before book 1.0"}
POINTS = {**IN_THREADS, **IN_TASKS}


async def _in_tasks(folder: Path, held: Held) -> None:
    agent = made(folder, held)
    runs = [agent.arun(run_id, run_id=run_id) for run_id in IN_TASKS]
    await asyncio.gather(*runs, return_exceptions=True)


def main(folder: Path) -> None:
    """Begin all runs, say so once each is held up at its point, and let them go on when told to."""
    held = Held(*(f"{run_id} {point}" for run_id, point in POINTS.items()))
    agent = made(folder, held)

    def run(run_id: str) -> None:
        try:
            agent.run(run_id, run_id=run_id)
        except OSError:
            assert run_id.startswith("bad")

    # Daemons: if one of the points is never reached, this process ends all the same.
    threads = [threading.Thread(target=run, args=(run_id,), daemon=True) for run_id in IN_THREADS]
    threads.append(threading.Thread(target=lambda: asyncio.run(_in_tasks(folder, held)), daemon=True))
    for thread in threads:
        thread.start()
    held.wait()
    print("busy", flush=True)
    sys.stdin.readline()
    held.let_go()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
