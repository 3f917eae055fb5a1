"""Every way out of a run while an agent is at work that it has called: all of it is undone, once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from surehand import (
    Agent,
    CancelToken,
    ChatRequest,
    ChatResponse,
    MessageWindow,
    Outcome,
    RunCancelled,
    StreamPiece,
    ToolFinished,
    UndoReport,
    report_of,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Mode, ask
from .nested import to, travel
from .test_exits import (
    PATIENCE,
    Gates,
    Ledger,
    _drain_stream,
    _has_result,
    book,
    closed,
    every_async_mode,
    every_mode,
    go,
)


def outer_of(inner: Agent[Any, Any], world: Ledger, *more: Any, **options: Any) -> Agent[Any, Any]:
    """Books ``a``, asks the agent, and answers."""
    return Agent(
        ScriptedModel([calls(book("a")), calls(to(), *more), say("ok")]), tools=[*world.tools(), inner], **options
    )


# ---------------------------------------------------------------- tokens


@every_mode
@pytest.mark.parametrize("beside", [False, True])
def test_a_token_cancelled_by_a_tool_of_an_agent_ends_both_runs_after_that_tool(
    way: str, parallel: bool, beside: bool
) -> None:
    world, token, memory = Ledger(), CancelToken(), MessageWindow(50)

    @tool(undo=lambda: world.entries.append("-stop"))
    def stop() -> None:
        """Stop."""
        token.cancel()
        world.entries.append("+stop")

    inner = travel(calls(book("b")), calls(call("stop")), say("never"), tools=[*world.tools(), stop], memory=memory)
    agent = outer_of(inner, world, *([call("book", '{"what": "c"}')] if beside else []))
    with pytest.raises(RunCancelled) as raised:
        go(way, agent, parallel=parallel, cancel=token)
    started = [entry[1:] for entry in world.entries if entry[0] == "+"]
    assert started[0] == "a"
    assert sorted(started[1:]) in (["b", "stop"], ["b", "c", "stop"])
    undone = [entry[1:] for entry in world.entries if entry[0] == "-"]
    assert sorted(undone) == sorted(started)
    assert undone[-1] == "a"
    report = report_of(raised.value)
    assert report is not None
    assert report.standing == ()
    assert closed(memory)[0] == "Tool 'book' had succeeded, but it was undone because the run was cancelled."


# ---------------------------------------------------------------- streams that are left


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("buffer", [1, 64])
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_stream_left_at_any_event_of_an_agent_leaves_either_a_result_or_nothing(
    way: str, remembers: bool, buffer: int, parallel: bool
) -> None:
    index, last = 0, "?"
    while last != " RunFinished":
        world, memory = Ledger(), MessageWindow(50)
        inner = travel(
            calls(book("b"), book("c"), text="so"), calls(book("d")), say("all done"), tools=world.tools(),
            memory=memory if remembers else None, parallel=parallel,
        )  # fmt: skip
        agent = outer_of(inner, world, call("book", '{"what": "e"}'), stream_buffer=buffer)
        names, has_result, report = _leave_at(way, agent, index, parallel=parallel)
        last = names[-1]
        done = sorted(entry[1:] for entry in world.entries if entry[0] == "+")
        undone = sorted(entry[1:] for entry in world.entries if entry[0] == "-")
        assert undone == ([] if has_result else done), names
        assert report.unknown == (), names
        closed(memory)
        index += 1
    assert index > 30


def _leave_at(way: str, agent: Agent[Any, Any], index: int, **options: Any) -> tuple[list[str], bool, UndoReport]:
    names: list[str] = []

    def take(event: Any) -> bool:
        names.append(f"{event.path} {type(event).__name__}")
        return len(names) > index

    async def main() -> Any:
        async with agent.astream("go", **options) as run:
            async for event in run:
                if take(event):
                    break
        return run

    if way == "astream":
        run = asyncio.run(asyncio.wait_for(main(), PATIENCE))
    else:
        with agent.stream("go", **options) as run:
            for event in run:
                if take(event):
                    break
    return names, _has_result(run), run.undone


@pytest.mark.parametrize("parallel", [False, True])
def test_a_stream_left_with_its_buffer_full_waits_for_the_tools_of_an_agent(parallel: bool) -> None:
    world = Ledger()

    async def main() -> UndoReport:
        @tool(undo=world.take_back)
        async def slow() -> str:
            """Take a while."""
            await asyncio.sleep(0.05)
            world.entries.append("+slow")
            return "slow"

        quick = [call("book", {"what": str(n)}) for n in range(5)]
        inner = travel(calls(call("slow"), *quick), say("ok"), tools=[slow, *world.tools()], parallel=True)
        agent = outer_of(inner, world, stream_buffer=1)
        async with agent.astream("go", parallel=parallel) as run:
            async for event in run:
                if isinstance(event, ToolFinished) and event.path:
                    break
        return run.undone

    begin = time.monotonic()
    report = asyncio.run(main())
    assert time.monotonic() - begin < 10
    assert report.unknown == ()
    assert sorted(e[1:] for e in world.entries if e[0] == "+") == sorted(e[1:] for e in world.entries if e[0] == "-")
    assert "+slow" in world.entries


# ---------------------------------------------------------------- cancelling tasks


def gated(world: Ledger, gates: Gates, where: str, memory: MessageWindow, parallel: bool) -> Agent[Any, Any]:
    """An agent that waits at a gate: while its model is asked, in a tool, or while it undoes."""

    async def undo_slow(value: str) -> None:
        if where == "undo":
            await gates.wait()
        world.entries.append(f"-{value}")

    def undo_in_thread(value: str) -> None:
        if where == "undo_in_thread":
            gates.wait_in_thread()
        world.entries.append(f"-{value}")

    @tool(undo=undo_slow)
    async def awaitable() -> str:
        """Do."""
        if where == "awaitable":
            await gates.wait()
        world.entries.append("+awaitable")
        return "awaitable"

    @tool(undo=undo_in_thread)
    def blocking() -> str:
        """Do."""
        if where == "blocking":
            gates.wait_in_thread()
        world.entries.append("+blocking")
        return "blocking"

    class Model(ScriptedModel):
        async def agenerate(self, request: ChatRequest) -> ChatResponse:
            if where == "model" and len(self.requests) == 2:
                await gates.wait()
            return self.generate(request)

        async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
            if where == "model" and len(self.requests) == 2:
                await gates.wait()
            for piece in self.stream(request):
                yield piece

    last = OSError("end") if "undo" in where else say("ok")
    model = Model([calls(call("awaitable")), calls(call("blocking")), last])
    named: Any = {"name": "travel", "description": "Books.", "parallel": parallel, "memory": memory}
    return Agent(model, tools=[awaitable, blocking], **named)


@every_async_mode
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("where", ["model", "awaitable", "blocking", "undo", "undo_in_thread"])
def test_a_run_cancelled_while_an_agent_is_at_work_is_undone_before_the_cancellation_surfaces(
    way: str, parallel: bool, where: str, times: int, beside: bool
) -> None:
    world, memory = Ledger(), MessageWindow(50)

    async def main() -> BaseException:
        gates = Gates()
        inner = gated(world, gates, where, memory, parallel)
        agent = outer_of(inner, world, *([call("book", '{"what": "c"}')] if beside else []))
        runs = agent.arun("go", parallel=parallel) if way == "arun" else _drain_stream(agent, parallel=parallel)
        task = asyncio.ensure_future(runs)
        await asyncio.wait_for(gates.reached.wait(), PATIENCE)
        for _ in range(times):
            task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        if where != "model":
            assert not task.done()
        gates.let_go()
        with pytest.raises(asyncio.CancelledError) as raised:
            await asyncio.wait_for(task, PATIENCE)
        return raised.value

    error = asyncio.run(main())
    entries = [entry for entry in world.entries if entry[1:] != "c"]
    done = ["+a", "+awaitable"] if where == "awaitable" else ["+a", "+awaitable", "+blocking"]
    assert entries == [*done, *(entry.replace("+", "-") for entry in reversed(done))]
    assert sorted(entry for entry in world.entries if entry[1:] == "c") in ([], ["+c", "-c"])
    assert all("undone" in text for text in closed(memory))
    if way == "arun":
        report = report_of(error)
        assert report is not None
        assert report.standing == ()


@every_async_mode
def test_a_cancellation_of_agents_side_by_side_that_races_with_completion_doubles_nothing(
    way: str, parallel: bool
) -> None:
    async def once(turns: int) -> bool:
        world = Ledger()

        @tool(undo=world.take_back)
        async def step() -> str:
            """Do."""
            await asyncio.sleep(0)
            world.entries.append("+s")
            return "s"

        def reply(request: Any) -> Any:
            return calls(call("step"), call("step")) if len(request.messages) == 1 else say("ok")

        inner = travel(*[reply] * 8, tools=[step])
        agent = Agent(ScriptedModel([calls(to(), to(id="u")), say("ok")]), tools=[inner])
        stream = None if way == "arun" else agent.astream("go", parallel=parallel)

        async def consume() -> None:
            assert stream is not None
            async with stream as run:
                async for _ in run:
                    pass

        task = asyncio.ensure_future(agent.arun("go", parallel=parallel) if stream is None else consume())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=PATIENCE)
        plus, minus = world.entries.count("+s"), world.entries.count("-s")
        # A stream's run may have ended before its events were taken: then its result is there, and stands.
        stands = not task.cancelled() if stream is None else _has_result(stream)
        assert (plus, minus) == (4, 0) if stands else plus == minus, (turns, world.entries)
        return task.cancelled()

    turns = 0
    while asyncio.run(once(turns)):
        turns += 1
    assert turns > 5


# ---------------------------------------------------------------- failures beside an agent


@pytest.mark.parametrize("way", ["run", "stream", "arun", "astream"])
def test_a_failure_beside_an_agent_stops_it_at_its_next_step(way: str) -> None:
    world, asked, failed = Ledger(), threading.Event(), threading.Event()

    class Patient(ScriptedModel):
        """Answers once the other call has failed."""

        def generate(self, request: ChatRequest) -> ChatResponse:
            if len(self.requests) == 1:
                asked.set()
                assert failed.wait(PATIENCE)
            return super().generate(request)

        def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
            response = self.generate(request)
            yield from self._pieces(response)

        async def agenerate(self, request: ChatRequest) -> ChatResponse:
            return await asyncio.to_thread(self.generate, request)

        async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
            response = await asyncio.to_thread(self.generate, request)
            for piece in self._pieces(response):
                yield piece

    @tool
    def boom() -> None:
        """Fail, once the agent is at work."""
        assert asked.wait(PATIENCE)
        raise ValueError("boom")

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.execution.call.name == "boom":
            failed.set()

    model = Patient([calls(book("b")), calls(book("never")), say("never")])
    inner = Agent(model, tools=world.tools(), name="travel", description="Books.")
    agent = Agent(ScriptedModel([calls(to(), call("boom"))]), tools=[inner, boom], listeners=[listener])
    with pytest.raises(ValueError, match="boom") as raised:
        go(way, agent, parallel=True)
    assert world.entries == ["+b", "-b"]
    assert len(model.requests) == 2
    report = report_of(raised.value)
    assert report is not None
    assert [(e.key, e.outcome) for e in report.executions if e.outcome is not Outcome.NOT_RUN] == [
        ("1.0", Outcome.FAILED), ("1.0/1.0", Outcome.DONE), ("1.1", Outcome.UNKNOWN),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["run", "stream", "arun", "astream"])
def test_agents_of_any_depth_stop_once_the_outermost_run_cannot_have_an_answer(way: str) -> None:
    inside, has_failed, worked = threading.Event(), threading.Event(), list[int]()

    @tool
    def work(number: int) -> str:
        """Work, until the run above has failed."""
        worked.append(number)
        inside.set()
        assert has_failed.wait(10)
        return "done"

    @tool
    def fail() -> None:
        """Fail once the innermost agent is at work."""
        assert inside.wait(10)
        raise OSError("the line is dead")

    inmost = travel(*[ask(call("work", {"number": number})) for number in range(9)], tools=[work], name="inmost")
    middle = travel(ask(to("inmost")), say("ok"), tools=[inmost])
    ended = Mode(way, True).play(
        ask(to(), call("fail")), tools=[middle, fail],
        after_tool=lambda execution, context: has_failed.set() if execution.call.name == "fail" else None,
    )  # fmt: skip
    assert isinstance(ended.error, OSError)
    assert worked == [0]
