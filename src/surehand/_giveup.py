"""Giving a run up, and undoing: in reverse order, once, and telling the truth about it (spec 11, design 3).

Everything here goes on to the end: a failure of one step is noted and the next one is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from ._books import Round, Run
from ._catching_up import catch_up
from ._correcting import correct
from ._effects import Drain, Offload, Use
from ._keeping import halt, keep, keep_giving_up, keep_run_end
from ._ledger import Entry
from ._reading import Unread, read
from ._recalling import look_again, settle_begun, settle_late, settle_undone, wake
from ._records import State
from ._report import PastRun
from ._undoing import step_of, undo_entry
from .events import Event, RunCancelledEvent, RunFailed, ToolExecuted, ToolUndone, UndoReason
from .messages import Message
from .policies import UndoPolicy
from .tools._tool import Outcome, ToolExecution, ToolResult

__all__ = [
    "attach",
    "book_round",
    "give_up",
    "hand_on",
    "leave",
    "not_finished",
    "run_of",
    "save",
    "undo_all",
    "undo_some",
]

_RUN = "__surehand_run__"  # the attribute of an exception that leads to the run it ended


async def give_up(run: Run, failure: BaseException) -> None:
    """End a run without a result: settle what runs, undo what was done, close the memory, say what still stands."""
    if run.replays and run.recorded.state == State.SUCCEEDED:
        attach(run, failure)  # it has succeeded, and was only being told again
        return
    run.given_up = True
    run.undo_reason = _reason(run)
    notes: list[str] = []
    await _stand_still(run, failure, notes)
    if run.halted is not None:
        return  # an undo that cannot be recorded could be repeated: it waits until it can
    # A run that undoes nothing leaves what others did for it to the one that it is part of.
    entries = [] if run.settings.undo is UndoPolicy.OFF else run.ledger.close()
    events = await _undo(run, entries, _why(run), run.undo_reason, notes)
    if run.settings.on_abort == "discard":
        _discard_round(run)
    try:
        await save(run)
        if run.log is not None and not run.replays:
            await keep_run_end(run)
    except BaseException as error:
        _note(notes, run, "the memory could not be closed", error)
    _emit_all(run, [*events, _ending(run, failure)])
    attach(run, failure, notes)


async def _stand_still(run: Run, failure: BaseException, notes: list[str]) -> None:
    """Let what runs finish, and give every call of the open round an outcome."""
    try:
        if run.log is not None:
            await keep_giving_up(run, failure)
    except Exception as error:
        halt(run, error)
    try:
        await Drain(run.settings.drain_timeout)
        await settle_begun(run)
    except BaseException as error:
        _note(notes, run, "waiting for running tools failed", error)
    try:
        _close_round(run)
        for part in list(run.parts.values()):
            _name_running(part)
        if run.recorded.is_over:
            settle_late(run)
        else:
            wake(run)
    except BaseException as error:
        _note(notes, run, "closing the round failed", error)


def _ending(run: Run, failure: BaseException) -> Event:
    if run.undo_reason is UndoReason.RUN_CANCELLED:
        return RunCancelledEvent(run_id=run.run_id, path=run.path)
    return RunFailed(run_id=run.run_id, path=run.path, error=failure)


async def leave(run: Run) -> None:
    """The run stops where it is, to be resumed: what runs finishes, nothing is undone, no message is added."""
    with contextlib.suppress(Exception):
        await Drain(run.settings.drain_timeout)
    with contextlib.suppress(Exception):  # a journal that fails has halted the run, and is left as it is
        if run.log is not None and run.halted is not None:
            if run.parent is None:
                await Offload(run.log.give_back, ())
        elif run.log is not None and not run.replays:
            await keep(run, state=State.SUSPENDED)


def _reason(run: Run) -> UndoReason:
    if run.recorded.given_up is not None:
        return run.recorded.given_up.reason
    return UndoReason.RUN_CANCELLED if run.token.is_cancelled else UndoReason.RUN_GIVEN_UP


def _note(notes: list[str], run: Run, what: str, error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        run.interrupt = error
    notes.append(f"{what}: {type(error).__name__}: {error}")


def _why(run: Run) -> str:
    return "the run was cancelled" if run.undo_reason is UndoReason.RUN_CANCELLED else "the run was given up"


def attach(run: Run, failure: BaseException, notes: Sequence[str] = ()) -> None:
    """Add a note to the failure, and what ``report_of`` needs."""
    report = run.report()
    run.is_over = True
    failure.__dict__[_RUN] = run
    with contextlib.suppress(Exception):  # a frozen exception takes no notes, which must not replace it
        if report.executions:
            failure.add_note(f"surehand run {run.run_id}: {report!r}; surehand.report_of(error) gives the details")
        else:
            failure.add_note(f"surehand run {run.run_id}: no tool was called")
        for note in notes:
            failure.add_note(f"surehand run {run.run_id}: {note}")


def run_of(error: BaseException) -> Run | PastRun | None:
    """The run that this very exception ended."""
    run = error.__dict__.get(_RUN)
    return run if isinstance(run, Run | PastRun) else None


def hand_on(error: BaseException, other: BaseException) -> None:
    """Give the notes and the run of one exception to another, which is raised in its place."""
    for note in getattr(error, "__notes__", ()):
        other.add_note(note)
    if _RUN in error.__dict__:
        other.__dict__[_RUN] = error.__dict__[_RUN]


# ---------------------------------------------------------------- closing a round


def _close_round(run: Run) -> None:
    """Give every call of an open round an outcome and a result."""
    round_ = run.round
    if round_ is None:
        return
    for slot in round_.orphans:
        _fill(run, round_, slot)
    if round_.message is not None:
        book_round(run, round_)
    run.round = None


def _name_running(part: Run) -> None:
    """An agent is still at work whose caller could not wait for it: nobody knows of the calls that it has begun."""
    round_ = part.round
    if round_ is None or part.is_over:
        return
    for slot in [slot for slot in list(round_.started) if slot not in round_.records]:
        part.record(_not_known(round_, slot), if_new=True)
    for inner in list(part.parts.values()):
        _name_running(inner)


def book_round(run: Run, round_: Round) -> list[ToolExecution[Any]]:
    """Make the round's messages, in request order, and tell listeners; gives its executions (spec 7.5)."""
    assert round_.message is not None
    records, messages = round_.records, run.messages
    executions: list[ToolExecution[Any]] = []
    booked: list[Message | Unread] = [round_.message]
    places: dict[str, int] = {}
    for slot in round_.order:
        execution = records.get(slot) or _fill(run, round_, slot)
        executions.append(execution)
        places[execution.key] = len(messages) + len(booked)
        result, call = execution.result, round_.calls[slot]
        is_read = result.given or run.memory is not None
        booked.append(result.to_message(call) if is_read else Unread(execution, call))
    if len(executions) > 1:
        run.arrange([execution.key for execution in executions])
    # All of it or nothing: an interrupt in between must not leave half a round in history, nor the round twice.
    run.round = None
    messages.extend(booked)
    run.places.update(places)
    if run.listening:
        for execution in executions:
            run.emit(ToolExecuted(run_id=run.run_id, path=run.path, execution=execution))
    return executions


