"""One call from its arguments to its outcome: decoding, authorisation, attempts, and what errors mean (design 5).

No I/O: what has to be done outside is awaited as an effect. The frame around it, hooks and books, is in ``_call``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from ._books import Run
from ._checks import is_awaitable
from ._codec import canonical
from ._doubt import begun, died_in, no_way_on, not_begun_again, probed, what_to_do
from ._effects import Await, RunBody, StreamBody, Thrown, told, unwrapped
from ._guards import admit_call
from ._job import Ended, Interrupted, Job, gave_up, may_have_happened
from ._keeping import keep_late
from ._ledger import Entry
from ._nested import run_part, too_deep, what_stands
from ._reading import Careful, careful, unshowable
from ._report import has_effect
from ._undoing import closed_again, quietly, undo_late
from .errors import (
    AsyncNotSupportedError,
    Suspended,
    ToolArgumentsError,
    ToolError,
    ToolExecutionError,
    ToolTimeout,
    UserError,
)
from .events import ArgumentRepaired, ToolFinished, ToolStarted
from .messages import TextContent, ToolCall, ToolMessage
from .policies import ErrorHandler, tell_safely
from .tools._copies import apart, for_body
from .tools._shorten import shortened
from .tools._tool import (
    Absent,
    Happened,
    Outcome,
    ReturnBehavior,
    Tool,
    ToolExecution,
    ToolResult,
    Unknown,
)

__all__ = ["outcome_of", "readable", "shown"]

_DONE = Outcome.DONE  # looked up once: in Python 3.11 that costs more than a call


async def outcome_of(run: Run, call: ToolCall, key: str) -> Ended:
    """How the call ends. Raises what a hook-like function raised before the body was entered."""
    tool = run.toolset.tools.get(call.name)
    if tool is None:
        if key in run.recorded.intents:
            raise no_way_on(run, call, key, "there is no tool of that name any more")
        return await _unknown_name(run, call)
    try:
        arguments, repairs = tool.body.decode(call.arguments, tool.decoding or run.settings.decoding)
    except ToolArgumentsError as error:
        if key in run.recorded.intents:
            raise no_way_on(run, call, key, f"its arguments do not fit any more: {error}") from error
        return await _handled(
            Job(run, tool, call, key, key, {}), Outcome.REJECTED, run.settings.errors.arguments, error
        )
    # That of a process that died: the call had been allowed, and may have happened under the key that it was given.
    intent = run.recorded.intents.get(key)
    job = Job(run, tool, call, key, key if intent is None else intent.key.rpartition(":")[2], arguments)
    if repairs and run.listening:
        for repair in repairs:
            run.emit(ArgumentRepaired(run_id=run.run_id, path=run.path, call=call, repair=repair))
    if (run.settings.authorise is not None or tool.authorise is not None) and intent is None:
        denied = await _denied(job)
        if denied is not None:
            return job.ended(Outcome.DENIED, denied)
    if run.unknown_calls and intent is None and _may_have_happened_before(job):
        return job.ended(Outcome.DENIED, may_have_happened(call, "An identical call"))
    refused = admit_call(job, intent is None)
    if refused is not None:
        return job.ended(Outcome.DENIED, refused)
    try:
        return await _attempts(job)
    except BaseException as raised:
        if not job.entered:
            raise
        # A probe, a listener or an interrupt broke off what came after the body: that does not take it back.
        failure = unwrapped(raised)
        return job.ended(Outcome.UNKNOWN, may_have_happened(call, "This call"), failure, failure=failure)
    finally:
        job.is_over = True


def _may_have_happened_before(job: Job) -> bool:
    """Whether the call must not be made, since an identical one is in doubt; else it may be made with the key of that.

    A model that asks again while we do not know must not cause a second effect (design 3).
    """
    job.same_as = job.run.unknown_calls.get((job.tool.name, canonical(job.arguments)), job.key)
    return job.same_as != job.key and job.tool.repeat == "never"


async def _unknown_name(run: Run, call: ToolCall) -> Ended:
    names = tuple(spec.name for spec in run.toolset.specs)
    answer = await told(run.settings.errors.unknown_name, call, names)
    match answer:
        case str():
            result = ToolResult.error(answer)
        case ToolResult():
            result = answer
        case ToolMessage():
            # An answer that does not say whether it is an error is one: nothing was done (spec 10.2, D-24).
            is_error = True if answer.is_error is None else answer.is_error
            result = ToolResult(answer.contents, None, is_error, answer.attributes)
        case _:
            raise UserError(f"unknown_name handler returned {answer!r}; expected text, a ToolResult or a ToolMessage")
    return Ended(Outcome.REJECTED, result)


async def _denied(job: Job) -> ToolResult | None:
    """The refusal of whoever is asked, the agent's ``authorise`` first; nothing when all allow the call."""
    for authorise in (job.run.settings.authorise, job.tool.authorise):
        if authorise is None:
            continue
        answer = authorise(job.context(), apart(job.arguments))
        if is_awaitable(answer):
            answer = await Await(answer)
        if answer is False:
            return ToolResult.error(f"The call of {job.call.name!r} was not allowed. It did not run.")
        if isinstance(answer, str):
            return ToolResult.error(answer)
        if answer is not True:
            expected = "expected True, False, or text that says why not"
            raise UserError(f"authorise={authorise!r} returned {answer!r}; {expected}")
    return None


