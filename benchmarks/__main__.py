"""Prints each figure with its bound; exits with 1 if one is over. Figures are ratios, so any machine will do."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from surehand import Agent

from . import _bare, _ours, decode, durable, many
from ._measure import acompare, compare


class Figure(NamedTuple):
    """One line of the report: ``value`` must be at most ``bound``."""

    name: str
    value: float
    bound: float
    detail: str = ""


def _rounds() -> Iterator[Figure]:
    kinds: tuple[tuple[str, Callable[..., Agent[None]], tuple[float, float]], ...] = (
        ("nothing listening", _ours.agent, (8.0, 5.0)),
        ("all hooks and listeners", _ours.watched, (10.0, 6.0)),
        ("authorise and a transformer too", _ours.governed, (math.inf, math.inf)),  # shown; nothing is promised
    )
    for what, make, (of_one, of_more) in kinds:
        for rounds in (1, 10, 50):
            bound = of_one if rounds == 1 else of_more
            yield _sync_figure(f"run, {rounds} rounds, {what}", make(rounds, 1, "sadd"), rounds, bound)
            yield _async_figure(f"arun, {rounds} rounds, {what}", make(rounds, 1, "add"), rounds, bound)


def _sync_figure(name: str, agent: Agent[None], rounds: int, bound: float) -> Figure:
    ours, bare = compare(lambda: agent.run("go"), lambda: _bare.run(rounds, 1))
    return Figure(name, ours / bare, bound, _micros(ours, bare, rounds))


def _async_figure(name: str, agent: Agent[None], rounds: int, bound: float) -> Figure:
    ours, bare = acompare(lambda: agent.arun("go"), lambda: _bare.arun(rounds, 1))
    return Figure(name, ours / bare, bound, _micros(ours, bare, rounds))


def _micros(ours: float, bare: float, per: int) -> str:
    return f"{ours / per * 1e6:.1f} µs against {bare / per * 1e6:.1f} µs each"


def _flat() -> Iterator[Figure]:
    short, long = _ours.agent(50, 1, "sadd"), _ours.agent(500, 1, "sadd")
    of_long, of_short = compare(lambda: long.run("go"), lambda: short.run("go"))
    yield Figure("a round of 500 against a round of 50", of_long / of_short / 10, 1.3)


def _fan_out() -> Iterator[Figure]:
    agent = _ours.agent(1, 1000, "add")
    ours, bare = acompare(lambda: agent.arun("go"), lambda: _bare.arun(1, 1000), repeats=5)
    yield Figure("1,000 parallel trivial calls", ours / bare, 4.0, _micros(ours, bare, 1000))


def _sleepers() -> Iterator[Figure]:
    for name, bound in (("ssleep", 0.1), ("asleep", 0.08)):
        agent = _ours.agent(1, 100, name)

        async def timed(agent: object = agent) -> float:
            start = time.perf_counter()
            await agent.arun("go")  # type: ignore[attr-defined]
            return time.perf_counter() - start

        async def several() -> list[float]:
            return [await timed() for _ in range(5)]

        seconds = statistics.median(asyncio.run(several()))
        yield Figure(f"100 tools of 50 ms in arun ({name}), seconds", seconds, bound)


def _many() -> Iterator[Figure]:
    for name, value, bound, detail in many.measured():
        yield Figure(name, value, bound, detail)


def _arguments() -> Iterator[Figure]:
    for name, ratio, bound, detail in decode.measured():
        yield Figure(name, ratio, bound, detail)


def _durable() -> Iterator[Figure]:
    for name, value, bound, detail in durable.measured():
        yield Figure(name, value, bound, detail)


def _imports() -> Iterator[Figure]:
    def spent(code: str) -> float:
        probe = f"import time; t = time.process_time(); {code}; print(time.process_time() - t)"
        command, environment = [sys.executable, "-c", probe], {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(8)]
        return min(float(run.stdout) for run in runs)

    cache = tempfile.mkdtemp()
    ours, floor = spent("import surehand"), spent("import msgspec, asyncio; from pydantic import TypeAdapter")
    yield Figure("import surehand", ours / floor, 1.3, f"{ours * 1e3:.0f} ms against {floor * 1e3:.0f} ms")


def main() -> int:
    """Measure and print; gives the exit code."""
    over = 0
    for measure in (_rounds, _flat, _fan_out, _sleepers, _many, _arguments, _durable, _imports):
        for figure in measure():
            mark = "ok  " if figure.value <= figure.bound else "OVER"
            over += figure.value > figure.bound
            print(f"{mark} {figure.value:8.3f} (at most {figure.bound:g})  {figure.name}  {figure.detail}", flush=True)
    if over:
        print(f"{over} figures are over their bound; a busy machine can do that, so try again on a quiet one")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
