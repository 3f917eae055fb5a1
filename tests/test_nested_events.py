"""Events of agents that are called as tools: one stream, in order, none lost, however slow its consumer is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from surehand import (
    Agent,
    Event,
    Listeners,
    RunFailed,
    RunFinished,
    RunResult,
    TextDelta,
    ToolContext,
    ToolExecuted,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, say

from .modes import PIECES, Mode, ask, scripted
from .nested import named, to, travel
from .shop import Shop, book

PATIENCE = 20.0  # seconds until a test that hangs says so; nothing ever waits that long

# ---------------------------------------------------------------- path and order


def test_events_of_an_agent_come_in_order_under_the_path_of_the_call_that_it_is(sequential: Mode) -> None:
    inner = travel(ask(book("a")), say("Booked."), tools=[Shop()])
    ended = sequential.play(ask(to()), say("Done"), tools=[inner])
    assert named(ended.events) == [
        "RunStarted", "RequestIssued", "ResponseReceived", "ToolStarted",
        "1.0 RunStarted", "1.0 RequestIssued", "1.0 ResponseReceived", "1.0 ToolStarted", "1.0 ToolFinished",
        "1.0 ToolExecuted", "1.0 RequestIssued", "1.0 ResponseReceived", "1.0 RunFinished",
        "ToolFinished", "ToolExecuted", "RequestIssued", "ResponseReceived", "RunFinished",
    ]  # fmt: skip
    assert {event.run_id for event in ended.events} == {"run-1"}


def test_events_of_an_agent_that_gives_up_come_in_order_under_its_path(sequential: Mode) -> None:
    inner = travel(ask(book("a")), OSError("line is dead"), tools=[Shop()])
    ended = sequential.play(ask(to()), say("Done"), tools=[inner])
    assert named(ended.events)[4:-4] == [
        "1.0 RunStarted", "1.0 RequestIssued", "1.0 ResponseReceived", "1.0 ToolStarted", "1.0 ToolFinished",
        "1.0 ToolExecuted", "1.0 RequestIssued", "1.0 ToolUndone", "1.0 RunFailed", "ToolFinished",
    ]  # fmt: skip


def test_a_deeper_agent_has_a_longer_path(mode: Mode) -> None:
    last = travel(say("c"), name="third")
    second = travel(ask(to("third")), say("b"), name="second", tools=[last])
    ended = mode.play(ask(to("second")), say("Done"), tools=[second])
    assert [e.path for e in ended.of(RunFinished)] == ["1.0/1.0", "1.0", ""]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_text_and_callbacks_of_a_stream_are_those_of_the_outer_run_alone(way: str) -> None:
    def agent() -> Agent[Any, Any]:
        inner = travel(ask(book("a"), text="I book. "), say("In there."), tools=[Shop()])
        return scripted(ScriptedModel([ask(to(), text="I ask. "), say("Out here.")]), tools=[inner])

    heard, tools, done = list[str](), list[str](), list[Any]()

    def told(run: Any) -> Any:
        run.on_text(heard.append).on_before_tool(lambda call: tools.append(call.name))
        return run.on_complete(done.append).ignore_errors().start()

    if way == "stream":
        with agent().stream("Go") as run:
            assert "".join(run.text()) == "I ask. Out here."
        told(agent().stream("Go"))
    else:
        assert "".join(asyncio.run(_texts(agent()))) == "I ask. Out here."
        asyncio.run(_started(agent(), told))
    assert "".join(heard) == "I ask. Out here."
    assert (tools, len(done)) == (["travel"], 1)


async def _texts(agent: Agent[Any, Any]) -> list[str]:
    async with agent.astream("Go") as run:
        return [text async for text in run.text()]


async def _started(agent: Agent[Any, Any], told: Any) -> None:
    await told(agent.astream("Go"))


# ---------------------------------------------------------------- listeners


def test_listeners_of_an_agent_hear_its_own_events_and_those_of_its_caller_hear_both(sequential: Mode) -> None:
    mine, theirs = Recorder(), Recorder()
    inner = travel(ask(book("a")), say("ok"), tools=[Shop()], listeners=[theirs])
    ended = sequential.play(ask(to()), say("Done"), tools=[inner], listeners=[mine])
    assert mine.events == list(ended.events)
    assert [id(event) for event in theirs.events] == [id(event) for event in mine.events if event.path == "1.0"]
    assert len([event for event in theirs.events if not isinstance(event, PIECES)]) == 9


def test_an_agent_whose_listeners_alone_listen_tells_them_everything() -> None:
    theirs = Recorder()
    inner = travel(ask(book("a")), say("ok"), tools=[Shop()], listeners=[theirs])
    scripted(ScriptedModel([ask(to()), say("Done")]), tools=[inner]).run("Go")
    assert [event.path for event in theirs.events] == ["1.0"] * 9


def test_a_listener_that_may_stop_runs_stops_the_run_of_its_agent_and_the_caller_goes_on(mode: Mode) -> None:
    shop = Shop()

    def stop(event: Event) -> None:
        if isinstance(event, ToolExecuted):
            raise PermissionError("stop")

    inner = travel(ask(book("a")), say("never"), tools=[shop], listeners=Listeners(stop, propagate=True))
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert ended.answer.output == "Done"
    assert shop.log == ["book a", "cancel booked a"]
    assert ended.results == [
        ("travel", "The agent behind 'travel' gave up with PermissionError. Nothing that it did stands.", True)
    ]


# ---------------------------------------------------------------- slow consumers


@tool(repeat="safe")
def blocking(ctx: ToolContext[Any]) -> str:
    """Report, on whichever thread."""
    for number in range(5):
        ctx.progress(number)
    return "there"


@tool(repeat="safe")
async def awaitable(ctx: ToolContext[Any]) -> str:
    """Report, on whichever loop."""
    for number in range(5):
        ctx.progress(number)
        await asyncio.sleep(0)
    return "there"


@tool(repeat="safe", timeout=PATIENCE)
def timed(ctx: ToolContext[Any]) -> str:
    """Report, on a thread of its own."""
    for number in range(5):
        ctx.progress(number)
    return "there"


def crowd(**options: Any) -> Agent[Any, Any]:
    """Agents side by side, two deep, each with tools side by side that report more than any buffer holds."""
    looks = [call(name, id=str(n)) for n, name in enumerate(["blocking", "awaitable", "timed"] * 2)]
    tools = [blocking, awaitable, timed]

    def alike(name: str, *more: Any) -> Agent[Any, Any]:
        def reply(request: Any) -> Any:
            is_first = len(request.messages) == 1
            return ask(*looks, *more, text="I look. ") if is_first else say("It is all there.")

        extra = [last] if more else []
        return travel(*[reply] * 40, name=name, tools=[*tools, *extra], parallel=True, **options)

    last: Any = None
    last = alike("last")
    first = alike("first", to("last"), to("last", id="u"))
    script = [ask(to("first"), *looks, to("first", id="u"), text="Go. "), say("Done")]
    return scripted(ScriptedModel(script), tools=[first, *tools], **options)


def said(events: Iterable[Event]) -> Counter[tuple[Any, ...]]:
    """What events tell, whenever they come."""
    return Counter(
        (event.path, type(event).__name__, getattr(event, "key", None), getattr(event, "value", None))
        for event in events
        if not isinstance(event, PIECES)
    )


def in_time(function: Any) -> Any:
    """What it gives; a run that hangs fails here, and its thread is left behind."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(function()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "the run hangs"
    return outcome[0]


