"""Which calls of a round run at the same time, and that the order of results does not depend on it (spec 8)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from surehand import AssistantMessage, Outcome, Tool, tool
from surehand._books import Round
from surehand._schedule import Schedule
from surehand.testing import ScriptedModel, call, say
from surehand.tools._collect import collect_tools

from .modes import SIDE_BY_SIDE, WAYS, Mode, ask, scripted


class Gauge:
    """How many bodies are inside at once: now, and at most; and what went on while something else ran."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside: list[str] = []
        self.most = 0
        self.met: set[frozenset[str]] = set()
        self.order: list[str] = []

    def enter(self, name: str) -> None:
        with self._lock:
            self.inside.append(name)
            self.order.append(name)
            self.most = max(self.most, len(self.inside))
            self.met |= {frozenset((name, other)) for other in self.inside if other != name}

    def leave(self, name: str) -> None:
        with self._lock:
            self.inside.remove(name)


def gauged(
    gauge: Gauge, name: str, is_async: bool = False, meet: Callable[[], Any] = lambda: None, **options: Any
) -> Any:
    """A tool that passes the gauge; ``meet`` is called inside, and awaited in an awaitable body."""

    async def body_async() -> str:
        gauge.enter(name)
        await asyncio.sleep(0.002)
        gauge.leave(name)
        return name

    def body() -> str:
        gauge.enter(name)
        meet()
        gauge.leave(name)
        return name

    return tool(name=name, **options)(body_async if is_async else body)


def linger() -> None:
    """Stay inside for a moment, so that whoever may come in does."""
    threading.Event().wait(0.002)


NAMES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("is_async", [False, True])
def test_in_sequence_calls_run_one_after_another_in_request_order(sequential: Mode, is_async: bool) -> None:
    gauge = Gauge()
    tools = [gauged(gauge, name, is_async) for name in NAMES]
    ended = sequential.play(ask(*map(call, NAMES)), say("Ok"), tools=tools)
    assert (gauge.most, gauge.order) == (1, NAMES)
    assert [execution.value for execution in ended.executions] == NAMES


def test_side_by_side_blocking_calls_are_inside_at_the_same_time(concurrent: Mode) -> None:
    gauge, barrier = Gauge(), threading.Barrier(4, timeout=5)
    tools = [gauged(gauge, name, meet=barrier.wait) for name in NAMES]
    ended = concurrent.play(ask(*map(call, NAMES)), say("Ok"), tools=tools)
    assert gauge.most == 4
    assert [execution.value for execution in ended.executions] == NAMES


def test_side_by_side_awaitable_calls_are_inside_at_the_same_time(concurrent: Mode) -> None:
    inside: list[str] = []

    def meeting(name: str) -> Any:
        @tool(name=name)
        async def meet() -> str:
            inside.append(name)
            while len(inside) < 3:
                await asyncio.sleep(0)
            return name

        return meet

    ended = concurrent.play(ask(*map(call, "abc")), say("Ok"), tools=[meeting(name) for name in "abc"])
    assert sorted(inside) == ["a", "b", "c"]
    assert [execution.value for execution in ended.executions] == ["a", "b", "c"]


@pytest.mark.parametrize("way", WAYS)
def test_the_default_is_one_after_another_in_blocking_modes_and_at_once_in_awaitable_ones(way: str) -> None:
    gauge, mode = Gauge(), Mode(way, False)
    barrier = threading.Barrier(2, timeout=5)
    meet: Callable[[], Any] = barrier.wait if mode.is_async else lambda: None
    tools = [gauged(gauge, name, meet=meet) for name in "ab"]
    mode.drive(scripted(ScriptedModel([ask(call("a"), call("b")), say("Ok")]), tools=tools), parallel=None)
    assert gauge.most == (2 if mode.is_async else 1)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_number_bounds_how_many_calls_run_at_once(mode: Mode, width: int, is_async: bool) -> None:
    gauge, barrier = Gauge(), threading.Barrier(width, timeout=5)
    tools = [gauged(gauge, "do", is_async, meet=barrier.wait)]
    ended = mode.play(ask(*[call("do")] * (2 * width)), say("Ok"), tools=tools, run={"parallel": width})
    assert gauge.most <= width if is_async else gauge.most == width
    assert len(ended.executions) == 2 * width


