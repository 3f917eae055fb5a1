"""What becomes of an answer that has to be of a type (spec 17.10): taken, or sent back with what is wrong. No I/O.

An answer is a text, or a call of the tool that takes it. Such calls are no calls of a user's tool: no hook and nobody
who authorises is asked about them, they count for no limit, and they are settled when all others of their round are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ._books import Round, Run
from ._call import enter
from ._giveup import save
from ._job import Ended
from ._keeping import halt, keep_end
from ._recalling import go_live
from .errors import OutputError, ReplayMismatch, ToolArgumentsError, UserError
from .events import ArgumentRepaired, LimitWarning, ToolFinished
from .messages import ChatResponse, FinishReason, UserMessage
from .tools._tool import UNSTORED, Decoding, Outcome, ReturnBehavior, ToolExecution, ToolResult

if TYPE_CHECKING:  # it loads pydantic's machinery for schemas
    from .tools._output_type import OutputPlan

__all__ = ["hold_answers", "immediate_output", "send_back", "settle_answers", "text_output"]


# ---------------------------------------------------------------- an answer in words


def text_output(run: Run, plan: OutputPlan, text: str | None) -> Any:
    """The output in that text; raises ``ToolArgumentsError`` with what the model has to be told."""
    if plan.type is None:
        return text if plan.hint is str else None
    return plan.type.read(text or "", "strict" if run.settings.decoding == "strict" else "salvage")


async def send_back(run: Run, plan: OutputPlan, response: ChatResponse, error: ToolArgumentsError) -> None:
    """Have the model answer once more, with what is wrong; raises ``OutputError`` if that was done often enough."""
    run.messages.append(response.message)
    failure = _spent(run, plan, error)
    if failure is not None:
        raise failure
    how = f"Call {plan.tool.name!r} to give it" if plan.tool is not None else "Answer again, with JSON alone"
    run.messages.append(UserMessage.of(f"Your answer cannot be used. {error} {how}."))
    run.intermediate.append(response)
    await save(run)
    room = run.request_parameters.max_output_tokens
    if response.finish_reason is FinishReason.LENGTH and isinstance(room, int):
        run.request_parameters = replace(run.request_parameters, max_output_tokens=2 * room)


def _spent(run: Run, plan: OutputPlan, error: ToolArgumentsError) -> OutputError | None:
    """Count an answer that does not fit; gives what gives the run up once there are too many."""
    run.refused_answers += 1
    has_gone_on = run.replays and run.requests_made + 1 in run.recorded.replies
    if run.refused_answers <= plan.retries or has_gone_on:
        return None
    failure = OutputError(
        f"the model's answer was refused {run.refused_answers} times, last since: {error} "
        f"(Agent(output_retries={plan.retries}) sets how often it is sent back)"
    )
    failure.__cause__ = error
    return failure


# ---------------------------------------------------------------- answers as calls


def hold_answers(run: Run, plan: OutputPlan, round_: Round) -> None:
    """Keep the round's answers, and what is not run beside one, from being run like calls of tools (``held``)."""
    answers = [slot for slot in round_.order if _is_answer(plan, round_, slot)]
    if not answers:
        return
    others = [slot for slot in round_.order if slot not in answers]
    held = (
        answers
        if not plan.skips
        else [slot for slot in round_.order if slot in answers or _may_skip(run, round_, slot)]
    )
    round_.held = held
    if others and run.listening:
        names = [round_.calls[slot].name for slot in others]
        does = "calls that have not begun are not run" if plan.skips else "they are run first"
        text = f"the model gave its final answer beside calls of {names!r}: {does}"
        run.emit(LimitWarning(run_id=run.run_id, path=run.path, text=text))


def _is_answer(plan: OutputPlan, round_: Round, slot: int) -> bool:
    return plan.tool is not None and round_.calls[slot].name == plan.tool.name


def _may_skip(run: Run, round_: Round, slot: int) -> bool:
    """Whether nothing of that call has happened, here or in a process that died."""
    key = round_.key(slot)
    end = run.recorded.ends.get(key)
    has_ended = end is not None and end.outcome is not Outcome.NOT_RUN
    return slot not in round_.started and key not in run.recorded.intents and not has_ended


