"""The handles of streaming runs: context managers over the events of one run (design 1, spec 12.5)."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from types import GeneratorType, TracebackType
from typing import Any, Generic, Self, cast

from typing_extensions import TypeVar

from ._answer import Answer
from ._aperform import Awaiting
from ._books import Run
from ._callbacks import Callbacks
from ._checks import is_awaitable
from ._drive import drive
from ._loop import run_loop
from ._partial import PartialOutput
from ._perform import Blocking, abandoned, settled
from ._report import UndoReport
from ._results import RunResult, delivered
from ._supervise import Supervisor
from .errors import RunCancelled, UserError
from .events import Event, TextDelta

__all__ = ["AsyncStream", "Stream"]

OutputT = TypeVar("OutputT", default=str)


class _Handle(Callbacks, Generic[OutputT]):
    """What both kinds of streams have in common."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._result: RunResult[OutputT] | None = None

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    @property
    def result(self) -> RunResult[OutputT]:
        """The run's result, once all events have been taken; before that, or without one, a ``UserError``."""
        if self._result is None:
            raise UserError("this run has no result: take all its events first, and see .undone if it was given up")
        return self._result

    @property
    def undone(self) -> UndoReport:
        """What became of the run's effects, as known now."""
        return self._run.report()


class Stream(_Handle[OutputT]):
    """A run as a blocking iterator of events. Use it with ``with``: leaving the block early cancels the run.

    A failure of the run is raised where the next event would be taken; leaving early raises nothing.
    """

    def __init__(self, run: Run, io: Blocking) -> None:
        super().__init__(run)
        assert io.outbox is not None
        self._io = io
        self._outbox = io.outbox
        self._left = False
        self._events = cast("GeneratorType[Event, None, None]", self._run_through())

    def _run_through(self) -> Generator[Event, None, None]:
        try:
            answer: Answer = yield from drive(run_loop(self._run), self._io)
            self._result = delivered(self._run, answer)
        except BaseException as failure:
            abandoned(self._run, self._io, failure)
            raise
        yield from self._io.pending()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        self._outbox.adopt()
        try:
            return next(self._events)
        except RunCancelled:
            if self._left:
                raise StopIteration from None
            raise

    def text(self) -> Iterator[str]:
        """The pieces of the answer's text alone, without those of agents that are called as tools."""
        for event in self:
            if isinstance(event, TextDelta) and not event.path:
                yield event.text

    def partial_outputs(self) -> Iterator[Any]:
        """The output as it grows: plain data, as far as it can be read; the last one is the output itself.

        Text for an agent without ``output=``. An answer that is sent back is followed by the next one.
        """
        partial = PartialOutput(self._run)
        for event in self:
            yield from partial.take(event)

    def cancel(self) -> None:
        """Stop the run: running tools finish, what was done is undone, and the iterator ends.

        From another thread it asks for that and returns at once.
        """
        self._left = True
        self._run.token.cancel()
        # Only the consumer's own thread may close: from any other, the consumer could be about to go on.
        if threading.get_ident() == self._outbox.consumer and not self._events.gi_running:
            self._close()

    def _close(self) -> None:
        if self._result is None:
            self._run.token.cancel()
        self._outbox.adopt()
        # No generator may yield any more, of this run or of a part of it, whatever interrupts what is still to be done.
        self._outbox.has_left = True
        self._events.close()

    def start(self) -> None:
        """Run to the end with the registered callbacks (spec 7.8.2)."""
        self._check()
        try:
            with self:
                for event in self:
                    for answer in self._told(event):
                        settled(answer)
        except Exception as error:
            self._failed(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


class AsyncStream(_Handle[OutputT]):
    """A run as an asynchronous iterator of events. Use it with ``async with``: leaving early cancels the run.

    The run starts when the block is entered. A failure is raised where the next event would be taken; leaving
    early raises nothing, and leaves only when everything has been dealt with.
    """

    def __init__(self, run: Run, make_io: Callable[[], Awaiting]) -> None:
        super().__init__(run)
        self._make_io = make_io
        self._io: Awaiting | None = None
        self._supervisor: Supervisor[Answer] | None = None
        self._has_raised = False
        self._left = False
        self._entered = False

    def _begin(self) -> Supervisor[Answer]:
        if self._supervisor is None:
            self._io = self._make_io()
            self._supervisor = Supervisor(self._run, self._run_through(), self._io)
        return self._supervisor

    async def _run_through(self) -> Answer:
        answer = await run_loop(self._run)
        self._result = delivered(self._run, answer)
        return answer

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if not self._entered:
            raise UserError(
                "take the events inside `async with agent.astream(…) as run:`; "
                "outside of it, a run that is left early would go on unseen"
            )
        supervisor = self._begin()
        assert self._io is not None and self._io.outbox is not None
        outbox = self._io.outbox
        while True:
            event = outbox.take()
            if event is not None:
                return event
            if supervisor.ended:
                break
            await outbox.arrival()
        if supervisor.error is not None and not self._has_raised and not self._left:
            self._has_raised = True
            raise supervisor.error
        raise StopAsyncIteration

    async def text(self) -> AsyncIterator[str]:
        """The pieces of the answer's text alone, without those of agents that are called as tools."""
        async for event in self:
            if isinstance(event, TextDelta) and not event.path:
                yield event.text

    async def partial_outputs(self) -> AsyncIterator[Any]:
        """The output as it grows: plain data, as far as it can be read; the last one is the output itself.

        Text for an agent without ``output=``. An answer that is sent back is followed by the next one.
        """
        partial = PartialOutput(self._run)
        async for event in self:
            for value in partial.take(event):
                yield value

    async def cancel(self) -> None:
        """Stop the run and wait until that is done: running tools finish, what was done is undone."""
        self._left = True
        if self._supervisor is None:
            self._run.token.cancel()
            return
        if self._io is not None and self._io.outbox is not None:
            self._io.outbox.close()  # nobody takes events any more, and agents at work must not wait for that
        self._supervisor.cancel()
        cancelled = await self._supervisor.settle()
        if cancelled is not None:
            raise cancelled

    async def start(self) -> None:
        """Run to the end with the registered callbacks (spec 7.8.2)."""
        self._check()
        try:
            async with self:
                async for event in self:
                    for answer in self._told(event):
                        if is_awaitable(answer):
                            await answer
        except Exception as error:
            self._failed(error)

    async def __aenter__(self) -> Self:
        self._entered = True
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()
