"""The loop: model, tools, model, until there is an answer. One coroutine for every mode; it does no I/O.

Read it from ``run_loop`` down. It awaits effects (``_effects``), which a driver answers; one call is run by
``_call.execute``; what happens when a run ends without a result is in ``_giveup``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ._attempt import Interrupted
from ._books import Round, Run
from ._call import encode_rest, execute
from ._checks import checked_call, checked_response, is_awaitable
from ._effects import Await, CallModel, Core, RunTools, Shielded, UseMemory, told, unwrapped
from ._giveup import book_round, give_up, save, undo_all, undo_some
from .errors import (
    CallLimitError,
    ConsecutiveErrorsError,
    EmptyReplyError,
    ReplyCutOffError,
    RoundLimitError,
    RunCancelled,
    Suspended,
    TimeLimitError,
    TokenLimitError,
    UserError,
)
from .events import (
    ArgumentRepaired,
    LimitWarning,
    RequestIssued,
    ResponseReceived,
    RunFinished,
    RunStarted,
)
from .messages import AssistantMessage, ChatRequest, ChatResponse, FinishReason, TextContent, ToolCall, ToolChoice
from .policies import UndoPolicy, returns_immediately
from .tools._tool import Repair, ReturnBehavior, ToolExecution

__all__ = ["Answer", "abandon", "finished", "run_loop"]


class Answer(Struct, frozen=True, eq=False):
    """What ended the run: the last response, and whether tools ended it instead of the model (spec 7.9)."""

    response: ChatResponse
    immediate: bool


async def run_loop(run: Run) -> Answer:
    """The whole run. On any way out but an answer, what was done is dealt with before the failure surfaces."""
    try:
        return await _rounds(run)
    except Suspended:
        raise
    except BaseException as raised:
        failure = _cause(run, raised)
        await Shielded(give_up(run, failure))
        if run.interrupt is not None and run.interrupt is not failure:
            raise run.interrupt from failure
        raise failure  # noqa: B904  (it keeps the causes that it has)


def _cause(run: Run, raised: BaseException) -> BaseException:
    failure = unwrapped(raised)
    if isinstance(failure, Interrupted) and run.token.is_cancelled:
        cancelled = RunCancelled(f"run {run.run_id!r} was cancelled while a tool was still running")
        cancelled.__cause__ = failure
        return cancelled
    return failure


async def abandon(run: Run, failure: BaseException) -> None:
    """Give up a run whose answer came too late to be delivered (spec 11.7.3)."""
    await Shielded(give_up(run, failure))


async def _rounds(run: Run) -> Answer:
    if run.listening:
        run.emit(RunStarted(run_id=run.run_id, path=run.path, memory_id=run.memory_id))
    if run.memory is not None:
        if run.system is not None:
            await UseMemory(run.memory, "add", (run.system,))
        await save(run)
    while True:
        response = await _ask(run)
        round_ = run.round
        assert round_ is not None
        if not round_.order:
            if round_.calls:
                await _settle_orphans(run, round_)
            if _is_empty_reply(run, response):
                continue
            return await _finish(run, response)
        if response.finish_reason is FinishReason.LENGTH:
            await _answer_cut_off(run, round_)
            continue
        _check_before_tools(run, round_)
        await _run_calls(run, round_)
        if await _settle_round(run, round_):
            return _ended(run, response, immediate=True)
        run.intermediate.append(response)


# ---------------------------------------------------------------- one request (spec 7.7)


async def _ask(run: Run) -> ChatResponse:
    messages = (*run.history, *run.messages) if run.memory is None else await UseMemory(run.memory, "messages")
    if not messages:
        raise UserError(f"memory={run.memory!r} gave {messages!r} as its messages; expected what was added, or a part")
    request = ChatRequest(tuple(messages), run.request_parameters)
    if run.settings.transform_request is not None:
        # The transformed request is sent and forgotten, so that edits do not pile up (spec 7.7.2).
        request = run.settings.transform_request(request, run.memory_id)
        if is_awaitable(request):
            request = await Await(request)
        if not isinstance(request, ChatRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            function = run.settings.transform_request
            raise UserError(f"transform_request={function!r} returned {request!r}; expected the ChatRequest to be sent")
    if run.token.is_cancelled or run.settings.limits.seconds is not None:
        _check_going_on(run)
    run.requests_made += 1
    round_ = run.round = Round(run.requests_made)
    if run.listening:
        number = run.requests_made
        run.emit(RequestIssued(run_id=run.run_id, path=run.path, number=number, request=request))
    answer = await CallModel(request, partial(_start_early, run, round_) if run.starts_early else _starts_none)
    response = checked_response(answer)
    run.usage = response.usage if run.usage is None else run.usage + response.usage
    message = _with_known_names(run, response.message)
    if message is not response.message:
        response = replace(response, message=message)
    round_.receive(message)
    if run.listening:
        number = run.requests_made
        event = ResponseReceived(run_id=run.run_id, path=run.path, number=number, request=request, response=response)
        run.emit(event)
    run.check_cancelled()
    return response


def _check_going_on(run: Run) -> None:
    run.check_cancelled()
    seconds = run.settings.limits.seconds
    if seconds is not None and run.now() - run.started_at > seconds:
        raise TimeLimitError(f"the run took longer than Limits(seconds={seconds!r}) allows")


def _starts_none(index: int, call: ToolCall) -> None:
    """For runs in which no call starts before its reply is complete."""


def _start_early(run: Run, round_: Round, index: int, call: ToolCall) -> Core[None] | None:
    """A core for a call of a reply that is still going on, if it may start now (design 3)."""
    name = _known_name(run, checked_call(call).name)
    if name != call.name:
        call = replace(call, name=name)
    tool, limits = run.settings.tools.get(name), run.settings.limits
    may_start = (
        not call.executed_by_provider
        and (run.settings.early_start == "all" or (tool is not None and tool.repeat == "safe"))
        and (tool is None or not tool.exclusive)
        and (limits.rounds is None or run.rounds_made < limits.rounds)
        and (limits.calls is None or run.calls_made + len(round_.calls) < limits.calls)
        and (limits.seconds is None or run.now() - run.started_at <= limits.seconds)
        and (limits.tokens is None or _tokens(run) <= limits.tokens)
        and not run.token.is_cancelled
        and index not in round_.calls
    )
    if not may_start:
        return None
    round_.calls[index] = call
    round_.started.add(index)
    return execute(run, round_, index)


def _known_name(run: Run, name: str) -> str:
    """The tool that the model means, if only white space, a prefix or a special token differs (spec 10.1)."""
    tools = run.settings.tools
    if name in tools:
        return name
    if not name:
        return ""  # some models leave it out, and history must still be valid
    bare = name.split("<|", 1)[0].strip()
    for candidate in (bare, bare.removeprefix("functions."), bare.removeprefix("tools.")):
        if candidate in tools:
            return candidate
    return name


def _with_known_names(run: Run, message: AssistantMessage) -> AssistantMessage:
    # The repaired name is what history keeps, or a stray newline would grow with every turn.
    for call in message.tool_calls:
        if call.name not in run.settings.tools:
            break
    else:
        return message
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        name = _known_name(run, call.name)
        if name != call.name and not call.executed_by_provider:
            fixed = replace(call, name=name)
            if run.listening:
                repair = Repair("name", call.name, name)
                run.emit(ArgumentRepaired(run_id=run.run_id, path=run.path, call=fixed, repair=repair))
            call = fixed
        calls.append(call)
    return message if tuple(calls) == message.tool_calls else replace(message, tool_calls=tuple(calls))


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
    await _run_calls(run, round_)  # waits for calls that were already running
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


async def _run_calls(run: Run, round_: Round) -> None:
    """Run the calls that have not started: in the driver's hands if they may overlap, else here, one by one."""
    pending = round_.pending
    if run.parallel is not False and (len(pending) > 1 or round_.started):
        await RunTools(round_, partial(execute, run, round_))
        return
    for slot in pending:
        if round_.stopped or run.token.is_cancelled:
            return
        await execute(run, round_, slot)


