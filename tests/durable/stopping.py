"""A process that stops itself in the middle of a run: ``python -m tests.durable.stopping FOLDER MODE RUN POINT``.

Prints the error with which the run ended, once it was told to go on (SIGCONT).
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from pathlib import Path

from .acting import made


def main(folder: Path, mode: str, run_id: str, point: str) -> None:
    """Run it; at its point the whole process stops until somebody has it go on."""

    def at(here: str) -> None:
        if here == f"{run_id} {point}":
            # To this very thread: it stops at once, and with it the process.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    agent = made(folder, at, who=["first"])
    try:
        if mode == "run":
            agent.run(run_id, run_id=run_id)
        else:
            asyncio.run(agent.arun(run_id, run_id=run_id))
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        print("note:", *getattr(error, "__notes__", ()))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
