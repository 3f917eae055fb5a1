"""Kills a run that has a journal at any record, goes on with what is left, and checks what must hold then.

Nothing really dies here: at the chosen record the world and the journal are copied, in one moment, and that copy is
what a dead process leaves. The original plays on in a world of its own.
"""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import Counter
from collections.abc import Awaitable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from surehand import Absent, Happened, MemoryJournal, Outcome, UndoReport, report_of
from surehand._recorded import recorded
from surehand._records import Draft
from surehand.durable._journal import Claim

from .checks import check_history
from .play import Broken, make_agent, make_memory, play
from .scripts import NO_TOOLS, Script
from .world import World


@dataclass
class Left:
    """What a dead process leaves: the world, the records, and the conversation if that is kept outside."""

    world: World
    journal: MemoryJournal
    memory: Any


class Dying(MemoryJournal):
    """A journal whose process dies at the record with that number: just before it is written, or just after."""

    def __init__(self, world: World, memory: Any, at: int, after: bool, left: MemoryJournal | None = None) -> None:
        super().__init__()
        self._world, self._memory, self._at, self._after = world, memory, at, after
        self._turn = threading.RLock()
        self._count = 0
        self.left: Left | None = None
        if left is not None:
            self._runs = copy.deepcopy(left._runs)

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        """Begin a run."""
        with self._world.lock:
            claim = super().start(run_id, owner, drafts, state=state)
            self._look(at_end=True)
            return claim

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records, in one moment with whatever is copied."""
        with self._world.lock:  # effects happen under it too, so that none slips in between
            self._look(at_end=False)
            written = super().append(claim, drafts, state=state)
            self._look(at_end=True)
            return written

    def _look(self, *, at_end: bool) -> None:
        self._count += at_end
        if self._count + (not at_end) == self._at and at_end == self._after and self.left is None:
            self.left = self.copied()

    def copied(self) -> Left:
        """What would be left if the process died now."""
        with self._world.lock:
            journal = MemoryJournal()
            journal._runs = copy.deepcopy(self._runs)
            return Left(_copied(self._world), journal, copy.deepcopy(getattr(self._memory, "held", None)))


def _copied(world: World) -> World:
    parts = ("plans", "names", "entered", "effects", "undo_tries", "undone", "completed", "keys")
    return World(**{name: copy.deepcopy(getattr(world, name)) for name in parts}, may_wait=False)


@dataclass(frozen=True)
class Crash:
    """Where a process dies: at its record with that number, before it is written or after."""

    at: int
    after: bool


def survive(script: Script, mode: str, first: Crash, again: Sequence[Crash] = (), *, forgets: bool = False) -> None:
    """Play the script, die, resume, die again, …; at the end check that all is accounted for.

    ``forgets``: the conversation dies with the process.
    """
    world, memory = World(), make_memory(script.memory)
    journal = Dying(world, memory, first.at, first.after)
    play(script, mode, world, memory, journal=journal, undo_retries=0)
    left = journal.left or journal.copied()
    if not left.journal.rows():
        return
    # What befell the first process befalls no other: nobody cancels, and no hook fails.
    script = replace(script, hook_fails=(None, None))
    for crash in again:
        left = _resumed(script, mode, left, crash, forgets)[0]
    for _ in range(20):
        left, report, memory = _resumed(script, mode, left, Crash(0, True), forgets)
        if _resolve_all(script, left):
            continue
        if left.journal.rows()[0].state in ("SUCCEEDED", "UNDONE", "STUCK"):
            _check(left, report, memory, crashes=len(again) + 1)
            return
    raise Broken(f"the run never ends: {left.journal.rows()}")


def _resumed(script: Script, mode: str, left: Left, crash: Crash, forgets: bool) -> tuple[Left, UndoReport | None, Any]:
    memory = make_memory(script.memory)
    if left.memory is not None and not forgets:
        memory.held = list(left.memory)
    journal = Dying(left.world, memory, crash.at, crash.after, left.journal)
    (row,) = journal.rows()
    replied = len(recorded(journal.records(row.run_id), row.state).replies)
    agent = make_agent(script, left.world, memory, replied=replied, journal=journal, undo_retries=0)
    try:
        result = _gone_on(agent, mode, row.run_id, left.world)
        report = result.undone
    except BaseException as error:
        report = report_of(error)
        if report is None:
            raise Broken(f"a resumed run ended without a report: {error!r}") from error
    return journal.left or journal.copied(), report, memory


def _gone_on(agent: Any, mode: str, run_id: str, world: World) -> Any:
    match mode:
        case "run":
            return agent.resume(run_id)
        case "arun":
            return asyncio.run(_to_its_end(agent.aresume(run_id), world))
        case "stream":
            with agent.stream("go", run_id=run_id) as run:
                for _ in run:
                    pass
            return run.result
        case _:
            return asyncio.run(_to_its_end(_streamed(agent, run_id), world))


async def _to_its_end(going_on: Awaitable[Any], world: World) -> Any:
    """What it gives; the event loop stays, as a server's does, until bodies that outlive their timeout are seen to."""
    try:
        return await going_on
    finally:
        while world.running:
            await asyncio.sleep(0.001)
        for _ in range(10):  # a body that has returned is heard of on the loop a moment later
            await asyncio.sleep(0.001)


