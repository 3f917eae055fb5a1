"""Faults that users reported in systems of this kind: tools side by side, and cancelling."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any

import pytest

from surehand import (
    CancelToken,
    Outcome,
    RunCancelled,
    ToolExecutionError,
    ToolFinished,
    ToolStarted,
    tell_safely,
    tool,
)
from surehand.testing import ScriptedModel, call, say

from .modes import Mode, ask, scripted


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What bodies that outlive their run wait for."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("raised", [asyncio.CancelledError, FutureCancelledError, ValueError])
def test_PAR_02_no_child_outlives_the_run(concurrent: Mode, raised: type[BaseException]) -> None:
    log: list[str] = []

    @tool
    async def a() -> None:
        raise raised

    @tool
    async def b() -> None:
        log.append("started")
        for _ in range(20):
            await asyncio.sleep(0)
        log.append("finished")

    ended = concurrent.play(ask(call("b"), call("a")), tools=[a, b])
    assert ended.error is not None
    assert log == ["started", "finished"]  # when the run has ended, so has everything in it
    assert [e.outcome for e in ended.executions] == [Outcome.DONE, Outcome.UNKNOWN]


@pytest.mark.parametrize("count", [2, 5])
def test_PAR_03_sync_tools_run_side_by_side(concurrent: Mode, count: int) -> None:
    barrier = threading.Barrier(count, timeout=5)  # nobody passes before all are there

    @tool
    def meet() -> int:
        return barrier.wait()

    ended = concurrent.play(ask(*[call("meet")] * count), say("Ok"), tools=[meet])
    assert sorted(e.value for e in ended.executions) == list(range(count))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
def test_PAR_03_a_blocking_tool_leaves_the_event_loop_ticking(streams: bool, parallel: bool) -> None:
    inside, ticked = threading.Event(), threading.Event()

    @tool
    def blocks() -> bool:
        inside.set()
        return ticked.wait(5)  # true only if the loop goes on meanwhile

    async def main() -> Any:
        async def heart() -> None:
            while not inside.is_set():
                await asyncio.sleep(0)
            ticked.set()

        beating = asyncio.create_task(heart())
        agent = scripted(ScriptedModel([ask(call("blocks")), say("Ok")]), tools=[blocks], parallel=parallel)
        if streams:
            async with agent.astream("Go") as run:
                async for _ in run:
                    pass
                result = run.result
        else:
            result = await agent.arun("Go")
        await beating
        return result

    assert asyncio.run(main()).executions[0].value is True


@pytest.mark.parametrize("count", [1, 2, 4])
def test_PAR_04_async_tools_from_the_sync_entry_point(mode: Mode, count: int) -> None:
    @tool
    async def fetch() -> str:
        await asyncio.sleep(0)
        return "fetched"

    ended = mode.play(ask(*[call("fetch")] * count), say("Ok"), tools=[fetch])
    assert [e.value for e in ended.executions] == ["fetched"] * count


TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("TENANT", default="nobody")


@pytest.mark.parametrize("tenant", ["ann", "bob"])
@pytest.mark.parametrize("is_async", [False, True])
def test_PAR_05_context_variables_reach_worker_threads(mode: Mode, tenant: str, is_async: bool) -> None:
    seen: list[tuple[str, str]] = []

    @tool(name="look")
    def look(n: int) -> None:
        seen.append(("body", TENANT.get()))
        TENANT.set("changed by a tool")  # stays inside the tool

    @tool(name="look")
    async def look_async(n: int) -> None:
        look(n)

    def hook(context: Any) -> None:
        seen.append(("hook", TENANT.get()))

    def main() -> None:
        TENANT.set(tenant)
        calls = ask(call("look", '{"n": 1}'), call("look", '{"n": 2}'))
        mode.play(calls, say("Ok"), tools=[look_async if is_async else look], before_tool=hook)

    contextvars.copy_context().run(main)
    if mode.parallel:
        assert sorted(seen) == [("body", tenant)] * 2 + [("hook", tenant)] * 2
    else:
        assert [what for what, _ in seen] == ["hook", "body"] * 2
        assert seen[:2] == [("hook", tenant), ("body", tenant)]


@pytest.mark.parametrize("way", ["arun", "astream"])
def test_PAR_07_outer_cancel_sync_tool(way: str, release: threading.Event) -> None:
    entered, late, events = threading.Event(), threading.Event(), []

    def listener(event: Any) -> None:
        events.append(event)
        if isinstance(event, ToolFinished) and event.late:
            late.set()

    @tool
    def sleeps() -> str:
        entered.set()
        release.wait(10)
        return "late"

    token = CancelToken()
    thread = threading.Thread(target=lambda: (entered.wait(5), token.cancel()))
    thread.start()
    ended = Mode(way, True).play(
        ask(call("sleeps")), tools=[sleeps], drain_timeout=0.05, listeners=[listener], run={"cancel": token}
    )
    thread.join(5)
    assert type(ended.error) is RunCancelled
    assert [e.outcome for e in ended.executions] == [Outcome.UNKNOWN]
    messages = list(ended.messages)
    release.set()
    assert late.wait(5)
    assert list(ended.messages) == messages  # an event, and no second result
    assert [e.outcome for e in ended.executions] == [Outcome.DONE]


@pytest.mark.parametrize("raised", [asyncio.CancelledError, FutureCancelledError])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("is_async", [False, True])
def test_PAR_10_cancel_one_of_two_no_hang(
    mode: Mode, raised: type[BaseException], position: int, is_async: bool
) -> None:
    @tool(name="quits")
    def quits() -> None:
        raise raised

    @tool(name="quits")
    async def quits_async() -> None:
        raise raised

    @tool
    async def works() -> str:
        await asyncio.sleep(0)
        return "worked"

    asked = [call("works")]
    asked.insert(position, call("quits"))
    ended = mode.play(ask(*asked), say("Ok"), tools=[quits_async if is_async else quits, works], on_error=tell_safely)
    assert ended.answer.output == "Ok"
    assert sorted(e.outcome.value for e in ended.executions) == ["done", "unknown"]
    assert ended.names[-1] == "RunFinished"

    given_up = mode.play(ask(call("quits")), tools=[quits_async if is_async else quits])
    assert type(given_up.error) is (ToolExecutionError if raised is asyncio.CancelledError else raised)
    assert given_up.names[-1] == "RunFailed"  # a failure of the tool, and no cancellation of the run


@pytest.mark.parametrize("count", [2, 3, 6])
def test_PAR_11_parallel_flag_is_honoured(concurrent: Mode, count: int) -> None:
    log: list[str] = []

    @tool
    async def fetch() -> None:
        log.append("start")
        while log.count("start") < count:
            await asyncio.sleep(0)
        log.append("end")

    ended = concurrent.play(ask(*[call("fetch")] * count), say("Ok"), tools=[fetch])
    assert log == ["start"] * count + ["end"] * count
    assert len(ended.of(ToolStarted)) == count


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("is_async", [False, True])
def test_PAR_12_sequential_tool_in_a_parallel_batch(concurrent: Mode, position: int, is_async: bool) -> None:
    lock, running, overlaps = threading.Lock(), [], []

    def enter(name: str) -> None:
        with lock:
            if running and "c" in (name, *running):
                overlaps.append((name, *running))
            running.append(name)

    def leave(name: str) -> None:
        with lock:
            running.remove(name)

    def named(name: str, **options: Any) -> Any:
        def body() -> str:
            enter(name)
            threading.Event().wait(0.003)
            leave(name)
            return name

        async def body_async() -> str:
            enter(name)
            await asyncio.sleep(0.003)
            leave(name)
            return name

        return tool(name=name, **options)(body_async if is_async else body)

    names = ["a", "b"]
    names.insert(position, "c")
    tools = [named("a"), named("b"), named("c", exclusive=True)]
    ended = concurrent.play(ask(*map(call, names)), say("Ok"), tools=tools)
    assert overlaps == []
    assert [e.value for e in ended.executions] == names


@pytest.mark.parametrize("text", ["Let me look", "…", "a  b\n"])
def test_PAR_15_text_and_tool_calls_together(mode: Mode, text: str) -> None:
    @tool
    def look() -> str:
        return "seen"

    asked = call("look", id="l")
    ended = mode.play(ask(asked, text=text), say("Ok"), tools=[look])
    assert ended.requests[1].messages[1].text == text  # type: ignore[union-attr]
    assert ended.results == [("look", "seen", False)]
    if mode.streams:
        assert "".join(getattr(event, "text", "") for event in ended.events) == text + "Ok"


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_PAR_17_sync_entry_point_inside_a_running_loop(way: str, parallel: bool, is_async: bool) -> None:
    @tool(name="fetch")
    def fetch() -> str:
        return "fetched"

    @tool(name="fetch")
    async def fetch_async() -> str:
        await asyncio.sleep(0)
        return "fetched"

    async def cell() -> Any:
        mode = Mode(way, parallel)
        return mode.play(ask(call("fetch"), call("fetch")), say("Ok"), tools=[fetch_async if is_async else fetch])

    ended = asyncio.run(cell())
    assert [e.value for e in ended.answer.executions] == ["fetched", "fetched"]
