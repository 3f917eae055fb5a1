"""What a run writes into its journal, and when: one function for each thing that must not be forgotten. No I/O.

Each awaits ``Keep``, which is answered when the record is safe. A journal that fails halts the run: nothing more is
done or undone here, and the run can be resumed once that is mended.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ._books import Run
from ._codec import to_json
from ._effects import Keep
from ._job import Ended
from ._limits import lineage
from ._reading import read
from ._records import (
    DEAD_LETTER,
    DONE,
    FAILED,
    GIVEN_UP,
    IN_DOUBT,
    MODEL,
    RUN_ENDED,
    UNDO_FAILED,
    UNDONE,
    CallEnd,
    Draft,
    GivenUp,
    Reply,
    RunEnd,
    State,
    UndoEnd,
    draft,
)
from ._report import has_effect
from .errors import JournalError, RunGivenUp, Suspended, UserError
from .messages import ChatResponse, Message, ToolMessage
from .policies import UndoPolicy
from .tools._tool import Outcome, ToolExecution, UndoOutcome

__all__ = [
    "halt",
    "keep",
    "keep_end",
    "keep_giving_up",
    "keep_late",
    "keep_reply",
    "keep_run_end",
    "keep_undo_end",
    "said_now",
    "spoken",
]


async def keep(run: Run, *drafts: Draft, state: str | None = None, of_whole: bool = False) -> None:
    """Write these records; raises the journal's error, which halts the run.

    ``state``: where the run stands from now on; that of a run that is part of another is told by its records alone,
    unless it is said ``of_whole``.
    """
    for each in lineage(run):
        if each.halted is not None:
            raise each.halted
    if run.parent is not None and not of_whole:
        state = None
        if not drafts:
            return
    try:
        await Keep(drafts, state)
    except Exception as error:
        halt(run, error)
        raise


def halt(run: Run, error: BaseException) -> BaseException:
    """Stop the run where it is: it is not given up, and nothing is undone; gives the error to be raised."""
    for each in lineage(run):
        each.halted = each.halted or error
    return error


def spoken(error: BaseException) -> str:
    """The error in words, for records; for a run that had been given up before, the words of then."""
    if isinstance(error, RunGivenUp) and error.because:
        return error.because
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# ---------------------------------------------------------------- replies


def said_now(run: Run) -> tuple[str, ...]:
    """A digest for each message that is new since the last request, each of all messages of the run up to it.

    Instructions, tools and parameters are not part of it: they may improve between versions (design 5).
    """
    digests: list[str] = []
    for message in read(run.messages[run.told :]):
        run.said = hashlib.sha256(run.said + _heard(message)).digest()
        digests.append(run.said[:8].hex())
    run.told = len(run.messages)
    return tuple(digests)


def _heard(message: Message) -> bytes:
    if isinstance(message, ToolMessage):  # without its attributes, which need not have a JSON form
        return to_json((message.call_id, message.tool_name, message.contents, message.is_error))
    return to_json(message)


async def keep_reply(run: Run, response: ChatResponse) -> None:
    """A reply has been paid for: it will never be asked for again."""
    round_ = run.round
    assert round_ is not None
    reply = Reply(response, said_now(run), tuple(round_.order))
    try:
        record = draft(MODEL, f"{run.prefix}{round_.number}", reply)
    except UserError as error:
        raise halt(run, JournalError(
            f"reply {round_.number} of run {run.run_id!r} cannot be recorded ({error}): what a model puts into the "
            "attributes and the usage of its replies must be plain data; mend the model, then resume the run"
        )) from error  # fmt: skip
    await keep(run, record)


# ---------------------------------------------------------------- calls


async def keep_end(run: Run, execution: ToolExecution[Any], ended: Ended, *, late: bool) -> None:
    """A call has ended: it will never be run again. ``late``: its run had given up waiting for it."""
    if ended.waits:
        run.pending.append(execution)
        await keep(run, draft(IN_DOUBT, execution.key, _end(execution, ended, waits=True)))
    elif not isinstance(ended.failure, Suspended):  # else its intent is what stays, and says that nobody knows
        drafts = [draft(_KINDS.get(execution.outcome, FAILED), execution.key, _end(execution, ended))]
        if ended.is_dead_letter:
            drafts.append(draft(DEAD_LETTER, execution.key, UndoEnd(execution.call.name, spoken_of(ended))))
        await keep(run, *drafts, state=_state_after(run, execution, ended) if late else None, of_whole=True)


def _state_after(run: Run, execution: ToolExecution[Any], ended: Ended) -> str | None:
    """Where the whole run stands of which something has happened after all: it may have to be undone."""
    run = lineage(run)[-1]
    can_undo = ended.tool is not None and ended.tool.undo is not None
    if run.given_up and can_undo and execution.outcome is Outcome.DONE:
        return State.UNDOING
    return _end_state(run) if run.is_closed else None


_KINDS = {Outcome.DONE: DONE, Outcome.UNKNOWN: IN_DOUBT}


def spoken_of(ended: Ended) -> str | None:
    """What went wrong, in words."""
    return None if ended.error is None else spoken(ended.error)


async def keep_late(run: Run, execution: ToolExecution[Any], ended: Ended) -> None:
    """A call that had been answered as unknown is done after all."""
    record = draft(DONE, execution.key, _end(execution, ended))
    await keep(run, record, state=_state_after(run, execution, ended), of_whole=True)


_NULL = b"null"  # of whatever type: no result at all is no value of the tool's


def _end(execution: ToolExecution[Any], ended: Ended, *, waits: bool = False) -> CallEnd:
    result, tool = execution.result, ended.tool
    value = _NULL if result.value is None else None if tool is None else tool.body.values.dump(result.value)
    undoable = execution.outcome is Outcome.DONE or ended.may_undo
    return CallEnd(
        execution.call,
        execution.outcome,
        result.contents,
        result.is_error,
        _storable(result.attributes),
        None if value is None else value.decode(),
        execution.started_at,
        execution.finished_at,
        ended.same_as,
        spoken_of(ended),
        None if ended.failure is None else spoken(ended.failure),
        undoable and tool is not None and tool.undo is not None,
        waits,
        tool is not None and not has_effect(tool),
    )


def _storable(attributes: Any) -> dict[str, Any]:
    """Attributes are for the application alone: those that have no JSON form do not outlive the process."""
    try:
        to_json(attributes)
        return dict(attributes)
    except UserError:
        return {}


# ---------------------------------------------------------------- undoing, and the end


async def keep_undo_end(run: Run, step: str, tool: str, outcome: UndoOutcome) -> None:
    """An undo has ended: done, or given up on, which leaves a dead letter."""
    end = UndoEnd(tool, outcome.error, outcome.finished_at)
    if outcome.is_undone:
        await keep(run, draft(UNDONE, step, end))
    else:
        await keep(run, draft(UNDO_FAILED, step, end), draft(DEAD_LETTER, step, end))


async def keep_giving_up(run: Run, failure: BaseException) -> None:
    """The run is given up: whoever opens it from now on undoes what it did."""
    if run.recorded.given_up is None:
        record = draft(GIVEN_UP, run.prefix, GivenUp(run.undo_reason, spoken(failure)))
        await keep(run, record, state=State.DRAINING)


async def keep_run_end(run: Run) -> None:
    """The run is over: it has its answer, or what it did has been dealt with."""
    state = _end_state(run)
    drafts = [] if state == State.UNDOING else [draft(RUN_ENDED, run.prefix, RunEnd(state))]
    await keep(run, *drafts, state=state)
    run.is_closed = run.given_up
    if _end_state(run) != state:  # a call has ended meanwhile, and whoever saw to it did not find the run closed yet
        await keep_run_end(run)


def _is_left_to_undo(run: Run) -> bool:
    """Whether a call has ended in this very moment: whoever sees to it undoes it, or else whoever recovers the run."""
    if any(not part.is_over or _is_left_to_undo(part) for part in list(run.parts.values())):
        return True
    undoable = {name for name, tool in run.toolset.tools.items() if tool.undo is not None}
    done = [execution for execution in run.executions if execution.outcome is Outcome.DONE and execution.undo is None]
    return run.settings.undo is not UndoPolicy.OFF and any(execution.call.name in undoable for execution in done)


def _end_state(run: Run) -> str:
    if not run.given_up:
        return State.SUCCEEDED
    if _is_left_to_undo(run):
        return State.UNDOING
    report = run.report()
    may_stand = any(execution.outcome is Outcome.UNKNOWN for execution in report.standing)
    return State.STUCK if report.failed_to_undo or may_stand else State.UNDONE