def test_the_number_may_stand_on_the_agent_and_the_run_overrides_it() -> None:
    for way in WAYS:
        gauge = Gauge()
        agent = scripted(ScriptedModel([ask(*[call("do")] * 4), say("Ok")]),
                         tools=[gauged(gauge, "do", meet=linger)], parallel=2)  # fmt: skip
        Mode(way, False).drive(agent, parallel=1)
        assert gauge.most == 1, way


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("position", [0, 1, 3])
@pytest.mark.parametrize("repeat", ["safe", "never"])
def test_an_exclusive_call_never_overlaps_another(concurrent: Mode, position: int, is_async: bool, repeat: Any) -> None:
    gauge = Gauge()
    tools = [gauged(gauge, name, is_async, linger, repeat=repeat) for name in "abc"]
    tools.append(gauged(gauge, "only", is_async, linger, exclusive=True, repeat=repeat))
    names = ["a", "b", "c"]
    names.insert(position, "only")
    ended = concurrent.play(ask(*map(call, names)), say("Ok"), tools=tools)
    assert not any("only" in pair for pair in gauge.met)
    assert [execution.value for execution in ended.executions] == names


@pytest.mark.parametrize("is_async", [False, True])
def test_max_parallel_bounds_one_tool_and_not_the_others(concurrent: Mode, is_async: bool) -> None:
    gauge, other = Gauge(), Gauge()
    tools = [
        gauged(gauge, "few", is_async, linger, max_parallel=1),
        gauged(other, "many", is_async, linger),
    ]
    asked = [call("few"), call("many"), call("few"), call("many"), call("few")]
    ended = concurrent.play(ask(*asked), say("Ok"), tools=tools)
    assert gauge.most == 1
    assert [execution.value for execution in ended.executions] == [c.name for c in asked]


class Counted(dict[str, Tool]):
    """Tools that count how often one is looked up."""

    looks = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)


def test_a_call_that_waits_for_its_tool_is_not_looked_at_again_whenever_another_ends() -> None:
    (bounded,) = collect_tools([gauged(Gauge(), "a", max_parallel=8)])
    round_, tools = Round(1), Counted(a=bounded)
    round_.receive(AssistantMessage(None, (call("a"),) * 1000))
    schedule = Schedule(round_, tools, None)
    schedule.admit(round_.pending)
    handed_out: list[int] = []
    running = schedule.next_slots()
    while running:
        assert len(running) <= 8
        handed_out += running[:1]
        schedule.settled(running[0])
        running = running[1:] + schedule.next_slots()
    assert handed_out == list(range(1000))
    assert tools.looks <= 2 * 1000


def test_side_by_side_a_call_that_gives_up_lets_running_ones_finish_and_starts_no_other() -> None:
    for mode in SIDE_BY_SIDE:
        entered, log = threading.Barrier(2, timeout=5), []

        @tool
        def breaks(barrier: str = "") -> None:
            entered.wait()  # noqa: B023
            raise ValueError("x")

        @tool
        def runs() -> str:
            entered.wait()  # noqa: B023
            linger()
            log.append("finished")  # noqa: B023
            return "done"

        @tool
        def waits() -> None:
            log.append("started")  # noqa: B023

        ended = mode.play(
            ask(call("breaks"), call("runs"), call("waits")), tools=[breaks, runs, waits], run={"parallel": 2}
        )
        assert type(ended.error) is ValueError, mode
        outcomes = [execution.outcome for execution in ended.executions]
        assert outcomes == [Outcome.UNKNOWN, Outcome.DONE, Outcome.NOT_RUN], mode
        assert log == ["finished"]


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("WHO", default="nobody")


@pytest.mark.parametrize("is_async", [False, True])
def test_context_variables_reach_every_body(mode: Mode, is_async: bool) -> None:
    seen: list[str] = []

    @tool(name="look")
    def look() -> None:
        seen.append(WHO.get())

    @tool(name="look")
    async def look_async() -> None:
        seen.append(WHO.get())

    token = WHO.set("ann")
    try:
        mode.play(ask(call("look"), call("look")), say("Ok"), tools=[look_async if is_async else look])
    finally:
        WHO.reset(token)
    assert seen == ["ann", "ann"]


def test_a_blocking_body_leaves_the_event_loop_and_an_inline_one_stays() -> None:
    threads: dict[str, Any] = {}

    @tool
    def blocking() -> None:
        threads["blocking"] = threading.current_thread()

    @tool(inline=True)
    def inline() -> None:
        threads["inline"] = threading.current_thread()

    for way in ("arun", "astream"):
        for parallel in (False, True):
            threads.clear()
            Mode(way, parallel).play(ask(call("blocking"), call("inline")), say("Ok"), tools=[blocking, inline])
            assert threads["inline"] is threading.main_thread()
            assert threads["blocking"] is not threading.main_thread() and threads["blocking"].daemon


def test_in_sequence_a_blocking_mode_runs_bodies_on_the_callers_thread() -> None:
    threads: list[Any] = []

    @tool
    def look() -> None:
        threads.append(threading.current_thread())

    for way in ("run", "stream"):
        Mode(way, False).play(ask(call("look"), call("look")), say("Ok"), tools=[look])
    assert set(threads) == {threading.main_thread()}
