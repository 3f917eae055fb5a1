"""The loop: model, tools, model, until there is an answer. One coroutine for every mode; it does no I/O.

Read it from ``run_loop`` down. It awaits effects (``_effects``), which a driver answers; one call is run by
``_call.execute``; what happens when a run ends without a result is in ``_giveup``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

from msgspec.structs import replace

from ._answer import Answer
from ._asking import ask
from ._books import Round, Run
from ._call import encode_rest, execute
from ._effects import Core, Offload, RunTools, Shielded, Stop, Use, told, unwrapped
from ._giveup import attach, book_round, give_up, leave, save, undo_all, undo_some
from ._guards import warn_reached
from ._job import Interrupted
from ._keeping import halt
from ._limits import admit_round, check_before_tools, check_consecutive, spend_calls
from ._output import hold_answers, immediate_output, send_back, settle_answers, text_output
from ._recalling import given_up_again, keep_answer, look_again, recall_calls, settle_begun
from ._records import State
from .errors import (
    EmptyReplyError,
    ReplyCutOffError,
    RunCancelled,
    RunGivenUp,
    StaleClaim,
    Suspended,
    ToolArgumentsError,
)
from .events import LimitWarning, RunStarted
from .messages import ChatResponse, FinishReason, ToolChoice
from .policies import UndoPolicy, returns_immediately
from .tools._tool import ToolExecution

__all__ = ["abandon", "guarded", "run_calls", "run_loop"]

T = TypeVar("T")

_LENGTH = FinishReason.LENGTH  # looked up once: in Python 3.11 that costs more than a call


def run_loop(run: Run) -> Core[Answer]:
    """The whole run."""
    return guarded(run, _rounds)


async def guarded(run: Run, body: Callable[[Run], Core[T]]) -> T:
    """What the body gives. On any other way out, what was done is dealt with before the failure surfaces."""
    try:
        if run.opening is not None:
            await _open(run, run.opening)
        try:
            return await body(run)
        except BaseException as raised:
            await _end_without_answer(run, raised)
    except BaseException:
        run.release()
        raise


async def _end_without_answer(run: Run, raised: BaseException) -> NoReturn:
    """Deal with what was done, then raise what ended the run."""
    failure = _cause(run, raised)
    while run.follows and isinstance(failure, RunGivenUp):
        await look_again(run)  # whoever is at work on it undoes what it did, and then its report is told
    if run.follows:
        raise failure  # whoever is at work on it goes on
    if _is_half_told(run, failure):
        halt(run, failure)  # what it did is not all in the books yet: so it cannot be undone now
    if run.halted is None and not isinstance(failure, Suspended):
        await Shielded(give_up(run, failure))
    if run.halted is not None or isinstance(failure, Suspended):
        await Shielded(leave(run))
        _raise_stop(run, failure)
    if run.interrupt is not None and run.interrupt is not failure:
        raise run.interrupt from failure
    raise failure


async def _open(run: Run, opening: Callable[[Run], None]) -> None:
    """Begin the run in its journal, or find it there."""
    try:
        await Offload(opening, (run,))
    except BaseException as raised:
        raise halt(run, unwrapped(raised))  # noqa: B904  (nothing has begun)


def _is_half_told(run: Run, failure: BaseException) -> bool:
    """Whether a replay was broken off before all of its records had been told."""
    was_broken_off = (
        isinstance(failure, KeyboardInterrupt | Interrupted) or run.requests_made + 1 in run.recorded.replies
    )
    return run.replays and not run.recorded.is_over and was_broken_off


def _raise_stop(run: Run, failure: BaseException) -> NoReturn:
    """Raise what stopped a run that is neither done nor given up."""
    if run.halted is None:
        raise failure
    remedy = f"it was not given up: once that is mended, agent.resume({run.run_id!r}) goes on with it"
    attach(run, run.halted, [] if isinstance(run.halted, StaleClaim) else [remedy])
    if failure is run.halted:
        raise failure
    raise run.halted from failure


def _cause(run: Run, raised: BaseException) -> BaseException:
    failure = unwrapped(raised)
    is_plain = isinstance(failure, Exception) and not isinstance(failure, RunGivenUp)
    if run.recorded.given_up is not None and is_plain and run.halted is None:
        again = given_up_again(run)
        again.__cause__ = failure
        return again
    if isinstance(failure, Interrupted) and run.token.is_cancelled:
        cancelled = RunCancelled(f"run {run.run_id!r} was cancelled while a tool was still running")
        cancelled.__cause__ = failure
        return cancelled
    return failure


async def abandon(run: Run, failure: BaseException) -> None:
    """Give up a run whose answer came too late to be delivered (spec 11.7.3); one that was told again stands."""
    try:
        if run.halted is None and not run.replays:
            await Shielded(give_up(run, failure))
    finally:
        run.release()


async def _rounds(run: Run) -> Answer:
    if run.listening:
        run.emit(RunStarted(run_id=run.run_id, path=run.path, memory_id=run.memory_id))
    if run.memory is not None:
        if run.system is not None and not run.replays:
            await Use(run.memory, "add", (run.system,))
        await save(run)
    while True:
        response = await (_ask_by_hand(run) if run.by_hand else ask(run))
        round_ = run.round
        assert round_ is not None
        if not round_.order:
            if round_.calls:
                await _settle_orphans(run, round_)
            if _is_empty_reply(run, response):
                continue
            answer = await _finish(run, response)
            if answer is None:
                continue
            return answer
        if response.finish_reason is _LENGTH:
            await _answer_cut_off(run, round_)
            continue
        if run.output is not None:
            hold_answers(run, run.output, round_)
        if run.replays:
            await _may_begin_again(run, round_)
            spend_calls(run, round_)
        else:
            admit_round(run, round_)
        try:
            await run_calls(run, round_)
        except Suspended:
            run.check_cancelled()
            if not run.pending:
                raise
            return await _waiting(run, response)
        if await _settle_round(run, round_):
            return await _ended_by_calls(run, response, round_)
        run.intermediate.append(response)


async def _ask_by_hand(run: Run) -> ChatResponse:
    await Stop("request")
    return await ask(run)


# ---------------------------------------------------------------- odd replies


def _is_empty_reply(run: Run, response: ChatResponse) -> bool:
    """A reply that says it asks for tools and holds none is asked for once more, then refused."""
    if response.finish_reason is not FinishReason.TOOL_EXECUTION or response.message.text:
        return False
    if response.message.tool_calls:
        return False  # the provider ran them itself: that is an answer
    run.empty_replies += 1
    run.round = None  # an empty reply is no part of history
    if run.empty_replies > 1:
        raise EmptyReplyError("the model said that it asks for tools, but its reply held no call and no text, twice")
    return True


_CUT_OFF = "your reply was cut off by its token limit, so none of its calls ran. Ask again, more briefly"


async def _answer_cut_off(run: Run, round_: Round) -> None:
    """No call of a reply that was cut off runs, whole or not: each is told so, and the model may try once more."""
    round_.stopped, round_.why_not_run = True, _CUT_OFF
    await run_calls(run, round_)  # waits for calls that were already running
    book_round(run, round_)
    failure = round_.first_failure
    if failure is not None:
        raise failure
    run.cut_offs += 1
    if run.cut_offs > 1:
        raise ReplyCutOffError("the model's reply was cut off by its token limit twice; raise max_output_tokens")
    await save(run)
    room = run.request_parameters.max_output_tokens
    if isinstance(room, int):
        run.request_parameters = replace(run.request_parameters, max_output_tokens=2 * room)


# ---------------------------------------------------------------- a round of tools (spec 7.3)


async def run_calls(run: Run, round_: Round) -> None:
    """Run the calls that have not started: in the driver's hands if they may overlap, else here, one by one."""
    stops = run.by_hand and not run.replays  # what a process that died has left is not begun by hand
    if stops:
        await Stop("calls")
    if run.replays:
        await recall_calls(run, round_)
    pending = round_.pending
    if (run.parallel is not False and (len(pending) > 1 or round_.started)) or (stops and round_.started):
        await RunTools(round_, partial(execute, run, round_))
    else:
        for slot in pending:
            if round_.stopped or run.token.is_cancelled:
                break
            await execute(run, round_, slot)
    if run.recorded.intents:
        await settle_begun(run)
    if round_.failures:
        _check_standstill(run, round_)
    if round_.held and run.output is not None:
        await settle_answers(run, run.output, round_)
    if stops:
        await Stop("settling")