async def settle_answers(run: Run, plan: OutputPlan, round_: Round) -> None:
    """Take the first answer that fits, unless a call beside it has failed; say of each call held what became of it."""
    if round_.stopped or (run.token.is_cancelled and not run.replays):
        return
    failed = [name for slot in round_.order if slot not in round_.held if (name := _failed(round_, slot)) is not None]
    refusal: ToolArgumentsError | None = None
    for slot in round_.held:
        record = round_.records.get(slot)
        if record is None:
            ended, output = _ended(run, plan, round_, slot, failed)
            await _record(run, round_, slot, ended)
        else:
            ended, output = _ended_then(run, plan, record)
        if ended.outcome is Outcome.DONE and round_.answer is None:
            round_.answer = (output,)
        if isinstance(ended.error, ToolArgumentsError):
            refusal = ended.error
    if refusal is not None and round_.answer is None:
        failure = _spent(run, plan, refusal)
        if failure is not None:
            round_.failures[round_.held[-1]] = failure
            round_.stopped = True


def _failed(round_: Round, slot: int) -> str | None:
    record = round_.records.get(slot)
    return round_.calls[slot].name if record is None or record.result.is_error else None


def _ended(run: Run, plan: OutputPlan, round_: Round, slot: int, failed: list[str]) -> tuple[Ended, Any]:
    if not _is_answer(plan, round_, slot):
        return _left_out("This call was not run, since it was asked for beside a final answer."), None
    if failed:
        why = f"since calls beside it failed: {failed!r}. Look at their results, then give it again."
        return _left_out(f"This answer was not taken, {why}"), None
    if round_.answer is not None:
        return _left_out("This answer was not taken: another one of the same reply was."), None
    tool = plan.tool
    assert tool is not None and plan.type is not None
    try:
        decoding: Decoding = run.settings.decoding
        arguments, repairs = plan.type.decode_arguments(round_.calls[slot].arguments, decoding)
    except ToolArgumentsError as error:
        return Ended(Outcome.REJECTED, ToolResult.error(str(error)), tool, error=error), None
    for repair in repairs if run.listening else ():
        run.emit(ArgumentRepaired(run_id=run.run_id, path=run.path, call=round_.calls[slot], repair=repair))
    value = tool.body.call(arguments, None)
    return Ended(Outcome.DONE, tool.body.encode(value), tool), value


def _left_out(text: str) -> Ended:
    return Ended(Outcome.NOT_RUN, ToolResult.error(text))


def _ended_then(run: Run, plan: OutputPlan, record: ToolExecution[Any]) -> tuple[Ended, Any]:
    """How a call that is on record ended: an answer that was taken is read again."""
    ended, tool = Ended(record.outcome, record.result), plan.tool
    if tool is None or record.call.name != tool.name or record.outcome not in (Outcome.DONE, Outcome.REJECTED):
        return ended, None
    try:
        output = tool.body.call(tool.body.decode(record.call.arguments, run.settings.decoding)[0], None)
    except ToolArgumentsError as error:
        if record.outcome is Outcome.DONE:
            raise halt(run, ReplayMismatch(
                f"the answer of run {run.run_id!r} does not fit output={plan.hint!r} any more: {error}; resume it with "
                "the code that began it"
            )) from error  # fmt: skip
        ended.error = error
        return ended, None
    if record.outcome is Outcome.REJECTED:  # it would fit today, but the model was told that it does not
        ended.error = ToolArgumentsError("it did not fit then")
        return ended, None
    return ended, output


async def _record(run: Run, round_: Round, slot: int, ended: Ended) -> None:
    go_live(run)  # what is recorded of a round that is told again has been entered already
    now = run.now()
    call = round_.calls[slot]
    execution = ToolExecution(call, ended.result, round_.key(slot), ended.outcome, now, now)
    execution, _, _ = enter(run, execution, ended)
    round_.started.add(slot)
    if run.log is not None:
        await keep_end(run, execution, ended, late=False)
    round_.records[slot] = execution
    if run.listening:
        run.emit(ToolFinished(run_id=run.run_id, path=run.path, execution=execution))


# ---------------------------------------------------------------- tools that end the run (spec 7.9.4)


def immediate_output(run: Run, plan: OutputPlan, round_: Round) -> Any:
    """What tools that ended the run give: the one value of that type, or nothing if they returned nothing.

    Raises ``UserError`` if that is not clear.
    """
    names = [round_.calls[slot].name for slot in round_.order]
    values = [round_.records[slot].value for slot in round_.order]
    is_clear = all(run.toolset.returns(name) is not ReturnBehavior.TO_MODEL for name in names)
    there = [value for value in values if value is not None]
    if plan.hint is None or plan.hint is type(None) or (is_clear and not there):
        return None
    if is_clear and len(there) == 1 and (there[0] is UNSTORED or plan.fits(there[0])):
        return there[0]
    raise UserError(
        f"the tools {names!r} ended the run and returned {values!r}, of which not exactly one is the output that was "
        f"declared, {plan.hint!r}; leave output= out, and take the values from result.executions"
    )
