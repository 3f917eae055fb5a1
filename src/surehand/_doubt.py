"""Calls of which nobody knows whether they happened: the intent before the body, and what a dead process leaves.

The outcome rules of design 5 for ``with_key`` and ``never`` are here; those for errors of the body are in ``_attempt``.
"""

from __future__ import annotations

from typing import assert_never, cast

from ._books import Run
from ._codec import canonical, from_json
from ._effects import Offload
from ._job import Ended, Job, may_have_happened
from ._keeping import halt, keep
from ._limits import lineage
from ._records import INTENT, PROBED, Answered, Intent, draft
from .errors import ReplayMismatch, Suspended, ToolExecutionError
from .messages import ToolCall
from .tools._tool import Absent, Happened, Outcome, Probe, Tool, ToolResult, Unknown

__all__ = [
    "as_told",
    "begun",
    "did_not_happen",
    "died_in",
    "is_given_up",
    "no_way_on",
    "not_begun_again",
    "probed",
    "was_begun",
    "what_to_do",
]


async def begun(job: Job) -> Probe:
    """Whether the body has to be entered: ``Absent`` means that nothing has happened yet, or that repeating is safe.

    The intent is on disk before the body is entered. If it was there already, a process died in the middle.
    """
    run = job.run
    if not await was_begun(job):
        return Absent()
    answer = await _what_became(job)
    if isinstance(answer, Absent) and not_begun_again(job) is None:
        # Each process says so before it enters the body: one that has lost the run meanwhile is stopped here, and what
        # was told of the process that died is not taken for told of this one.
        await keep(run, draft(INTENT, job.key, _intent(job)))
    return answer


async def was_begun(job: Job) -> bool:
    """Whether a dead process had begun the call; if not, the intent to do so is on disk now."""
    run, tool, intent = job.run, job.tool, job.run.recorded.intents.get(job.key)
    if intent is None:
        await keep(run, draft(INTENT, job.key, _intent(job)))
        return False
    arguments = canonical(job.arguments)
    if intent.arguments != arguments or intent.is_run != (tool.nested is not None):
        raise halt(run, ReplayMismatch(
            f"call {job.key} of run {run.run_id!r} was begun as {tool.name}({intent.arguments}), and would now be "
            f"{tool.name}({arguments}); the same key must not stand for two calls: resume it with the code of then"
        ))  # fmt: skip
    return True


async def _what_became(job: Job) -> Probe:
    """Whether a call that a dead process had begun has to be taken as not happened, and may be made again."""
    tool, told = job.tool, job.run.recorded.resolved.get(job.key)
    if tool.repeat != "never" and (tool.undo is not None or not is_given_up(job.run)):
        return Absent()
    return await probed(job) if told is None else as_told(job.run, tool, told)


def _intent(job: Job) -> Intent:
    is_run = job.tool.nested is not None
    return Intent(job.call, canonical(job.arguments), f"{job.run.run_id}:{job.same_as}", is_run)


def as_told(run: Run, tool: Tool, told: Answered) -> Probe:
    """Somebody's word on whether a call happened, with the value that the tool would have returned."""
    if not told.happened:
        return Absent()
    return Happened(None if told.value is None else value_of(run, tool.name, told.value))


def value_of(run: Run, name: str, data: str) -> object:
    """A stored value of the tool with that name, as itself; halts the run if it cannot be read."""
    tool = run.toolset.tools.get(name)
    try:
        if data == "null":
            return None
        return from_json(data, object) if tool is None else tool.body.values.load(data.encode())
    except Exception as error:
        raise halt(run, ReplayMismatch(
            f"what {name!r} returned in run {run.run_id!r} cannot be read as what it returns now: {error}"
            "; resume it with the code that began it"
        )) from error  # fmt: skip


async def probed(job: Job) -> Probe:
    """What the tool's own probe says: did this call happen?"""
    if job.tool.probe is None:
        return Unknown()
    try:
        answer = await Offload(job.tool.probe, (job.context(), job.arguments))
    except Exception:
        answer = Unknown()  # a probe that fails cannot tell, and neither can one that answers something else
    answer = cast(Probe, answer) if isinstance(answer, Happened | Absent) else Unknown()
    if job.run.log is not None:
        happened = None if isinstance(answer, Unknown) else isinstance(answer, Happened)
        await keep(job.run, draft(PROBED, job.key, Answered(happened)))
    return answer


def died_in(job: Job) -> BaseException | None:
    """Why an attempt of a process that is gone may have happened; nothing if there was none, or it is known."""
    was_begun = job.tool.repeat != "never" and job.key in job.run.recorded.intents
    return _lost(job) if was_begun else None


def _lost(job: Job) -> ToolExecutionError:
    return ToolExecutionError(
        f"the process died while {job.tool.name!r} was called (call {job.key} of run {job.run.run_id!r}), and nobody "
        "can tell whether it happened"
    )


def what_to_do(job: Job) -> Ended:
    """How a call ends that a dead process has left, when nobody can tell whether it happened."""
    run, tool, result, lost = job.run, job.tool, may_have_happened(job.call, "This call"), _lost(job)
    ended = job.ended(Outcome.UNKNOWN, result, lost, lost)
    if is_given_up(run) and tool.unknown == "ask":
        return ended
    match tool.unknown:
        case "ask":
            ended.waits = True
            ended.failure = Suspended(f"{lost}; agent.resolve({run.run_id + ':' + job.key!r}, …) tells")
        case "undo":
            ended.may_undo = True
        case "dead_letter":
            ended.is_dead_letter = True
        case _:
            assert_never(tool.unknown)
    return ended


def not_begun_again(job: Job) -> Ended | None:
    """How a call ends that did not happen before its process died, if its run has been given up since."""
    was_begun = job.key in job.run.recorded.intents
    if not (was_begun and is_given_up(job.run)) or (job.tool.repeat != "never" and job.tool.undo is not None):
        return None
    return job.ended(Outcome.NOT_RUN, did_not_happen(job.call))


def no_way_on(run: Run, call: ToolCall, key: str, why: str) -> BaseException:
    """The error for a call that a dead process had begun and that cannot be made here: it may have happened."""
    return halt(run, ReplayMismatch(
        f"call {key} of run {run.run_id!r}, {call.name!r}, was begun, may have happened, and cannot be gone on with: "
        f"{why}; nothing was done. Resume it with the tools of then"
    ))  # fmt: skip


def did_not_happen(call: ToolCall) -> ToolResult:
    """What is read of a call once somebody has told that it did not happen."""
    return ToolResult.error(f"This call of {call.name!r} did not happen.")


def is_given_up(run: Run) -> bool:
    """Whether the run is given up, or one that it is part of, here or by the process that died."""
    return any(each.given_up or each.recorded.given_up is not None for each in lineage(run))
