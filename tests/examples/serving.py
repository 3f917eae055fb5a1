"""A server in a process of its own, what is outside of it, and its client."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

import surehand
from examples.travel import Ledger, travel_tools
from surehand import Agent, SQLiteJournal
from surehand.testing import ScriptedModel
from surehand.testing.scripted import Reply

__all__ = ["Server", "Told", "until"]

T = TypeVar("T")
Told = tuple[str, str, dict[str, Any]]
ROOT = Path(__file__).parents[2]
_COMMAND = (sys.executable, "-m", "uvicorn", "--factory", "tests.examples.served:make_app", "--port", "0")
_LONGEST = 90.0  # seconds: a server starts in one, but not on a machine that is busy with something else


def until(look: Callable[[], T | None]) -> T:
    """What ``look`` gives as soon as it gives something."""
    deadline = time.monotonic() + _LONGEST
    while (found := look()) is None or found is False:
        assert time.monotonic() < deadline, f"nothing came of {look!r} within {_LONGEST} s"
        time.sleep(0.005)
    return found


class Server:
    """The service in a folder; it may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: httpx.Client | None = None
        self._ledger = Ledger(folder / "outside.db")

    # ------------------------------------------------------------ its process

    def start(self) -> None:
        """Start it on a free port, and wait until it listens there."""
        self._log.write_bytes(b"")
        path = os.pathsep.join([str(Path(surehand.__file__).parents[1]), str(ROOT)])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error", "DATA": str(self._folder)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(_COMMAND, cwd=ROOT, env=environment, stdout=log, stderr=log)
        self._client = httpx.Client(base_url=until(self._address), timeout=_LONGEST)

    def _address(self) -> str | None:
        assert self._process is not None and self._process.poll() is None, self.log
        found = re.search(r"running on (http://127\.0\.0\.1:\d+)", self.log)
        return None if found is None else found[1]

    @property
    def log(self) -> str:
        """What it has printed since it was started."""
        return self._log.read_text()

    def kill(self) -> None:
        """``kill -9``, and see it off."""
        if self._process is not None:
            self._process.kill()
            self.wait_until_stopped()

    def stop(self) -> None:
        """Tell it to end, as a service manager does."""
        assert self._process is not None
        self._process.terminate()

    def wait_until_stopped(self) -> None:
        """Wait until its process has ended."""
        assert self._process is not None
        self._process.wait(_LONGEST)
        if self._client is not None:
            self._client.close()

    # ------------------------------------------------------------ holding it up

    def hold(self, point: str) -> None:
        """Whoever comes to that point of ``served`` waits there."""
        (self._folder / f"hold {point}").touch()

    def let_go(self, point: str) -> None:
        """Nobody waits there any more."""
        (self._folder / f"hold {point}").unlink()

    def wait_for(self, point: str) -> None:
        """Wait until somebody is held up there."""
        until((self._folder / f"at {point}").exists)

    def wait_until_left(self, run_id: str) -> None:
        """Wait until the server has dealt with a client of that run that has left."""
        until(lambda: f"dealt with PUT /runs/{run_id}\n" in self.log)

    # ------------------------------------------------------------ what it does

    def done(self, run_id: str) -> list[str]:
        """What the airline and the bank have done for that run."""
        return self._ledger.lines(f"{run_id}:")

    def asked(self, run_id: str) -> list[str]:
        """The requests to the model for that run."""
        return [line for line in (self._folder / "asked").read_text().splitlines() if line.split()[0] == run_id]

    def recorded(self, run_id: str) -> str:
        """The state of that run in the journal of a server that has ended."""
        with closing(SQLiteJournal(self._folder / "runs.db")) as journal:
            row = journal.row(run_id)
        assert row is not None
        return row.state

    def take_over(self, run_id: str, replies: list[Reply]) -> str | None:
        """Take a run away from the server, and go on with it here to its answer."""
        tools = travel_tools(self._ledger)
        with Agent(ScriptedModel(replies), tools=tools, journal=self._folder / "runs.db") as agent:
            return agent.resume(run_id, take_over=True).output

    @contextmanager
    def put(self, run_id: str, *, wish: str = "to Oslo", **query: Any) -> Generator[Iterator[Told]]:
        """The events of that run as they arrive; leaving the block closes the connection."""
        assert self._client is not None
        body = {"prompt": f"{run_id} {wish}"}
        with self._client.stream("PUT", f"/runs/{run_id}", json=body, params=query) as response:
            if response.status_code != 200:
                response.read()
            response.raise_for_status()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield _events(response.iter_lines())

    def told(self, run_id: str, **options: Any) -> list[Told]:
        """The events of that run up to its end."""
        with self.put(run_id, **options) as events:
            return list(events)

    def refused(self, run_id: str, **options: Any) -> httpx.Response:
        """The answer to a request that must not begin or join a run."""
        try:
            told = self.told(run_id, **options)
        except httpx.HTTPStatusError as error:
            return error.response
        raise AssertionError(f"run {run_id!r} was not refused: {told}")

    def get(self, run_id: str) -> tuple[int, Any]:
        """Where that run stands."""
        assert self._client is not None
        response = self._client.get(f"/runs/{run_id}")
        return response.status_code, response.json()

    def ended(self, run_id: str) -> tuple[int, Any]:
        """Where that run stands once it is over."""
        return until(lambda: found if (found := self.get(run_id))[0] != 202 else None)


def _events(lines: Iterator[str]) -> Iterator[Told]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and fields:
            yield fields["event"], fields["id"], json.loads(fields["data"])
            fields = {}
        elif name:
            fields[name] = value
