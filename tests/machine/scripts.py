"""Random scripts: what a model asks for, how the tools behave, and what befalls the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from surehand import UndoPolicy

from .world import Plan

MODES = ("run", "stream", "arun", "astream")
NAMES = tuple(
    f"{colour}_{repeat}_{undo}"
    for colour in ("sync", "async", "inline")
    for repeat in ("safe", "with_key", "never")
    for undo in ("undo", "plain")
)
TIMED = ("sync_never_undo_timed", "async_with_key_undo_timed", "sync_safe_undo_timed")
ALONE = "async_never_undo_alone"
AGENTS = ("agent", "inmost")  # each has the next one among its tools
ANSWER = "final_answer"
NO_TOOLS = (*AGENTS, ANSWER)


@dataclass(frozen=True)
class Asked:
    """One call of a reply; ``flaw`` is ``""``, ``unknown`` (no such tool), ``bad`` (arguments) or ``denied``.

    ``inner``: the rounds of the agent that it asks, if it asks one; ``end`` is what comes after them.
    """

    name: str
    plan: Plan
    flaw: str = ""
    inner: tuple[tuple[Asked, ...], ...] = ()
    end: str = "say"

    @property
    def asks_agent(self) -> bool:
        """Whether it is a call of an agent."""
        return self.name in AGENTS


@dataclass(frozen=True)
class Answer:
    """An answer of a type, which fits or does not; ``beside``: calls in the same reply, if it is a call itself."""

    fits: bool
    beside: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class Script:
    """A whole run. ``rounds``: replies with calls; ``end``: what comes after them.

    ``output``: how answers of a type are given, empty for any text; ``answers`` are those that come before the end.

    ``cuts``: how many turns of the event loop pass before each cancellation of an awaitable run. ``leaves_at``: the
    index of the event at which the consumer of a stream goes. ``token_at``: the step of the world at which the
    token is cancelled. ``hook_fails``: at which before- and after-hook an error is raised.
    """

    rounds: tuple[tuple[Asked, ...], ...]
    end: str = "say"
    parallel: bool = False
    policy: UndoPolicy = UndoPolicy.ON_GIVE_UP
    early_start: str = "safe"
    memory: str = "none"
    buffer: int = 64
    calls: int | None = None
    cut_off: int | None = None
    breaks_at: tuple[int, int] | None = None
    withheld: bool = False
    cuts: tuple[int, ...] = ()
    leaves_at: int | None = None
    token_at: int | None = None
    hook_fails: tuple[int | None, int | None] = (None, None)
    output: str = ""
    answers: tuple[Answer, ...] = ()


def numbered(script: Script) -> Iterator[tuple[int, Asked, int]]:
    """Every call of the script with its number and that of the round which it belongs to, agents' own included.

    Answers that are calls have numbers too.
    """
    rounds = (*script.rounds, *(answer.beside for answer in script.answers))
    n = 0
    for number, round_ in enumerate(rounds):
        for one in _with_inner(round_):
            n += 1
            yield n, one, number


def _with_inner(round_: tuple[Asked, ...]) -> Iterator[Asked]:
    for one in round_:
        yield one
        for inner in one.inner:
            yield from _with_inner(inner)


ACTS = ("error", "exit", "leave", "cancel", "interrupt", "stop")
FAILURES = (*ACTS, *(f"before:{act}" for act in ACTS))
FALTERING = (("error", "ok"), ("error", "tool_error"), ("before:error", "ok"), ("tool_error",), ("error", "error"))


def _happens(draw: st.DrawFn, percent: int) -> bool:
    # What is rare lies at the upper end, so that smaller examples are plainer ones.
    return draw(st.integers(0, 99)) >= 100 - percent


@st.composite
def plans(draw: st.DrawFn, fails: int) -> Plan:
    """A body that mostly does what it should; ``fails`` is how often, in per cent, it ends with an exception."""
    acts: tuple[str, ...] = ("ok",)
    if _happens(draw, 15):
        acts = draw(st.sampled_from(FALTERING))
    if _happens(draw, fails):
        acts = (draw(st.sampled_from(FAILURES)),)
    return Plan(
        acts,
        pauses=draw(st.integers(0, 3)),
        probe=draw(st.sampled_from(("unknown", "unknown", "tells", "raises"))),
        undo=draw(st.sampled_from(ACTS)) if _happens(draw, 15) else "ok",
    )


@st.composite
def asked_calls(draw: st.DrawFn, may_be_stuck: bool, late: int, fails: int) -> Asked:
    """One call; ``late`` is how often, in per cent, its body outlives its timeout."""
    plan = draw(plans(fails))
    if _happens(draw, late):
        timed = Plan(("ok",), plan.pauses, "timeout", plan.probe, plan.undo)
        return Asked(draw(st.sampled_from(TIMED)), timed)
    if may_be_stuck and _happens(draw, 3):
        stuck = Plan(("ok",), plan.pauses, "stuck", "unknown", plan.undo)
        return Asked(draw(st.sampled_from([name for name in NAMES if not name.startswith("inline")])), stuck)
    flaw = draw(st.sampled_from(("unknown", "bad", "denied"))) if _happens(draw, 12) else ""
    names = [name for name in NAMES if name.endswith("undo")] if _happens(draw, 50) else (*NAMES, *TIMED, ALONE)
    return Asked(draw(st.sampled_from(names)), plan, flaw)


@st.composite
def asked_agents(draw: st.DrawFn, depth: int, fails: int) -> Asked:
    """A call of an agent, which makes calls of its own."""
    calls = asked_calls(False, 4, fails)
    if depth + 1 < len(AGENTS):
        calls = st.one_of(calls, calls, asked_agents(depth + 1, fails))
    inner = draw(st.lists(st.lists(calls, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple))
    return Asked(AGENTS[depth], Plan(), inner=inner, end="error" if _happens(draw, 20) else "say")


@st.composite
def _answers(draw: st.DrawFn, asked: st.SearchStrategy[Asked], output: str) -> tuple[Answer, ...]:
    """Up to three answers that do not fit, then mostly one that does."""
    fit = (*(False for _ in range(draw(st.integers(0, 3)))), *((True,) if _happens(draw, 80) else ()))
    beside = st.lists(asked, max_size=2).map(tuple) if output == "tool" and _happens(draw, 60) else st.just(())
    return tuple(Answer(fits, draw(beside)) for fits in fit)


@st.composite
def scripts(draw: st.DrawFn, mode: str, focus: str = "") -> Script:
    """A run for this mode; ``focus``: more ``cancelled`` (side by side), ``late``, … ones."""
    is_async, streams = mode in ("arun", "astream"), mode in ("stream", "astream")
    fails = 40 if focus == "failing" else 8
    asked = asked_calls(is_async, 40 if focus == "late" else 4, fails)
    if focus == "nested":
        asked = st.one_of(asked, asked_agents(0, fails))
    reply = st.lists(asked, min_size=1, max_size=4).map(tuple)
    output = draw(st.sampled_from(("text", "schema", "tool"))) if focus == "output" else ""
    rounds = draw(st.lists(reply, min_size=1, max_size=3).map(tuple))
    ending = draw(st.sampled_from(("none", "none", "token", "cuts" if is_async else "none", "leave")))
    if focus == "cancelled":
        ending = "token"
    number = st.integers(0, len(rounds) - 1)
    return Script(
        rounds,
        end=draw(st.sampled_from(("say", "error", "interrupt") if _happens(draw, 60) else ("say",))),
        parallel=draw(st.booleans()) or focus == "cancelled",
        policy=UndoPolicy.ON_TOOL_ERROR if _happens(draw, 25) else UndoPolicy.ON_GIVE_UP,
        early_start=draw(st.sampled_from(("safe", "all", "off"))),
        memory=draw(st.sampled_from(("none", "window", "blocking", "awaitable"))),
        buffer=draw(st.sampled_from((1, 2, 64))),
        calls=draw(st.integers(1, 6)) if _happens(draw, 12) else None,
        cut_off=draw(number) if _happens(draw, 12) else None,
        breaks_at=(draw(number), draw(st.integers(0, 3))) if streams and _happens(draw, 15) else None,
        withheld=_happens(draw, 12),
        cuts=tuple(draw(st.lists(st.integers(0, 30), min_size=1, max_size=3))) if ending == "cuts" else (),
        leaves_at=draw(st.integers(0, 40)) if ending == "leave" and streams else None,
        token_at=draw(st.integers(2, 16)) if ending == "token" else None,
        hook_fails=(draw(st.integers(1, 6)), draw(st.integers(1, 6))) if _happens(draw, 10) else (None, None),
        output=output,
        answers=draw(_answers(asked, output)) if output else (),
    )
