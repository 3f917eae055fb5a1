"""Performs effects in blocking modes: on the caller's thread, on pool threads for parallel rounds."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import closing, nullcontext, suppress
from typing import Any, ClassVar

from ._books import Run
from ._checks import is_awaitable
from ._colour import outcome_of, pool, portal
from ._drive import drive, exhaust
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
    Use,
)
from ._giveup import attach
from ._interrupts import held_interrupts
from ._limits import UNDOING_EVERY, is_undoing
from ._loop import abandon, run_loop
from ._outbox import Outbox
from ._patience import insist
from ._pieces import Model, Performer, broken_stream, unfit_stream
from ._schedule import Schedule
from .errors import Suspended, ToolExecutionError, ToolTimeout
from .events import Event
from .messages import ChatResponse, ResponseDone

__all__ = ["Blocking", "abandoned", "awaited", "called", "settled", "unraisable"]

_Signal = tuple[Schedule, int] | None
"""A call has settled, or nothing but: look whether there are events, or a cancellation."""


class Blocking(Performer):
    """Performs the effects of one run. ``outbox`` is where a stream's events wait; a plain run has none."""

    def __init__(
        self, run: Run, model: Model, *, outbox_size: int | None = None, within: Blocking | None = None
    ) -> None:
        super().__init__(run, model)
        wake: queue.SimpleQueue[_Signal] = queue.SimpleQueue()
        self._wake = wake
        self._is_quiet = False  # whether nobody can take events now: not from this thread, or not in the middle of this
        self.outbox = None if outbox_size is None else Outbox(outbox_size, lambda: wake.put(None))
        if within is not None:
            self._join(within)
        self.streams = self.outbox is not None
        if run.parallel is not False:
            wake = self._wake
            run.token.on_cancel(lambda: wake.put(None))

    def _join(self, within: Blocking) -> None:
        """For a run that is part of another: its events go where that one's go."""
        outbox = self.outbox = within.outbox
        self._is_quiet = within._is_quiet or outbox is None or not outbox.is_mine
        if not self._is_quiet:
            self._wake = within._wake  # which the outbox knows, and on which nobody else waits meanwhile

    def pending(self) -> Iterator[Event]:
        """The events that wait to be delivered."""
        outbox = self.outbox
        return iter(()) if outbox is None or self._is_quiet or outbox.has_left else outbox.pending()

    # ------------------------------------------------------------ model

    def _call_model(self, effect: CallModel) -> Generator[Event, None, ChatResponse]:
        if not self.streams:
            return self._model.generate(effect.request)
        return (yield from self._stream_model(effect))

    def _stream_model(self, effect: CallModel) -> Generator[Event, None, ChatResponse]:
        run = self._run
        stream: Any = self._model.stream(effect.request)
        if not hasattr(stream, "__iter__"):
            raise unfit_stream(stream)
        with closing(_closable(stream)) as pieces:
            for piece in pieces:
                if isinstance(piece, ResponseDone):
                    return piece.response
                self._take(effect, piece)
                yield from self.pending()
                run.check_cancelled()
        raise broken_stream()

    # ------------------------------------------------------------ rounds

    def _run_tools(self, effect: RunTools) -> Generator[Event, None, None]:
        run, schedule = self._run, self._schedule_of(effect.round)
        schedule.admit(effect.round.pending)
        self._start_all(schedule, effect)
        while not schedule.is_idle:
            signal = self._wake.get()
            if signal is not None and signal[0] is schedule:
                schedule.settled(signal[1])
                self._start_all(schedule, effect)
            yield from self.pending()
            run.check_cancelled()

    def _start_all(self, schedule: Schedule, effect: RunTools) -> None:
        for slot in schedule.next_slots():
            self._start(slot, effect.execute(slot))

    def _start(self, slot: int, core: Core[None]) -> None:
        schedule = self._schedule
        assert schedule is not None
        future = pool().submit(self._work, core)
        future.add_done_callback(lambda _: self._wake.put((schedule, slot)))

    def _work(self, core: Core[None]) -> None:
        with nullcontext() if self.outbox is None else self.outbox.worker():
            exhaust(drive(core, self, quiet=True))

    def _drain(self, effect: Drain) -> None:
        schedule = self._schedule
        if schedule is None:
            return
        deadline = time.monotonic() + effect.seconds
        while not schedule.is_idle:
            left = deadline - time.monotonic()
            try:
                signal = self._wake.get(timeout=max(left, UNDOING_EVERY if is_undoing(self._run) else 0.0))
            except queue.Empty:
                if is_undoing(self._run):
                    continue
                return
            if signal is not None and signal[0] is schedule:
                schedule.settled(signal[1])

    def _shielded(self, effect: Shielded[Any]) -> Any:
        if self._is_quiet or self.outbox is None:
            with held_interrupts(self._run):
                return exhaust(drive(effect.core, self, quiet=True))
        self._is_quiet = True
        # A worker that waits for the consumer would never settle; one that outlives the run would never end.
        if self._run.parent is None:
            self.outbox.close()
        with held_interrupts(self._run), nullcontext() if self._run.parent is None else self.outbox.closed():
            try:
                return exhaust(drive(effect.core, self, quiet=True))
            finally:
                self._is_quiet = False

    def _run_part(self, effect: RunPart) -> Generator[Event, None, Any]:
        io = Blocking(effect.run, effect.model, within=self)
        try:
            return (yield from drive(run_loop(effect.run), io))
        finally:
            effect.run.is_over = True

    # ------------------------------------------------------------ bodies

    def _run_body(self, effect: RunBody) -> Any:
        tool = effect.tool
        try:
            if tool.timeout is not None:
                return self._run_timed(effect, tool.timeout)
            return settled(tool.body.call(effect.arguments, effect.context))
        except (StopIteration, GeneratorExit) as error:
            raise unraisable(tool.name, error) from error

    def _run_timed(self, effect: RunBody, timeout: float) -> Any:
        future, cancel = _begun(effect)
        in_time = False
        try:
            in_time = finished_in_time(future, timeout)
        finally:  # an interrupt while waiting leaves the body running just as a timeout does
            if not in_time:
                cancel()
                future.add_done_callback(lambda done: finish_late(done, effect, self))
        if not in_time:
            raise _timed_out(effect)
        return outcome_of(future)

    def _stream_body(self, effect: StreamBody) -> Generator[Event, None, Any]:
        outbox = self.outbox
        if outbox is None or self._is_quiet or not outbox.is_mine:  # nobody takes events from this thread now
            return self._run_body(effect)
        future, cancel = _begun(effect)
        future.add_done_callback(lambda _: self._wake.put(None))
        in_time = False
        try:
            yield from self._while_it_runs(future, effect.tool.timeout)
            in_time = future.done()
        except GeneratorExit:
            # The consumer has left in the middle: the body drains, and what becomes of it is entered as a late end.
            finished_in_time(future, self._run.settings.drain_timeout)
            raise
        finally:
            if not in_time:
                cancel()
                future.add_done_callback(lambda done: finish_late(done, effect, self))
        if not in_time:
            raise _timed_out(effect)
        try:
            return outcome_of(future)
        except (StopIteration, GeneratorExit) as error:
            raise unraisable(effect.tool.name, error) from error

    def _while_it_runs(self, future: Future[Any], timeout: float | None) -> Generator[Event, None, None]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not future.done():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            with suppress(queue.Empty):
                self._wake.get(timeout=left)
            yield from self.pending()

    def _run_undo(self, effect: RunUndo) -> None:
        with held_interrupts(self._run):  # also in a run that goes on: an undo that is broken off leaves its effect
            if effect.retries:
                insist(lambda: self._undo_once(effect), effect.retries)
            else:
                self._undo_once(effect)

    def _undo_once(self, effect: RunUndo) -> None:
        entry = effect.entry
        undo = entry.tool.undo
        assert undo is not None
        timeout = effect.timeout if undo.timeout is None else undo.timeout

        def call() -> Any:
            return undo.call(entry.execution, entry.arguments, entry.context)

        if not undo.is_async and undo.timeout is None and entry.tool.timeout is None and not self._run.parallel:
            # Where the body ran: what it holds (a database connection, say) may be bound to this thread.
            settled(call())
            return
        future = portal().submit(_coroutine(call())) if undo.is_async else pool().submit(lambda: settled(call()))
        if not finished_in_time(future, timeout):
            future.cancel()
            raise ToolTimeout(f"undoing {entry.tool.name!r} did not finish within {timeout} s; it may have happened")
        outcome_of(future)

    # ------------------------------------------------------------ the rest

    def _await(self, effect: Await) -> Any:
        return awaited(effect.awaitable)

    def _call_function(self, effect: Offload) -> Any:
        return settled(effect.function(*effect.args))

    def _use(self, effect: Use) -> Any:
        return settled(getattr(effect.component, effect.operation)(*effect.args))

    def _pause(self, effect: Pause) -> None:
        time.sleep(effect.seconds)

    def _keep(self, effect: Keep) -> None:
        log, interrupt = self._run.log, None
        assert log is not None
        future = log.append(effect.drafts, effect.state)
        while True:
            try:
                future.result()
                break
            except KeyboardInterrupt as error:
                interrupt = error  # what has been handed over is written: nobody may think that it is not
        if interrupt is not None:
            raise interrupt

    at_once: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Any]]] = {
        RunBody: _run_body,
        Await: _await,
        Offload: _call_function,
        Use: _use,
        Ask: _use,
        Keep: _keep,
        Pause: _pause,
        RunUndo: _run_undo,
        Drain: _drain,
        Shielded: _shielded,
    }
    in_steps: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Generator[Event, None, Any]]]] = {
        CallModel: _call_model,
        RunTools: _run_tools,
        StreamBody: _stream_body,
        RunPart: _run_part,
    }


