"""What a dead process leaves, without a death: the journal as it stands in one moment, under an owner who is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest

from surehand import Agent, ChatRequest, Journal, MemoryJournal, RunResult, StreamPiece, ToolCallReady
from surehand._records import _ONCE, Draft
from surehand.testing import FakeClock, ScriptedModel

from ..modes import ALL_MODES

RUN = "order-7"
every_mode = pytest.mark.parametrize("mode", ALL_MODES, ids=str)
both_colours = pytest.mark.parametrize("colour", ["blocking", "awaitable"])


def remains(journal: Journal, *, upto: int | None = None) -> MemoryJournal:
    """A journal with the same runs, or the first records of each (as of a run that goes on), whose process has died."""
    left = MemoryJournal()
    for row in journal.rows():
        records = journal.records(row.run_id)[:upto]
        once = {(record.kind, record.step): record.seq for record in reversed(records) if record.kind in _ONCE}
        drafts = [Draft(r.kind, r.step, r.body, once.get((r.kind, r.step)) == r.seq) for r in records]
        left.start(row.run_id, "a process that is gone", drafts, state=row.state if upto is None else "RUNNING")
    return left


class Life:
    """The first life of runs. ``log`` is the world outside; from ``dies`` on there is only what is left.

    The run itself plays on, in a world that nobody looks at.
    """

    def __init__(self) -> None:
        self.journal: Journal = MemoryJournal()
        self.log: list[Any] = []
        self._left: tuple[MemoryJournal, list[Any]] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the process has died."""
        return self._left is not None

    def dies(self) -> None:
        """The process dies here, the first time that it comes here."""
        if self._left is None:
            self._left = (remains(self.journal), list(self.log))

    def next(self) -> None:
        """From here on the journal and the world are those that were left."""
        assert self._left is not None, "nobody died"
        self.journal, self.log[:] = self._left
        self._left = None


class Held(ScriptedModel):
    """Streams each call of its replies and goes on once ``until`` says so."""

    def __init__(self, script: Sequence[Any], until: Callable[[], bool]) -> None:
        super().__init__(script)
        self._until = until

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        for piece in super().stream(request):
            yield piece
            while isinstance(piece, ToolCallReady) and not self._until():
                time.sleep(0.001)

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        for piece in super().stream(request):
            yield piece
            while isinstance(piece, ToolCallReady) and not self._until():
                await asyncio.sleep(0.001)


def agent(life: Life, *script: Any, **options: Any) -> Agent[Any, Any]:
    """An agent whose model plays this script, with the journal of that life. The clock stands still."""
    model = script[0] if script and isinstance(script[0], ScriptedModel) else ScriptedModel(script)
    return Agent(model, journal=life.journal, clock=FakeClock(1000.0), undo_retries=0, **options)


def asked(agent: Agent[Any, Any]) -> int:
    """How many requests the agent's model was sent."""
    model: Any = agent._model
    return len(model.requests)


def resume(agent: Agent[Any, Any], colour: str, run_id: str = RUN, **options: Any) -> RunResult[Any]:
    """Resume the run, blocking or awaitable."""
    if colour == "blocking":
        return agent.resume(run_id, **options)
    return asyncio.run(agent.aresume(run_id, **options))


def raised(function: Callable[[], Any]) -> BaseException | None:
    """What it raises, if it does."""
    try:
        function()
    except BaseException as error:
        return error
    return None