def _check_standstill(run: Run, round_: Round) -> None:
    """Raise if the round cannot be settled now: the journal failed, or a call waits for somebody's word."""
    if run.halted is not None:
        raise run.halted
    for failure in round_.failures.values():
        if isinstance(failure, Suspended):
            raise failure


async def _may_begin_again(run: Run, round_: Round) -> None:
    """Whether calls of a recorded round that have not ended may begin now; raises the error of a limit of today.

    What was begun and has not ended is settled before that gives the run up.
    """
    if _went_on(run, round_) or _has_ended(run, round_):
        return
    try:
        check_before_tools(run, round_)
    except BaseException:
        round_.stopped = True
        await recall_calls(run, round_)
        raise


def _went_on(run: Run, round_: Round) -> bool:
    """Whether the run has gone on after that round: then no limit of today may end it there, with the rest undone."""
    has_gone_on = round_.number + 1 in run.recorded.replies or run.recorded.state == State.SUCCEEDED
    return run.replays and has_gone_on


def _has_ended(run: Run, round_: Round) -> bool:
    """Whether all calls of the round have ended: it had been admitted by the limits of then, and nothing begins."""
    return all(round_.key(slot) in run.recorded.ends for slot in round_.order)


async def _settle_round(run: Run, round_: Round) -> bool:
    """Book the round, undo if policy says so, save; gives whether the run ends here (spec 7.3, steps 6 to 11)."""
    if len(round_.calls) > len(round_.order):
        await _drop_orphans(run, round_)
    ends = round_.answer is not None or (run.toolset.may_end_early and await _may_end(run, round_))
    executions = book_round(run, round_)
    if round_.held:  # answers are no tools: nothing is undone because of them, and they have a limit of their own
        executions = [each for each, slot in zip(executions, round_.order, strict=True) if slot not in round_.held]
    failed = [execution for execution in executions if execution.result.is_error]
    if failed:
        await _after_failures(run, failed)
    run.cut_offs = run.empty_replies = 0
    failure = round_.first_failure
    if failure is not None:
        raise failure
    run.check_cancelled()
    if run.memory is not None:
        await save(run)
    else:
        run.saved = len(run.messages)  # settled: on_abort="discard" leaves it in history
    if run.rounds_made == 1 and run.settings.relax_tool_choice:
        _relax_tool_choice(run)
    if failed:
        check_consecutive(run, round_, executions, failed, may_end=not _went_on(run, round_))
        if run.has_soft:
            warn_reached(run)
        return False
    run.errors_in_a_row = 0
    return ends