def _tokens(run: Run) -> int:
    return 0 if run.usage is None else run.usage.total or 0


def _check_before_tools(run: Run, round_: Round) -> None:
    """Limits are looked at before anything runs, so a refused round has no effects (spec 7.2)."""
    limits = run.settings.limits
    asked = len(round_.order)
    round_.why_not_run = "a limit of the run was reached"
    if limits.rounds is not None and run.rounds_made >= limits.rounds:
        raise RoundLimitError(f"the model asked for tools after {limits.rounds} rounds, which Limits(rounds=…) forbids")
    if limits.calls is not None and run.calls_made + asked > limits.calls:
        made = f"{run.calls_made} calls were made and {asked} more were asked for"
        raise CallLimitError(f"{made}; Limits(calls={limits.calls}) forbids that")
    if limits.tokens is not None and _tokens(run) > limits.tokens:
        raise TokenLimitError(f"the run used {_tokens(run)} tokens; Limits(tokens={limits.tokens}) forbids going on")
    round_.why_not_run = "the round ended before"
    _check_going_on(run)
    run.rounds_made += 1
    run.calls_made += asked


async def _settle_round(run: Run, round_: Round) -> bool:
    """Book the round, undo if policy says so, save; gives whether the run ends here (spec 7.3, steps 6 to 11)."""
    if len(round_.calls) > len(round_.order):
        await _drop_orphans(run, round_)
    ends = run.settings.may_end_early and await _may_end(run, round_)
    executions = book_round(run, round_)
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
        _check_consecutive(run, round_, executions, failed)
        return False
    run.errors_in_a_row = 0
    return ends


