"""What ends a run: its answer, and the event that tells of it. Plain."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ._books import Run
from .events import RunFinished, RunSuspended
from .messages import ChatResponse

__all__ = ["Answer", "finished"]


class Answer(Struct, frozen=True, eq=False):
    """What ended the run: the last response, and whether tools ended it instead of the model (spec 7.9).

    ``output`` is what the run gives: nothing if it waits, or if tools ended it that were not asked for a type.
    """

    response: ChatResponse
    immediate: bool
    waits: bool = False  # for somebody's word on a call
    output: Any = None


def finished(run: Run, answer: Answer) -> RunFinished | RunSuspended:
    """The event of a run whose answer has been delivered: until then a cancellation may still win (spec 11.7)."""
    if answer.waits:
        return RunSuspended(run_id=run.run_id, path=run.path, pending=tuple(run.pending))
    return RunFinished(
        run_id=run.run_id, path=run.path, output=answer.output, response=answer.response, usage=run.usage
    )
