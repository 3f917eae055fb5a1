"""Replay: what a run's records say is entered in its books, and the loop goes on from there (design 5). No I/O.

While a run replays, nothing happens outside: no model is asked, no tool and no undo runs, no memory is touched. The
first step that is not recorded ends that (``go_live``).
"""

from __future__ import annotations

from typing import Any

from ._books import Round, Run
from ._call import enter, execute
from ._catching_up import catch_up
from ._codec import canonical
from ._doubt import as_told, did_not_happen, is_given_up, value_of
from ._effects import Offload, Pause
from ._guards import recount
from ._job import Ended
from ._keeping import halt, keep_run_end, said_now
from ._ledger import Entry
from ._limits import REFUSED, was_refused
from ._nested import rouse, tell_again
from ._reading import read
from ._recorded import slot_of
from ._records import CallEnd, Reply, State
from ._toolbox import learn
from .errors import ReplayMismatch, RunCancelled, RunGivenUp, ToolArgumentsError
from .events import ResponseReceived, RunStarted, TextDelta, ToolFinished
from .messages import ChatRequest, ChatResponse, Message, ToolCall, ToolMessage
from .tools._tool import UNSTORED, Happened, Outcome, Tool, ToolExecution, ToolResult

__all__ = [
    "given_up_again",
    "go_live",
    "keep_answer",
    "look_again",
    "recall_calls",
    "recall_reply",
    "reclaim",
    "settle_begun",
    "settle_late",
    "settle_undone",
    "wake",
]


def given_up_again(run: Run) -> RunGivenUp:
    """The error of a run whose records say that it was given up."""
    given_up = run.recorded.given_up
    assert given_up is not None
    return RunGivenUp(f"run {run.run_id!r} was given up because of {given_up.error}", because=given_up.error)


def go_live(run: Run) -> None:
    """The next step is not recorded: from here on things happen, unless the run was given up."""
    if not run.replays:
        return
    if run.recorded.given_up is not None:
        raise given_up_again(run)
    if run.recorded.is_over and not is_given_up(run):
        raise _lost(run, "the run has ended, but not all of its steps are there")
    wake(run)


def wake(run: Run) -> None:
    """Nothing more is recorded: from here on things happen."""
    if run.replays:
        run.replays = False
        if run.has_listeners and not run.listening:
            run.listening = True
            run.emit(RunStarted(run_id=run.run_id, path=run.path, memory_id=run.memory_id))
        run.is_behind = True
        settle_late(run)
        for part in list(run.parts.values()):
            rouse(part)


async def keep_answer(run: Run) -> None:
    """The run has its answer: write that down, unless it is written."""
    while run.follows and run.recorded.given_up is None:
        await look_again(run)
    if run.replays and run.recorded.state == State.SUCCEEDED:
        settle_late(run)
        return
    go_live(run)
    if run.is_behind:
        await catch_up(run)
    await keep_run_end(run)


async def look_again(run: Run) -> None:
    """Somebody else is at work on the run: see what has been recorded since; go on with it here if they are gone."""
    await Pause(_LOOK_EVERY)
    run.check_cancelled()
    assert run.opening is not None
    await Offload(run.opening, (run,))
    _refresh(run)


def _refresh(run: Run) -> None:
    for path, part in list(run.parts.items()):
        part.recorded = run.recorded.part(path)
        _refresh(part)


_LOOK_EVERY = 0.02  # seconds


def _lost(run: Run, what: str) -> BaseException:
    return halt(run, ReplayMismatch(
        f"run {run.run_id!r} cannot be told again: {what}; nothing was done. Resume it with the code that began it; "
        "`surehand journal check` tells whether the journal is whole"
    ))  # fmt: skip


# ---------------------------------------------------------------- replies


def recall_reply(run: Run, number: int) -> ChatResponse | None:
    """The recorded reply to that request, its round made ready; nothing if it is not recorded."""
    reply = run.recorded.replies.get(number)
    if reply is None:
        return None
    _check_said(run, number, reply)
    round_ = Round(number, run.prefix)
    begun = {slot_of(key): _call_of(run, key) for key in run.recorded.calls_of(number)}
    round_.restore(reply.response.message, reply.slots, begun)
    run.round = round_
    if run.streams and reply.response.message.text:
        run.emit(TextDelta(run_id=run.run_id, path=run.path, text=reply.response.message.text))
    if run.streams:
        request = ChatRequest((*run.history, *read(run.messages)), run.request_parameters)
        event = ResponseReceived(
            run_id=run.run_id, path=run.path, number=number, request=request, response=reply.response
        )
        run.emit(event)
    return reply.response


