"""What a journal costs: a durable round against the same appends without a run, its size, and how fast runs resume."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from surehand import Agent, Limits, SQLiteJournal, ToolContext, tool
from surehand._records import Draft, State

from . import _ours

ROUNDS = 20
Line = tuple[str, float, float, str]
_ids = itertools.count()


@tool(repeat="with_key")
def charge(a: int, b: int, ctx: ToolContext) -> int:
    """Add two integers, which nobody may do twice: an intent and an end are recorded for each call."""
    return a + b


@tool(repeat="with_key", name="charge")
async def acharge(a: int, b: int, ctx: ToolContext) -> int:
    """The same for event loops."""
    return a + b


def _agent(journal: Any, rounds: int, function: Any) -> Agent[None]:
    model = _ours.LoopModel(rounds, 1, "charge")
    return Agent(model, tools=[function], limits=Limits(rounds=None), journal=journal, repeated_calls="allow")


def _appends(folder: Path) -> list[tuple[list[Draft], str | None]]:
    """What a run of ``ROUNDS`` rounds appends after its beginning, as it is in its journal: one record at a time."""
    journal = SQLiteJournal(folder / "pattern.db", sync="normal")
    _agent(journal, ROUNDS, charge).run("go", run_id="pattern")
    records = journal.records("pattern")[1:]
    journal.close()
    drafts = [Draft(r.kind, r.step, r.body, r.kind not in ("RUN_ENDED",)) for r in records]
    return [([draft], State.SUCCEEDED if draft.kind == "RUN_ENDED" else None) for draft in drafts]


class _Bare:
    """The floor: the same appends through the same journal, each waited for, and nothing else."""

    def __init__(self, journal: SQLiteJournal, appends: list[tuple[list[Draft], str | None]]) -> None:
        self._journal, self._appends = journal, appends

    def _claim(self) -> Any:
        return self._journal.start(f"bare-{next(_ids)}", self._journal.owner, [], state=State.RUNNING)

    def run(self) -> None:
        """Blocking."""
        claim = self._claim()
        for drafts, state in self._appends:
            self._journal.append(claim, drafts, state=state).result()

    async def arun(self) -> None:
        """Awaitable."""
        claim = await asyncio.to_thread(self._claim)
        for drafts, state in self._appends:
            await asyncio.wrap_future(self._journal.append(claim, drafts, state=state))


def _in_threads(function: Callable[[], Any], width: int) -> _Cost:
    threads = [threading.Thread(target=function) for _ in range(width)]
    return _spent(lambda: ([thread.start() for thread in threads], [thread.join() for thread in threads]))


def _in_tasks(runner: asyncio.Runner, function: Callable[[], Any], width: int) -> _Cost:
    async def together() -> None:
        await asyncio.gather(*[function() for _ in range(width)])

    return _spent(lambda: runner.run(together()))


class _Cost(NamedTuple):
    """CPU seconds of all threads, the journal's too, and what the clock said."""

    cpu: float
    clock: float


def _spent(function: Callable[[], Any]) -> _Cost:
    cpu, clock = time.process_time(), time.perf_counter()
    function()
    return _Cost(time.process_time() - cpu, time.perf_counter() - clock)


def _compared(ours: Callable[[], _Cost], bare: Callable[[], _Cost], repeats: int) -> tuple[_Cost, _Cost]:
    """The costs of both, in turn, from the repeat whose ratio is in the middle."""
    ours()
    bare()
    pairs = sorted(((ours(), bare()) for _ in range(repeats)), key=lambda pair: pair[0].cpu / pair[1].cpu)
    return pairs[len(pairs) // 2]


def _rounds(folder: Path) -> Iterator[Line]:
    appends = _appends(folder)
    with contextlib.closing(SQLiteJournal(folder / "rounds.db", sync="normal")) as journal, asyncio.Runner() as runner:
        bare = _Bare(journal, appends)
        blocking, awaiting = _agent(journal, ROUNDS, charge), _agent(journal, ROUNDS, acharge)
        pairs: dict[str, tuple[Callable[[int], _Cost], Callable[[int], _Cost]]] = {
            "run": (lambda n: _in_threads(lambda: blocking.run("go"), n), lambda n: _in_threads(bare.run, n)),
            "arun": (
                lambda n: _in_tasks(runner, lambda: awaiting.arun("go"), n),
                lambda n: _in_tasks(runner, bare.arun, n),
            ),
        }
        for width, repeats in ((1, 15), (64, 5)):
            for name, (ours, floor) in pairs.items():
                ours_, floor_ = _compared(lambda: ours(width), lambda: floor(width), repeats)  # noqa: B023
                yield (
                    f"{name}, a durable round, {width} at once",
                    ours_.cpu / floor_.cpu,
                    3.0,
                    _detail(ours_, floor_, width * ROUNDS),
                )


def _detail(ours: _Cost, floor: _Cost, rounds: int) -> str:
    cpu = f"{ours.cpu / rounds * 1e6:.0f} µs of CPU against {floor.cpu / rounds * 1e6:.0f} µs"
    return f"{cpu}; {ours.clock / rounds * 1e6:.0f} µs against {floor.clock / rounds * 1e6:.0f} µs on the clock"


def _growth(folder: Path) -> Iterator[Line]:
    sizes: dict[int, float] = {}
    for calls in (100, 1000, 5000):
        path = folder / f"{calls}.db"
        with contextlib.closing(SQLiteJournal(path, sync="normal")) as journal:
            _agent(journal, calls, charge).run("go", run_id="long")
        sizes[calls] = path.stat().st_size / calls
    detail = ", ".join(f"{size:.0f} at {calls:,}" for calls, size in sizes.items())
    yield "bytes a call of 5,000 against a call of 1,000", sizes[5000] / sizes[1000], 1.1, f"{detail} calls"


def _resuming(folder: Path) -> Iterator[Line]:
    seconds: dict[int, float] = {}
    for calls in (100, 1000):
        with contextlib.closing(SQLiteJournal(folder / f"resumed-{calls}.db", sync="normal")) as journal:
            _cut_off(journal, calls)
            start = time.perf_counter()
            result = _agent(journal, calls, charge).resume("long")
            seconds[calls] = time.perf_counter() - start
            assert len(result.executions) == calls
    yield "resuming a run of 1,000 calls, seconds", seconds[1000], 1.0, f"{seconds[1000] * 1e3:.0f} µs a call"
    yield "resuming a call of 1,000 against a call of 100", seconds[1000] / seconds[100] / 10, 2.0, ""


def _cut_off(journal: SQLiteJournal, calls: int) -> None:
    """A run of nobody's, all of whose calls are done, and which has no answer yet."""
    _agent(journal, calls, charge).run("go", run_id="whole")
    drafts = [Draft(r.kind, r.step, r.body, True) for r in journal.records("whole")[:-2]]
    journal.start("long", "", drafts, state=State.RUNNING)


def measured() -> Iterator[Line]:
    """For each figure its name, the figure, the bound and what it is made of."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for measure in (_rounds, _growth, _resuming):
            yield from measure(folder)