# ---------------------------------------------------------------- the body and its outcome (design 5)


async def _attempts(job: Job) -> Ended:
    if job.tool.nested is not None:
        return await _ask_agent(job)
    run, tool, attempt = job.run, job.tool, 1
    doubt: BaseException | None = None  # why an earlier attempt may have happened
    if run.log is not None and has_effect(tool):
        doubt = died_in(job)
        answer = await begun(job)
        if isinstance(answer, Happened):
            return _done(job, answer.value)
        ended = what_to_do(job) if isinstance(answer, Unknown) else not_begun_again(job)
        if ended is not None:
            return ended
    while True:
        job.attempt, context = attempt, None
        if tool.body.wants_context:
            deadline = None if tool.timeout is None else run.now() + tool.timeout
            context = job.context(attempt, deadline)
        if run.listening:
            run.emit(ToolStarted(run_id=run.run_id, path=run.path, key=job.key, call=job.call, attempt=attempt))
        run_body = StreamBody if run.listening and (tool.body.is_generator or tool.body.is_async) else RunBody
        try:
            arguments = for_body(tool, job.arguments) if tool.body.may_change_arguments else job.arguments
            value = await run_body(tool, arguments, context, partial(_late_finish, job))
        except BaseException as raised:
            if isinstance(raised, Thrown) and not raised.begun and doubt is None:
                raise
            job.entered = True
            error = unwrapped(raised)
            if attempt > tool.retries or not _may_retry(tool, error) or run.token.is_cancelled:
                return await _after_error(job, _decisive(tool, error, doubt))
            doubt = error
            attempt += 1
        else:
            job.entered = True
            ended = _done(job, value)
            return ended if ended.error is None else await _unshowable(job, ended, value)


async def _ask_agent(job: Job) -> Ended:
    """The same for a tool that is an agent: its run is part of this one."""
    refusal = too_deep(job)
    if refusal is not None:
        return job.ended(Outcome.REJECTED, refusal)
    try:
        value = await run_part(job)
    except BaseException as raised:
        error, run = unwrapped(raised), job.run
        if (isinstance(raised, Thrown) and not raised.begun) or not job.entered:
            raise
        if isinstance(error, Interrupted | Suspended) or run.halted is not None:
            return job.ended(Outcome.UNKNOWN, gave_up(job.call), error, failure=run.halted or error)
        if isinstance(error, UserError) or not isinstance(error, Exception):  # misuse is no failure of the agent's
            return job.ended(Outcome.FAILED, gave_up(job.call), error, failure=error)
        return await _handled(job, Outcome.FAILED, run.settings.errors.execution or partial(what_stands, job), error)
    ended = _done(job, value)
    return ended if ended.error is None else await _unshowable(job, ended, value)


async def _unshowable(job: Job, ended: Ended, value: Any) -> Ended:
    """A value that cannot be encoded is the execution handler's affair too (spec 5.2); the call stays done."""
    handler, error = job.run.settings.errors.execution, ended.error
    if handler is None or error is None:
        return ended
    handled = await _handled(job, Outcome.DONE, handler, error)
    handled.result = replace(handled.result, value=value)  # an undo may need what the body returned
    return handled


def _decisive(tool: Tool, error: BaseException, doubt: BaseException | None) -> BaseException:
    # "Nothing happened" is said of one attempt; it does not speak for an earlier one that may have happened.
    definite = isinstance(error, ToolError | ToolArgumentsError | AsyncNotSupportedError)
    has_effect = tool.repeat == "with_key" or tool.undo is not None
    return doubt if doubt is not None and definite and has_effect else error


def _may_retry(tool: Tool, error: BaseException) -> bool:
    return tool.repeat != "never" and isinstance(error, Exception) and not isinstance(error, ToolError)


def _done(job: Job, value: Any) -> Ended:
    try:
        result = job.tool.body.encode(value)
        if not result.given and not _may_stay_lazy(job.run, job.tool):
            _ = result.contents  # whatever is wrong with it has to show here
        return job.ended(_DONE, result)
    except Exception as error:
        return job.ended(Outcome.DONE, unshowable(job.call, value), error)


def _may_stay_lazy(run: Run, tool: Tool) -> bool:
    """Whether nobody may ever read the result: its tool can end the run, and no memory keeps it (spec 5.2)."""
    return tool.returns is ReturnBehavior.IMMEDIATE and run.memory is None and run.log is None


