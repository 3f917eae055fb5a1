"""Timing: CPU seconds of the best repeat, ours and theirs in turn, so that both see the same machine."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any


def _best(function: Callable[[], Any], times: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - start) / times


def compare(ours: Callable[[], Any], bare: Callable[[], Any], *, repeats: int = 9) -> tuple[float, float]:
    """CPU seconds of one call of each: the least of several repeats, taken in turn."""
    times = _times_for(ours)
    bare()
    pairs = [(_best(ours, times), _best(bare, times)) for _ in range(repeats)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def _times_for(function: Callable[[], Any]) -> int:
    function()
    start = time.process_time()
    function()
    return max(1, min(500, int(0.03 / max(time.process_time() - start, 1e-6))))


def acompare(
    ours: Callable[[], Awaitable[Any]], bare: Callable[[], Awaitable[Any]], *, repeats: int = 9
) -> tuple[float, float]:
    """The same for coroutine functions, inside one running event loop."""

    async def many(function: Callable[[], Awaitable[Any]], times: int) -> None:
        for _ in range(times):
            await function()

    with asyncio.Runner() as runner:
        start = time.process_time()
        runner.run(many(ours, 3))
        times = max(1, min(500, int(0.1 / max(time.process_time() - start, 1e-6))))

        def spent(function: Callable[[], Awaitable[Any]]) -> float:
            return _best(lambda: runner.run(many(function, times)), 1) / times

        spent(bare)
        pairs = [(spent(ours), spent(bare)) for _ in range(repeats)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