async def _may_end(run: Run, round_: Round) -> bool:
    """Whether the round ends the run unless something has failed; if not, the model will read what is still lazy."""
    tools, records = run.settings.tools, [round_.records.get(slot) for slot in round_.order]
    has_failed = any(record is None or record.result.is_error for record in records)
    names = [round_.calls[slot].name for slot in round_.order]
    behaviors = [tools[name].returns if name in tools else ReturnBehavior.TO_MODEL for name in names]
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
    if settings.on_tool_error is not None:
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
    await RunTools(round_, partial(execute, run, round_))
    await _drop_orphans(run, round_)
    failure = round_.first_failure
    if failure is not None:
        raise failure


def _relax_tool_choice(run: Run) -> None:
    # A forced choice that stays in force could only ever end by a limit (spec 7.7.3, D-19).
    if run.request_parameters.tool_choice is ToolChoice.REQUIRED:
        run.request_parameters = replace(run.request_parameters, tool_choice=ToolChoice.AUTO)


def _check_consecutive(
    run: Run, round_: Round, executions: list[ToolExecution[Any]], failed: list[ToolExecution[Any]]
) -> None:
    run.errors_in_a_row = run.errors_in_a_row + 1 if len(failed) == len(executions) else 0
    limit = run.settings.limits.consecutive_errors
    if limit is not None and run.errors_in_a_row >= limit:
        names = sorted({execution.call.name for execution in failed})
        last = " ".join(part.text for part in failed[-1].result.contents if isinstance(part, TextContent))
        raise ConsecutiveErrorsError(
            f"every call failed in {limit} rounds in a row, last {names!r}: {last} "
            "(Limits(consecutive_errors=…) sets how many are allowed)"
        ) from next(reversed(round_.errors.values()), None)


# ---------------------------------------------------------------- the end


async def _finish(run: Run, response: ChatResponse) -> Answer:
    run.round = None
    run.messages.append(response.message)
    if run.memory is not None:
        await save(run)
    return _ended(run, response, immediate=False)


def _ended(run: Run, response: ChatResponse, *, immediate: bool) -> Answer:
    run.check_cancelled()
    return Answer(response, immediate)


def finished(run: Run, answer: Answer) -> RunFinished:
    """The event of a run whose answer has been delivered: until then a cancellation may still win (spec 11.7)."""
    output = None if answer.immediate else answer.response.message.text
    return RunFinished(run_id=run.run_id, path=run.path, output=output, response=answer.response, usage=run.usage)
