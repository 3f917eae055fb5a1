"""What the caller gets: the result of a run, and the report of a run that was given up."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import Any, Generic, cast

from typing_extensions import TypeVar

from ._answer import Answer, finished
from ._books import Run
from ._giveup import run_of
from ._reading import read
from ._report import UndoReport
from .errors import UserError
from .messages import ChatResponse, FinishReason, Message, Usage
from .tools._tool import ToolExecution

__all__ = ["RunResult", "delivered", "report_of"]

_log = logging.getLogger("surehand")

OutputT = TypeVar("OutputT", default=str)


def delivered(run: Run, answer: Answer) -> RunResult[Any]:
    """The result of a run whose answer stands: from here on, no cancellation and no listener can stop it."""
    result: RunResult[Any] = RunResult(run, answer)
    run.ledger.close()
    run.is_over = True
    run.release()
    if run.listening:
        try:
            run.emit(finished(run, answer))
        except Exception:
            _log.warning("a listener failed on RunFinished of run %r", run.run_id, exc_info=True)
    return result


class RunResult(Generic[OutputT]):
    """A finished run (spec 2.9.1, 17.7).

    ``output``: the answer, its text unless ``Agent(output=…)`` says otherwise; ``None`` when tools ended the run
    (``immediate``) and gave nothing of that type. ``messages``: what this run
    added to the conversation, from the user's message on. ``executions``: every call, by round, in request order.
    ``usage``: the sum over all replies. ``cost``: of all replies and calls, ``None`` if none has a price.
    ``response``: the last reply; ``intermediate``: those before it.
    ``undone``: what became of the effects. ``pending``: calls that wait for a decision.
    Results are equal when all of that is, whatever the run's id.
    """

    def __init__(self, run: Run, answer: Answer) -> None:
        self._run = run
        self.run_id = run.run_id
        self.immediate = answer.immediate
        self.response: ChatResponse = answer.response
        self.output: OutputT | None = answer.output
        self._messages = tuple(run.messages)
        self.executions: tuple[ToolExecution[Any], ...] = tuple(run.executions)
        self.intermediate: tuple[ChatResponse, ...] = tuple(run.intermediate)
        self.usage: Usage | None = run.usage
        self.cost: float | None = None if run.cost is None else float(run.cost)
        self.pending: tuple[ToolExecution[Any], ...] = tuple(run.pending)

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """What this run added to the conversation, from the user's message on."""
        return read(self._messages)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the run ended: ``TOOL_EXECUTION`` when tools ended it, otherwise the last reply's reason."""
        return FinishReason.TOOL_EXECUTION if self.immediate else self.response.finish_reason

    @property
    def undone(self) -> UndoReport:
        """What became of the run's effects, as known now."""
        return self._run.report()

    def _said(self) -> tuple[Any, ...]:
        return (
            self.output,
            self.immediate,
            self.messages,
            self.executions,
            self.intermediate,
            self.response,
            self.usage,
            self.pending,
            self.undone,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunResult) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash((self.run_id, self.output))

    def __repr__(self) -> str:
        return f"RunResult(output={self.output!r}, calls={len(self.executions)}, usage={self.usage!r})"


def report_of(error: BaseException) -> UndoReport | None:
    """The report of the run that was given up because of this error, found along its chain of causes.

    ``report.run_id`` names the run. ``None`` if the error did not end a run.
    """
    if not isinstance(error, BaseException):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"report_of({error!r}): expected an exception; a result and a stream have .undone")
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        run = run_of(current)
        if run is not None:
            return run.report()
        waiting += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            waiting += cast(BaseExceptionGroup[BaseException], current).exceptions
    return None
