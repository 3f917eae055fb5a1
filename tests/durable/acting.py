"""An agent for tests with real processes: what is done shows in a file outside, and each point can be a hold-up."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from surehand import (
    Absent,
    Agent,
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Happened,
    ToolContext,
    Unknown,
    UserMessage,
    tool,
    undoes,
)
from surehand.testing import ScriptedModel, call, calls, say

ROOT = Path(__file__).parents[2]


class Outside:
    """What was done, one line for each doing: a process that dies takes nothing of it back."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "outside.txt"

    def add(self, *words: object) -> None:
        """Note a doing; one write to a file opened for appending, so that processes do not get in each other's way."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, (" ".join(map(str, words)) + "\n").encode())
        finally:
            os.close(file)

    def lines(self) -> list[str]:
        """Everything that was done, in order."""
        return self._path.read_text().splitlines() if self._path.exists() else []

    def times(self) -> Counter[str]:
        """How often each thing was done."""
        return Counter(self.lines())


def passed(point: str) -> None:
    """Nobody holds up anything."""


GOOD = [
    calls(call("look", {"what": "hotel"})),
    calls(call("book", {"what": "hotel"})),
    calls(call("pay", {"amount": 70})),
    say("done"),
]
BAD = [calls(call("book", {"what": "hotel"})), calls(call("book", {"what": "flight"})), OSError("the model is gone")]


def made(
    folder: Path,
    at: Callable[[str], None] = passed,
    *,
    journal: Any = None,
    who: Iterable[object] = (),
) -> Agent[None]:
    """The agent; a prompt that begins with "bad" is given up when it asks for the third time.

    ``at`` is told of each point as a run comes by: "<run> ask 2", "<run> before book 2.0", "<run> after book 2.0".
    ``who`` goes before the words of each line outside.
    """
    outside, name = Outside(folder), tuple(who)

    def did(what: str, key: str) -> None:
        run_id, _, step = key.rpartition(":")
        at(f"{run_id} before {what} {step}")
        outside.add(*name, what, key)
        at(f"{run_id} after {what} {step}")

    @tool(repeat="safe")
    def look(what: str, ctx: ToolContext) -> str:
        """Look at what there is."""
        did("look", ctx.idempotency_key)
        return f"a fine {what}"

    @tool(repeat="with_key")
    def book(what: str, ctx: ToolContext) -> dict[str, str]:
        """Book something."""
        did("book", ctx.idempotency_key)
        return {"what": what}

    @undoes(book)
    def unbook(booking: dict[str, str], ctx: ToolContext) -> None:
        did("unbook", ctx.idempotency_key)

    def probe(ctx: ToolContext, arguments: dict[str, Any]) -> Happened[str] | Absent | Unknown:
        was_done = any(line.endswith(f"pay {ctx.idempotency_key}") for line in outside.lines())
        return Happened("paid") if was_done else Absent()

    @tool(repeat="never", probe=probe)
    def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        did("pay", ctx.idempotency_key)
        return "paid"

    def reply(request: ChatRequest) -> ChatResponse | BaseException:
        said = request.messages[-1 - 2 * (number := sum(isinstance(m, AssistantMessage) for m in request.messages))]
        assert isinstance(said, UserMessage)
        run_id = said.text
        at(f"{run_id} ask {number + 1}")
        outside.add(*name, "ask", f"{run_id}:{number + 1}")
        return (BAD if run_id.startswith("bad") else GOOD)[number]

    return Agent(
        ScriptedModel([reply] * 1000),
        tools=[look, book, pay],
        journal=folder / "runs.db" if journal is None else journal,  # a path is closed together with the agent
    )


class Held:
    """Holds up runs at the points that it was given, until they are let go; ``wait`` waits until all are there."""

    def __init__(self, *points: str) -> None:
        self._missing = set(points)
        self._changed = threading.Condition()
        self._open = False

    def __call__(self, point: str) -> None:
        with self._changed:
            if point in self._missing:
                self._missing.discard(point)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._open)

    def wait(self) -> None:
        """Wait until a run is held up at each of the points."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._missing, 30), self._missing

    def let_go(self) -> None:
        """Let all of them go on."""
        with self._changed:
            self._open = True
            self._changed.notify_all()


GOOD_RUN = ("ask {0}:1", "look {0}:1.0", "ask {0}:2", "book {0}:2.0", "ask {0}:3", "pay {0}:3.0", "ask {0}:4")
BAD_RUN = (
    "ask {0}:1", "book {0}:1.0", "ask {0}:2", "book {0}:2.0", "ask {0}:3", "unbook {0}:2.0", "unbook {0}:1.0",
)  # fmt: skip


def whole(run_id: str) -> list[str]:
    """The lines outside of that run from its beginning to its end."""
    return [line.format(run_id) for line in (BAD_RUN if run_id.startswith("bad") else GOOD_RUN)]
