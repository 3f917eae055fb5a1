"""A tool of an agent that outlives the drain of its caller: unknown, named, and undone when it ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from surehand import (
    Agent,
    CancelToken,
    MessageWindow,
    RunCancelled,
    RunCancelledEvent,
    report_of,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, calls, say

from .nested import to, travel
from .test_exits import (
    PATIENCE,
    Gates,
    Ledger,
    _drain_stream,
    book,
    closed,
    every_async_mode,
    go,
)
from .test_nested_exits import gated, outer_of

# ---------------------------------------------------------------- a tool that outlives the drain


def _eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()


@every_async_mode
@pytest.mark.parametrize("where", ["undo", "undo_in_thread"])
def test_a_cancellation_waits_for_what_an_agent_undoes_also_beyond_the_drain(
    way: str, parallel: bool, where: str
) -> None:
    world, memory = Ledger(), MessageWindow(50)

    async def main() -> BaseException:
        gates = Gates()
        inner = gated(world, gates, where, memory, parallel)
        agent = outer_of(inner, world, call("book", {"what": "c"}), drain_timeout=0.02)
        runs = agent.arun("go", parallel=parallel) if way == "arun" else _drain_stream(agent, parallel=parallel)
        task = asyncio.ensure_future(runs)
        await asyncio.wait_for(gates.reached.wait(), PATIENCE)
        task.cancel()
        await asyncio.wait([task], timeout=0.2)
        assert not task.done()
        gates.let_go()
        with pytest.raises(asyncio.CancelledError) as raised:
            await asyncio.wait_for(task, PATIENCE)
        return raised.value

    error = asyncio.run(main())
    undone = [entry for entry in world.entries if entry[0] == "-" and entry != "-c"]
    assert undone == ["-blocking", "-awaitable", "-a"]
    if way == "arun":
        report = report_of(error)
        assert report is not None
        assert report.standing == ()


def test_in_blocking_modes_too_a_cancellation_waits_for_what_an_agent_undoes_beyond_the_drain() -> None:
    world, token, undoing = Ledger(), CancelToken(), threading.Event()

    def take_back(value: str) -> None:
        undoing.set()
        time.sleep(0.2)
        world.entries.append(f"-{value}")

    @tool(undo=take_back)
    def slow() -> str:
        """Do."""
        world.entries.append("+slow")
        return "slow"

    @tool
    def cancel() -> None:
        """Cancel everything once the agent undoes what it did."""
        assert undoing.wait(PATIENCE)
        token.cancel()

    inner = travel(calls(call("slow")), OSError("line is dead"), tools=[slow])
    script = ScriptedModel([calls(to(), call("cancel")), say("never")])
    agent = Agent(script, tools=[inner, cancel], drain_timeout=0.01)
    with pytest.raises(RunCancelled) as raised:
        agent.run("go", parallel=True, cancel=token)
    assert world.entries == ["+slow", "-slow"]
    report = report_of(raised.value)
    assert report is not None
    assert [e.key for e in report.undone] == ["1.0/1.0"]


@pytest.mark.parametrize("inner_drain", [0.05, 30.0])
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("colour", ["blocking", "awaitable"])
@every_async_mode
def test_a_tool_of_an_agent_that_outlives_the_drain_is_unknown_and_undone_when_it_ends(
    way: str, parallel: bool, colour: str, levels: int, inner_drain: float
) -> None:
    world, memory = Ledger(), MessageWindow(50)

    async def main() -> Any:
        gates = Gates()

        @tool(undo=world.take_back)
        async def awaitable() -> str:
            """Do."""
            await gates.wait()
            world.entries.append("+late")
            return "late"

        @tool(undo=world.take_back)
        def blocking() -> str:
            """Do."""
            gates.wait_in_thread()
            world.entries.append("+late")
            return "late"

        options: Any = {"drain_timeout": inner_drain, "parallel": parallel}
        inner = travel(
            calls(book("b")), calls(call(colour)), say("ok"), tools=[awaitable, blocking, *world.tools()],
            memory=memory, **options,
        )  # fmt: skip
        if levels == 2:
            inner = travel(calls(to("inner")), say("ok"), tools=[inner.as_tool(name="inner")], **options)
        agent = outer_of(inner, world, drain_timeout=0.05)
        stream = None if way == "arun" else agent.astream("go", parallel=parallel)

        async def consume() -> None:
            assert stream is not None
            async with stream as run:
                async for _ in run:
                    pass

        task = asyncio.ensure_future(agent.arun("go", parallel=parallel) if stream is None else consume())
        await asyncio.wait_for(gates.reached.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await asyncio.wait_for(task, PATIENCE)
        report = (lambda: report_of(raised.value)) if stream is None else (lambda: stream.undone)
        first = report()
        assert first is not None
        assert world.entries == ["+a", "+b", "-b", "-a"]
        assert [e.call.name for e in first.unknown] == [colour]
        gates.let_go()
        for _ in range(500):
            await asyncio.sleep(0.002)
            if world.entries[-1] == "-late":
                break
        await asyncio.sleep(0.01)
        last = report()
        assert last is not None
        return last

    report = asyncio.run(main())
    assert world.entries == ["+a", "+b", "-b", "-a", "+late", "-late"]
    assert (report.unknown, report.standing) == ((), ())
    assert closed(memory)[0] == "Tool 'book' had succeeded, but it was undone because the run was cancelled."


@pytest.mark.parametrize("buffer", [1, 64])
@pytest.mark.parametrize("way", ["run", "stream"])
def test_in_blocking_modes_too_a_tool_of_an_agent_that_outlives_the_drain_is_undone_when_it_ends(
    way: str, buffer: int
) -> None:
    world, token, open_, recorder = Ledger(), CancelToken(), threading.Event(), Recorder()

    @tool(undo=world.take_back)
    def late() -> str:
        """Do."""
        token.cancel()
        assert open_.wait(PATIENCE)
        world.entries.append("+late")
        return "late"

    inner = travel(calls(book("b")), calls(call("late")), say("never"), tools=[late, *world.tools()])
    agent = outer_of(
        inner, world, call("book", '{"what": "c"}'), drain_timeout=0.05, stream_buffer=buffer, listeners=[recorder]
    )
    with pytest.raises(RunCancelled) as raised:
        go(way, agent, parallel=True, cancel=token)
    assert sorted(world.entries) == ["+a", "+b", "+c", "-a", "-b", "-c"]
    first = report_of(raised.value)
    assert first is not None
    assert [e.call.name for e in first.unknown] == ["late"]
    open_.set()
    assert _eventually(lambda: world.entries[-1] == "-late")
    last = report_of(raised.value)
    assert last is not None
    assert last.standing == ()
    # The agent comes to its end as well, and does not wait for a consumer that has left.
    assert _eventually(lambda: "2.0" in [event.path for event in recorder.of(RunCancelledEvent)])
