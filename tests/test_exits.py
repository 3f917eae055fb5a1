"""Every way out of a run, in every mode: what was done is undone, once, and the books are closed before it surfaces."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import dis
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    CancelToken,
    ChatRequest,
    ChatResponse,
    Limits,
    Listeners,
    MessageWindow,
    Outcome,
    ResponseDone,
    RoundLimitError,
    RunCancelled,
    StreamPiece,
    ToolCallReady,
    ToolContext,
    ToolError,
    ToolExecutionError,
    ToolFinished,
    ToolMessage,
    UserError,
    report_of,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, calls, say

WAYS = [(way, parallel) for way in ("run", "stream", "arun", "astream") for parallel in (False, True)]
every_mode = pytest.mark.parametrize(("way", "parallel"), WAYS)
ASYNC_WAYS = [(way, parallel) for way, parallel in WAYS if way.startswith("a")]
every_async_mode = pytest.mark.parametrize(("way", "parallel"), ASYNC_WAYS)

PATIENCE = 20.0  # seconds until a test that hangs says so; nothing ever waits that long


class Ledger:
    """What the tools of a test did to the world, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def tools(self, **options: Any) -> list[Any]:
        """``book``, which can be undone, and ``boom``, which fails after its effect."""

        @tool(undo=self.take_back, **options)
        def book(what: str) -> str:
            """Book."""
            self.entries.append(f"+{what}")
            return what

        @tool
        def boom() -> None:
            """Fail."""
            self.entries.append("+boom")
            raise ValueError("boom")

        return [book, boom]

    def take_back(self, what: str) -> None:
        self.entries.append(f"-{what}")


def book(what: str) -> Any:
    return call("book", f'{{"what": "{what}"}}')


async def _drain_stream(agent: Agent, **options: Any) -> Any:
    async with agent.astream("go", **options) as run:
        async for _ in run:
            pass
    return run.result


def go(way: str, agent: Agent, **options: Any) -> Any:
    """The result of a run, in that way."""
    if way == "run":
        return agent.run("go", **options)
    if way == "stream":
        with agent.stream("go", **options) as run:
            for _ in run:
                pass
        return run.result
    if way == "arun":
        return asyncio.run(agent.arun("go", **options))
    return asyncio.run(_drain_stream(agent, **options))


def closed(memory: MessageWindow) -> list[str]:
    """The results that the memory holds, once it is sure that every call has one, in order."""
    waiting: list[str] = []
    texts: list[str] = []
    for message in memory.messages():
        if isinstance(message, ToolMessage):
            assert message.tool_name == waiting.pop(0)
            texts.append(message.text)
        else:
            assert waiting == []
            if isinstance(message, AssistantMessage):
                waiting = [asked.name for asked in message.tool_calls]
    assert waiting == []
    return texts


# ---------------------------------------------------------------- errors, limits, models


@every_mode
def test_success_undoes_nothing(way: str, parallel: bool) -> None:
    world, memory = Ledger(), MessageWindow(50)
    agent = Agent(ScriptedModel([calls(book("a"), book("b")), say("ok")]), tools=world.tools(), memory=memory)
    result = go(way, agent, parallel=parallel)
    assert sorted(world.entries) == ["+a", "+b"]
    assert result.output == "ok"
    assert [e.outcome for e in result.executions] == [Outcome.DONE, Outcome.DONE]
    assert closed(memory) == ["a", "b"]


@every_mode
def test_a_failing_tool_undoes_earlier_rounds_backwards_and_raises_its_own_error(way: str, parallel: bool) -> None:
    world, memory = Ledger(), MessageWindow(50)
    model = ScriptedModel([calls(book("a")), calls(book("b")), calls(call("boom"))])
    with pytest.raises(ValueError, match=r"^boom") as raised:
        go(way, Agent(model, tools=world.tools(), memory=memory), parallel=parallel)
    assert world.entries == ["+a", "+b", "+boom", "-b", "-a"]
    report = report_of(raised.value)
    assert report is not None
    assert [e.value for e in report.undone] == ["a", "b"]
    assert [e.call.name for e in report.standing] == ["boom"]
    assert any(note.startswith(f"surehand run {report.run_id}") for note in raised.value.__notes__)
    assert all("undone" in text for text in closed(memory)[:2])


