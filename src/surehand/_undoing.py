"""Undoing one finished call; what the model is told and in which order calls are undone is in ``_giveup``."""

from __future__ import annotations

import contextlib
from typing import Any

from ._books import Run
from ._effects import RunUndo, unwrapped
from ._ledger import Entry
from .events import ToolUndone
from .policies import UndoPolicy
from .tools._tool import ToolExecution, UndoOutcome

__all__ = ["quietly", "undo_entry", "undo_late"]


async def undo_entry(run: Run, entry: Entry) -> list[ToolExecution[Any]]:
    """Undo the effect of one finished call, once; gives what this settles: the call, and those that share its effect.

    Their executions tell whether it worked. Never raises.
    """
    if not run.ledger.claim(entry):
        known = run.ledger.outcome(entry)  # nothing yet: whoever undoes it now will settle this call too
        return [] if known is None else run.mark_undo([entry.execution.key], known)
    error: BaseException | None = None
    try:
        await RunUndo(entry, run.settings.undo_timeout)
    except BaseException as raised:
        error = unwrapped(raised)
    outcome = UndoOutcome(None if error is None else _said(error), run.now())
    if isinstance(error, KeyboardInterrupt):
        run.interrupt = error  # raised again once everything else is undone
    run.forget_unknown(entry.effect)
    return run.mark_undo(run.ledger.settle(entry, outcome), outcome)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def undo_late(run: Run, entry: Entry) -> None:
    """A call finished after its run had been closed: undo it now if the run was given up (spec 12.3)."""
    if run.given_up and run.settings.undo is not UndoPolicy.OFF:
        for execution in await undo_entry(run, entry):
            quietly(run, ToolUndone(run_id=run.run_id, path=run.path, execution=execution, reason=run.undo_reason))


def quietly(run: Run, event: Any) -> None:
    """Report without letting a listener break off what goes on."""
    if run.listening:
        with contextlib.suppress(Exception):
            run.emit(event)