async def _may_end(run: Run, round_: Round) -> bool:
    """Whether the round ends the run unless something has failed; if not, the model will read what is still lazy."""
    records = [round_.records.get(slot) for slot in round_.order]
    has_failed = any(record is None or record.result.is_error for record in records)
    behaviors = [run.toolset.returns(round_.calls[slot].name) for slot in round_.order]
    ends = returns_immediately(has_failed, behaviors)
    if not ends:
        await encode_rest(run, round_)
    return ends


async def _after_failures(run: Run, failed: list[ToolExecution[Any]]) -> None:
    settings = run.settings
    if settings.undo is UndoPolicy.ON_TOOL_ERROR:
        triggers = [execution for execution in failed if settings.undo_when(execution)]
        if triggers:
            await undo_all(run, triggers[0].call.name)
    if settings.on_tool_error is not None and not run.replays:
        await told(settings.on_tool_error, run.context(failed[0].call, failed[0].key))


async def _drop_orphans(run: Run, round_: Round) -> None:
    """Calls that were started early and do not stand in the final reply: their effects are taken back (D-17)."""
    names = [round_.calls[slot].name for slot in round_.orphans]
    await undo_some(run, [round_.key(slot) for slot in round_.orphans])
    if run.listening:
        text = f"calls of {names!r} were started early and are not part of the final reply; their results are dropped"
        run.emit(LimitWarning(run_id=run.run_id, path=run.path, text=text))


async def _settle_orphans(run: Run, round_: Round) -> None:
    """The reply asks for nothing, but calls of it were started early: wait for them and take their effects back."""
    if run.replays:
        await recall_calls(run, round_)
    await RunTools(round_, partial(execute, run, round_))
    await _drop_orphans(run, round_)
    failure = round_.first_failure
    if failure is not None:
        raise failure


def _relax_tool_choice(run: Run) -> None:
    # A forced choice that stays in force could only ever end by a limit (spec 7.7.3, D-19), or by an answer as a call.
    if run.request_parameters.tool_choice is ToolChoice.REQUIRED and (run.output is None or run.output.tool is None):
        run.request_parameters = replace(run.request_parameters, tool_choice=ToolChoice.AUTO)


# ---------------------------------------------------------------- the end


async def _waiting(run: Run, response: ChatResponse) -> Answer:
    """The run stops for now: nothing of the round reaches the memory before somebody has told (design 3)."""
    await Shielded(leave(run))
    if run.halted is not None:
        raise run.halted
    return Answer(response, immediate=False, waits=True)


async def _finish(run: Run, response: ChatResponse) -> Answer | None:
    """The run has its answer; or nothing, if that was sent back."""
    run.round = None
    output: Any = response.message.text
    if run.output is not None:
        try:
            output = text_output(run, run.output, output)
        except ToolArgumentsError as error:
            await send_back(run, run.output, response, error)
            return None
    run.messages.append(response.message)
    if run.memory is not None:
        await save(run)
    return await _ended(run, Answer(response, immediate=False, output=output))


async def _ended_by_calls(run: Run, response: ChatResponse, round_: Round) -> Answer:
    """The same for a round of calls: the model has called for its answer to be taken, or tools have ended the run."""
    if round_.answer is not None:
        return await _ended(run, Answer(response, immediate=False, output=round_.answer[0]))
    output = None if run.output is None else immediate_output(run, run.output, round_)
    return await _ended(run, Answer(response, immediate=True, output=output))


async def _ended(run: Run, answer: Answer) -> Answer:
    run.check_cancelled()
    if run.log is not None:
        await keep_answer(run)
    return answer