def readable(run: Run, tool: Tool | None, call: ToolCall, result: ToolResult) -> ToolResult:
    """The result as it enters the books: no longer than may be, and safe to be read by anybody."""
    most = run.settings.max_result if tool is None else tool.max_result or run.settings.max_result
    given = result.given
    if most is not None and len(given) == 1 and type(given[0]) is TextContent and len(given[0].text) <= most:
        return result  # what nearly every result is
    return careful(shortened(result, most), call)


async def shown(run: Run, execution: ToolExecution[Any]) -> tuple[ToolExecution[Any], BaseException | None]:
    """The execution with its result encoded, now that the model will read it; and what was wrong with that."""
    result, call = execution.result, execution.call
    if isinstance(result.supplier, Careful):
        result = replace(result, supplier=result.supplier.supplier)  # its failure is the handler's affair now
    try:
        _ = result.contents
        return replace(execution, result=result), None
    except Exception as error:
        tool = run.toolset.tools[call.name]
        job = Job(run, tool, call, execution.key, execution.key, {}, entered=True)
        ended = await _unshowable(job, job.ended(Outcome.DONE, unshowable(call, result.value), error), result.value)
        return replace(execution, result=readable(run, tool, call, ended.result)), ended.failure


async def _after_error(job: Job, error: BaseException) -> Ended:
    tool, errors = job.tool, job.run.settings.errors
    # A GeneratorExit comes from a consumer who left in the middle: a body's own arrives as another error.
    if isinstance(error, KeyboardInterrupt | Interrupted | Suspended | GeneratorExit):
        return job.ended(Outcome.UNKNOWN, may_have_happened(job.call, "This call"), error, failure=error)
    if isinstance(error, ToolError):
        return await _handled(job, Outcome.FAILED, errors.tool_error, error)
    if isinstance(error, ToolArgumentsError) and tool.body.raises_argument_errors:
        return await _handled(job, Outcome.REJECTED, errors.arguments, error)
    if isinstance(error, AsyncNotSupportedError):
        return job.ended(Outcome.REJECTED, gave_up(job.call), error, failure=error)
    job.raw_error = error
    error = _showable(tool, error)
    if tool.repeat == "safe":
        # It may be called again; but if it has something to undo, nobody knows whether that is there now.
        outcome = Outcome.FAILED if tool.undo is None else Outcome.UNKNOWN
        return await _handled(job, outcome, errors.execution or tell_safely, error)
    answer = await probed(job)
    if isinstance(answer, Happened):
        return _done(job, answer.value)
    if isinstance(answer, Absent):
        return await _handled(job, Outcome.FAILED, errors.execution or tell_safely, error)
    return await _unknown(job, error)


def _showable(tool: Tool, error: BaseException) -> BaseException:
    if isinstance(error, Exception):
        return error
    # SystemExit, GeneratorExit or a CancelledError of the body's own must not end the host or look like our
    # cancellation (spec 9.9, 12.8).
    wrapped = ToolExecutionError(f"tool {tool.name!r} raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


async def _unknown(job: Job, error: BaseException) -> Ended:
    handler = job.run.settings.errors.execution
    if handler is not None:
        return await _handled(job, Outcome.UNKNOWN, handler, error)
    ended = job.ended(Outcome.UNKNOWN, may_have_happened(job.call, "This call"), error)
    if not isinstance(error, ToolTimeout):
        ended.failure = error
    return ended


async def _handled(job: Job, outcome: Outcome, handler: ErrorHandler, error: BaseException) -> Ended:
    """What the handler makes of the error: a text for the model, or the end of the run (spec 9.2, 9.5)."""
    try:
        answer = await told(handler, error, job.run.error_context(job.call, job.raw_error or error))
        result = ToolResult.error(answer) if isinstance(answer, str) else answer
        if not isinstance(result, ToolResult):
            raise UserError(f"error handler {handler!r} returned {answer!r}; expected text or a ToolResult")
    except BaseException as raised:
        failure = unwrapped(raised)
        if failure is not error and failure.__cause__ is None:
            failure.__cause__ = error  # the tool's own error must stay findable behind the handler's
        return job.ended(outcome, gave_up(job.call), error, failure=failure)
    return job.ended(outcome, result if result.is_error else replace(result, is_error=True), error)


async def _late_finish(job: Job, value: Any, error: BaseException | None) -> None:
    """A body finished after its call had been answered as unknown: now it is known (spec 12.3)."""
    if error is not None:
        return
    run = job.run
    ended = _done(job, value)
    execution = run.finish_late(job.key, readable(run, job.tool, job.call, ended.result))
    if execution is None:
        return
    if run.log is not None:
        try:
            await keep_late(run, execution, ended)
        except Exception:
            return  # the run has halted, and the call stays unknown there: whoever resumes it settles that
    run.unknown_calls.pop((job.tool.name, canonical(job.arguments)), None)
    if job.tool.undo is not None:
        entry = Entry(job.tool, execution, job.arguments, job.context(), run)
        if not run.ledger.add(entry):
            await undo_late(run, entry)
    await closed_again(run)
    quietly(run, ToolFinished(run_id=run.run_id, path=run.path, execution=execution, late=True))
