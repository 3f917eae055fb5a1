"""A call that runs an agent: its run is part of the run that called it (design 3, spec 11.8). No I/O.

What it does stands in the books of both: one ledger under a savepoint, one pool of limits and usage, one journal, one
stream of events, one cancellation. A part that ends without an answer has undone what it did, and says what stands.
"""

from __future__ import annotations

from typing import Any

from ._answer import Answer, finished
from ._books import Run
from ._doubt import was_begun
from ._effects import RunPart, Thrown, unwrapped
from ._job import Job
from ._keeping import halt
from ._limits import lineage
from ._recorded import round_of
from .errors import ReplayMismatch, RunGivenUp, Suspended
from .events import ToolStarted
from .messages import ToolCall
from .tools._tool import Tool, ToolExecution, ToolResult

__all__ = ["rouse", "run_part", "tell_again", "too_deep", "what_stands"]


def too_deep(job: Job) -> ToolResult | None:
    """What is read of a call that would nest agents deeper than one of them allows."""
    for depth, each in enumerate(lineage(job.run), 1):
        most = each.settings.limits.depth
        if most is not None and depth > most:
            return ToolResult.error(
                f"The call of {job.call.name!r} was not run: agents may call each other {most} deep here, and this "
                "would be deeper."
            )
    return None


async def run_part(job: Job) -> Any:
    """What the agent answers. Raises what its run raised: by then, what that had done is undone as far as it can be.

    ``Suspended``: its run waits for somebody's word, and so does this one.
    """
    run = job.run
    is_begun = run.log is not None and await was_begun(job)
    part, model = _opened(run, job.tool, job.key, job.arguments)
    part.is_behind = is_begun  # the process that died may have told the memory what it did not live to write down
    try:
        if run.listening:
            run.emit(ToolStarted(run_id=run.run_id, path=run.path, key=job.key, call=job.call, attempt=1))
        job.entered = True
        answer: Answer = await RunPart(part, model)
    except BaseException as raised:
        if part.recorded.is_empty and (not job.entered or (isinstance(raised, Thrown) and not raised.begun)):
            del run.parts[job.key]  # it was broken off before anything began, here or in a process that died
            job.entered = False
        raise
    finally:
        run.pending.extend(part.pending)
        if part.replays:
            rouse(part)
    if part.listening:
        part.emit(finished(part, answer))
    if answer.waits:
        raise Suspended(f"the agent behind {job.call.name!r} waits for somebody's word")
    return _given_by_tools(part) if answer.immediate and part.output is None else answer.output


def _given_by_tools(part: Run) -> Any:
    """What the calls of the round gave that ended the agent's run."""
    booked = [execution for execution in part.executions if execution.key in part.places]  # no call that was dropped
    last = max((round_of(execution.key) for execution in booked), default=0)
    values = [execution.value for execution in booked if round_of(execution.key) == last]
    return values[0] if len(values) == 1 else values


def what_stands(job: Job, error: BaseException, _: object) -> str:
    """What is read of an agent that gave up: why, by the error's type alone, and what it left behind."""
    standing = [_named(execution) for execution in job.run.parts[job.key].report().standing]
    left = f"This may still stand: {', '.join(standing)}." if standing else "Nothing that it did stands."
    return f"The agent behind {job.call.name!r} gave up with {_kind(error)}. {left}"


def _kind(error: BaseException) -> str:
    """The error's type; of a run that is told again, the type of the error that had given it up."""
    then = error.because.partition(":")[0] if isinstance(error, RunGivenUp) else ""
    return then or type(error).__name__


def _named(execution: ToolExecution[Any]) -> str:
    return f"{execution.call.name!r} (call {execution.key})"


def _opened(run: Run, tool: Tool, key: str, arguments: dict[str, Any]) -> tuple[Run, Any]:
    assert tool.nested is not None
    part, model = tool.nested.open(run, key, arguments["prompt"])
    part.inside, part.recorded = tool.name, run.recorded.part(key)
    if not part.recorded.is_empty:
        part.replays, part.has_listeners, part.listening = True, part.listening, part.streams
    run.parts[key] = part
    return part, model


# ---------------------------------------------------------------- told again


async def tell_again(run: Run, call: ToolCall, key: str) -> None:
    """Enter in the books what an agent did whose call has ended, as its own records say."""
    tool = run.toolset.tools.get(call.name)
    if tool is None or tool.nested is None:
        raise halt(run, ReplayMismatch(
            f"call {key} of run {run.run_id!r} ran the agent {call.name!r}, and there is no agent of that name among "
            "the tools now; resume it with the agent of then"
        ))  # fmt: skip
    part, model = _opened(run, tool, key, tool.body.decode(call.arguments, "salvage")[0])
    try:
        await RunPart(part, model)
    except Exception as raised:
        if run.halted is not None:
            raise run.halted from unwrapped(raised)  # otherwise it had given up, and how its call ended is recorded


def rouse(part: Run) -> None:
    """A part has been told again to its end, and the run goes on: what is undone of it from here on is undone now."""
    part.replays, part.is_behind = False, True
    for inner in list(part.parts.values()):
        rouse(inner)