def abandoned(run: Run, io: Blocking, failure: BaseException) -> None:
    """See to a run that was left or interrupted after its loop had ended and before its answer was delivered."""
    if run.ledger.is_closed and not run.given_up:
        attach(run, failure)  # the answer stands although nobody gets it: the report says what was done
    elif not (run.given_up or isinstance(failure, Suspended)):
        exhaust(drive(abandon(run, failure), io, quiet=True))


# ---------------------------------------------------------------- awaitables and futures


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable


def awaited(awaitable: Any) -> Any:
    """The result of an awaitable, from blocking code."""
    return portal().call(_coroutine(awaitable))


def settled(value: object) -> Any:
    """The value, or the result of the awaitable that it is, from blocking code."""
    return awaited(value) if is_awaitable(value) else value


def called(effect: RunBody) -> Any:
    """What the body returns, on this thread."""
    try:
        return effect.tool.body.call(effect.arguments, effect.context)
    except (StopIteration, GeneratorExit) as error:
        raise unraisable(effect.tool.name, error) from error


def _begun(effect: RunBody) -> tuple[Future[Any], Callable[[], object]]:
    """Start the body on a thread that is not ours; gives its future, and what cancels it."""
    body = effect.tool.body
    if body.is_async:
        return portal().start(_coroutine(body.call(effect.arguments, effect.context)))
    future = pool().submit(lambda: settled(called(effect)))
    return future, future.cancel  # only a job that no thread has begun