def _call_of(run: Run, key: str) -> Any:
    intent = run.recorded.intents.get(key)
    return run.recorded.ends[key].call if intent is None else intent.call


def _check_said(run: Run, number: int, reply: Reply) -> None:
    first = run.told
    now = said_now(run)
    if now == reply.said:
        return
    same = sum(a == b for a, b in zip(now, reply.said, strict=False))
    messages = read(run.messages[first:])
    what = _described(messages[same]) if same < len(messages) else "a message that is not there any more"
    raise halt(run, ReplayMismatch(
        f"request {number} of run {run.run_id!r} would differ from the one that was answered: {what} was not there "
        "then, or was another; nothing was done. Resume it with the code that began it, or start another run"
    ))  # fmt: skip


def _described(message: Message) -> str:
    what = f"the result of {message.tool_name!r}" if isinstance(message, ToolMessage) else type(message).__name__
    text = str(getattr(message, "text", "") or "") if not isinstance(message, ToolMessage) else repr(message.contents)
    return f"{what} ({text[:80]})"


# ---------------------------------------------------------------- calls


async def recall_calls(run: Run, round_: Round) -> None:
    """Enter how the round's calls ended, in the order in which they did; go live if one of them is not recorded."""
    while not (is_settled := await _recall_ends(run, round_)) and run.follows:
        await look_again(run)
    if is_settled:
        return
    recorded = run.recorded
    begun = [slot for slot in round_.calls if slot not in round_.records and round_.key(slot) in recorded.intents]
    if not is_given_up(run):
        go_live(run)
        for slot in begun if round_.stopped else [slot for slot in round_.orphans if slot in begun]:
            await execute(run, round_, slot)
        return
    round_.stopped = True
    if recorded.given_up is not None and was_refused(recorded.given_up.error) and not recorded.calls_of(round_.number):
        round_.why_not_run = REFUSED
    if recorded.is_over:
        round_.started.update(begun)  # unknown for good: its process died, and nobody could tell
        return
    wake(run)
    for slot in begun:
        await execute(run, round_, slot)


async def settle_begun(run: Run) -> None:
    """Find out how calls ended that a dead process had begun, before the run is given up in their round.

    A limit, a cancellation or a call beside them has kept them from being gone on with here.
    """
    round_ = run.round
    if round_ is None or run.recorded.is_over:
        return
    begun = [
        slot
        for slot in round_.calls
        if slot not in round_.started and slot not in round_.records and round_.key(slot) in run.recorded.intents
    ]
    if begun:
        wake(run)
    for slot in begun:
        await execute(run, round_, slot)


async def _recall_ends(run: Run, round_: Round) -> bool:
    """Enter the ends on record of the round's calls in the books; gives whether these are all of them."""
    recorded = run.recorded
    for key in recorded.calls_of(round_.number):  # while it is followed, more of them begin
        round_.calls.setdefault(slot_of(key), _call_of(run, key))
    if run.settings.providers or run.settings.search:
        await learn(run, round_)
    for key in recorded.ends_of(round_.number):
        if slot_of(key) not in round_.records:
            await _recall(run, round_, slot_of(key), recorded.ends[key])
    missing = [round_.key(slot) for slot in round_.calls if slot not in round_.records]
    if round_.stopped:  # of a reply that was cut off, no call begins that had not begun before
        missing = [key for key in missing if key in recorded.intents]
    if missing and round_.number + 1 in recorded.replies:
        raise _lost(run, f"it has the reply after round {round_.number}, but not how calls {missing} ended")
    return not missing


async def reclaim(run: Run, round_: Round) -> None:
    """Calls that were begun early for a reply that a dead process never got: see how they ended before asking again.

    Those that the new reply asks for too are joined to it; the others are undone, like all that were started early and
    do not stand in the reply (D-17).
    """
    begun: list[int] = []
    keys = run.recorded.calls_of(round_.number)
    round_.calls = {slot_of(key): _call_of(run, key) for key in keys}
    round_.reclaimed = bool(keys)
    if keys and (run.settings.providers or run.settings.search):
        await learn(run, round_)
    for key in keys:
        slot, end = slot_of(key), run.recorded.ends.get(key)
        if end is None:
            begun.append(slot)
        else:
            await _recall(run, round_, slot, end)
    was_given_up = is_given_up(run)
    if was_given_up and not run.recorded.is_over:
        wake(run)
    else:
        round_.started.update(begun)
        go_live(run)
    for slot in begun:
        await execute(run, round_, slot)
    if run.recorded.given_up is not None:
        raise given_up_again(run)
    if was_given_up:
        raise RunCancelled(f"run {run.run_id!r}, which this one is part of, is given up")


