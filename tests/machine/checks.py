"""What must hold after any exit. Each check raises ``Broken`` with what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from surehand import (
    AssistantMessage,
    MemoryJournal,
    Message,
    Outcome,
    RunGivenUp,
    ToolExecution,
    ToolMessage,
    UndoPolicy,
    report_of,
)
from surehand._records import OVER

from .play import Broken, Exit, make_agent, make_memory, opening, play
from .scripts import AGENTS, NO_TOOLS, Script, numbered
from .world import World

ENTERED_NOT = (Outcome.NOT_RUN, Outcome.REJECTED, Outcome.DENIED)


def check(script: Script, mode: str) -> Exit:
    """Play the script and check everything; a mode with ``+journal`` behind it is also told again from its journal."""
    mode, _, has_journal = mode.partition("+")
    journal, memory = MemoryJournal(), make_memory(script.memory)
    recorded: dict[str, Any] = {"journal": journal, "undo_retries": 0} if has_journal else {}
    ended = play(script, mode, memory=memory, **recorded)
    check_history(ended.messages)
    check_history(ended.report.messages)
    check_rest(ended)
    check_undo_once(ended)
    check_records(ended)
    check_truth(ended)
    if ended.given_up:
        check_given_up(ended, script)
    check_order(ended, script, mode)
    check_error(ended)
    if script.output:
        check_output(ended, script)
    if has_journal:
        check_told_again(ended, script, make_agent(script, ended.world, memory, **recorded), journal)
    return ended


def _must(condition: object, what: str, *found: object) -> None:
    if not condition:
        raise Broken(f"{what}: {found!r}")


def _number(execution: ToolExecution[Any]) -> int:
    return int("".join(filter(str.isdigit, execution.call.arguments)))


def is_no_tool(ended: Exit, n: int) -> bool:
    """Whether the call asks an agent, what that did is accounted for call by call, or gives an answer."""
    return ended.world.names[n] in NO_TOOLS


def is_safe(ended: Exit, n: int) -> bool:
    """Whether the call is of a safe tool, whose failure is definite: doing it again, or having done it, is no harm."""
    return "_safe_" in ended.world.names[n]


def check_history(messages: Sequence[Message]) -> None:
    """Every reply's calls are followed by their results, in order, and there are no other results."""
    _must(not messages or opening(messages), "the conversation does not begin with the user", messages)
    waiting: list[tuple[str | None, str]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            _must(waiting, "a result without a call", messages)
            expected = waiting.pop(0)
            _must((message.call_id, message.tool_name) == expected, "results out of order", expected, message)
            continue
        _must(not waiting, "calls without results", waiting, messages)
        if isinstance(message, AssistantMessage):
            waiting = [(call.id, call.name) for call in message.tool_calls]
    _must(not waiting, "calls without results at the end", waiting, messages)
    numbers = Counter(
        call.arguments for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
    )
    _must(all(count == 1 for count in numbers.values()), "a reply stands twice in the conversation", messages)


def check_rest(ended: Exit) -> None:
    """Whatever was still at work when the run returned had outlived its time, and is named as unknown."""
    unknown = {_number(execution) for execution in ended.report.unknown}
    for n in ended.still_running:
        may_outlive = ended.world.plans[n].waits != "no" or ended.world.names[n].endswith("_timed")
        _must(may_outlive, "a tool ran unobserved", n)
        has_no_effect = "_safe_plain" in ended.world.names[n]
        _must(n in unknown or has_no_effect, "a tool was still running and is not named", n, ended.report)
    _must(not ended.world.running, "a tool never ended", ended.world.running)


def check_undo_once(ended: Exit) -> None:
    """Nothing is undone twice, and nothing is undone that never was."""
    tries = Counter(ended.world.undo_tries)
    _must(all(count == 1 for count in tries.values()), "undone twice", tries)
    _must(set(tries) <= set(ended.world.effects), "undone, but it never happened", tries, ended.world.effects)


def check_records(ended: Exit) -> None:
    """Every call that started, and every call of the conversation, has exactly one record."""
    numbers = Counter(_number(execution) for execution in ended.report.executions)
    _must(all(count == 1 for count in numbers.values()), "a call with two records", numbers)
    keys = Counter(execution.key for execution in ended.report.executions)
    _must(all(count == 1 for count in keys.values()), "two records with one key", keys)
    lost = set(ended.world.entered) - set(numbers)
    _must(not lost, "a call that started has no record", lost, ended.report.executions)
    said = {
        call.id: call
        for message in ended.report.messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    _must(len(said) == 0 or len(numbers) > 0, "calls of the conversation have no records", said)


def check_truth(ended: Exit) -> None:
    """What the records say of each call is what happened; ``unknown`` may be either."""
    world = ended.world
    for execution in ended.report.executions:
        n = _number(execution)
        if is_no_tool(ended, n):
            continue
        happened, safe = bool(world.effects.get(n)), is_safe(ended, n)
        if execution.outcome is Outcome.DONE:
            _must(happened, "recorded as done, but it did not happen", execution)
        elif execution.outcome is Outcome.FAILED and not safe and n not in ended.still_running:
            _must(not happened, "recorded as failed, but it did happen", execution)
        elif execution.outcome in ENTERED_NOT:
            _must(not world.entered[n], "recorded as not entered, but it was", execution)
        _must(safe or world.effects.get(n, 0) <= 1, "an effect happened twice", execution)
        if execution.undo is not None:
            _must(execution.undo.is_undone == (world.undone[n] == 1), "the report lies about an undo", execution)


def check_given_up(ended: Exit, script: Script) -> None:
    """Every effect that can be undone is undone, or the report names it; what came late was seen to as well."""
    report, world = ended.report, ended.world
    named = {_number(execution) for execution in report.standing}
    undone = {_number(execution) for execution in report.undone}
    late = set(ended.still_running)
    for execution in report.executions:
        n = _number(execution)
        if n not in world.standing or "_safe_plain" in world.names[n]:
            continue
        _must(n in named or n in late, "an effect stands and nobody is told", execution, report)
        can_undo = "_undo" in execution.call.name and world.plans[n].undo == "ok"
        may_stand = execution.outcome is Outcome.UNKNOWN and n not in late
        _must(not can_undo or may_stand, "an effect that can be undone was left standing", execution, report)
    _must(undone == {n for n in undone if world.undone[n]}, "named as undone, but it is not", undone)


def check_order(ended: Exit, script: Script, mode: str) -> None:
    """Undo goes backwards: strictly where calls ran one after another, else from the last round to the first."""
    if script.policy is not UndoPolicy.ON_GIVE_UP or script.withheld or _has_given_up_inside(ended):
        return
    world = ended.world
    plain = {n for n, plan in world.plans.items() if plan.acts == ("ok",) and plan.waits == "no"}
    tried = [n for n in world.undo_tries if n in plain]
    if not script.parallel:
        expected = [n for n in reversed(world.completed) if n in set(tried)]
        _must(tried == expected, "undone in the wrong order", tried, world.completed)
        return
    round_of = {n: number for n, _, number in numbered(script)}
    order = [round_of[n] for n in tried]
    _must(order == sorted(order, reverse=True), "rounds undone in the wrong order", tried, order)


def _has_given_up_inside(ended: Exit) -> bool:
    """Whether an agent that was asked gave up: it undid what it did then, before the rest was undone, or was not."""
    asked = [execution for execution in ended.report.executions if execution.call.name in AGENTS]
    return any(execution.outcome is not Outcome.DONE for execution in asked)


def check_output(ended: Exit, script: Script) -> None:
    """What a run gives is of the type that was asked for, and no more answers were refused than may be."""
    asked = sum(isinstance(message, AssistantMessage) for message in ended.report.messages) - len(script.rounds)
    refused = sum(not answer.fits for answer in script.answers[: max(asked, 0)])
    if not ended.given_up:
        _must(ended.result.output == {"word": "good"}, "an answer that does not fit was taken", ended.result.output)
        _must(refused <= 2, "answers were refused without end", ended.report.messages)


def check_error(ended: Exit) -> None:
    """What ended the run is raised as it is, carries a note, and leads to the report."""
    error = ended.error
    if error is None:
        _must(not ended.given_up or ended.left, "a run without a result ended without an error")
        return
    if ended.left and report_of(error) is None:
        return
    _must(report_of(error) is not None, "no report", error)
    notes = [note for link in _chain(error) for note in getattr(link, "__notes__", ())]
    _must(any(note.startswith("surehand run") for note in notes), "no note", error)
    if type(error) in (ValueError, KeyboardInterrupt):
        _must(any(error is raised for raised in ended.world.raised), "another object than the one raised", error)
    _must(not isinstance(error, SystemExit | GeneratorExit), "a tool's exit reached the host", error)


def check_told_again(ended: Exit, script: Script, agent: Any, journal: MemoryJournal) -> None:
    """A run that is over is told again as it was, from its journal alone: nothing happens, and nothing is written."""
    run_id, world = ended.report.run_id, ended.world
    row = journal.row(run_id)
    if row is None:
        return _must(not ended.report.executions and not world.steps, "a run did something and is not recorded")
    _must(row.state in OVER, "a run ended, but not in its journal", row)
    before, history = _happenings(world), journal.records(run_id)
    try:
        report, given_up = agent.resume(run_id).undone, False
    except RunGivenUp as again:
        report, given_up = report_of(again), True
    _must(given_up == ended.given_up, "told again, the run ends otherwise", given_up)
    _must(_happenings(world) == before, "something happened while a run was told again", before, _happenings(world))
    _must(journal.records(run_id) == history, "something was written while a run was told again")
    told, then = _fates(report), _fates(ended.report)
    _must(set(told) == set(then), "told again, the run has other calls", told, then)
    late = {n for n in then if n in ended.still_running}
    _must(all(told[n] == then[n] for n in then if n not in late), "told again, a call ends otherwise", told, then)


def _happenings(world: World) -> tuple[Any, ...]:
    return (world.steps, dict(world.entered), dict(world.effects), list(world.undo_tries))


def _fates(report: Any) -> dict[int, Any]:
    return {_number(e): (e.key, e.outcome, e.undo, e.result.text) for e in report.executions}


def _chain(error: BaseException | None) -> list[BaseException]:
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links
