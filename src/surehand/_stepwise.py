"""A run taken step by step, by somebody who asks the model themselves: the two handles (spec 19.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import GeneratorType, TracebackType
from typing import Any, Self, TypeVar, cast

from ._answer import Answer
from ._books import Round, Run
from ._by_hand import AwaitingByHand, BlockingByHand, Place
from ._drive import drive
from ._effects import Core
from ._giveup import hand_on
from ._loop import run_loop
from ._perform import abandoned
from ._pieces import Model
from ._report import UndoReport
from ._results import delivered
from ._started import AsyncStartedCall, StartedCall
from ._step_values import CombinedResults, RoundOutcome
from ._steps_of_a_run import ByHand, Steps, throwable
from ._supervise import Supervisor
from .errors import RunCancelled
from .events import UndoReason
from .messages import ChatRequest, ChatResponse, ToolCall

__all__ = ["AsyncStepwiseRun", "StepwiseRun"]

T = TypeVar("T")


class StepwiseRun(ByHand):
    """A run of which you take each step, and ask the model yourself. Use it in a ``with`` block.

    ``request()``, your model, ``receive(reply)``, ``settle()``, until ``request()`` gives ``None``. A step that fails
    has given the run up, as a run of an agent is: what was done is undone, the memory is closed, and
    ``report_of(error)`` tells. So does leaving the block, early or by an exception. Belongs to one thread.
    ``AsyncStepwiseRun`` has the same steps, awaitable.
    """

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run)
        self._io = BlockingByHand(run, model)
        self._drive: GeneratorType[Any, Any, Any] | None = None

    def request(self) -> ChatRequest | None:
        """The next request (spec 7.7): providers asked, tools that were found shown, ``transform_request`` applied.

        ``None`` once the run has its answer. A run that is gone on with from a journal first tells again what is
        recorded, finishes a round that its process left, and gives the first request that was not answered.
        """
        return self._play(self._request_steps())

    def receive(self, response: ChatResponse) -> tuple[ToolCall, ...]:
        """Take the model's reply; gives the calls that it asks for, by their positions.

        Limits are checked before any of them may run (spec 7.2). A reply without calls is the answer, unless it has to
        be asked for again: then ``request()`` gives another request.
        """
        return self._play(self._receive_steps(response))

    def start(self, index: int) -> StartedCall:
        """Start one call of the reply now, on a thread, beside everything else (spec 7.4.6); each once.

        Tools that are exclusive, or have enough calls running, are left to ``combine()``.
        """
        return self._started(index, StartedCall)

    def start_early(self, index: int, call: ToolCall) -> StartedCall | None:
        """Start call ``index`` of a reply that is still going on, before ``receive`` gets the whole; ``None`` if not.

        By the rules of streams: ``early_start``, the limits, exclusive tools, and ``parallel=True`` in blocking runs.
        The effect of a call that then does not stand in the reply is undone.
        """
        return self._started_early(index, call, StartedCall)

    def combine(self) -> CombinedResults:
        """Run the calls that have not started, and wait until all have settled (spec 7.4.7). No tool makes it raise."""
        return self._play(self._combine_steps())

    def settle(self) -> RoundOutcome:
        """Close the round (spec 7.5, 7.6): combine it if that was not done, book it, undo if the policy says so.

        Then the first failure that gives the run up is raised, or the round goes to the memory, as one batch.
        """
        return self._play(self._settle_steps())

    def undo(self, reason: UndoReason = UndoReason.RUN_GIVEN_UP) -> UndoReport:
        """End the run without an answer: running calls finish, what was done is undone (spec 12.7); gives the report.

        ``RUN_CANCELLED`` is the other reason that there is. Does nothing to a run that has ended.
        """
        if not self._over:
            self._end(self._ending(reason))
        return self.undone

    # ------------------------------------------------------------ going on

    def _play(self, steps: Steps[T]) -> T:
        try:
            told = next(steps)
        except StopIteration as stop:
            return cast(T, stop.value)
        self._busy = True
        try:
            while True:
                told = steps.send(self._go(told))
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            self._busy = False

    def _go(self, told: Any) -> Place | None:
        if self._drive is None:
            self._drive = cast("GeneratorType[Any, Any, Any]", drive(run_loop(self._run), self._io))
        return self._advance(self._drive.send, told)

    def _advance(self, advance: Callable[[Any], Any], told: Any) -> Place | None:
        try:
            try:
                place: Place | None = advance(told)
                return place
            except StopIteration as stop:
                self._result, self._over = delivered(self._run, stop.value), True
                return None
        except BaseException as failure:
            self._over = True
            abandoned(self._run, self._io, failure)
            raise

    def _end(self, error: BaseException) -> None:
        """Raise the error inside the run, which gives it up; what else comes of that is raised here."""
        self._over, thrown = True, throwable(error)
        if self._drive is None:
            return
        try:
            self._advance(self._drive.throw, thrown)
        except BaseException as raised:
            if raised is not thrown:
                raise
        if thrown is not error:
            hand_on(thrown, error)

    def _begin(self, round_: Round, slot: int, core: Core[None]) -> None:
        self._io.begin(round_, slot, core)

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._over:
            self._end(self._ending(UndoReason.RUN_CANCELLED) if error is None else error)


class AsyncStepwiseRun(ByHand):
    """A run of which you take each step, and ask the model yourself. Use it in an ``async with`` block.

    The steps are those of ``StepwiseRun``. When the task that waits for one is cancelled, running tools finish, what
    was done is undone, and only then is that raised.
    """

    def __init__(self, run: Run, model: Model) -> None:
        super().__init__(run)
        self._model = model
        self._io: AwaitingByHand | None = None
        self._supervisor: Supervisor[Answer] | None = None

    async def request(self) -> ChatRequest | None:
        """The next request; see ``StepwiseRun.request``."""
        return await self._play(self._request_steps())

    async def receive(self, response: ChatResponse) -> tuple[ToolCall, ...]:
        """Take the model's reply; gives the calls that it asks for; see ``StepwiseRun.receive``."""
        return await self._play(self._receive_steps(response))

    def start(self, index: int) -> AsyncStartedCall:
        """Start one call of the reply now, as a task, beside everything else; see ``StepwiseRun.start``."""
        return self._started(index, AsyncStartedCall)

    def start_early(self, index: int, call: ToolCall) -> AsyncStartedCall | None:
        """Start a call of a reply that is still going on; see ``StepwiseRun.start_early``."""
        return self._started_early(index, call, AsyncStartedCall)

    async def combine(self) -> CombinedResults:
        """Run the calls that have not started, and wait until all have settled; see ``StepwiseRun.combine``."""
        return await self._play(self._combine_steps())

    async def settle(self) -> RoundOutcome:
        """Close the round; see ``StepwiseRun.settle``."""
        return await self._play(self._settle_steps())

    async def undo(self, reason: UndoReason = UndoReason.RUN_GIVEN_UP) -> UndoReport:
        """End the run without an answer; see ``StepwiseRun.undo``."""
        if not self._over:
            await self._end(self._ending(reason))
        return self.undone

    # ------------------------------------------------------------ going on

    async def _play(self, steps: Steps[T]) -> T:
        try:
            told = next(steps)
        except StopIteration as stop:
            return cast(T, stop.value)
        self._busy = True
        try:
            while True:
                told = steps.send(await self._go(told))
        except StopIteration as stop:
            return cast(T, stop.value)
        finally:
            self._busy = False

    async def _go(self, told: Any) -> Place | None:
        io, supervisor = self._io, self._supervisor
        assert io is not None
        if supervisor is None:
            supervisor = self._supervisor = Supervisor(self._run, self._run_through(io), io)
        else:
            io.go_on(told)
        try:
            await io.arrive(lambda: supervisor.ended)
        except asyncio.CancelledError as cancelled:
            self._over = True
            supervisor.cancel()
            await supervisor.settle()
            if supervisor.error is not None:
                hand_on(supervisor.error, cancelled)
            raise
        if not supervisor.ended:
            return io.place
        self._over = True
        if supervisor.error is not None:
            raise supervisor.error
        return None

    async def _run_through(self, io: AwaitingByHand) -> Answer:
        try:
            answer = await run_loop(self._run)
            self._result = delivered(self._run, answer)
            return answer
        finally:
            io.wake()

    async def _end(self, error: BaseException) -> None:
        """Raise the error inside the run, which gives it up; what else comes of that is raised here."""
        self._over, thrown = True, throwable(error)
        io, supervisor = self._io, self._supervisor
        if supervisor is None or io is None:
            return
        if isinstance(error, asyncio.CancelledError | RunCancelled):
            supervisor.cancel()
        else:
            io.throw(thrown)
        cancelled, raised = await supervisor.settle(), supervisor.error
        if raised is not None and raised is not error:
            hand_on(raised, cancelled or error)
        if cancelled is not None:
            raise cancelled
        if raised is not None and raised is not thrown and not isinstance(raised, RunCancelled):
            raise raised

    def _begin(self, round_: Round, slot: int, core: Core[None]) -> None:
        assert self._io is not None
        self._io.begin(round_, slot, core)

    async def __aenter__(self) -> Self:
        self._enter()
        self._io = AwaitingByHand(self._run, self._model)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._over:
            await self._end(self._ending(UndoReason.RUN_CANCELLED) if error is None else error)
