"""One tool call, from the model's request to its record: the core that every mode runs, unchanged.

Hooks, books and ledger are kept here; how the call itself ends is found out in ``_attempt``. No I/O.
"""

from __future__ import annotations

from typing import Any

from ._attempt import outcome_of, readable, shown
from ._books import Round, Run
from ._checks import checked_call, is_awaitable
from ._codec import canonical
from ._effects import Await, unwrapped
from ._guards import counted
from ._job import Ended, gave_up
from ._keeping import keep_end
from ._ledger import Entry
from ._undoing import closed_again, undo_late
from .errors import UserError
from .events import ToolFinished
from .messages import ToolCall
from .tools._tool import Outcome, ToolContext, ToolExecution, ToolResult

__all__ = ["encode_rest", "enter", "execute"]

# Looked up once: in Python 3.11 that costs more than a call, and every call of every tool comes by.
_DONE, _UNKNOWN = Outcome.DONE, Outcome.UNKNOWN


async def execute(run: Run, round_: Round, slot: int) -> None:
    """Run one call of the round and enter what became of it in the books. Never raises."""
    round_.started.add(slot)
    call, key, started = round_.calls[slot], round_.key(slot), run.now()
    hooks, intent = run.hooks, run.recorded.intents.get(key)
    if intent is not None:
        call = intent.call  # a process died in the middle of it: the hooks before it have had their say
    context = run.context(call, key) if hooks.before or hooks.after else None
    try:
        if hooks.before and context is not None and intent is None:
            stopped, context = await _before(run, context, key)
            call = context.call
            ended = stopped or await outcome_of(run, call, key)
        else:
            ended = await outcome_of(run, call, key)
    except BaseException as raised:
        failure = unwrapped(raised)
        ended = Ended(Outcome.NOT_RUN, gave_up(call), error=failure, failure=failure)
    result = readable(run, ended.tool, call, ended.result)
    execution = ToolExecution(call, result, key, ended.outcome, started, run.now())
    if ended.notes or run.has_soft or run.toolset.has_budgets:
        execution = counted(run, execution, ended)
    execution, late, homeless = enter(run, execution, ended)
    if ended.failure is not None:  # before the journal and the hooks: what they raise comes second
        _fail(round_, slot, ended.failure)
    if run.log is not None:
        try:
            await keep_end(run, execution, ended, late=late)
        except BaseException as raised:
            _fail(round_, slot, unwrapped(raised))
    if homeless is not None:
        await undo_late(run, homeless)
    if late:
        await closed_again(run)
    if ended.error is not None:
        round_.errors[slot] = ended.error
    if hooks.after and context is not None:
        await _after(run, round_, slot, execution, context)
    round_.records[slot] = execution
    if run.listening:
        _report(run, round_, slot, ToolFinished(run_id=run.run_id, path=run.path, execution=execution, late=late))


def _fail(round_: Round, slot: int, failure: BaseException) -> None:
    """The run will be given up because of this call; no other call of the round starts."""
    round_.failures.setdefault(slot, failure)
    round_.stopped = True


def enter(run: Run, execution: ToolExecution[Any], ended: Ended) -> tuple[ToolExecution[Any], bool, Entry | None]:
    """Enter the record and, if it can be undone, the ledger; gives an entry that came too late for the ledger."""
    # The record comes first: a run that is given up between the two still names the call.
    execution, late = run.record(execution)
    tool, arguments = ended.tool, ended.arguments or {}
    if tool is None:
        return execution, late, None
    if execution.outcome is _UNKNOWN and tool.repeat != "safe":
        # The key that the body was given: whoever is asked a third time must get the same one.
        run.unknown_calls[(tool.name, canonical(arguments))] = ended.same_as or execution.key
    if tool.undo is None or not (execution.outcome is _DONE or ended.may_undo):
        return execution, late, None
    # The undo is given the key under which the service knows the effect.
    entry = Entry(tool, execution, arguments, run.context(execution.call, ended.same_as or execution.key), run)
    return execution, late, None if run.ledger.add(entry) else entry


async def encode_rest(run: Run, round_: Round) -> None:
    """Encode what is still lazy, now that the model will read it; a failure is that call's (spec 5.2)."""
    for slot, record in list(round_.records.items()):
        if record.result.is_encoded:
            continue
        round_.records[slot], failure = await shown(run, record)
        run.record(round_.records[slot])
        if failure is not None:
            round_.failures.setdefault(slot, failure)


# ---------------------------------------------------------------- hooks (spec 7.4)


async def _before(run: Run, context: ToolContext[Any], key: str) -> tuple[Ended | None, ToolContext[Any]]:
    """Ask the hooks in turn; gives an end that they decide on, and the context of the call that is to be run."""
    for hook in run.hooks.before:
        answer = hook(context)
        if answer is not None and is_awaitable(answer):
            answer = await Await(answer)
        if answer is None:
            continue
        if isinstance(answer, ToolCall):
            context = run.context(checked_call(answer), key)
        elif isinstance(answer, ToolResult | str):
            result = answer if isinstance(answer, ToolResult) else ToolResult.error(answer)
            return Ended(Outcome.DENIED, result), context
        else:
            raise UserError(
                f"before-tool hook {hook!r} returned {answer!r}; expected None, a ToolCall to run instead, "
                "or a ToolResult or text that answers the call"
            )
    return None, context


async def _after(run: Run, round_: Round, slot: int, execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
    for hook in run.hooks.after:
        try:
            answer = hook(execution, context)
            if answer is not None and is_awaitable(answer):
                await Await(answer)
        except BaseException as raised:
            failure = unwrapped(raised)
            # A hook's failure aborts and is no failure of the tool (spec 7.4.4); the other hooks still hear of it.
            _fail(round_, slot, failure)


def _report(run: Run, round_: Round, slot: int, event: Any) -> None:
    try:
        run.emit(event)
    except BaseException as failure:  # a listener that is allowed to stop the run
        _fail(round_, slot, failure)