def _discard_round(run: Run) -> None:
    """Leave out of history what the open round added; the user's message stays (spec 7.10.2)."""
    del run.messages[max(run.saved, 1) :]


def _fill(run: Run, round_: Round, slot: int) -> ToolExecution[Any]:
    """The record of a call that has none: it is still running, or it never started."""
    record = round_.records.get(slot)
    if record is not None:
        return record
    # It may have ended in this very moment: then that stands.
    return run.record(not_finished(round_, slot), if_new=True)[0]


def not_finished(round_: Round, slot: int) -> ToolExecution[Any]:
    """What is said of a call that has no record: it is still running, or it never started."""
    if slot in round_.started:
        return _not_known(round_, slot)
    call = round_.calls[slot]
    text = f"This call of {call.name!r} was not run: {round_.why_not_run}."
    return ToolExecution(call, ToolResult.error(text), round_.key(slot), Outcome.NOT_RUN)


def _not_known(round_: Round, slot: int) -> ToolExecution[Any]:
    call = round_.calls[slot]
    text = f"This call of {call.name!r} did not finish in time; it may have happened."
    return ToolExecution(call, ToolResult.error(text), round_.key(slot), Outcome.UNKNOWN)


# ---------------------------------------------------------------- undoing


async def undo_all(run: Run, failed_tool: str) -> None:
    """Undo everything done so far because a tool failed; the run goes on (spec 11.3)."""
    await _before_undoing(run)
    notes: list[str] = []
    reason = UndoReason.TOOL_FAILED
    _emit_all(run, await _undo(run, run.ledger.take(), f"tool {failed_tool!r} failed", reason, notes))
    if run.interrupt is not None:
        raise run.interrupt
    if run.halted is not None:
        raise run.halted