@pytest.fixture(scope="module")
def everything() -> Counter[tuple[Any, ...]]:
    """What listeners of a plain run hear."""
    recorder = Recorder()
    in_time(lambda: crowd(listeners=()).run("Go", listeners=[recorder], parallel=True))
    return said(recorder.events)


@pytest.mark.parametrize("buffer", [1, 64])
@pytest.mark.parametrize("outer", [True, False, 2])
@pytest.mark.parametrize("early", ["off", "safe", "all"])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_slow_consumer_gets_every_event_of_agents_side_by_side(
    way: str, early: str, outer: Any, buffer: int, everything: Counter[tuple[Any, ...]]
) -> None:
    agent = crowd(stream_buffer=buffer, early_start=early)
    taken: list[Event] = []

    def blocking_way() -> RunResult[Any]:
        with agent.stream("Go", parallel=outer) as run:
            for event in run:
                taken.append(event)
                if len(taken) % 16 == 0:
                    time.sleep(0.001)
        return run.result

    async def awaitable_way() -> RunResult[Any]:
        async with agent.astream("Go", parallel=outer) as run:
            async for event in run:
                taken.append(event)
                await asyncio.sleep(0.001 if len(taken) % 16 == 0 else 0)
        return run.result

    result = in_time(blocking_way if way == "stream" else lambda: asyncio.run(awaitable_way()))
    assert result.output == "Done"
    assert said(taken) == everything
    of_last = [event.text for event in taken if isinstance(event, TextDelta) and event.path.count("/") == 1]
    assert "".join(sorted(of_last)) == "".join(sorted(["I ", "look. ", "It ", "is ", "all ", "there."] * 4))


@pytest.mark.parametrize("way", ["run", "arun"])
@pytest.mark.parametrize("parallel", [True, False])
def test_listeners_of_plain_runs_hear_every_event_of_agents(
    way: str, parallel: bool, everything: Counter[tuple[Any, ...]]
) -> None:
    recorder, agent = Recorder(), crowd()
    options: Any = {"listeners": [recorder], "parallel": parallel}
    in_time(lambda: agent.run("Go", **options) if way == "run" else asyncio.run(agent.arun("Go", **options)))
    assert said(recorder.events) == everything


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("buffer", [1, 64])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_an_agent_that_gives_up_before_a_slow_consumer_goes_on_to_the_end(
    way: str, buffer: int, parallel: bool
) -> None:
    def agent() -> Agent[Any, Any]:
        looks = [call("blocking", id="x"), call("awaitable", id="y"), call("timed", id="z")]
        inner = travel(
            *[lambda request: ask(*looks) if len(request.messages) == 1 else OSError("no line")] * 8,
            tools=[blocking, awaitable, timed], parallel=True, stream_buffer=buffer,
        )  # fmt: skip
        script = [ask(to(), to(id="u")), ask(to()), say("Done")]
        return scripted(ScriptedModel(script), tools=[inner], stream_buffer=buffer)

    async def awaitable_way() -> list[Event]:
        async with agent().astream("Go", parallel=parallel) as run:
            return [event async for event in run]

    def blocking_way() -> list[Event]:
        with agent().stream("Go", parallel=parallel) as run:
            return list(run)

    heard = Recorder()
    agent().run("Go", listeners=[heard])
    taken = in_time(blocking_way if way == "stream" else lambda: asyncio.run(awaitable_way()))
    assert said(taken) == said(heard.events)
    assert [event.path for event in taken if isinstance(event, RunFailed)].count("2.0") == 1
