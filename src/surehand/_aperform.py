"""Performs effects on asyncio: awaitable bodies in the run's task or as tasks, blocking ones on pool threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar

from ._books import Run
from ._checks import is_async_callable, is_awaitable
from ._colour import contained, from_thread, outcome_of, pool
from ._drive import adrive, drive, exhaust
from ._effects import (
    Ask,
    Await,
    CallModel,
    Core,
    Drain,
    Effect,
    Keep,
    Offload,
    Pause,
    RunBody,
    RunPart,
    RunTools,
    RunUndo,
    Shielded,
    StreamBody,
    Thrown,
    Use,
)
from ._job import Interrupted
from ._limits import UNDOING_EVERY, is_undoing
from ._loop import run_loop
from ._outbox import AsyncOutbox
from ._patience import insist_async, outlast, seen_through, uncancel
from ._perform import Blocking, called, unraisable
from ._pieces import Model, Performer, broken_stream, unfit_stream
from ._schedule import Schedule
from ._using import used
from .errors import AsyncNotSupportedError, RunCancelled, ToolTimeout
from .messages import ChatResponse, ResponseDone

__all__ = ["Awaiting"]


class Awaiting(Performer):
    """Performs the effects of one run. ``may_interrupt`` tells whether cancelling its task now harms no tool."""

    def __init__(
        self, run: Run, model: Model, *, outbox_size: int | None = None, within: Awaiting | None = None
    ) -> None:
        super().__init__(run, model)
        self._loop = asyncio.get_running_loop()
        self.outbox = None if outbox_size is None else AsyncOutbox(outbox_size)
        if within is not None:
            self.outbox = within.outbox  # the events of a run that is part of another go where that one's go
        self.may_interrupt = False
        self.turn = 0  # for the supervisor to raise
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled: asyncio.Future[None] | None = None
        self._execute: Callable[[int], Core[None]] | None = None
        self.main: asyncio.Task[None] | None = None  # the task that drives the run, for the supervisor to set
        self.streams = self.outbox is not None

    async def make_room(self) -> None:
        """Wait while the consumer is too far behind; a cancellation ends the wait."""
        assert self.outbox is not None
        if not self.outbox.is_full or self._is_closing:
            return
        task = asyncio.current_task()
        if task is self.main:
            await self._interruptible(self.outbox.make_room)
        elif task in self._tasks:
            await self.outbox.make_room()
        # Whatever comes late, when nobody may be listening any more, waits for nobody.

    async def _interruptible(self, start: Callable[[], Awaitable[Any]]) -> Any:
        # Only the run's own task may be cancelled in here; tools run elsewhere or are not being awaited.
        self.may_interrupt = True
        try:
            self._run.check_cancelled()
            return await start()
        except asyncio.CancelledError as error:
            self._note_cancellation(error)
            raise
        finally:
            self.may_interrupt = False

    def _note_cancellation(self, error: asyncio.CancelledError) -> None:
        asked = self._run.token.is_cancelled
        if not uncancel():
            return
        if asked:  # whoever asked may be no task at all, and a task that nobody cancelled must not end as such
            raise RunCancelled(f"run {self._run.run_id!r} was cancelled") from error
        self._run.token.cancel()  # a loop that shuts down

    # ------------------------------------------------------------ model

    async def _call_model(self, effect: CallModel) -> ChatResponse:
        # The same as `_interruptible`, written out: it is what every round of every run goes through.
        self.may_interrupt = True
        try:
            self._run.check_cancelled()
            return await (self._pieces(effect) if self.streams else self._model.agenerate(effect.request))
        except asyncio.CancelledError as error:
            self._note_cancellation(error)
            raise
        finally:
            self.may_interrupt = False

    async def _pieces(self, effect: CallModel) -> ChatResponse:
        assert self.outbox is not None
        stream: Any = self._model.astream(effect.request)
        if not hasattr(stream, "__aiter__"):
            raise unfit_stream(stream)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                if isinstance(piece, ResponseDone):
                    return piece.response
                self._take(effect, piece)
                await self.outbox.make_room()
        raise broken_stream()

    # ------------------------------------------------------------ rounds

    async def _run_tools(self, effect: RunTools) -> None:
        schedule = self._schedule_of(effect.round)
        self._execute = effect.execute
        schedule.admit(effect.round.pending)
        self._start_next(schedule)
        while not schedule.is_idle:
            self._settled = self._loop.create_future()
            await self._interruptible(self._all_settled)

    async def _all_settled(self) -> None:
        if self._settled is not None:
            await self._settled

    def _start_next(self, schedule: Schedule) -> None:
        if self._execute is not None:
            for slot in schedule.next_slots():
                self._start(slot, self._execute(slot))

    def _start(self, slot: int, core: Core[None]) -> None:
        task = self._loop.create_task(self._child(slot, core))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _child(self, slot: int, core: Core[None]) -> None:
        schedule = self._schedule
        try:
            await adrive(core, self)
        finally:  # whatever happens, nobody may wait for this call for ever
            self._settle(slot, schedule)

    def _settle(self, slot: int, schedule: Schedule | None) -> None:
        if schedule is None:
            return
        schedule.settled(slot)
        if schedule is self._schedule and not self._run.token.is_cancelled:
            self._start_next(schedule)
        if schedule.is_idle and self._settled is not None and not self._settled.done():
            self._settled.set_result(None)

    async def _drain(self, effect: Drain) -> None:
        self._execute = None
        deadline = self._loop.time() + effect.seconds
        while self._tasks and ((left := deadline - self._loop.time()) > 0 or is_undoing(self._run)):
            try:
                await asyncio.wait(set(self._tasks), timeout=max(left, UNDOING_EVERY))
            except asyncio.CancelledError:
                uncancel()  # only a loop that shuts down comes through here; the books must be closed first

    async def _run_part(self, effect: RunPart) -> Any:
        from ._supervise import Supervisor  # which needs this module

        io = Awaiting(effect.run, effect.model, within=self)
        try:
            return await Supervisor(effect.run, run_loop(effect.run), io).result()
        except asyncio.CancelledError as error:
            if uncancel():
                self._run.token.cancel()
                raise Interrupted("a run that is part of another was interrupted") from error
            raise
        finally:
            effect.run.is_over = True

    async def _shielded(self, effect: Shielded[Any]) -> Any:
        self._is_closing = True  # the consumer may have left: nothing in here may wait for it any more
        if self.outbox is not None and self._run.parent is None:
            self.outbox.close()
        return await adrive(effect.core, self)

    # ------------------------------------------------------------ bodies

    async def _run_body(self, effect: RunBody) -> Any:
        tool, body = effect.tool, effect.tool.body
        try:
            if tool.timeout is not None:
                return await self._run_timed(effect, tool.timeout)
            if body.has_async_form:
                return await body.call_async(effect.arguments, effect.context)
            if tool.inline:
                value = called(effect)
            else:
                value = await self._on_a_thread(effect)
            return await value if is_awaitable(value) else value
        except asyncio.CancelledError as error:
            if uncancel():
                self._run.token.cancel()
                raise Interrupted(f"tool {tool.name!r} was interrupted") from error
            raise
        except GeneratorExit as error:
            raise unraisable(tool.name, error) from error

    async def _on_a_thread(self, effect: RunBody) -> Any:
        future = self._offload(effect)
        try:
            return await from_thread(future)
        except asyncio.CancelledError as error:
            if not uncancel():
                return future.result()  # the body's own
            self._run.token.cancel()  # a loop that shuts down; the thread goes on, and so it drains
            if future.cancelled():
                raise Thrown(error, begun=False) from None
            return await self._see_off(future, effect)

    async def _see_off(self, future: Future[Any], effect: RunBody) -> Any:
        waiter = asyncio.wrap_future(future)
        waiter.add_done_callback(_seen)
        deadline = self._loop.time() + self._run.settings.drain_timeout
        while not waiter.done() and (left := deadline - self._loop.time()) > 0:
            try:
                await asyncio.wait({waiter}, timeout=left)
            except asyncio.CancelledError:
                uncancel()
        if not waiter.done():
            self._watch(future, effect)
            raise Interrupted(f"tool {effect.tool.name!r} was still running when the event loop was shut down")
        return future.result()

    def _offload(self, effect: RunBody) -> Future[Any]:
        body = effect.tool.body
        if not body.offload:
            raise AsyncNotSupportedError(
                f"tool {effect.tool.name!r} is bound to its thread (offload = False) and has no execute_async; "
                "give it one, or use run() or stream()"
            )
        return pool().submit(called, effect)

    async def _run_timed(self, effect: RunBody, timeout: float) -> Any:
        body = effect.tool.body
        task: asyncio.Future[Any]
        if body.has_async_form:
            task = self._loop.create_task(contained(body.call_async(effect.arguments, effect.context)))
            watched: Any = task
        else:
            watched = self._offload(effect)
            task = asyncio.wrap_future(watched)
        task.add_done_callback(_seen)
        done: set[Any] = set()
        try:
            done, _ = await asyncio.wait({task}, timeout=timeout)
        finally:
            if not done:
                watched.cancel()  # a coroutine, or a job that no thread has begun
                self._watch(watched, effect)
        if not done:
            raise ToolTimeout(f"tool {effect.tool.name!r} did not finish within its timeout of {timeout} s")
        value = outcome_of(watched)
        return await value if is_awaitable(value) else value

    def _watch(self, future: Any, effect: RunBody) -> None:
        """See to the outcome of a body that its call no longer waits for."""

        def done(finished: Any) -> None:
            if finished.cancelled():
                return
            error = finished.exception()
            value = None if error is not None else finished.result()
            core = effect.late(value, error)
            try:
                self._loop.call_soon_threadsafe(self._see_to, core)
            except RuntimeError:  # the loop has been closed: do it here, on the body's own thread
                exhaust(drive(core, Blocking(self._run, self._model), quiet=True))

        future.add_done_callback(done)

    def _see_to(self, core: Core[None]) -> None:
        task = self._loop.create_task(adrive(core, self))
        _late_tasks.add(task)
        task.add_done_callback(_late_tasks.discard)

    async def _run_undo(self, effect: RunUndo) -> None:
        if effect.retries:
            await insist_async(lambda: self._undo_once(effect), effect.retries, outlast)
        else:
            await self._undo_once(effect)

    async def _undo_once(self, effect: RunUndo) -> None:
        entry = effect.entry
        undo = entry.tool.undo
        assert undo is not None
        timeout = effect.timeout if undo.timeout is None else undo.timeout
        arguments = (entry.execution, entry.arguments, entry.context)
        task: asyncio.Future[Any]
        if undo.is_async:
            task = self._loop.create_task(contained(undo.call(*arguments)))
        elif entry.tool.inline:
            task = self._loop.create_task(contained(_settled(undo.call(*arguments))))
        else:
            task = asyncio.wrap_future(pool().submit(undo.call, *arguments))
        await self._finish_undo(task, entry.tool.name, timeout)

    async def _finish_undo(self, task: asyncio.Future[Any], name: str, timeout: float | None) -> None:
        deadline = None if timeout is None else self._loop.time() + timeout
        while not task.done():
            left = None if deadline is None else deadline - self._loop.time()
            if left is not None and left <= 0:
                task.cancel()
                raise ToolTimeout(f"undoing {name!r} did not finish within {timeout} s; it may have happened")
            try:
                await asyncio.wait({task}, timeout=left)
            except asyncio.CancelledError:
                uncancel()  # an undo that has begun is finished, however often its run is cancelled
        if task.cancelled():
            raise ToolTimeout(f"undoing {name!r} was interrupted; it may have happened")
        value = outcome_of(task)
        if is_awaitable(value):
            await self._finish_undo(self._loop.create_task(contained(value)), name, timeout)

    # ------------------------------------------------------------ the rest

    async def _await(self, effect: Await) -> Any:
        return await effect.awaitable

    async def _offload_function(self, effect: Offload) -> Any:
        if is_async_callable(effect.function):
            return await effect.function(*effect.args)
        value = await from_thread(pool().submit(effect.function, *effect.args))
        return await value if is_awaitable(value) else value

    async def _use(self, effect: Use) -> Any:
        return await used(effect)

    async def _ask(self, effect: Ask) -> Any:
        return await self._interruptible(partial(used, effect))

    async def _pause(self, effect: Pause) -> None:
        await self._interruptible(partial(asyncio.sleep, effect.seconds))

    async def _keep(self, effect: Keep) -> None:
        log = self._run.log
        assert log is not None
        await seen_through(log.append(effect.drafts, effect.state), self._run.token.cancel)

    performers: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Awaitable[Any]]]] = {
        CallModel: _call_model,
        RunTools: _run_tools,
        RunBody: _run_body,
        StreamBody: _run_body,
        Await: _await,
        Offload: _offload_function,
        Use: _use,
        Ask: _ask,
        Keep: _keep,
        Pause: _pause,
        RunUndo: _run_undo,
        Drain: _drain,
        Shielded: _shielded,
        RunPart: _run_part,
    }


_late_tasks: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly


def _seen(future: asyncio.Future[Any]) -> None:
    """Look at a failure that somebody else sees to, or asyncio complains that nobody did."""
    if not future.cancelled():
        future.exception()


async def _settled(value: Any) -> Any:
    return await value if is_awaitable(value) else value
