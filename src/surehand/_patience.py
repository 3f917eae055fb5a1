"""How an undo that has failed is tried again, and how a task goes on or waits although it is cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenacity.stop import stop_base
    from tenacity.wait import wait_base

__all__ = ["insist", "insist_async", "outlast", "seen_through", "uncancel"]

# Seconds between two attempts: exactly the first before the second one, then up to twice as much each time.
_FIRST, _MOST = 0.1, 5.0


def insist(attempt: Callable[[], Any], retries: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Call ``attempt`` until it returns, at most ``retries`` times more; then its last error is raised.

    Only an ``Exception`` is followed by another attempt: what interrupts or ends the program is raised at once.
    """
    from tenacity import Retrying, retry_if_exception_type  # not for those whose undo is tried once

    stop, wait = _policy(retries)
    again = Retrying(stop=stop, wait=wait, retry=retry_if_exception_type(Exception), sleep=sleep, reraise=True)
    again(attempt)


async def insist_async(
    attempt: Callable[[], Awaitable[Any]], retries: int, sleep: Callable[[float], Awaitable[None]]
) -> None:
    """The same for what is awaited; ``sleep`` decides what a cancellation between two attempts does."""
    from tenacity import AsyncRetrying, retry_if_exception_type

    stop, wait = _policy(retries)
    again = AsyncRetrying(stop=stop, wait=wait, retry=retry_if_exception_type(Exception), sleep=sleep, reraise=True)

    async def one() -> None:  # by this it is known as a coroutine function, whatever `attempt` is
        await attempt()

    await again(one)


def _policy(retries: int) -> tuple[stop_base, wait_base]:
    from tenacity import stop_after_attempt, wait_random_exponential

    return stop_after_attempt(retries + 1), wait_random_exponential(multiplier=_FIRST, min=_FIRST, max=_MOST)


async def outlast(seconds: float) -> None:
    """Wait that long, however often the current task is cancelled: what has begun to be undone is undone."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while (left := deadline - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            uncancel()


def uncancel() -> bool:
    """Take note of cancellations of the current task; gives whether there were any.

    A count left standing would make ``asyncio.timeout`` in an undo function misread its own deadline.
    """
    task = asyncio.current_task()
    cancelled = False
    while task is not None and task.cancelling():
        task.uncancel()
        cancelled = True
    return cancelled


async def seen_through(future: Future[Any], cancelled: Callable[[], None]) -> Any:
    """What another thread does, waited for to its end; ``cancelled`` is told if the task is cancelled meanwhile."""
    loop = asyncio.get_running_loop()
    while not future.done():
        # Not asyncio.wrap_future: a run waits here several times a round, and that costs three times as much.
        is_done: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(partial(_wake, loop, is_done))
        try:
            await is_done
        except asyncio.CancelledError:  # only a loop that shuts down comes through here
            uncancel()
            cancelled()
    return future.result()


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: object) -> None:
    """Let go on what waits for something that another thread has done; nobody waits in a loop that is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_woken, waiter)


def _woken(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
