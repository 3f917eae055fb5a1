"""What the processes of a crash test do: one runs the scenario, others recover it, and the last one looks around."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from .._codec import from_json
from .._records import INTENT, UNFINISHED, Intent, Record
from .._recovery import Recovered
from .._report import UndoReport
from .._results import report_of
from ..agent import Agent
from ..durable import MemoryJournal, SQLiteJournal
from ..durable._journal import Journal
from ..errors import JournalError, UserError
from ..policies import UndoPolicy
from ..tools._tool import Tool, ToolExecution
from ._crash_checks import GIVEN_UP, NOTHING, SUCCEEDED, WAITS, CallFact, Facts
from ._crash_watch import Watch, notes_of, tools_of, watched
from ._crash_world import RUN_ID, Case, Effect, Plan

__all__ = ["Stage", "run_once", "settle", "the_agent"]

_ATTEMPTS = 5


class Stage(Struct, frozen=True, eq=False):
    """What a process of a case has before it: the agent under watch, and the world outside."""

    plan: Plan
    world: Path
    agent: Agent[Any, Any]
    journal: Journal
    watch: Watch
    deps: Any


def the_agent(plan: Plan) -> Any:
    """What ``"module:name"`` names: an agent, or a function that makes one."""
    if not isinstance(plan.agent, str):
        return plan.agent
    module, _, name = plan.agent.partition(":")
    if not module or not name:
        raise UserError(f"crash_test({plan.agent!r}): expected 'module:name', such as 'trips:agent'")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def stage(plan: Plan, case: Case, watch: Watch) -> Stage:
    """Everything that a process needs, made anew."""
    world = case.folder / "world"
    made = the_agent(plan)
    agent = _checked(plan, made if isinstance(made, Agent) else made(world))
    journal = _journal_of(agent, case, is_shared=agent is made)
    model = None if plan.scenario.model is None else plan.scenario.model(world)
    deps = None if plan.scenario.deps is None else plan.scenario.deps(world)
    return Stage(plan, world, watched(agent, journal, model, watch), journal, watch, deps)


def _checked(plan: Plan, made: Any) -> Agent[Any, Any]:
    if not isinstance(made, Agent):
        raise UserError(f"{plan.agent!r} gave {made!r}; expected an Agent, or a function of a folder that makes one")
    return made  # pyright: ignore[reportUnknownVariableType]  # of which types is not known until it is made


def _journal_of(agent: Agent[Any, Any], case: Case, *, is_shared: bool) -> Journal:
    """The journal of this case: one that the agent was made with for this world, or a new one."""
    own: Journal | None = agent.service.journal
    if is_shared or own is None:
        return SQLiteJournal(case.folder / "journal.db", sync="normal")
    if isinstance(own, MemoryJournal):
        raise UserError("a MemoryJournal dies with its process, so there is nothing to recover; leave journal= out")
    if isinstance(own, SQLiteJournal) and not own.path.resolve().is_relative_to(case.folder.resolve()):
        raise UserError(
            f"the journal {own.path} lies outside of the scenario's folder; put it in there, or leave it out"
        )
    return own


# ---------------------------------------------------------------- the run itself


def run_once(plan: Plan, case: Case, watch: Watch, started: Callable[[], object]) -> float:
    """Run the scenario; gives how many seconds it took. How it ends is seen afterwards."""
    here = stage(plan, case, watch)
    watch.note("began", "run")
    started()
    begin = time.perf_counter()
    try:
        _run(here)
        watch.note("told", "the run ended with a result")
    except Exception as error:
        watch.note("told", f"the run raised {_spoken(error)}")
    return time.perf_counter() - begin


def _run(here: Stage) -> None:
    scenario = here.plan.scenario
    options: dict[str, Any] = {**scenario.options, "run_id": RUN_ID, "deps": here.deps}
    match scenario.mode:
        case "run":
            here.agent.run(scenario.prompt, **options)
        case "arun":
            asyncio.run(here.agent.arun(scenario.prompt, **options))
        case "stream":
            with here.agent.stream(scenario.prompt, **options) as run:
                for _ in run:
                    pass
        case "astream":
            asyncio.run(_astream(here.agent, scenario.prompt, options))


async def _astream(agent: Agent[Any, Any], prompt: Any, options: dict[str, Any]) -> None:
    async with agent.astream(prompt, **options) as run:
        async for _ in run:
            pass


# ---------------------------------------------------------------- recovery


def settle(plan: Plan, case: Case, watch: Watch, started: Callable[[], object]) -> Facts:
    """Recover until nothing is unfinished, then tell what is there."""
    here = stage(plan, case, watch)
    watch.note("began", "recovery")
    _note_what_is_there(here)
    started()
    failures: list[str] = []
    asked: set[str] = set()
    unfinished: list[str] = []
    for _ in range(_ATTEMPTS):
        failures = [problem for outcome in _recovered(here) for problem in _told(here, outcome)]
        _answer(here, asked)
        unfinished = [row.run_id for row in here.journal.rows(UNFINISHED)]
        if not unfinished:
            break
    else:
        failures.append(f"after {_ATTEMPTS} recoveries these runs are still unfinished: {', '.join(unfinished)}")
    while True:  # a body that ends late may record that while we look: then what we saw does not fit together
        before = _count(here)
        facts = _facts(here, case, failures)
        if facts.ended == WAITS or _count(here) == before:  # asking a run that waits is recorded as well
            return facts


def _count(here: Stage) -> int:
    row = here.journal.row(RUN_ID)
    return 0 if row is None else row.count


def _note_what_is_there(here: Stage) -> None:
    # A record that somebody was told of must still be there; one that nobody was told of counts from now on as well.
    with contextlib.suppress(JournalError):  # recovery will come across that, too
        if here.journal.row(RUN_ID) is not None:
            for record in here.journal.records(RUN_ID):
                key = _intent(record).key if record.kind == INTENT else ""
                here.watch.note("found", record.kind, step=record.step, key=key)
        here.watch.note("looked")


def _recovered(here: Stage) -> list[Recovered]:
    if here.plan.scenario.mode in ("arun", "astream"):
        return asyncio.run(here.agent.arecover(deps=here.deps))
    return here.agent.recover(deps=here.deps)


def _told(here: Stage, outcome: Recovered) -> Iterator[str]:
    if outcome.result is not None:
        here.watch.note("told", f"recovery gave {outcome.result!r}, {outcome.undone!r}")
        return
    error = outcome.error
    assert error is not None
    here.watch.note("told", f"recovery ended with {_spoken(error)}, {report_of(error)!r}")
    if isinstance(error, JournalError) or report_of(error) is None:
        yield f"recovery failed with {_spoken(error)}"


def _answer(here: Stage, asked: set[str]) -> None:
    answer = here.plan.scenario.answer
    for unknown in here.agent.unknowns() if answer is not None else ():
        if unknown.key not in asked and answer is not None:
            asked.add(unknown.key)
            said = answer(here.world, unknown)
            here.watch.note("told", f"somebody says of {unknown.key}: {said!r}")
            here.agent.resolve(unknown.key, said)


# ---------------------------------------------------------------- what is there afterwards


def _facts(here: Stage, case: Case, failures: Sequence[str]) -> Facts:
    scenario = here.plan.scenario
    failures = list(failures)
    ended, report = NOTHING, None
    records = here.journal.records(RUN_ID) if here.journal.row(RUN_ID) is not None else []
    if records and not failures:
        ended, report, problems = _told_again(here)
        failures += problems
    keys: dict[str, str] = {record.step: _intent(record).key for record in records if record.kind == INTENT}
    tools = _tools(here)
    calls = [] if report is None else [each for each in report.executions if not _is_agent(tools, each)]
    memory = None if scenario.memory is None else tuple(scenario.memory(here.world))
    return Facts(
        ended,
        tuple((record.kind, record.step) for record in records),
        tuple(_call(here, each, keys) for each in calls),
        frozenset(unknown.key for unknown in here.agent.unknowns() if unknown.run_id == RUN_ID),
        _effects(here),
        tuple(notes_of(case.folder / "diary")),
        frozenset(name for name, tool in tools.items() if tool.repeat != "safe"),
        memory,
        tuple(failures),
    )


def _effects(here: Stage) -> tuple[Effect, ...]:
    told: Any = here.plan.scenario.effects(here.world)
    effects: list[Any] = [*told] if isinstance(told, Iterable) else [told]
    for effect in effects:
        if not isinstance(effect, Effect):
            raise UserError(
                f"Scenario.effects gave {effect!r}; expected an iterable of Effect(key), one for each thing that "
                "happened outside"
            )
    return tuple(effects)


def _intent(record: Record) -> Intent:
    return from_json(record.body, Intent)


def _told_again(here: Stage) -> tuple[str, UndoReport | None, list[str]]:
    """What the run came to, and its report, as whoever asks for it now gets them."""
    report: UndoReport | None
    before = len(here.journal.records(RUN_ID))
    try:
        if here.plan.scenario.mode in ("arun", "astream"):
            result = asyncio.run(here.agent.aresume(RUN_ID, deps=here.deps))
        else:
            result = here.agent.resume(RUN_ID, deps=here.deps)
        ended, report = WAITS if result.pending else SUCCEEDED, result.undone
    except Exception as error:
        ended, report = GIVEN_UP, report_of(error)
        if isinstance(error, JournalError) or report is None:
            return ended, report, [f"telling the run again failed with {_spoken(error)}"]
    here.watch.note("told", f"asked again: the run {ended}, {report!r}")
    added = len(here.journal.records(RUN_ID)) - before
    if added and ended != WAITS:
        return ended, report, [f"the run was over, and telling it again wrote {added} more records"]
    return ended, report, []


def _call(here: Stage, execution: ToolExecution[Any], keys: dict[str, str]) -> CallFact:
    settings = here.agent.service.settings
    tool = _tools(here).get(execution.call.name)
    undo = "" if execution.undo is None else "undone" if execution.undo.is_undone else "failed to undo"
    must_be_undone = tool is not None and tool.undo is not None and settings.undo is not UndoPolicy.OFF
    key = keys.get(execution.key, f"{RUN_ID}:{execution.key}")
    return CallFact(execution.key, execution.call.name, key, execution.outcome.value, undo, must_be_undone)


def _is_agent(tools: Mapping[str, Tool], execution: ToolExecution[Any]) -> bool:
    """Whether an agent was called, which is accounted for by its own calls."""
    tool = tools.get(execution.call.name)
    return tool is not None and tool.nested is not None


def _tools(here: Stage) -> dict[str, Tool]:
    """The tools of the agent and of agents among them, and what its providers gave when the run was told again."""
    return {**tools_of(here.agent), **here.watch.provided}


def _spoken(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
