"""Timing: CPU seconds, ours and theirs in turn, so that both see the same machine; the repeat in the middle counts."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any


def _spent(function: Callable[[], Any], times: int) -> float:
    gc.collect()
    start = time.process_time()
    for _ in range(times):
        function()
    return (time.process_time() - start) / times


def compare(ours: Callable[[], Any], bare: Callable[[], Any], *, repeats: int = 15) -> tuple[float, float]:
    """CPU seconds of one call of each, from the repeat whose ratio is in the middle."""
    times = _times_for(ours)
    bare()
    return _typical([(_spent(ours, times), _spent(bare, times)) for _ in range(repeats)])


def _typical(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    # The pair with the middle ratio: a machine that changes its pace half-way would spoil a ratio of two minima.
    return sorted(pairs, key=lambda pair: pair[0] / pair[1])[len(pairs) // 2]


def _times_for(function: Callable[[], Any]) -> int:
    function()
    start = time.process_time()
    function()
    return max(1, min(500, int(0.03 / max(time.process_time() - start, 1e-6))))


def acompare(
    ours: Callable[[], Awaitable[Any]], bare: Callable[[], Awaitable[Any]], *, repeats: int = 15
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
            return _spent(lambda: runner.run(many(function, times)), 1) / times

        spent(bare)
        return _typical([(spent(ours), spent(bare)) for _ in range(repeats)])
