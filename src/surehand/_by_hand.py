"""Performers of a run that somebody takes step by step: they stop where its caller is to act, and perform the rest.

The loop is the same as ever. What asks the model, and where a step ends, is answered by the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, ClassVar, TypeAlias, cast

from ._aperform import Awaiting
from ._books import Run
from ._effects import CallModel, Effect, Stop
from ._perform import Blocking
from ._pieces import Model
from .events import Event

__all__ = ["AwaitingByHand", "BlockingByHand", "Place"]

Place: TypeAlias = CallModel | Stop
"""Where a run stands: it is to be told the reply, or to go on."""


def _stop(io: Any, effect: Effect[Any]) -> Generator[Event, Any, Any]:
    return (yield cast(Event, effect))


class BlockingByHand(Blocking):
    """Blocks, except where the run stops: there its driver yields the effect, and takes what it is sent as answer."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        if run.parallel is False:  # a call may be started beside others all the same
            wake = self._wake
            run.token.on_cancel(lambda: wake.put(None))

    in_steps: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Generator[Event, None, Any]]]] = {
        **Blocking.in_steps,
        CallModel: _stop,
        Stop: _stop,
    }


class AwaitingByHand(Awaiting):
    """Awaits, except where the run stops: there it waits for ``go_on`` or ``throw``."""

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run, model)
        self.place: Place | None = None  # where the run stands; nowhere while it goes on
        self._answer: asyncio.Future[Any] = self._loop.create_future()
        self._arrival: asyncio.Future[None] | None = None

    async def _stop(self, effect: Place) -> Any:
        self._answer = self._loop.create_future()
        self.place = effect
        self.wake()
        try:
            return await self._interruptible(lambda: self._answer)
        finally:
            self.place = None

    def wake(self) -> None:
        """Tell whoever waits that the run stands somewhere, or has ended."""
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def go_on(self, value: Any) -> None:
        """The answer at the place where the run stands; nothing if it is being cancelled there."""
        self.place = None
        if not self._answer.done():
            self._answer.set_result(value)

    def throw(self, error: BaseException) -> None:
        """Raise an error there."""
        self.place = None
        if not self._answer.done():
            self._answer.set_exception(error)

    async def arrive(self, has_ended: Callable[[], bool]) -> None:
        """Wait until the run stands somewhere or has ended."""
        while self.place is None and not has_ended():
            self._arrival = self._loop.create_future()
            await self._arrival

    performers: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Awaitable[Any]]]] = {
        **Awaiting.performers,
        CallModel: _stop,
        Stop: _stop,
    }
