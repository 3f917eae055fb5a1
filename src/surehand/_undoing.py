"""Undoing one finished call; what the model is told and in which order calls are undone is in ``_giveup``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from ._books import Run
from ._effects import Core, RunUndo, unwrapped
from ._keeping import keep, keep_run_end, keep_undo_end, spoken
from ._ledger import Entry
from ._limits import lineage
from ._records import UNDO_INTENT, State, UndoEnd, draft
from .events import ToolUndone
from .policies import UndoPolicy
from .tools._tool import UNSTORED, ToolExecution, UndoOutcome

__all__ = ["closed_again", "quietly", "step_of", "undo_entry", "undo_late"]


async def undo_entry(run: Run, entry: Entry) -> list[ToolExecution[Any]]:
    """Undo the effect of one finished call of the run, or of one that is part of it, once.

    Gives what this settles: the call, and those that share its effect. Their executions tell whether it worked. Never
    raises.
    """
    if not run.ledger.claim(entry):
        known = run.ledger.outcome(entry)  # nothing yet: whoever undoes it now will settle this call too
        return [] if known is None else _marked(run, [entry.execution.key], known)
    recorded = run.recorded.undos.get(step_of(entry))
    if recorded is not None:
        outcome = UndoOutcome(recorded.error, recorded.finished_at)
    elif run.replays:
        return []  # the run is over: nobody undid it then, and nobody does now
    else:
        try:
            outcome = await _undone(run, entry)
        except Exception:
            return []  # the run halts: whether it was undone is not known, and it will be tried again
    run.forget_unknown(entry.effect)
    return _marked(run, run.ledger.settle(entry, outcome), outcome)


def _marked(run: Run, keys: Iterable[str], outcome: UndoOutcome) -> list[ToolExecution[Any]]:
    """Note what became of undoing these calls, of whichever runs; gives those that had no note yet."""
    whole = lineage(run)[-1]
    owners = [(owner, key) for key in keys if (owner := whole.owner(key)) is not None]
    return [execution for owner, key in owners for execution in owner.mark_undo([key], outcome)]


async def _undone(run: Run, entry: Entry) -> UndoOutcome:
    """Undo it now, written down before and after; raises nothing but the journal's error."""
    step = step_of(entry)
    if entry.execution.value is UNSTORED and entry.tool.undo is not None and entry.tool.undo.needs_value:
        outcome = UndoOutcome(
            f"what {entry.tool.name!r} returned could not be stored, and its undo needs it", run.now()
        )
        await _written(run, keep_undo_end(run, step, entry.tool.name, outcome))
        return outcome
    if run.log is not None:  # also if a dead process had begun it: whoever has lost the run is stopped here
        state = State.UNDOING if lineage(run)[-1].given_up else None
        intent = draft(UNDO_INTENT, step, UndoEnd(entry.tool.name))
        await _written(run, keep(run, intent, state=state, of_whole=True))
    error: BaseException | None = None
    try:
        retries = lineage(run)[-1].settings.undo_retries  # as the whole run does, which knows whether it has a journal
        await RunUndo(entry, entry.run.settings.undo_timeout, retries)
    except BaseException as raised:
        error = unwrapped(raised)
    outcome = UndoOutcome(None if error is None else spoken(error), run.now())
    if isinstance(error, KeyboardInterrupt):
        run.interrupt = error  # raised again once everything else is undone
    if run.log is not None:
        await _written(run, keep_undo_end(run, step, entry.tool.name, outcome))
    return outcome


async def _written(run: Run, keeping: Core[None]) -> None:
    try:
        await keeping
    except KeyboardInterrupt as interrupt:  # it is written all the same: the drivers see to that
        run.interrupt = interrupt


def step_of(entry: Entry) -> str:
    """The step of a run whose effect is undone: the call that first had the key."""
    return entry.effect.rpartition(":")[2]


async def undo_late(run: Run, entry: Entry) -> None:
    """A call finished after its run had been closed: undo it now if the run was given up (spec 12.3)."""
    given_up = [each for each in lineage(run) if each.given_up and each.settings.undo is not UndoPolicy.OFF]
    if given_up and run.settings.undo is not UndoPolicy.OFF:
        reason = given_up[0].undo_reason
        for execution in await undo_entry(run, entry):
            quietly(run, ToolUndone(run_id=run.run_id, path=run.path, execution=execution, reason=reason))


async def closed_again(run: Run) -> None:
    """A call ended after its run had been closed: what the journal says of the run may be another now."""
    for each in lineage(run):
        if each.is_closed:
            with contextlib.suppress(Exception):  # whoever resumes the run says so then
                await keep_run_end(each)


def quietly(run: Run, event: Any) -> None:
    """Report without letting a listener break off what goes on."""
    if run.listening:
        with contextlib.suppress(Exception):
            run.emit(event)