async def _streamed(agent: Any, run_id: str) -> Any:
    async with agent.astream("go", run_id=run_id) as run:
        async for _ in run:
            pass
    return run.result


def _resolve_all(script: Script, left: Left) -> bool:
    """Tell the truth about every call that is unknown; gives whether there was one."""
    agent = make_agent(script, left.world, None, journal=left.journal)
    waiting = [call for call in agent.unknowns() if call.waits]
    for call in waiting:
        n = int("".join(filter(str.isdigit, call.call.arguments)))
        agent.resolve(call.key, Happened(n) if left.world.effects.get(n) else Absent())
    return bool(waiting)


def _check(left: Left, report: UndoReport | None, memory: Any, crashes: int) -> None:
    world = left.world
    assert report is not None
    check_history(report.messages if memory is None else memory.messages())
    numbers = Counter(int("".join(filter(str.isdigit, e.call.arguments))) for e in report.executions)
    _must(all(count == 1 for count in numbers.values()), "a call with two records", numbers)
    _must(set(world.entered) <= set(numbers), "a call that started has no record", world.entered, report)
    tries = Counter(world.undo_tries)
    _must(all(count <= 1 + crashes for count in tries.values()), "undone too often", tries)
    (row,) = left.journal.rows()
    for execution in report.executions:
        n = int("".join(filter(str.isdigit, execution.call.arguments)))
        if world.names[n] in NO_TOOLS:
            continue
        safe, happened = "_safe_" in world.names[n], bool(world.effects.get(n))
        _must(safe or world.effects.get(n, 0) <= 1, "an effect happened twice", execution)
        if execution.outcome is Outcome.DONE:
            _must(happened, "recorded as done, but it did not happen", execution)
        elif execution.outcome is Outcome.FAILED and not safe:
            _must(not happened, "recorded as failed, but it did happen", execution)
        elif execution.outcome in (Outcome.REJECTED, Outcome.DENIED):
            _must(not world.entered[n], "recorded as not entered, but it was", execution)
        elif execution.outcome is Outcome.NOT_RUN:
            _must(safe or not happened, "recorded as not run, but it did happen", execution)
        if execution.undo is not None:
            _must(execution.undo.is_undone == (world.undone[n] >= 1), "the report lies about an undo", execution)
        if row.state in ("UNDONE", "STUCK") and n in world.standing and "_safe_plain" not in world.names[n]:
            _must(execution in report.standing, "an effect stands and nobody is told", execution, report)
            can_undo = "_undo" in execution.call.name and world.plans[n].undo == "ok"
            unknown = execution.outcome is Outcome.UNKNOWN
            _must(not can_undo or unknown, "an effect that can be undone was left standing", execution)
    may_stand = [execution for execution in report.standing if execution.outcome is Outcome.UNKNOWN]
    has_stuck = bool(report.failed_to_undo or may_stand)
    if row.state != "SUCCEEDED":
        _must((row.state == "STUCK") == has_stuck, "the state is not what the report says", row, report)


def _must(condition: object, what: str, *found: object) -> None:
    if not condition:
        raise Broken(f"{what}: {found!r}")
