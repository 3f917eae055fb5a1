"""Random scripts: what a model asks for, how the tools behave, and what befalls the run."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Asked:
    """One call of a reply; ``flaw`` is ``""``, ``unknown`` (no such tool), ``bad`` (arguments) or ``denied``."""

    name: str
    plan: Plan = Plan()
    flaw: str = ""


@dataclass(frozen=True)
class Script:
    """A whole run. ``rounds``: replies with calls; ``end``: what comes after them.

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
    plans: dict[int, Plan] = field(default_factory=dict[int, Plan], compare=False)


def _mostly(usual: object, *others: object, odds: int = 4) -> st.SearchStrategy[object]:
    return st.sampled_from([usual] * odds * max(1, len(others)) + list(others))


ACTS = ("error", "exit", "leave", "cancel", "interrupt", "stop")
FAILURES = (*ACTS, *(f"before:{act}" for act in ACTS))

plans = st.builds(
    Plan,
    acts=st.one_of(
        st.just(("ok",)),
        st.just(("ok",)),
        st.just(("ok",)),
        st.just(("tool_error",)),
        st.lists(st.sampled_from(("ok", "tool_error", "error", "before:error")), min_size=2, max_size=2).map(tuple),
        st.sampled_from(FAILURES).map(lambda act: (act,)),
    ),
    pauses=st.integers(0, 3),
    probe=st.sampled_from(("unknown", "unknown", "tells", "raises")),
    undo=_mostly("ok", *ACTS, odds=2),
)


@st.composite
def asked_calls(draw: st.DrawFn, may_be_stuck: bool) -> Asked:
    """One call."""
    plan = draw(plans)
    kind = draw(st.integers(0, 19))
    if kind == 19:
        timed = Plan(("ok",), plan.pauses, "timeout", plan.probe, plan.undo)
        return Asked(draw(st.sampled_from(TIMED)), timed)
    if kind == 18 and may_be_stuck:
        stuck = Plan(("ok",), plan.pauses, "stuck", "unknown", plan.undo)
        return Asked(draw(st.sampled_from([name for name in NAMES if not name.startswith("inline")])), stuck)
    flaw = draw(_mostly("", "unknown", "bad", "denied"))
    return Asked(draw(st.sampled_from((*NAMES, *TIMED, ALONE))), plan, str(flaw))


@st.composite
def scripts(draw: st.DrawFn, mode: str) -> Script:
    """A run for this mode."""
    is_async = mode in ("arun", "astream")
    rounds = draw(
        st.lists(st.lists(asked_calls(is_async), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(tuple)
    )
    streams = mode in ("stream", "astream")
    ending = draw(st.sampled_from(("none", "none", "token", "cuts" if is_async else "token", "leave")))
    number = st.integers(0, len(rounds))
    return Script(
        rounds,
        end=draw(st.sampled_from(("say", "say", "say", "error", "interrupt"))),
        parallel=draw(st.booleans()),
        policy=draw(st.sampled_from((UndoPolicy.ON_GIVE_UP, UndoPolicy.ON_GIVE_UP, UndoPolicy.ON_TOOL_ERROR))),
        early_start=draw(st.sampled_from(("safe", "all", "off"))),
        memory=draw(st.sampled_from(("none", "window", "blocking", "awaitable"))),
        buffer=draw(st.sampled_from((1, 2, 64))),
        calls=draw(_mostly(None, 2, 4)),  # type: ignore[arg-type]
        cut_off=draw(st.one_of(st.none(), st.none(), number)),
        breaks_at=draw(st.one_of(st.none(), st.none(), st.tuples(number, st.integers(0, 3)))) if streams else None,
        withheld=draw(_mostly(False, True)) is True,
        cuts=tuple(draw(st.lists(st.integers(0, 25), min_size=1, max_size=3))) if ending == "cuts" else (),
        leaves_at=draw(st.integers(0, 30)) if ending == "leave" and streams else None,
        token_at=draw(st.integers(1, 12)) if ending == "token" else None,
        hook_fails=draw(st.sampled_from(((None, None),) * 6 + ((1, None), (3, None), (None, 1), (None, 3)))),
    )
