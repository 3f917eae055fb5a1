"""Where events wait for the consumer of a stream: bounded, so that a slow consumer slows the run, and lossless."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress

from .events import Event

__all__ = ["AsyncOutbox", "Outbox"]


class Outbox:
    """For blocking streams. The workers of a parallel round wait while it is full, and nobody else.

    Where the consumer's thread may be waiting for the one that has an event (a body on another thread because of
    its timeout, a coroutine on the portal), waiting for the consumer would never end.
    """

    def __init__(self, bound: int, wake: Callable[[], None]) -> None:
        self._events: deque[Event] = deque()
        self._bound = bound
        self._room = threading.Condition()
        self.consumer = threading.get_ident()
        self._workers: set[int] = set()
        self._wake = wake
        self._closing = False
        self.has_left = False  # whether the consumer has: nothing is delivered from then on

    def put(self, event: Event) -> None:
        """Add an event; may wait for the consumer."""
        me = threading.get_ident()
        if me not in self._workers:
            self._events.append(event)
            if me != self.consumer:
                self._wake()
            return
        with self._room:
            self._room.wait_for(lambda: self._closing or len(self._events) < self._bound)
            self._events.append(event)
        self._wake()

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread is the one that consumes."""
        return threading.get_ident() == self.consumer

    def adopt(self) -> None:
        """The calling thread consumes from now on."""
        self.consumer = threading.get_ident()

    @contextmanager
    def worker(self) -> Generator[None]:
        """Inside the block, the calling thread runs a call of a parallel round."""
        me = threading.get_ident()
        self._workers.add(me)
        try:
            yield
        finally:
            self._workers.discard(me)

    @contextmanager
    def closed(self) -> Generator[None]:
        """Inside the block, nobody waits for room: the consumer's own thread is busy."""
        self.close()
        try:
            yield
        finally:
            self._closing = False

    def close(self) -> None:
        """From here on nobody waits for room: the run is over, and whoever comes late must come to an end."""
        with self._room:
            self._closing = True
            self._room.notify_all()

    def pending(self) -> Iterator[Event]:
        """Takes the events out, oldest first."""
        while self._events:
            yield self._events.popleft()
            if len(self._events) < self._bound:
                with self._room:
                    self._room.notify_all()


class AsyncOutbox:
    """For event streams on asyncio: the run waits at its next step while it is full."""

    def __init__(self, bound: int) -> None:
        self._events: deque[Event] = deque()
        self._bound = bound
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._closing = False

    def put(self, event: Event) -> None:
        """Add an event, from any thread; never waits (the run waits in ``make_room``)."""
        self._events.append(event)
        if threading.get_ident() == self._thread:
            self._arrived.set()
        else:
            with suppress(RuntimeError):  # the loop has been closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._arrived.set)

    @property
    def is_full(self) -> bool:
        """Whether the run should wait."""
        return len(self._events) >= self._bound and not self._closing

    async def make_room(self) -> None:
        """Wait until the consumer has caught up, or has left."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """The consumer has left or the run is ending: nothing waits for room any more."""
        self._closing = True
        self._room.set()

    def end(self) -> None:
        """No more events will come."""
        self._arrived.set()

    def take(self) -> Event | None:
        """The oldest event, or nothing."""
        if not self._events:
            return None
        event = self._events.popleft()
        self._room.set()
        return event

    async def arrival(self) -> None:
        """Wait until there may be something to take."""
        self._arrived.clear()
        if not self._events:
            await self._arrived.wait()
