"""The two drivers: they advance a core, have its effects performed, and hand the outcomes back. Nothing else.

``drive`` is a generator of events: ``run`` drains it, ``stream`` is it. ``adrive`` is a coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar, cast

from ._effects import Core, Effect, Shielded
from .events import Event

__all__ = ["AsyncIO", "BlockingIO", "Superseded", "adrive", "drive", "exhaust"]

T = TypeVar("T")


class BlockingIO(Protocol):
    """Performs effects by blocking."""

    @property
    def at_once(self) -> dict[type[Effect[Any]], Callable[[Any], Any]]:
        """How to perform the effects during which no events come up."""
        ...

    @property
    def in_steps(self) -> dict[type[Effect[Any]], Callable[[Any], Generator[Event, None, Any]]]:
        """How to perform the others."""
        ...

    def pending(self) -> Iterator[Event]:
        """Takes out the events that wait to be delivered."""
        ...


class AsyncIO(Protocol):
    """Performs effects by awaiting."""

    @property
    def performers(self) -> dict[type[Effect[Any]], Callable[[Any], Awaitable[Any]]]:
        """How to perform each effect."""
        ...

    async def make_room(self) -> None:
        """Waits while a consumer is too far behind."""
        ...

    @property
    def is_full(self) -> bool:
        """Whether ``make_room`` would wait."""
        ...


def drive(core: Core[T], io: BlockingIO) -> Generator[Event, None, T]:
    """Run the core to its end, yielding the events of the run; gives what the core returns."""
    resume: Callable[[Any], Any] = core.send
    value: Any = None
    closing = False
    while True:
        try:
            effect = resume(value)
        except StopIteration as stop:
            if not closing:
                yield from io.pending()
            return cast(T, stop.value)
        except BaseException:
            if not closing:
                yield from io.pending()
            raise
        try:
            # Between a failure and giving up there must be no yield: a consumer that leaves there would be
            # the end of the run, with nothing undone.
            if not closing and type(effect) is not Shielded:
                yield from io.pending()
            at_once = io.at_once.get(type(effect))
            if at_once is not None:
                value = at_once(effect)
            else:
                value = yield from io.in_steps[type(effect)](effect)
            resume = core.send
        except BaseException as error:
            # A generator that is being closed must not yield again, whatever the core still wants done.
            closing = closing or isinstance(error, GeneratorExit)
            value, resume = error, core.throw


class Superseded(BaseException):
    """Another task has taken the core over from this driver, which has to leave it alone."""


async def adrive(
    core: Core[T],
    io: AsyncIO,
    *,
    thrown: BaseException | None = None,
    superseded: Callable[[], bool] | None = None,
) -> T:
    """Run the core to its end; gives what the core returns. ``thrown`` is raised at the effect where it waits."""
    resume: Callable[[Any], Any] = core.send if thrown is None else core.throw
    value: Any = thrown
    while True:
        try:
            effect = resume(value)
        except StopIteration as stop:
            return cast(T, stop.value)
        try:
            if io.is_full and type(effect) is not Shielded:
                await io.make_room()
            value = await io.performers[type(effect)](effect)
            resume = core.send
        except BaseException as error:
            value, resume = error, core.throw
        if superseded is not None and superseded():
            raise Superseded


def exhaust(events: Generator[Any, None, T]) -> T:
    """What a generator returns, once its items have been thrown away."""
    while True:
        try:
            next(events)
        except StopIteration as stop:
            return cast(T, stop.value)