async def _recall(run: Run, round_: Round, slot: int, end: CallEnd) -> None:
    key = round_.key(slot)
    round_.calls.setdefault(slot, end.call)
    if key in run.recorded.parts:
        await tell_again(run, end.call, key)  # as hooks left it, not as the model asked for it
    execution = ToolExecution(end.call, _result(run, end), key, end.outcome, end.started_at, end.finished_at)
    recount(run, execution)
    enter(run, execution, _ended(run, end, execution))
    round_.started.add(slot)
    round_.records[slot] = execution
    if end.failure is not None:
        round_.failures[slot] = RunGivenUp(
            f"run {run.run_id!r} was given up because of {end.failure}", because=end.failure
        )
        round_.stopped = True
    if run.streams:
        run.emit(ToolFinished(run_id=run.run_id, path=run.path, execution=execution, late=False))


def _ended(run: Run, end: CallEnd, execution: ToolExecution[Any]) -> Ended:
    tool = run.toolset.tools.get(end.call.name)
    if end.can_undo and (tool is None or tool.undo is None):
        raise halt(run, ReplayMismatch(
            f"call {execution.key} of run {run.run_id!r} was a call of {end.call.name!r}, which had an undo "
            "then and has none now; resume it with an agent that can undo it"
        ))  # fmt: skip
    needs_arguments = tool is not None and (end.can_undo or end.outcome is Outcome.UNKNOWN)
    arguments = _arguments(run, tool, end.call) if tool is not None and needs_arguments else None
    may_undo = end.can_undo and end.outcome is not Outcome.DONE
    return Ended(end.outcome, execution.result, tool, arguments, same_as=end.same_as, may_undo=may_undo)


def _arguments(run: Run, tool: Tool, call: ToolCall) -> dict[str, Any]:
    try:
        return tool.body.decode(call.arguments, "salvage")[0]
    except ToolArgumentsError as error:
        raise halt(run, ReplayMismatch(
            f"arguments of {call.name!r} that run {run.run_id!r} called it with do not fit it any more: {error};"
            " resume it with the code that began it"
        )) from error  # fmt: skip


def _result(run: Run, end: CallEnd) -> ToolResult:
    value: Any = UNSTORED if end.value is None else value_of(run, end.call.name, end.value)
    return ToolResult(end.contents, value, end.is_error, end.attributes)


def settle_late(run: Run) -> None:
    """What became known of calls in doubt after the run had gone on without knowing (spec 12.3)."""
    for part in list(run.parts.values()):
        settle_late(part)
    for key, late in run.recorded.late.items():
        _settle(run, key, late, _result(run, late))
    for key, told in run.recorded.resolved.items():
        end = run.recorded.ends.get(key)
        tool = None if end is None else run.toolset.tools.get(end.call.name)
        if end is None or tool is None or end.outcome is not Outcome.UNKNOWN:
            continue
        answer = as_told(run, tool, told)
        if isinstance(answer, Happened):
            _settle(run, key, end, tool.body.encode(answer.value))
        else:
            run.finish_late(key, did_not_happen(end.call), Outcome.FAILED)


def settle_undone(run: Run) -> None:
    """Calls in doubt that ended late, and were undone in this very round because another one failed."""
    for key, late in run.recorded.late.items():
        if run.recorded.undone_in.get(late.same_as or key) == run.requests_made:
            _settle(run, key, late, _result(run, late))


def _settle(run: Run, key: str, end: CallEnd, result: ToolResult) -> None:
    execution = run.finish_late(key, result, at=end.finished_at)
    tool = run.toolset.tools.get(end.call.name)
    if execution is None or tool is None:
        return
    arguments = _arguments(run, tool, end.call)
    run.unknown_calls.pop((tool.name, canonical(arguments)), None)
    if tool.undo is not None:
        run.ledger.add(Entry(tool, execution, arguments, run.context(end.call, end.same_as or key), run))
