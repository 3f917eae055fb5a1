"""What a tool tells while it runs: a generator's values, and ``ctx.progress``; and what its result is then."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from surehand import (
    Outcome,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolFinished,
    ToolProgress,
    ToolSpec,
    ToolStarted,
    tool,
)
from surehand.testing import ScriptedModel, call, say

from .modes import IN_SEQUENCE, Ended, Mode, ask, scripted


def progress_of(ended: Ended) -> list[tuple[str, str | None, Any]]:
    """Each report: the call's key and id, and the value."""
    return [(event.key, event.call.id, event.value) for event in ended.of(ToolProgress)]


def test_str_16_an_async_generator_reports_all_but_the_last_value_which_is_the_result(mode: Mode) -> None:
    closed: list[str] = []

    @tool
    async def download(url: str) -> AsyncIterator[int | str]:
        try:
            yield 0
            await asyncio.sleep(0)
            yield 50
            yield f"saved {url}"
        finally:
            closed.append(url)

    ended = mode.play(ask(call("download", '{"url": "a"}', id="c1")), say("done"), tools=[download])
    assert progress_of(ended) == [("1.0", "c1", 0), ("1.0", "c1", 50)]
    assert ended.results == [("download", "saved a", False)]
    assert [execution.value for execution in ended.executions] == ["saved a"]
    assert closed == ["a"]
    names = [name for name in ended.names if name.startswith("Tool")]
    assert names == ["ToolStarted", "ToolProgress", "ToolProgress", "ToolFinished", "ToolExecuted"]


def test_a_generator_reports_all_but_the_last_value_which_is_the_result(mode: Mode) -> None:
    closed: list[str] = []

    @tool
    def download(url: str) -> Iterator[int | str]:
        try:
            yield 0
            yield 50
            yield f"saved {url}"
        finally:
            closed.append(url)

    ended = mode.play(ask(call("download", '{"url": "a"}', id="c1")), say("done"), tools=[download])
    assert progress_of(ended) == [("1.0", "c1", 0), ("1.0", "c1", 50)]
    assert ended.results == [("download", "saved a", False)]
    assert closed == ["a"]


@pytest.mark.parametrize("way", ["arun", "astream"])
def test_str_17_a_generator_that_blocks_leaves_the_loop_free(way: str) -> None:
    ticked = threading.Event()

    @tool
    def slow() -> Iterator[str]:
        yield "begun"
        assert ticked.wait(10), "the event loop did not go on"
        yield "done"

    async def both() -> Ended:
        agent = scripted(ScriptedModel([ask(call("slow")), say("ok")]), tools=[slow])

        async def tick() -> None:
            ticked.set()

        run = asyncio.create_task(_finish(agent, way))
        await asyncio.sleep(0)
        await tick()
        return await run

    assert asyncio.run(both()) == [("slow", "done", False)]


async def _finish(agent: Any, way: str) -> Any:
    if way == "arun":
        result = await agent.arun("Go")
    else:
        async with agent.astream("Go") as run:
            async for _ in run:
                pass
            result = run.result
    return Ended(result, None, []).results


@pytest.mark.parametrize(
    ("values", "returned", "reported", "result"),
    [
        ([], None, [], "Success"),
        ([], "r", [], "r"),
        (["only"], None, [], "only"),
        ([1, 2], "r", [1, 2], "r"),
        ([1, None], None, [1], "Success"),
        ([None, 2], None, [None], "2"),
    ],
)
def test_what_a_generator_returns_goes_before_what_it_yielded_last(
    mode: Mode, values: list[Any], returned: Any, reported: list[Any], result: str
) -> None:
    @tool
    def work():  # type: ignore[no-untyped-def]
        yield from values
        return returned

    ended = mode.play(ask(call("work")), say("done"), tools=[work])
    assert [event.value for event in ended.of(ToolProgress)] == reported
    assert ended.results == [("work", result, False)]


def plain_wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def hidden_wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    def work(n: int) -> Any:
        return function(n)

    return work


def async_wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
    async def work(n: int) -> Any:
        return function(n)

    return work


async def counts_async(n: int) -> AsyncIterator[int]:
    for value in range(n):
        yield value


