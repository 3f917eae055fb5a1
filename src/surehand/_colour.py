"""Sync or async, settled in one place: one daemon event loop and one pool of daemon threads per process.

The loop ("portal") runs awaitable things for blocking modes; the pool runs blocking things for async modes.
Both are daemons, so that neither keeps a process from exiting (``concurrent.futures`` joins its threads at exit
and would), both start on first use, and both are made anew in a forked child, whose threads do not survive.

A tool may run another agent and wait for it, while it holds a thread of the pool or the portal's loop. What runs
inside such a tool gets a pool and a portal of its own, by how deep it is nested: whoever waits only ever waits for
something deeper, so that nobody waits in a circle.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from ._checks import is_count
from .errors import UserError

__all__ = [
    "DaemonPool",
    "Portal",
    "contained",
    "from_thread",
    "outcome_of",
    "pool",
    "portal",
    "run_in_pool",
    "set_pool_size",
    "use_executor",
]

T = TypeVar("T")

# How many hops onto the pool and onto the portal lie between the process's own code and here.
_hops: contextvars.ContextVar[tuple[int, int]] = contextvars.ContextVar("surehand_hops", default=(0, 0))

_Job = tuple["Future[Any]", contextvars.Context, Callable[..., Any], tuple[Any, ...]]


class DaemonPool:
    """At most ``size`` daemon threads that run callables; threads start as they are needed."""

    def __init__(self, size: int, hops: tuple[int, int] = (0, 0)) -> None:
        self._size = size
        self._inside = (hops[0] + 1, hops[1])
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        """A future of ``function(*args)``, run in a copy of the caller's context (spec 8.8)."""
        future: Future[T] = Future()
        with self._lock:
            # A waiting thread is promised to this job at once: otherwise two jobs would count on the same one.
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._size:
                self._threads += 1
                threading.Thread(target=self._work, name="surehand-worker", daemon=True).start()
            self._jobs.put((future, contextvars.copy_context(), function, args))
        return future

    def _work(self) -> None:
        while True:
            future, context, function, args = self._jobs.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = context.run(_on_a_thread, self._inside, function, args)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, context, function, args  # a waiting thread must not keep the last job's values alive
            with self._lock:
                self._idle += 1


class _UserPool:
    """An executor that the application has brought, used as the pool."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        context = contextvars.copy_context()
        future: Future[T] = self._executor.submit(context.run, _on_a_thread, (1, 0), function, args)
        return future


def _on_a_thread(hops: tuple[int, int], function: Callable[..., T], args: tuple[Any, ...]) -> T:
    _hops.set(hops)
    try:
        return function(*args)
    except (StopIteration, GeneratorExit) as error:
        # Thrown into a coroutine they would end it instead of being an error, or never arrive.
        raise RuntimeError(f"{function!r} raised {type(error).__name__}") from error


class Portal:
    """An event loop in a daemon thread, for awaitable things that blocking code needs."""

    def __init__(self, depth: int = 0) -> None:
        self._depth = depth
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="surehand-portal", daemon=True)
        self._thread.start()

    def submit(self, awaitable: Coroutine[Any, Any, T]) -> Future[T]:
        """A future of the coroutine's result; it runs in a copy of the caller's context."""
        hops = (_hops.get()[0], self._depth + 1)
        return asyncio.run_coroutine_threadsafe(_inside(awaitable, hops), self._loop)

    def start(self, awaitable: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], object]]:
        """A future that tells how the coroutine ends in any case, and a function that cancels the coroutine."""
        outcome: Future[T] = Future()
        return outcome, self.submit(_told(awaitable, outcome)).cancel

    def call(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result; an interrupt while waiting cancels the coroutine."""
        if threading.current_thread() is self._thread:
            # Code that has lost its context: waiting here for this very loop would never end.
            return Portal(self._depth + 1).call(awaitable)
        future = self.submit(awaitable)
        try:
            outcome: T = outcome_of(future)
            return outcome
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an async iterator; closing this iterator closes that one."""
        try:
            while True:
                item, more = self.call(_next(items))
                if not more:
                    return
                yield item
        finally:
            closing = getattr(items, "aclose", None)
            if closing is not None:
                self.call(closing())


async def _next(items: AsyncIterator[Any]) -> tuple[Any, bool]:
    try:
        return await items.__anext__(), True
    except StopAsyncIteration:
        return None, False


async def _told(awaitable: Awaitable[T], outcome: Future[T]) -> None:
    try:
        outcome.set_result(await awaitable)
    except BaseException as error:
        outcome.set_exception(error)


async def _inside(awaitable: Awaitable[T], hops: tuple[int, int]) -> T:
    _hops.set(hops)
    return await contained(awaitable)


async def contained(awaitable: Awaitable[T]) -> T:
    """Await it inside a task without letting KeyboardInterrupt or SystemExit tear down the task's event loop.

    A CancelledError of its own does not look like a cancellation of the task either, and errors of which futures
    make others on their way keep their identity.
    """
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit, TimeoutError, FutureCancelledError) as error:
        raise _Carried(error) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise _Carried(error) from error  # raised by what was awaited: nobody has cancelled this task


class _Carried(Exception):
    """Carries an exception that must not escape a task; ``outcome_of`` takes it out again."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


