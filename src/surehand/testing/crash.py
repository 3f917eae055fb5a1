"""Does an agent come back from every crash? Kill it, everywhere, and look."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..agent import Agent
from ..errors import UserError
from ._crash_world import Case, Effect, Kill, Learned, Plan, Scenario, Verdict

__all__ = ["CrashReport", "CrashTestFailed", "Effect", "Scenario", "crash_test"]


class CrashTestFailed(AssertionError):
    """A crash was not survived. Its text tells the story: where which process died, what was done, what is wrong."""


class CrashReport(Struct, frozen=True):
    """A scenario that survives its crashes.

    ``points``: where processes were killed on purpose, each by its name. ``cases``: runs that were made, the
    undisturbed one included; ``killed``: processes that died. ``seconds``: of all together.
    """

    name: str
    points: tuple[str, ...]
    cases: int
    killed: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.name}: survived {self.killed} kills in {self.cases} cases, at {len(self.points)} crash points and "
            f"at random moments, in {self.seconds:.1f} s ({self.seconds / self.cases:.3f} s each)"
        )


def crash_test(
    agent: str | Callable[[Path], Agent[Any, Any]],
    scenario: Scenario,
    *,
    kills: int = 20,
    seed: int = 0,
    only: str | None = None,
    timeout: float = 30.0,
) -> CrashReport:
    """Run the scenario once, then kill it at every crash point and ``kills`` times at random moments, and recover it.

    ``agent`` is ``"module:name"``: an ``Agent``, or a function that makes one for the scenario's folder (or that
    function itself), for agents whose tools or memory live there. An agent that is given as itself gets another
    journal for each case, and its own stays untouched; one that is made may bring a journal that lies in the folder.

    The first, undisturbed run teaches where to kill: before and after each record of the journal, each body, each
    undo, each request to the model and each change of the memory. Each case has a folder, a process that dies there,
    and other processes that recover until nothing is unfinished; in a third of the cases the first of these is killed
    as well. Then must be true: every effect happened once; what was given up was undone once; what was recorded was
    not done or paid for again; the conversation is whole; and what the report says of every call is what is found
    outside. A call of which nobody can know whether it happened must be in ``agent.unknowns()``.

    Raises ``CrashTestFailed`` with the story of the first case that goes wrong; ``only`` plays just the crash points
    whose names begin so, ``seed`` chooses the random moments, ``timeout`` is for each process. Processes are forked,
    so this needs Linux or macOS; functions of the scenario have to stand at the top of a module::

        def bookings(folder: Path) -> list[Effect]:
            return [Effect(line) for line in (folder / "bookings").read_text().split()]

        def test_my_agent_survives_every_crash() -> None:
            crash_test("trips:make_agent", Scenario(prompt="To Lisbon", model=make_model, effects=bookings))
    """
    if sys.platform == "win32":
        raise UserError("crash_test() forks processes, which Windows cannot; run it on Linux or macOS, or in WSL")
    plan = _plan(agent, scenario, timeout)
    name = scenario.name or f"{_spoken(agent)} ({scenario.mode})"
    root, begin = Path(tempfile.mkdtemp(prefix="surehand-crash-")), time.perf_counter()
    try:
        with _server(plan) as ask:
            first = _judged(ask, Case(0, root / "case-0"), name, "undisturbed")
            points = _points(first.learned.moments, only)
            chosen = _cases(root, points, 0 if only else kills, random.Random(seed), first.learned)
            killed = sum(_judged(ask, case, name, what).killed for case, what in chosen)
    except CrashTestFailed:
        raise  # what the case left is kept, for whoever reads the story
    except BaseException:
        shutil.rmtree(root)
        raise
    shutil.rmtree(root)
    return CrashReport(name, tuple(points), 1 + len(chosen), killed, time.perf_counter() - begin)


def _judged(ask: Callable[[Case], Verdict], case: Case, name: str, what: str) -> Verdict:
    verdict = ask(case)
    if verdict.is_broken and case.number == 0:
        raise UserError(f"crash test of {name}: {verdict.story}")
    if verdict.problems:
        raise CrashTestFailed(f"crash test of {name}, case {case.number}, {what}:\n\n{verdict.story}")
    shutil.rmtree(case.folder)
    return verdict


# ---------------------------------------------------------------- which cases


def _points(moments: Sequence[str], only: str | None) -> list[str]:
    """The moments that differ: nothing happens between one that follows something and the next that precedes."""
    pairs = list(zip(["", *moments], moments, strict=False))
    points = [now for last, now in pairs if not (last.startswith("after ") and now.startswith("before "))]
    chosen = [point for point in points if only is None or point.startswith(only)]
    if not chosen:
        raise UserError(
            f"crash_test(only={only!r}): no crash point begins so; there are {', '.join(map(repr, points))}"
        )
    return chosen


def _cases(
    root: Path, points: Sequence[str], kills: int, chance: random.Random, learned: Learned
) -> list[tuple[Case, str]]:
    first = [(Kill(moment=point), f"killed {point}") for point in points]
    for _ in range(kills):
        after = chance.uniform(0.0, learned.seconds)
        first.append((Kill(after=after), f"killed at random, {after * 1000:.1f} ms after its start"))
    known = replace(learned, moments=())
    cases: list[tuple[Case, str]] = []
    for number, (kill, what) in enumerate(first, 1):
        # The moments of a recovery are not known beforehand; a number too high kills nothing, which is a case as well.
        again = (Kill(nth=chance.randint(1, 8)),) if number % 3 == 0 else ()
        cases.append((Case(number, root / f"case-{number}", (kill, *again), known), what))
    return cases


# ---------------------------------------------------------------- the other process


def _plan(agent: Any, scenario: Any, timeout: float) -> bytes:
    if isinstance(agent, Agent):
        raise UserError(
            "crash_test(): the agent is used in other processes; name it as 'module:name', or give what makes it"
        )
    if not isinstance(scenario, Scenario):
        raise UserError(f"crash_test(…, {scenario!r}): expected a Scenario")
    try:
        return pickle.dumps(Plan(agent, scenario, timeout))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"crash_test(): its functions are called in other processes, so they have to stand at the top of a module: "
            f"{error}"
        ) from error


def _spoken(agent: Any) -> str:
    return agent if isinstance(agent, str) else f"{agent.__module__}:{agent.__qualname__}"


@contextmanager
def _server(plan: bytes) -> Generator[Callable[[Case], Verdict]]:
    """A process that plays cases; it is gone afterwards."""
    from ._crash_server import serve  # loads what no other test needs

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, plan), name="surehand-crash-test")
    process.start()
    theirs.close()

    def ask(case: Case) -> Verdict:
        ours.send(case)
        verdict: Verdict = _heard(ours)
        return verdict

    try:
        broken: Verdict | None = _heard(ours)
        if broken is not None:
            raise UserError(f"crash_test(): {broken.story}")
        yield ask
    finally:
        ours.close()
        if process.is_alive() and process.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has forked
            process.kill()  # if it had no group of its own yet
        process.join()
        process.close()


def _heard(connection: Connection[Any, Any]) -> Any:
    try:
        return connection.recv()
    except EOFError:
        raise UserError("crash_test(): the process that plays the cases has died; its own error stands above") from None