def _timed_out(effect: RunBody) -> ToolTimeout:
    tool = effect.tool
    return ToolTimeout(f"tool {tool.name!r} did not finish within its timeout of {tool.timeout} s")


def unraisable(name: str, error: BaseException) -> ToolExecutionError:
    """Stands for an error of a body that cannot be thrown into a coroutine.

    Python turns a StopIteration that crosses a generator into a RuntimeError, and closes a coroutine into which a
    GeneratorExit is thrown.
    """
    return ToolExecutionError(f"tool {name!r} raised {type(error).__name__}")


def finished_in_time(future: Future[Any], timeout: float | None) -> bool:
    """Wait for the future, at most ``timeout`` seconds; gives whether it is done, whatever its outcome."""
    try:
        future.exception(timeout)
    except TimeoutError:
        return future.done()
    except CancelledError:
        return True
    return True


def finish_late(future: Future[Any], effect: RunBody, io: Any) -> None:
    """A body has outlived its timeout and is done now: let its core see to it, on this thread."""
    if future.cancelled():
        return
    error = future.exception()
    value = None if error is not None else future.result()
    exhaust(drive(effect.late(value, error), io, quiet=True))


def _closable(pieces: Iterator[Any]) -> Any:
    return pieces if hasattr(pieces, "close") else _Closable(pieces)


class _Closable:
    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._items

    def close(self) -> None:
        return None