def counts(n: int) -> Iterator[int]:
    yield from range(n)


async def adds(n: int) -> int:
    return n - 1


@pytest.mark.parametrize("inner", [counts_async, counts, adds])
@pytest.mark.parametrize("wrapper", [plain_wrapper, hidden_wrapper, async_wrapper])
def test_a_wrapper_that_hides_what_it_wraps_is_seen_through(
    mode: Mode, inner: Callable[..., Any], wrapper: Callable[[Any], Any]
) -> None:
    work = tool(name="work")(wrapper(inner))
    ended = mode.play(ask(call("work", '{"n": 3}')), say("done"), tools=[work])
    assert ended.results == [("work", "2", False)]


def test_an_iterator_that_is_no_generator_is_a_list(mode: Mode) -> None:
    @tool
    def sizes() -> Iterator[int]:
        return map(abs, [-1, 2, -3])

    ended = mode.play(ask(call("sizes")), say("done"), tools=[sizes])
    assert (ended.of(ToolProgress), ended.results) == ([], [("sizes", "[1,2,3]", False)])
    assert [execution.value for execution in ended.executions] == [[1, 2, 3]]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_generator_that_fails_half_way_is_closed_and_its_call_fails(mode: Mode, is_async: bool) -> None:
    closed: list[str] = []

    @tool(name="work")
    def blocking() -> Iterator[int]:
        try:
            yield 1
            yield 2
            raise ToolError("no more paper")
        finally:
            closed.append("closed")

    @tool(name="work")
    async def awaitable() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
            raise ToolError("no more paper")
        finally:
            closed.append("closed")

    ended = mode.play(ask(call("work")), say("done"), tools=[awaitable if is_async else blocking])
    assert ended.results == [("work", "no more paper", True)]
    assert [event.value for event in ended.of(ToolProgress)] == [1]
    assert closed == ["closed"]


@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_reports_through_its_context_and_each_report_names_its_call(mode: Mode, is_async: bool) -> None:
    def blocking(n: int, ctx: ToolContext) -> str:
        ctx.progress(n)
        ctx.progress({"half": n})
        return "ok"

    async def awaitable(n: int, ctx: ToolContext) -> str:
        return blocking(n, ctx)

    work = tool(name="work")(awaitable if is_async else blocking)
    two = ask(call("work", '{"n": 1}', id="a"), call("work", '{"n": 2}', id="b"))
    ended = mode.play(two, say("done"), tools=[work])
    assert sorted(progress_of(ended), key=repr) == [
        ("1.0", "a", 1),
        ("1.0", "a", {"half": 1}),
        ("1.1", "b", 2),
        ("1.1", "b", {"half": 2}),
    ]
    for key in ("1.0", "1.1"):
        assert [type(event).__name__ for event in ended.events if _key(event) == key] == [
            "ToolStarted", "ToolProgress", "ToolProgress", "ToolFinished",
        ]  # fmt: skip


def _key(event: Any) -> str | None:
    if isinstance(event, ToolStarted | ToolProgress):
        return event.key
    return event.execution.key if isinstance(event, ToolFinished) else None


def heard_while_it_runs(is_async: bool, timeout: float | None) -> tuple[Any, threading.Event]:
    """A tool that goes on only once somebody has heard its first report."""
    heard = threading.Event()

    @tool(name="work", timeout=timeout)
    def blocking() -> Iterator[str]:
        yield "begun"
        yield "half"
        assert heard.wait(10), "nobody heard the report while the tool was running"
        yield "done"

    @tool(name="work", timeout=timeout)
    async def awaitable() -> AsyncIterator[str]:
        yield "begun"
        yield "half"
        assert await asyncio.to_thread(heard.wait, 10), "nobody heard the report while the tool was running"
        yield "done"

    return (awaitable if is_async else blocking), heard