@every_mode
def test_a_limit_undoes_and_its_calls_did_not_run(way: str, parallel: bool) -> None:
    world, memory = Ledger(), MessageWindow(50)
    model = ScriptedModel([calls(book("a")), calls(book("b"))])
    agent = Agent(model, tools=world.tools(), memory=memory, limits=Limits(rounds=1))
    with pytest.raises(RoundLimitError) as raised:
        go(way, agent, parallel=parallel)
    assert world.entries == ["+a", "-a"]
    report = report_of(raised.value)
    assert report is not None
    assert [e.outcome for e in report.executions] == [Outcome.DONE, Outcome.NOT_RUN]
    assert len(closed(memory)) == 2


@every_mode
def test_a_failing_model_undoes_and_raises_the_same_object(way: str, parallel: bool) -> None:
    world, failure = Ledger(), ConnectionError("gone")
    with pytest.raises(ConnectionError) as raised:
        go(way, Agent(ScriptedModel([calls(book("a")), failure]), tools=world.tools()), parallel=parallel)
    assert raised.value is failure
    assert world.entries == ["+a", "-a"]


@every_mode
@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("colour", ["blocking", "awaitable"])
def test_what_a_body_raises_against_the_rules_ends_the_run_and_not_the_host(
    way: str, parallel: bool, kind: type[BaseException], colour: str
) -> None:
    world = Ledger()

    @tool
    def blocking() -> None:
        """Fail."""
        raise kind()

    @tool
    async def awaitable() -> None:
        """Fail."""
        raise kind()

    model = ScriptedModel([calls(book("a")), calls(call(colour))])
    # Python itself makes a RuntimeError of a StopIteration that leaves a coroutine.
    expected = RuntimeError if (kind is StopIteration and colour == "awaitable") else ToolExecutionError
    with pytest.raises(expected) as raised:
        go(way, Agent(model, tools=[*world.tools(), blocking, awaitable]), parallel=parallel)
    assert isinstance(raised.value.__cause__, kind)
    assert world.entries == ["+a", "-a"]
    report = report_of(raised.value)
    assert report is not None
    assert [e.outcome for e in report.executions] == [Outcome.DONE, Outcome.UNKNOWN]


@every_mode
@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration])
@pytest.mark.parametrize("colour", ["blocking", "awaitable"])
def test_an_undo_that_fails_does_not_keep_the_others_from_being_undone(
    way: str, parallel: bool, kind: type[BaseException], colour: str
) -> None:
    world = Ledger()

    async def fail_async(value: str) -> None:
        raise kind()

    def fail(value: str) -> None:
        raise kind()

    @tool(undo=fail if colour == "blocking" else fail_async)
    def stubborn() -> str:
        """Do."""
        return "s"

    model = ScriptedModel([calls(book("a")), calls(call("stubborn")), calls(book("b")), OSError("end")])
    with pytest.raises(OSError, match="end") as raised:
        go(way, Agent(model, tools=[*world.tools(), stubborn]), parallel=parallel)
    assert world.entries == ["+a", "+b", "-b", "-a"]
    report = report_of(raised.value)
    assert report is not None
    assert [e.call.name for e in report.failed_to_undo] == ["stubborn"]


