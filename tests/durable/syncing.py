"""One run with a journal, for looking at its system calls: ``python -m tests.durable.syncing FOLDER MODE SYNC RUN``."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

from surehand import SQLiteJournal

from .acting import made


def main(folder: Path, mode: str, sync: str, run_id: str) -> None:
    """Run it to its end."""
    journal = SQLiteJournal(folder / "runs.db", sync=cast(Any, sync))
    agent = made(folder, journal=journal)
    try:
        if mode == "run":
            agent.run(run_id, run_id=run_id)
        else:
            asyncio.run(agent.arun(run_id, run_id=run_id))
    except OSError:
        assert run_id == "bad"
    journal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
