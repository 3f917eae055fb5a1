"""One call alone: a round without a reply that asked for it, by the rules of every round (spec 7.4). No I/O."""

from __future__ import annotations

from functools import partial
from typing import Any

from ._books import Round, Run
from ._effects import Core
from ._giveup import book_round
from ._limits import admit_round
from ._loop import guarded, run_calls
from ._toolbox import equip
from .messages import AssistantMessage, ToolCall
from .tools._tool import ToolExecution

__all__ = ["one_call"]


def one_call(run: Run, call: ToolCall) -> Core[ToolExecution[Any]]:
    """Run the call; gives its execution. What gives a run up is raised, once the books are closed."""
    return guarded(run, partial(_called, call))


async def _called(call: ToolCall, run: Run) -> ToolExecution[Any]:
    if run.messages and (run.settings.providers or run.settings.search):
        await equip(run, run.messages)
    round_ = run.round = Round(1)
    round_.receive(AssistantMessage(tool_calls=(call,)))
    admit_round(run, round_)
    await run_calls(run, round_)
    executions = book_round(run, round_)
    failure = round_.first_failure
    if failure is not None:
        raise failure
    run.check_cancelled()
    return executions[0]