@every_mode
@pytest.mark.parametrize("where", ["body", "undo", "probe"])
def test_an_interrupt_ends_the_run_once_everything_is_undone(way: str, parallel: bool, where: str) -> None:
    world, interrupt = Ledger(), KeyboardInterrupt()

    def fail(value: str) -> None:
        raise interrupt

    def ask(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        raise interrupt

    @tool(undo=fail)
    def unlucky() -> str:
        """Do."""
        return "x"

    @tool
    def body() -> None:
        """Do."""
        raise interrupt

    @tool(probe=ask)
    def probe() -> None:
        """Do."""
        world.entries.append("+probe")
        raise ValueError

    last = calls(call("unlucky")) if where == "undo" else calls(call(where))
    model = ScriptedModel([calls(book("a")), last, OSError("end")])
    agent = Agent(model, tools=[*world.tools(), unlucky, body, probe])
    with pytest.raises(KeyboardInterrupt) as raised:
        go(way, agent, parallel=parallel)
    assert raised.value is interrupt
    assert world.entries[-1] == "-a"
    report = report_of(raised.value)
    assert report is not None
    if where == "undo":
        assert [e.call.name for e in report.failed_to_undo] == ["unlucky"]
    else:
        assert [e.call.name for e in report.unknown] == [where]


@every_mode
def test_a_frozen_exception_surfaces_as_itself(way: str, parallel: bool) -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        code: int

    with pytest.raises(Frozen) as raised:
        go(way, Agent(ScriptedModel([Frozen(3)])), parallel=parallel)
    assert report_of(raised.value) is not None


@every_mode
def test_a_listener_cannot_stop_a_run_whose_answer_stands(way: str, parallel: bool) -> None:
    world = Ledger()

    def listener(event: Any) -> None:
        if type(event).__name__ == "RunFinished":
            raise ValueError("too late")

    agent = Agent(
        ScriptedModel([calls(book("a")), say("ok")]),
        tools=world.tools(),
        listeners=Listeners(listener, propagate=True),
    )
    assert go(way, agent, parallel=parallel).output == "ok"
    assert world.entries == ["+a"]


@every_mode
def test_nothing_happened_is_not_said_of_an_earlier_attempt(way: str, parallel: bool) -> None:
    world = Ledger()

    @tool(repeat="with_key", retries=1, undo=lambda: world.entries.append("-pay"))
    def pay(ctx: ToolContext[Any]) -> None:
        """Pay."""
        if ctx.attempt == 1:
            world.entries.append("+pay")
            raise ConnectionError("reset")
        raise ToolError("try later")

    with pytest.raises(ConnectionError) as raised:
        go(way, Agent(ScriptedModel([calls(call("pay"))]), tools=[pay]), parallel=parallel)
    report = report_of(raised.value)
    assert report is not None
    assert [e.outcome for e in report.executions] == [Outcome.UNKNOWN]


# ---------------------------------------------------------------- streams that are left


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_stream_left_at_any_event_leaves_either_a_result_or_nothing(
    way: str, parallel: bool, remembers: bool
) -> None:
    index, names = 0, ["?"]
    while names[-1] != "RunFinished":
        world, memory = Ledger(), MessageWindow(50)
        model = ScriptedModel([calls(book("a"), book("b"), text="so"), calls(book("c")), say("all done")])
        agent = Agent(model, tools=world.tools(), memory=memory if remembers else None, stream_buffer=1)
        names, has_result, report = _leave_at(way, agent, index, parallel=parallel)
        done = sorted(entry[1:] for entry in world.entries if entry[0] == "+")
        undone = sorted(entry[1:] for entry in world.entries if entry[0] == "-")
        assert undone == ([] if has_result else done), names
        assert report.unknown == (), names
        closed(memory)
        index += 1
    assert index > 15


def _leave_at(way: str, agent: Agent, index: int, **options: Any) -> tuple[list[str], bool, Any]:
    names: list[str] = []

    def take(event: Any) -> bool:
        names.append(type(event).__name__)
        return len(names) > index

    async def main() -> Any:
        async with agent.astream("go", **options) as run:
            async for event in run:
                if take(event):
                    break
        return run

    if way == "astream":
        run = asyncio.run(main())
    else:
        with agent.stream("go", **options) as run:
            for event in run:
                if take(event):
                    break
    return names, _has_result(run), run.undone


def _has_result(stream: Any) -> bool:
    try:
        return stream.result is not None
    except UserError:
        return False


def test_another_thread_may_cancel_a_stream_between_two_events() -> None:
    world = Ledger()
    model = ScriptedModel([calls(book("a")), say("one two")])
    seen: list[str] = []
    with Agent(model, tools=world.tools()).stream("go") as run:
        for event in run:
            seen.append(type(event).__name__)
            if seen[-1] == "TextDelta":
                other = threading.Thread(target=run.cancel)
                other.start()
                other.join(PATIENCE)
    assert seen.count("TextDelta") == 1
    assert world.entries == ["+a", "-a"]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("colour", ["blocking", "awaitable", "timed"])
def test_a_tool_may_report_more_than_the_buffer_holds(way: str, parallel: bool, colour: str) -> None:
    @tool
    def blocking(ctx: ToolContext[Any]) -> None:
        """Report."""
        for number in range(10):
            ctx.progress(number)

    @tool
    async def awaitable(ctx: ToolContext[Any]) -> None:
        """Report."""
        for number in range(10):
            ctx.progress(number)

    @tool(timeout=PATIENCE)
    def timed(ctx: ToolContext[Any]) -> None:
        """Report."""
        for number in range(10):
            ctx.progress(number)

    heard = Recorder()
    model = ScriptedModel([calls(call(colour)), say("ok")])
    agent = Agent(model, tools=[blocking, awaitable, timed], stream_buffer=1, listeners=[heard])
    assert go(way, agent, parallel=parallel).executions[0].outcome is Outcome.DONE
    assert heard.names.count("ToolProgress") == 10


# ---------------------------------------------------------------- tokens


@every_mode
def test_a_token_cancelled_by_a_tool_ends_the_run_after_that_tool(way: str, parallel: bool) -> None:
    world, token = Ledger(), CancelToken()

    @tool(undo=lambda: world.entries.append("-stop"))
    def stop() -> None:
        """Stop."""
        token.cancel()
        world.entries.append("+stop")

    model = ScriptedModel([calls(book("a")), calls(call("stop")), say("never")])
    with pytest.raises(RunCancelled) as raised:
        go(way, Agent(model, tools=[*world.tools(), stop]), parallel=parallel, cancel=token)
    assert world.entries == ["+a", "+stop", "-stop", "-a"]
    assert report_of(raised.value) is not None


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_leaving_one_run_does_not_cancel_the_others_with_the_same_token(way: str) -> None:
    token = CancelToken()
    agent = Agent(ScriptedModel([say("one two")]), stream_buffer=1)
    _, has_result, _ = _leave_at(way, agent, 1, parallel=False, cancel=token)
    assert not has_result
    assert not token.is_cancelled
    assert Agent(ScriptedModel([say("fine")])).run("go", cancel=token).output == "fine"


def test_a_cancelled_token_ends_an_awaitable_run_in_the_middle_of_a_model_call_without_cancelling_the_task() -> None:
    token = CancelToken()

    class Slow(ScriptedModel):
        async def agenerate(self, request: ChatRequest) -> ChatResponse:
            threading.Thread(target=token.cancel).start()
            await asyncio.sleep(PATIENCE)
            raise AssertionError

    async def main() -> bool:
        with pytest.raises(RunCancelled):
            await Agent(Slow([])).arun("go", cancel=token)
        return True

    assert asyncio.run(main())


# ---------------------------------------------------------------- cancelling tasks


class Gates:
    """Points at which a run waits until the test lets it go."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.thread_open = threading.Event()
        self.loop = asyncio.get_running_loop()

    async def wait(self) -> None:
        self.reached.set()
        await self.open.wait()

    def wait_in_thread(self) -> None:
        self.loop.call_soon_threadsafe(self.reached.set)
        assert self.thread_open.wait(PATIENCE)

    def let_go(self) -> None:
        self.open.set()
        self.thread_open.set()


def _gated(world: Ledger, gates: Gates, where: str) -> tuple[Any, list[Any]]:
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

    replies = [calls(call("awaitable")), calls(call("blocking")), OSError("end") if "undo" in where else say("ok")]
    return Model(replies), [awaitable, blocking]


@every_async_mode
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("where", ["model", "awaitable", "blocking", "undo", "undo_in_thread"])
def test_a_run_cancelled_anywhere_and_however_often_is_undone_before_the_cancellation_surfaces(
    way: str, parallel: bool, where: str, times: int
) -> None:
    world, memory = Ledger(), MessageWindow(50)

    async def main() -> BaseException | None:
        gates = Gates()
        model, tools = _gated(world, gates, where)
        agent = Agent(model, tools=tools, memory=memory)
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
    done = ["+awaitable"] if where == "awaitable" else ["+awaitable", "+blocking"]
    assert world.entries == [*done, *(entry.replace("+", "-") for entry in reversed(done))]
    assert all("undone" in text for text in closed(memory))
    if way == "arun":
        assert error is not None
        report = report_of(error)
        assert report is not None
        assert len(report.undone) == len(done)
        assert any(note.startswith("surehand run") for link in _links(error) for note in getattr(link, "__notes__", ()))


def _links(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


@every_async_mode
def test_cancelling_after_the_end_changes_nothing(way: str, parallel: bool) -> None:
    world = Ledger()

    async def main() -> Any:
        agent = Agent(ScriptedModel([calls(book("a")), say("ok")]), tools=world.tools())
        runs = agent.arun("go", parallel=parallel) if way == "arun" else _drain_stream(agent, parallel=parallel)
        task = asyncio.ensure_future(runs)
        result = await task
        task.cancel()
        return result

    assert asyncio.run(main()).output == "ok"
    assert world.entries == ["+a"]


@every_async_mode
def test_a_cancellation_that_races_with_completion_loses_nothing_and_doubles_nothing(way: str, parallel: bool) -> None:
    async def once(turns: int) -> None:
        world = Ledger()

        @tool(undo=world.take_back)
        async def step() -> str:
            """Do."""
            await asyncio.sleep(0)
            world.entries.append("+s")
            return "s"

        agent = Agent(ScriptedModel([calls(call("step"), call("step")), say("ok")]), tools=[*world.tools(), step])
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
        with contextlib.suppress(asyncio.CancelledError):
            await task
        # A stream's run may have ended before its events were taken: then its result is there, and stands.
        stands = not task.cancelled() if stream is None else _has_result(stream)
        done = world.entries.count("+s")
        assert world.entries == ["+s"] * done + ["-s"] * (0 if stands else done), (turns, world.entries)
        assert done == 2 or not stands

    async def main() -> None:
        for turns in range(1, 60):
            for _ in range(3):
                await once(turns)

    asyncio.run(main())


def test_a_token_that_races_with_completion_from_another_thread_loses_nothing() -> None:
    for number in range(150):
        world, token, at = Ledger(), CancelToken(), threading.Barrier(2)
        agent = Agent(ScriptedModel([calls(book("a"), book("b")), say("ok")]), tools=world.tools())

        def cancel(token: CancelToken = token, at: threading.Barrier = at, number: int = number) -> None:
            at.wait(PATIENCE)
            for _ in range(number * 20):
                pass
            token.cancel()

        other = threading.Thread(target=cancel)
        other.start()
        at.wait(PATIENCE)
        try:
            agent.run("go", cancel=token, parallel=bool(number % 2))
        except RunCancelled:
            done = [entry[1:] for entry in world.entries if entry[0] == "+"]
            assert sorted(done) == sorted(entry[1:] for entry in world.entries if entry[0] == "-"), world.entries
        else:
            assert sorted(world.entries) == ["+a", "+b"]
        other.join(PATIENCE)


# ---------------------------------------------------------------- drain timeouts and event loops that end


@every_async_mode
@pytest.mark.parametrize("colour", ["awaitable", "blocking"])
def test_a_tool_that_outlives_the_drain_is_unknown_and_undone_when_it_finishes(
    way: str, parallel: bool, colour: str
) -> None:
    world, heard = Ledger(), Recorder()

    async def main() -> tuple[Any, Any]:
        gates, undone = Gates(), asyncio.Event()
        loop = asyncio.get_running_loop()
        model, tools = _gated(world, gates, colour)

        def listener(event: Any) -> None:
            if type(event).__name__ == "ToolFinished" and event.late:
                loop.call_soon_threadsafe(undone.set)

        agent = Agent(model, tools=tools, drain_timeout=0.05, listeners=[heard, listener])
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
        before = report_of(raised.value) if stream is None else stream.undone
        gates.let_go()
        await asyncio.wait_for(undone.wait(), PATIENCE)
        return before, report_of(raised.value) if stream is None else stream.undone

    before, after = asyncio.run(main())
    assert [e.call.name for e in before.unknown] == [colour]
    assert after.unknown == ()
    assert world.entries.count(f"+{colour}") == world.entries.count(f"-{colour}") == 1
    assert sorted(e.call.name for e in after.undone) == sorted({entry[1:] for entry in world.entries})
    assert [event.execution.outcome for event in heard.of(ToolFinished) if event.late] == [Outcome.DONE]


@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_blocking_parallel_tool_that_outlives_the_drain_is_undone_when_it_finishes(way: str) -> None:
    world, token = Ledger(), CancelToken()
    release, late = threading.Event(), threading.Event()

    @tool(undo=world.take_back)
    def slow() -> str:
        """Do."""
        token.cancel()
        assert release.wait(PATIENCE)
        world.entries.append("+slow")
        return "slow"

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.late:
            late.set()

    agent = Agent(
        ScriptedModel([calls(call("slow"), book("a"))]),
        tools=[*world.tools(), slow],
        drain_timeout=0.05,
        listeners=[listener],
    )
    with pytest.raises(RunCancelled) as raised:
        go(way, agent, parallel=True, cancel=token)
    before = report_of(raised.value)
    assert before is not None
    assert [e.call.name for e in before.unknown] == ["slow"]
    release.set()
    assert late.wait(PATIENCE)
    assert world.entries.count("-slow") == 1
    after = report_of(raised.value)
    assert after is not None
    assert after.unknown == ()


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("colour", ["awaitable", "blocking"])
def test_an_event_loop_that_ends_under_a_run_still_closes_its_books(parallel: bool, colour: str) -> None:
    world, memory = Ledger(), MessageWindow(50)
    box: list[Any] = []

    async def main() -> None:
        gates = Gates()
        model, tools = _gated(world, gates, colour)
        agent = Agent(model, tools=tools, memory=memory)
        box.append(asyncio.ensure_future(agent.arun("go", parallel=parallel)))
        await asyncio.wait_for(gates.reached.wait(), PATIENCE)
        threading.Timer(0.05, gates.thread_open.set).start()

    asyncio.run(main())
    assert box[0].cancelled()
    if colour == "blocking":  # the thread went on, so the run waited for it and undid it
        assert world.entries == ["+awaitable", "+blocking", "-blocking", "-awaitable"]
    else:  # the loop has cancelled the body itself
        assert world.entries == []
    closed(memory)


# ---------------------------------------------------------------- Ctrl-C


_PROGRAM = """
import os, signal, sys, threading
from surehand import Agent, report_of, tool
from surehand.testing import ScriptedModel, call, calls, say

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored

def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)