@pytest.mark.parametrize("mode", [Mode("stream", False), Mode("stream", True), Mode("astream", True)], ids=str)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("timeout", [None, 30])
def test_a_stream_delivers_reports_while_the_tool_runs(mode: Mode, is_async: bool, timeout: float | None) -> None:
    work, heard = heard_while_it_runs(is_async, timeout)
    agent = scripted(ScriptedModel([ask(call("work"), call("work")), say("ok")]), tools=[work])

    def take(event: Any) -> None:
        if isinstance(event, ToolProgress):
            heard.set()

    async def astream() -> Any:
        async with agent.astream("Go", parallel=mode.parallel) as run:
            async for event in run:
                take(event)
            return run.result

    if mode.is_async:
        result = asyncio.run(astream())
    else:
        with agent.stream("Go", parallel=mode.parallel) as run:
            for event in run:
                take(event)
            result = run.result
    assert Ended(result, None, []).results == [("work", "done", False)] * 2


@pytest.mark.parametrize("is_async", [True, False])
def test_a_stream_that_is_left_in_the_middle_of_a_tool_lets_it_finish_and_undoes_it(is_async: bool) -> None:
    log: list[str] = []

    def undo(value: str) -> None:
        log.append(f"undo {value}")

    def blocking() -> Iterator[str]:
        yield "begun"
        log.append("work")
        yield "paid"
        yield "paid"

    async def awaitable() -> AsyncIterator[str]:
        for value in blocking():
            yield value

    work = tool(name="work", undo=undo)(awaitable if is_async else blocking)
    agent = scripted(ScriptedModel([ask(call("work")), say("ok")]), tools=[work])
    with agent.stream("Go") as run:
        for event in run:
            if isinstance(event, ToolProgress):
                break
    assert log == ["work", "undo paid"]
    assert [(e.outcome, e.value, e.undo is not None) for e in run.undone.executions] == [(Outcome.DONE, "paid", True)]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_generator_that_outlives_its_timeout_is_unknown(mode: Mode, is_async: bool) -> None:
    leave = threading.Event()

    @tool(name="work", timeout=0.05)
    def blocking() -> Iterator[str]:
        yield "begun"
        leave.wait(10)
        yield "late"

    @tool(name="work", timeout=0.05)
    async def awaitable() -> AsyncIterator[str]:
        yield "begun"
        await asyncio.Event().wait()
        yield "never"

    try:
        ended = mode.play(ask(call("work")), say("done"), tools=[awaitable if is_async else blocking])
        (execution,) = ended.executions
        assert (execution.outcome, execution.has_failed) == (Outcome.UNKNOWN, True)
    finally:
        leave.set()


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_an_undo_gets_the_last_value_of_a_generator(mode: Mode) -> None:
    undone: list[ToolExecution[Any]] = []

    @tool(undo=undone.append)
    def undo_me() -> Iterator[int]:
        yield 1
        yield 2

    @tool
    def fails() -> None:
        raise RuntimeError("no")

    ended = mode.play(ask(call("undo_me"), call("fails")), say("never"), tools=[undo_me, fails])
    assert isinstance(ended.error, RuntimeError)
    assert undone == [2]


# ---------------------------------------------------------------- executors, and what hides what


@pytest.mark.parametrize("is_async", [True, False])
def test_a_generator_as_an_executor_is_one_too(mode: Mode, is_async: bool) -> None:
    def blocking(request: ToolCall, ctx: ToolContext) -> Iterator[str]:
        yield "half"
        if request.arguments != "{}":
            raise ToolError("no seat")
        yield "done"

    async def awaitable(request: ToolCall, ctx: ToolContext) -> AsyncIterator[str]:
        for value in blocking(request, ctx):
            yield value

    tools = [(ToolSpec("work"), awaitable if is_async else blocking)]
    ended = mode.play(ask(call("work"), call("work", '{"no": 1}')), say("done"), tools=tools)
    assert [event.value for event in ended.of(ToolProgress)] == ["half"]
    assert ended.results == [("work", "done", False), ("work", "no seat", True)]
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE, Outcome.FAILED]


async def sold_out() -> str:
    raise ToolError("sold out")


async def nested() -> Any:
    async def inner() -> Any:
        return sold_out()

    return inner()


async def yields_it() -> AsyncIterator[Any]:
    yield sold_out()


async def says_text() -> str:
    return sold_out()  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def says_nothing_of_it() -> object:
    return nested()


async def executes(_: ToolCall, __: ToolContext) -> Any:
    return sold_out()


