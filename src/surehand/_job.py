"""One call on its way through its body, and how it ended: what the steps of ``_attempt`` hand to each other. Plain."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct

from ._books import Run
from ._limits import lineage
from ._records import STEP, Draft
from .events import ToolProgress
from .messages import ToolCall
from .tools._steps import CallSteps, LoggedSteps, Steps
from .tools._tool import Outcome, Tool, ToolContext, ToolResult

__all__ = ["Ended", "Interrupted", "Job", "gave_up", "may_have_happened"]


def steps_of(run: Run, key: str) -> CallSteps:
    """Where the steps of that call are kept: in its run's journal as well, if it has one."""
    log = run.log
    if log is None:
        return CallSteps()

    def write(name: str, data: bytes) -> Any:
        future = log.append([Draft(STEP, f"{key}:{name}", data, once=True)])
        future.add_done_callback(partial(_halt_if_failed, run))
        return future

    return LoggedSteps(run.recorded.steps.get(key, {}), write)


def _halt_if_failed(run: Run, written: Any) -> None:
    # The body hears of it too, but what it makes of that is no failure of the tool.
    for each in lineage(run):
        each.halted = each.halted or written.exception()


class Interrupted(BaseException):
    """A driver says that a body was interrupted from outside (a loop that shuts down): nobody knows how far it got."""


class Ended(Struct, eq=False):
    """How a call ended, before its record is made. ``failure`` gives the run up; ``error`` is what went wrong."""

    outcome: Outcome
    result: ToolResult
    tool: Tool | None = None
    arguments: dict[str, Any] | None = None
    error: BaseException | None = None
    failure: BaseException | None = None
    same_as: str | None = None  # the key that the body was given, if not the call's own
    may_undo: bool = False  # whether it is undone although nobody knows that it happened
    is_dead_letter: bool = False  # whether it needs a person
    waits: bool = False  # whether its run stops until somebody has told what became of it
    notes: tuple[str, ...] = ()  # what the model is told besides the result


def gave_up(call: ToolCall) -> ToolResult:
    """What stands in history for a call whose end gave the run up."""
    return ToolResult.error(f"The run was given up while {call.name!r} was called.")


class Job(Struct, eq=False):
    """One call on its way through its body: what every step below needs to know."""

    run: Run
    tool: Tool
    call: ToolCall
    key: str
    same_as: str  # the key of an identical earlier call whose outcome is unknown, or our own
    arguments: dict[str, Any]
    entered: bool = False  # whether the body was, in any attempt
    attempt: int = 1
    is_over: bool = False  # whether its end is known: what a body reports afterwards nobody waits for
    steps: Steps | None = None  # what the body has done once and for all, in whichever attempt
    notes: tuple[str, ...] = ()  # what the model will be told besides the result
    raw_error: BaseException | None = None  # what the body raised, where handlers get something else (spec 9.4)

    def context(self, attempt: int = 1, deadline: float | None = None) -> ToolContext[Any]:
        report = partial(self.report, attempt)
        self.steps = self.steps or steps_of(self.run, self.key)
        return self.run.context(
            self.call, self.same_as, attempt=attempt, deadline=deadline, report=report, steps=self.steps
        )

    def report(self, attempt: int, value: Any) -> bool:
        """Pass on what the body tells of its progress; false once nobody waits for that attempt any more."""
        run = self.run
        if self.is_over or attempt != self.attempt or run.is_over:
            return False
        if run.listening:
            run.emit(ToolProgress(run_id=run.run_id, path=run.path, key=self.key, call=self.call, value=value))
        return True

    def ended(
        self,
        outcome: Outcome,
        result: ToolResult,
        error: BaseException | None = None,
        failure: BaseException | None = None,
    ) -> Ended:
        ended = Ended(outcome, result, self.tool, self.arguments, error, failure, self.same_as)
        if self.notes:
            ended.notes = self.notes
        return ended


def may_have_happened(call: ToolCall, what: str) -> ToolResult:
    """What the model reads of a call of which nobody knows whether it happened."""
    return ToolResult.error(f"{what} of {call.name!r} may have happened; it is not known. Do not repeat it.")