def outcome_of(future: Any) -> Any:
    """The result of a future of either kind, or what its job really raised, untouched."""
    error = future.exception()
    if error is None:
        return future.result()
    raise error.error if isinstance(error, _Carried) else error


async def from_thread(future: Future[T]) -> T:
    """The outcome of a job of the pool, awaited; asyncio alone would hand on a TimeoutError as another object."""
    with contextlib.suppress(Exception):
        return await asyncio.wrap_future(future)
    return future.result()


_lock = threading.Lock()
_pools: dict[tuple[int, int], DaemonPool] = {}
_portals: dict[int, Portal] = {}
_pool_size = 128
_user_pool: _UserPool | None = None


def pool() -> DaemonPool | _UserPool:
    """The process-wide pool (spec 8.1); one of its own for what runs inside a tool that holds a thread or loop."""
    hops = _hops.get()
    if _user_pool is not None and hops == (0, 0):
        return _user_pool
    found = _pools.get(hops)
    if found is not None:
        return found
    with _lock:
        return _pools.setdefault(hops, DaemonPool(_pool_size, hops))


def portal() -> Portal:
    """The process-wide event loop for awaitable things in blocking modes; another one inside what it runs."""
    depth = _hops.get()[1]
    with _lock:
        if depth not in _portals:
            _portals[depth] = Portal(depth)
        return _portals[depth]


def run_in_pool(function: Callable[..., T], *args: Any) -> Future[T]:
    """A future of ``function(*args)`` on the process-wide pool, in a copy of the caller's context."""
    return pool().submit(function, *args)


def set_pool_size(size: int) -> None:
    """Use at most ``size`` worker threads (default 128); call it before the first run."""
    global _pools, _pool_size
    if not is_count(size):
        raise UserError(f"set_pool_size({size!r}): expected at least one thread")
    with _lock:
        _pools, _pool_size = {}, size


def use_executor(executor: Executor | None) -> None:
    """Run blocking tools on this executor instead of our own threads (spec 8.1); ``None`` goes back to ours.

    Its threads are the application's: they may keep a process from exiting, and do not survive a fork. Tools that
    run other agents and wait for them get threads of ours, so that a full executor cannot deadlock.
    """
    global _user_pool
    if executor is not None and not isinstance(executor, Executor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"use_executor({executor!r}): expected a concurrent.futures.Executor, or None")
    _user_pool = None if executor is None else _UserPool(executor)


def _after_fork() -> None:
    global _lock, _pools, _portals
    _lock, _pools, _portals = threading.Lock(), {}, {}


with contextlib.suppress(AttributeError):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
