"""A listener that keeps what it hears, and a clock that stands still until it is moved."""

from __future__ import annotations

import threading
from typing import TypeVar

from ..events import Event

__all__ = ["FakeClock", "Recorder"]

T = TypeVar("T")


class Recorder:
    """Records events in the order in which they arise: ``Agent(listeners=[recorder])``. Thread-safe."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._events.append(event)

    @property
    def events(self) -> list[Event]:
        """What has been heard so far."""
        with self._lock:
            return list(self._events)

    def of(self, kind: type[T]) -> list[T]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        """The events' type names, for assertions on order."""
        return [type(event).__name__ for event in self.events]


class FakeClock:
    """A clock for ``Agent(clock=…)``: tells the time it was set to, and moves only when told."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        self._now += seconds