def undo_first(value): print("undone first", flush=True)

def undo_second(value):
    for _ in range(int(sys.argv[2])):
        ctrl_c()
    print("undone second", flush=True)

@tool(undo=undo_first)
def first() -> str:
    return "first"

@tool(undo=undo_second)
def second() -> str:
    return "second"

@tool
def third() -> None:
    ctrl_c()
    for _ in range(1_000_000): pass
    print("not interrupted", flush=True)

agent = Agent(ScriptedModel([calls(call("first")), calls(call("second")), calls(call("third")), say("x")]),
              tools=[first, second, third])
try:
    if sys.argv[1] == "run":
        agent.run("go")
    else:
        with agent.stream("go") as run:
            for _ in run: pass
except KeyboardInterrupt as error:
    report = report_of(error)
    print(sorted(e.call.name for e in report.undone), [e.call.name for e in report.unknown], flush=True)
"""


def _program(way: str, interrupts: int) -> tuple[int, list[str]]:
    source = str(Path(sys.modules["surehand"].__file__ or "").parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way, str(interrupts)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("way", ["run", "stream"])
def test_ctrl_c_in_a_body_undoes_and_a_second_one_waits_until_that_is_done(way: str) -> None:
    said = ["undone second", "undone first", "['first', 'second'] ['third']"]
    assert _program(way, 0) == (0, said)
    assert _program(way, 1) == (0, said)


def test_a_third_ctrl_c_ends_the_process() -> None:
    assert _program("run", 2) == (-signal.SIGINT, [])


# ---------------------------------------------------------------- early starts


def _announcing(pieces: Sequence[StreamPiece]) -> ScriptedModel:
    return ScriptedModel([pieces, say("ok")])


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_an_early_call_that_is_not_in_the_reply_keeps_its_record_beside_the_others(way: str) -> None:
    slow_may_end = threading.Event()

    @tool(repeat="safe")
    def slow() -> str:
        """Read."""
        assert slow_may_end.wait(PATIENCE)
        return "slow"

    @tool(repeat="safe")
    def read(n: int) -> int:
        """Read."""
        if n == 2:
            slow_may_end.set()
        return n

    reply = calls(call("read", '{"n": 1}'), call("read", '{"n": 2}'))
    model = _announcing([ToolCallReady(0, call("slow", id="gone")), ResponseDone(reply)])
    result = go(way, Agent(model, tools=[slow, read]), parallel=True)
    assert sorted(e.call.name for e in result.executions) == ["read", "read", "slow"]
    assert [e.value for e in result.executions if e.call.name == "read"] == [1, 2]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_an_early_call_is_found_again_when_the_calls_before_it_are_gone(way: str) -> None:
    entered: list[int] = []

    @tool(repeat="safe")
    def read(n: int) -> int:
        """Read."""
        entered.append(n)
        return n

    kept = call("read", '{"n": 2}', id="c1")
    pieces = [ToolCallReady(0, call("read", '{"n": 1}', id="c0")), ToolCallReady(1, kept), ResponseDone(calls(kept))]
    result = go(way, Agent(_announcing(pieces), tools=[read]), parallel=True)
    assert sorted(entered) == [1, 2]
    assert [m.text for m in result.messages if isinstance(m, ToolMessage)] == ["2"]


# ---------------------------------------------------------------- Ctrl-C at every instruction

# After these, and nowhere else, the interpreter looks for signals.
CHECKED = frozenset(("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD", "RESUME"))
ENGINE = frozenset(
    f"_{name}.py" for name in ("attempt", "books", "call", "drive", "giveup", "ledger", "loop", "undoing")
)


class _CtrlC:
    """Traces the engine and interrupts it once, at the place with this number."""

    def __init__(self, number: int) -> None:
        self.left = number
        self._last: dict[int, int] = {}

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        path = Path(frame.f_code.co_filename)
        if path.name not in ENGINE or path.parent.name != "surehand":
            return None
        frame.f_trace_opcodes = True
        return self._in_frame

    def _in_frame(self, frame: Any, event: str, _: Any) -> Any:
        if event == "return":
            self._last.pop(id(frame), None)
        if event == "opcode":
            before = self._last.get(id(frame))
            self._last[id(frame)] = frame.f_lasti
            if before is not None and dis.opname[frame.f_code.co_code[before]] in CHECKED:
                self.left -= 1
                if self.left == 0:
                    sys.settrace(None)
                    signal.raise_signal(signal.SIGINT)
        return self._in_frame


def _interrupted(number: int) -> bool:
    """Whether the run had that many places at which it could be interrupted; checks what the interrupt left."""
    world, memory, ctrl_c = Ledger(), MessageWindow(50), _CtrlC(number)
    agent = Agent(ScriptedModel([calls(book("a")), calls(book("b")), say("ok")]), tools=world.tools(), memory=memory)
    previous = sys.gettrace()
    error: BaseException | None = None
    sys._getframe().f_trace_opcodes = True  # Python 3.12 sends no such events unless asked before tracing begins
    sys.settrace(ctrl_c)
    try:
        agent.run("go")
    except KeyboardInterrupt as interrupt:
        error = interrupt
    finally:
        sys.settrace(previous)
    if ctrl_c.left > 0:
        assert (world.entries, error) == (["+a", "+b"], None)
        return False
    closed(memory)
    done, undone = ([entry[1:] for entry in world.entries if entry[0] == sign] for sign in "+-")
    assert len(set(undone)) == len(undone), (number, undone)
    standing = set(done) - set(undone)
    if standing and error is not None:
        report = report_of(error)
        assert report is not None, (number, world.entries)
        named = " ".join(e.call.arguments for e in report.standing)
        assert all(f'"{what}"' in named for what in standing), (number, world.entries, report)
    return True


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # interrupted on the way from making to awaiting
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_instruction_leaves_nothing_unnamed_and_no_open_call() -> None:
    number = 1
    while _interrupted(number):
        number += 1
    assert number > 100
