"""Runs a core in a task of its own on asyncio, so that whoever waits for it may be cancelled as often as they like.

The task is never cancelled while a tool runs in it: running tools drain. If one does not end within the drain
timeout, the core is taken over by another task, and the first one only sees its tool off.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Generic, TypeVar

from ._aperform import Awaiting
from ._books import Run
from ._drive import Superseded, adrive
from ._effects import Core
from ._giveup import hand_on
from ._job import Interrupted
from ._limits import UNDOING_EVERY, is_undoing
from ._loop import abandon

__all__ = ["Supervisor"]

T = TypeVar("T")

_stuck_tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly


class Supervisor(Generic[T]):
    """One run on asyncio: start it, wait for it, cancel it."""

    def __init__(self, run: Run, core: Core[T], io: Awaiting) -> None:
        self._run = run
        self._core = core
        self._io = io
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.ended = False
        self.value: T | None = None
        self.error: BaseException | None = None
        # Never through the loop's task factory: an eager one would run the core before anyone holds its task.
        self._task = io.main = asyncio.Task(self._advance(core, io.turn, None), loop=self._loop)
        if run.token.has_parent:  # without one, whoever cancels the run comes through here
            run.token.on_cancel(self._cancel_from_anywhere)

    async def _advance(self, core: Core[T], turn: int, thrown: BaseException | None) -> None:
        try:
            self.value = await adrive(core, self._io, thrown=thrown, turn=turn)
        except Superseded:
            return
        except BaseException as error:
            self.error = error
        self._end()

    def _end(self) -> None:
        self.ended = True
        if self._run.token.has_parent:
            # The token would tie run and supervisor into a knot that only the garbage collector could undo.
            self._run.token.forget(self._cancel_from_anywhere)
        if self._timer is not None:
            self._timer.cancel()
        if self._io.outbox is not None:
            self._io.outbox.end()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ------------------------------------------------------------ cancelling

    def _cancel_from_anywhere(self) -> None:
        with suppress(RuntimeError):  # the loop has been closed: nothing is left to cancel
            self._loop.call_soon_threadsafe(self.cancel)

    def cancel(self) -> None:
        """Ask the run to stop: no further step is taken, running tools finish, what was done is undone."""
        if self.ended:
            return
        self._run.token.cancel()
        if self._run.given_up:
            return
        if self._io.may_interrupt:
            self._task.cancel()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._run.settings.drain_timeout, self._take_over)

    def _take_over(self) -> None:
        if self.ended or self._run.given_up:
            return
        if self._io.may_interrupt:
            self._task.cancel()
            return
        if is_undoing(self._run):
            self._timer = self._loop.call_later(UNDOING_EVERY, self._take_over)
            return
        _stuck_tasks.add(self._task)
        self._task.add_done_callback(_stuck_tasks.discard)
        self._io.turn += 1
        stopped = Interrupted(f"run {self._run.run_id!r} was cancelled while this was still running")
        self._task = self._io.main = self._loop.create_task(self._advance(self._core, self._io.turn, stopped))

    # ------------------------------------------------------------ waiting

    async def settle(self) -> asyncio.CancelledError | None:
        """Wait until the run has ended and its books are closed; gives the first cancellation met on the way."""
        first: asyncio.CancelledError | None = None
        while not self.ended:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                first = first or error
                self.cancel()
        return first

    async def result(self) -> T:
        """What the run gives. If the caller is cancelled, everything is dealt with before that is raised."""
        cancelled = await self.settle()
        if cancelled is None:
            if self.error is not None:
                raise self.error
            return self.value  # type: ignore[return-value]  # there is one: the core ended without an error
        if self.error is None:
            # The answer came in the very moment of the cancellation: nobody will get it, so it does not stand.
            await self._abandon(cancelled)
        elif self.error is not cancelled:
            hand_on(self.error, cancelled)
        raise cancelled from self.error

    async def _abandon(self, cancelled: asyncio.CancelledError) -> None:
        self._run.token.cancel()
        self.ended = False
        self._io.turn += 1
        self._task = self._loop.create_task(self._advance_abandon(cancelled))
        await self.settle()

    async def _advance_abandon(self, cancelled: asyncio.CancelledError) -> None:
        try:
            await adrive(abandon(self._run, cancelled), self._io)
        finally:
            self._end()
