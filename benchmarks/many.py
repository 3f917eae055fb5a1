"""Many runs at once on one event loop: what 200 of them cost against bare loops, and what 10,000 that wait hold.

``python -m benchmarks.many`` measures only this. ``python -m benchmarks.many model traced`` prints the memory of one
kind of run: each is measured in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from surehand import Agent, ChatRequest, ChatResponse, Limits, tool

from . import _bare, _ours

RUNS, ROUNDS, WAITERS = 200, 5, 10_000
PAUSE = 0.002  # seconds that a model and a tool take where they take any
AT_MOST = 4.0  # a quarter of the bare loop's rate
MOST_HELD = 25.0  # kB, of 1,000 bytes

Line = tuple[str, float, float, str]


# ---------------------------------------------------------------- runs that work


async def _nap(a: int, b: int) -> int:
    """Add two integers after a while."""
    await asyncio.sleep(PAUSE)
    return a + b


class _NappingModel(_ours.LoopModel):
    """The loop's model, but it takes its time."""

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        await asyncio.sleep(PAUSE)
        return self.generate(request)


def _napping() -> Agent[None]:
    model = _NappingModel(ROUNDS, 1, "nap")
    return Agent(model, tools=[tool(name="nap")(_nap)], limits=Limits(rounds=None), repeated_calls="allow")


async def _bare_nap() -> str:
    return await _bare.arun(ROUNDS, 1, "nap", pause=PAUSE)


def _together(runner: asyncio.Runner, make: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    """Seconds of CPU, and on the clock, of all runs together; what they gave is looked at."""

    async def gathered() -> list[Any]:
        return await asyncio.gather(*[make() for _ in range(RUNS)])

    gc.collect()
    cpu, clock = time.process_time(), time.perf_counter()
    given = runner.run(gathered())
    spent = time.process_time() - cpu, time.perf_counter() - clock
    assert len(given) == RUNS
    assert {getattr(one, "output", one) for one in given} == {"done"}
    return spent


def _rates() -> Iterator[Line]:
    _bare.FUNCTIONS.setdefault("nap", _nap)
    plain, napping = _ours.agent(ROUNDS, 1, "add"), _napping()
    kinds: tuple[tuple[str, Callable[[], Awaitable[Any]], Callable[[], Awaitable[Any]]], ...] = (
        ("nothing ever waits", lambda: plain.arun("go"), lambda: _bare.arun(ROUNDS, 1)),
        (f"model and tool take {PAUSE * 1e3:g} ms", lambda: napping.arun("go"), _bare_nap),
    )
    with asyncio.Runner() as runner:
        for what, ours, bare in kinds:
            _together(runner, ours)
            _together(runner, bare)
            pairs = [(_together(runner, ours), _together(runner, bare)) for _ in range(15)]
            cpu = statistics.median(ours_[0] / bare_[0] for ours_, bare_ in pairs)
            yield f"{RUNS} arun of {ROUNDS} rounds at once, {what}", cpu, AT_MOST, _rate(pairs)


def _rate(pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    ours, bare = (statistics.median(pair[side][0] for pair in pairs) for side in (0, 1))
    shown = f"{RUNS / ours:,.0f} runs per CPU second against {RUNS / bare:,.0f}: {bare / ours:.0%}"
    clock = statistics.median(ours_[1] / bare_[1] for ours_, bare_ in pairs)
    return f"{shown}; on the clock {1 / clock:.0%}"


# ---------------------------------------------------------------- runs that wait


def _gate() -> tuple[asyncio.Event, list[int], Callable[[], Awaitable[None]]]:
    """Something to wait at, how many do, and the waiting."""
    opened, waiting = asyncio.Event(), [0]

    async def wait() -> None:
        waiting[0] += 1
        await opened.wait()

    return opened, waiting, wait


def _waiting_agent(where: str, wait: Callable[[], Awaitable[None]]) -> Agent[None]:
    """An agent of one round whose model or whose tool waits."""

    class WaitingModel(_ours.LoopModel):
        async def agenerate(self, request: ChatRequest) -> ChatResponse:
            if where == "model":
                await wait()
            return self.generate(request)

    async def add(a: int, b: int) -> int:
        """Add two integers."""
        if where == "tool":
            await wait()
        return a + b

    return Agent(WaitingModel(1, 1, "add"), tools=[add])


async def _held(where: str, used: Callable[[], int]) -> tuple[float, float]:
    """Bytes that each of many waiting runs holds, and seconds until all have ended well."""
    opened, waiting, wait = _gate()
    agent = _waiting_agent(where, wait)
    opened.set()
    await agent.arun("go")  # what is made once is no part of it
    opened.clear()
    waiting[0] = 0
    gc.collect()
    before = used()
    tasks = [asyncio.ensure_future(agent.arun("go")) for _ in range(WAITERS)]
    while waiting[0] < WAITERS:
        await asyncio.sleep(0)
    gc.collect()
    held = (used() - before) / WAITERS
    start = time.process_time()
    opened.set()
    results = await asyncio.gather(*tasks)
    seconds = time.process_time() - start
    assert [(one.output, len(one.executions)) for one in results] == [("done", 1)] * WAITERS
    return held, seconds


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


def _print_held(where: str, how: str) -> None:
    """Print the bytes that a run holds, by tracemalloc or as the system counts; for a process of its own."""
    if how == "traced":
        tracemalloc.start()
    held, seconds = asyncio.run(_held(where, _traced if how == "traced" else _resident))
    print(held, seconds)


def _measured_apart(where: str, how: str) -> tuple[float, float]:
    command = [sys.executable, "-m", __name__ if __name__ != "__main__" else "benchmarks.many", where, how]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    held, seconds = map(float, out.split())
    return held / 1000, seconds


def _sizes() -> Iterator[Line]:
    for where in ("model", "tool"):
        held, _ = _measured_apart(where, "traced")
        detail = ""
        if sys.platform == "linux":
            resident, seconds = _measured_apart(where, "resident")
            detail = f"the process grew by {resident:.1f} kB each; all ended well in {seconds:.2f} s of CPU"
        yield f"{WAITERS:,} arun whose {where} waits, kB each", held, MOST_HELD, detail


def measured() -> Iterator[Line]:
    """For each figure its name, the figure, the bound and what it is made of."""
    yield from _rates()
    yield from _sizes()


def main() -> int:
    """Measure and print; gives the exit code."""
    if len(sys.argv) == 3:
        _print_held(*sys.argv[1:])
        return 0
    over = 0
    for name, value, bound, detail in measured():
        over += value > bound
        print(f"{'ok  ' if value <= bound else 'OVER'} {value:8.3f} (at most {bound:g})  {name}  {detail}", flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