@pytest.mark.parametrize(
    "work",
    [nested, yields_it, says_text, says_nothing_of_it, (ToolSpec("work"), executes)],
    ids=lambda work: str(work)[:20],
)
def test_an_awaitable_is_awaited_however_deep_it_is_hidden(mode: Mode, work: Any) -> None:
    tools = [work if isinstance(work, tuple) else tool(name="work")(functools.partial(work))]
    ended = mode.play(ask(call("work")), say("done"), tools=tools)
    assert ended.results == [("work", "sold out", True)]
    assert [execution.outcome for execution in ended.executions] == [Outcome.FAILED]


def test_a_generator_that_a_function_hides_reports_its_progress(mode: Mode) -> None:
    def work():  # type: ignore[no-untyped-def]
        return counts(3)

    ended = mode.play(ask(call("work")), say("done"), tools=[work])
    assert [event.value for event in ended.of(ToolProgress)] == [0, 1]


class Proxy:
    """Cannot be looked at: neither its attributes nor its class."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"working outside of a request: {name}")

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        raise RuntimeError("working outside of a request")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_value_that_cannot_be_looked_at_is_done_and_can_be_undone(mode: Mode, is_async: bool) -> None:
    undone: list[Any] = []

    def blocking() -> object:
        return Proxy()

    async def awaitable() -> object:
        return Proxy()

    work = tool(name="work", undo=undone.append)(awaitable if is_async else blocking)

    @tool
    def fail() -> None:
        raise RuntimeError("no")

    ended = mode.play(ask(call("work")), ask(call("fail")), tools=[work, fail])
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE, Outcome.UNKNOWN]
    assert [type(value) for value in undone] == [Proxy]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_a_generator_that_nobody_waits_for_is_closed_and_reports_no_more(mode: Mode) -> None:
    closed, more = threading.Event(), threading.Event()

    @tool(repeat="safe", timeout=0.05)
    def work() -> Iterator[int]:
        try:
            yield 0
            yield 1
            more.wait(10)
            while True:
                yield 2
        finally:
            closed.set()

    ended = mode.play(ask(call("work")), say("done"), tools=[work])
    more.set()
    assert closed.wait(10)
    assert [event.value for event in ended.of(ToolProgress)] == [0]
    assert [execution.outcome for execution in ended.executions] == [Outcome.FAILED]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_nothing_is_reported_of_a_call_after_its_end(mode: Mode) -> None:
    kept: list[ToolContext] = []

    @tool
    def work(ctx: ToolContext) -> str:
        ctx.progress("in time")
        kept.append(ctx)
        return "ok"

    heard: list[Any] = []
    ended = mode.play(ask(call("work")), say("done"), tools=[work], run={"listeners": [heard.append]})
    kept[0].progress("late")
    assert [event.value for event in ended.of(ToolProgress)] == ["in time"]
    assert [event.value for event in heard if isinstance(event, ToolProgress)] == ["in time"]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_what_authorise_does_to_the_arguments_reaches_nobody(mode: Mode) -> None:
    seen: list[list[int]] = []

    def authorise(_: ToolContext, arguments: dict[str, Any]) -> bool:
        arguments["numbers"].append(7)
        arguments["other"] = 1
        return True

    @tool
    def work(numbers: list[int]) -> str:
        seen.append(numbers)
        return "ok"

    mode.play(ask(call("work", '{"numbers": [1]}')), say("done"), tools=[work], authorise=authorise)
    assert seen == [[1]]


def page(n: int) -> list[int]:
    return (value * value for value in range(n))  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


async def apage(n: int) -> list[int]:
    return page(n)


def page_of_async(n: int) -> list[int]:
    return counts_async(n)  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize(("function", "text"), [(page, "[0,1,4]"), (apage, "[0,1,4]"), (page_of_async, "[0,1,2]")])
def test_a_generator_from_a_function_that_says_it_gives_a_list_is_that_list(
    mode: Mode, function: Callable[..., Any], text: str
) -> None:
    work = tool(name="work")(functools.partial(function))
    ended = mode.play(ask(call("work", '{"n": 3}')), say("done"), tools=[work])
    assert (ended.of(ToolProgress), ended.results) == ([], [("work", text, False)])
