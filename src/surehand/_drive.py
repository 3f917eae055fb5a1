"""The two drivers: they advance a core, have its effects performed, and hand the outcomes back. Nothing else.

``drive`` is a generator of events: ``run`` drains it, ``stream`` is it. ``adrive`` is a coroutine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar, cast

from ._effects import Core, Effect, Keep, RunBody, RunUndo, Shielded, Thrown, Use
from .events import Event

__all__ = ["AsyncIO", "BlockingIO", "Superseded", "adrive", "drive", "exhaust"]

# Before these, nobody waits for the consumer. Between a failure and giving up, or in the middle of undoing, a
# consumer that leaves would be the end of it, with what has to be undone already taken from the ledger; and nothing
# comes between a body and the record that it was done.
_UNHINDERED = frozenset((Shielded, RunUndo, Use, Keep))

T = TypeVar("T")


class BlockingIO(Protocol):
    """Performs effects by blocking. The tables belong to the class: a run must not pay for making them."""

    at_once: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Any]]]
    """How to perform the effects during which no events come up: functions of the performer and the effect."""

    in_steps: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Generator[Event, None, Any]]]]
    """How to perform the others."""

    @property
    def streams(self) -> bool:
        """Whether somebody takes the events."""
        ...

    def pending(self) -> Iterator[Event]:
        """Takes out the events that wait to be delivered."""
        ...


class AsyncIO(Protocol):
    """Performs effects by awaiting."""

    performers: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Awaitable[Any]]]]
    """How to perform each effect: functions of the performer and the effect."""

    @property
    def streams(self) -> bool:
        """Whether somebody takes the events."""
        ...

    @property
    def turn(self) -> int:
        """The number of the driver whose turn it is with the run's core: a later one takes it from the one before."""
        ...

    async def make_room(self) -> None:
        """Waits while the consumer is too far behind."""
        ...


def drive(core: Core[T], io: BlockingIO, *, quiet: bool = False) -> Generator[Event, None, T]:
    """Run the core to its end, yielding the events of the run; gives what the core returns.

    ``quiet`` leaves the events where they are: for cores that run inside others, on worker threads or shielded.
    """
    send, at_once = core.send, io.at_once
    value: Any = None
    error: BaseException | None = None
    silent = quiet or not io.streams
    while True:
        try:
            effect = send(value) if error is None else core.throw(error)
        except StopIteration as stop:
            if not silent:
                yield from io.pending()
            return cast(T, stop.value)
        except BaseException as raised:
            if getattr(core, "cr_frame", None) is not None:
                error = raised  # an interrupt between the core's step and ours: the core has not heard of it yet
                continue
            if not silent:
                yield from io.pending()
            raise
        begun = False
        try:
            if not silent and type(effect) not in _UNHINDERED:
                yield from io.pending()
            begun = True
            perform = at_once.get(type(effect))
            if perform is not None:
                value = perform(io, effect)
            else:
                value = yield from io.in_steps[type(effect)](io, effect)
            error = None
        except BaseException as raised:
            # A generator that is being closed must not yield again, whatever the core still wants done.
            left = isinstance(raised, GeneratorExit)
            silent = silent or left
            error = Thrown(raised, begun=begun) if left or not begun else raised


class Superseded(BaseException):
    """Another task has taken the core over from this driver, which has to leave it alone."""


async def adrive(
    core: Core[T],
    io: AsyncIO,
    *,
    thrown: BaseException | None = None,
    turn: int | None = None,
) -> T:
    """Run the core to its end; gives what the core returns. ``thrown`` is raised at the effect where it waits.

    With a ``turn``, raises ``Superseded`` once it is another driver's.
    """
    send, performers, streams = core.send, io.performers, io.streams
    value: Any = None
    error = thrown
    while True:
        try:
            effect = send(value) if error is None else core.throw(error)
        except StopIteration as stop:
            return cast(T, stop.value)
        begun = False
        try:
            if streams and type(effect) not in _UNHINDERED:
                await io.make_room()
            begun = True
            value = await performers[type(effect)](io, effect)
            error = None
        except BaseException as raised:
            error = Thrown(raised, begun=begun) if isinstance(raised, GeneratorExit) or not begun else raised
        if turn is not None and turn != io.turn:
            if isinstance(effect, RunBody):  # the call has been answered as unknown: now it is known
                await adrive(effect.late(value if error is None else None, error), io)
            raise Superseded


def exhaust(events: Generator[Any, None, T]) -> T:
    """What a generator returns, once its items have been thrown away."""
    while True:
        try:
            next(events)
        except StopIteration as stop:
            return cast(T, stop.value)