async def _before_undoing(run: Run, keys: Sequence[str] | None = None) -> None:
    """A run that replays goes on here if one of these calls has not been undone yet."""
    while run.follows and _may_be_undoing(run):
        await look_again(run)
    if run.replays:
        settle_undone(run)
    while (is_left := _is_left_to_undo(run, keys)) and run.follows:
        await look_again(run)
    if is_left:
        wake(run)


def _may_be_undoing(run: Run) -> bool:
    """Whether the process that is followed may yet find, in this round, that a call in doubt has ended, and undo it."""
    recorded, executions = run.recorded, run.executions
    has_gone_on = recorded.is_over or recorded.given_up is not None or run.requests_made + 1 in recorded.replies
    return not has_gone_on and any(execution.outcome is Outcome.UNKNOWN for execution in executions)


def _is_left_to_undo(run: Run, keys: Sequence[str] | None) -> bool:
    if not run.replays or run.recorded.is_over or run.settings.undo is UndoPolicy.OFF:
        return False
    return any(step_of(entry) not in run.recorded.undos for entry in run.ledger.waiting(keys))


async def undo_some(run: Run, keys: Sequence[str]) -> None:
    """Undo these calls alone, whatever the policy is: nobody will ever see their results (spec 7.8.2, D-17)."""
    await _before_undoing(run, keys)
    if run.settings.undo is not UndoPolicy.OFF:
        why = "its call is not part of the final reply"
        _emit_all(run, await _undo(run, run.ledger.take(keys), why, UndoReason.TOOL_FAILED, []))
    if run.halted is not None:
        raise run.halted


async def _undo(run: Run, entries: Iterable[Entry], why: str, reason: UndoReason, notes: list[str]) -> list[ToolUndone]:
    wanted = [entry for entry in entries if entry.run.settings.undo is not UndoPolicy.OFF]
    undone = [execution for entry in wanted for execution in await undo_entry(run, entry)]
    if undone:
        try:
            await correct(run, undone, why)
        except BaseException as error:
            _note(notes, run, "results in the memory could not be corrected", error)
    paths = [execution.key.rpartition("/")[0] for execution in undone]
    return [
        ToolUndone(run_id=run.run_id, path=path, execution=execution, reason=reason)
        for path, execution in zip(paths, undone, strict=True)
    ]


# ---------------------------------------------------------------- memory and events


async def save(run: Run) -> None:
    """Bring to the memory what it does not have yet, as one batch (spec 7.10.3); without one, note what is settled."""
    if run.replays:
        run.saved = len(run.messages)  # once it goes on, the memory is brought up to date
        return
    if run.is_behind:
        await catch_up(run)
    batch = read(run.messages[run.saved :])
    if batch and run.memory is not None:
        if len(batch) == 1:
            await Use(run.memory, "add", (batch[0],))
        else:
            await Use(run.memory, "add_all", (batch,))
    run.saved += len(batch)


def _emit_all(run: Run, events: Iterable[Event]) -> None:
    if not run.listening:
        return
    for event in events:
        try:
            run.emit(event)
        except Exception:
            # Giving up must not stop half-way because a listener may stop runs.
            if not run.given_up:
                raise
