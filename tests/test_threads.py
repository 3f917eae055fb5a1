"""Threads and event loops: nothing keeps a process alive, blocks a loop, loses its context or waits in a circle."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import surehand
from surehand import Agent, Outcome, ToolContext, UserError, set_pool_size, tool, use_executor
from surehand._colour import pool, portal
from surehand.testing import ScriptedModel, call, calls, say

PATIENCE = 20.0  # seconds until a test that hangs says so; nothing ever waits that long

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


async def _drain_stream(agent: Agent, **options: Any) -> Any:
    async with agent.astream("go", **options) as run:
        async for _ in run:
            pass
    return run.result


async def _go_async(way: str, agent: Agent, **options: Any) -> Any:
    return await (agent.arun("go", **options) if way == "arun" else _drain_stream(agent, **options))


def _go_blocking(way: str, agent: Agent, **options: Any) -> Any:
    if way == "run":
        return agent.run("go", **options)
    with agent.stream("go", **options) as run:
        for _ in run:
            pass
    return run.result


def go(way: str, agent: Agent, **options: Any) -> Any:
    """The result of a run, in that way."""
    if way.startswith("a"):
        return asyncio.run(_go_async(way, agent, **options))
    return _go_blocking(way, agent, **options)


def within_time(function: Any) -> Any:
    """What the function returns, from a thread of its own, so that a deadlock fails instead of hanging."""
    box: list[Any] = []

    def work() -> None:
        try:
            box.append((function(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert box, "it did not come to an end"
    value, error = box[0]
    if error is not None:
        raise error
    return value


@pytest.fixture
def small_pool() -> Iterator[int]:
    set_pool_size(2)
    yield 2
    set_pool_size(128)


# ---------------------------------------------------------------- processes

_SLEEPER = """
import asyncio, sys, threading, time
from surehand import Agent, CancelToken, tool
from surehand.testing import ScriptedModel, call, calls

token = CancelToken()

@tool
def sleepy() -> None:
    token.cancel()
    time.sleep(600)

agent = Agent(ScriptedModel([calls(call("sleepy"), call("sleepy"))]), tools=[sleepy], drain_timeout=0.05)
try:
    if sys.argv[1] == "arun":
        asyncio.run(agent.arun("go", cancel=token))
    else:
        agent.run("go", cancel=token, parallel=True)
except Exception as error:
    print(type(error).__name__)
"""


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(surehand.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )


@pytest.mark.parametrize("way", ["run", "arun"])
def test_a_process_ends_although_a_blocking_tool_still_sleeps(way: str) -> None:
    done = _python(_SLEEPER, way)
    assert (done.returncode, done.stdout) == (0, "RunCancelled\n"), done.stderr


_FORKER = """
import asyncio, os, sys
from surehand import Agent, tool
from surehand.testing import ScriptedModel, call, calls, say

@tool
def blocking() -> str:
    return "b"

@tool
async def awaitable() -> str:
    await asyncio.sleep(0)
    return "a"

def go():
    model = ScriptedModel([calls(call("blocking"), call("awaitable"), call("blocking")), say("ok")])
    agent = Agent(model, tools=[blocking, awaitable])
    return [e.value for e in agent.run("go", parallel=True).executions]

assert go() == ["b", "a", "b"]
child = os.fork()
if child == 0:
    assert go() == ["b", "a", "b"]
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert go() == ["b", "a", "b"]
print("fine")
"""


def test_a_forked_child_runs_tools_of_both_colours() -> None:
    done = _python(_FORKER)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


# ---------------------------------------------------------------- where a run may be made


@tool
async def awaitable() -> str:
    """Do."""
    await asyncio.sleep(0)
    return "awaitable"


@tool
def blocking() -> str:
    """Do."""
    return "blocking"


@tool(timeout=PATIENCE)
async def timed() -> str:
    """Do."""
    await asyncio.sleep(0)
    return "timed"


@tool(timeout=PATIENCE)
def timed_blocking() -> str:
    """Do."""
    return "timed_blocking"


LEAVES = (awaitable, blocking, timed, timed_blocking)
LEAF_NAMES = ("awaitable", "blocking", "timed", "timed_blocking")


def all_leaves() -> Agent:
    """An agent that calls each of the tools above once."""
    return Agent(ScriptedModel([calls(*(call(name) for name in LEAF_NAMES)), say("ok")]), tools=LEAVES)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_blocking_run_works_inside_a_running_event_loop(way: str, parallel: bool) -> None:
    async def main() -> Any:
        return _go_blocking(way, all_leaves(), parallel=parallel)

    result = within_time(lambda: asyncio.run(main()))
    assert [e.value for e in result.executions] == list(LEAF_NAMES)


@pytest.mark.parametrize("inner_parallel", [False, True])
@pytest.mark.parametrize("outer_parallel", [False, True])
@pytest.mark.parametrize("colour", ["awaitable", "blocking"])
@pytest.mark.parametrize("way", ["run", "stream", "arun", "astream"])
def test_a_tool_may_run_another_agent_and_wait_for_it(
    way: str, colour: str, outer_parallel: bool, inner_parallel: bool
) -> None:
    def inner() -> list[str]:
        return [e.value for e in all_leaves().run("go", parallel=inner_parallel).executions]

    @tool
    async def outer_awaitable() -> list[str]:
        """Ask another agent."""
        return inner()

    @tool
    def outer_blocking() -> list[str]:
        """Ask another agent."""
        return inner()

    name = f"outer_{colour}"
    model = ScriptedModel([calls(call(name), call(name)), say("ok")])
    agent = Agent(model, tools=[outer_awaitable, outer_blocking])
    result = within_time(lambda: go(way, agent, parallel=outer_parallel))
    assert [e.value for e in result.executions] == [list(LEAF_NAMES)] * 2


@pytest.mark.parametrize("colour", ["awaitable", "blocking"])
def test_an_undo_inside_a_nested_run_is_not_waited_for_in_a_circle(colour: str) -> None:
    undone: list[str] = []

    async def undo_async(value: str) -> None:
        undone.append(value)

    def undo_blocking(value: str) -> None:
        undone.append(value)

    @tool(undo=undo_async if colour == "awaitable" else undo_blocking)
    async def step() -> str:
        """Do."""
        return "step"

    @tool
    async def outer() -> str:
        """Ask another agent."""
        with pytest.raises(OSError, match="end"):
            Agent(ScriptedModel([calls(call("step"), call("step")), OSError("end")]), tools=[step]).run(
                "go", parallel=True
            )
        return "given up"

    result = within_time(lambda: go("run", Agent(ScriptedModel([calls(call("outer")), say("ok")]), tools=[outer])))
    assert result.executions[0].value == "given up"
    assert undone == ["step", "step"]


def test_nested_runs_that_fill_the_pool_do_not_wait_for_each_other(small_pool: int) -> None:
    both = threading.Barrier(small_pool)

    @tool
    def outer() -> str:
        """Ask another agent."""
        both.wait(PATIENCE)
        return all_leaves().run("go", parallel=True).output or ""

    agent = Agent(ScriptedModel([calls(call("outer"), call("outer")), say("ok")]), tools=[outer])
    result = within_time(lambda: agent.run("go", parallel=True))
    assert [e.value for e in result.executions] == ["ok", "ok"]


# ---------------------------------------------------------------- the pool and the portal


@pytest.mark.parametrize("way", ["run", "arun"])
def test_the_pool_never_runs_more_than_it_is_allowed(way: str, small_pool: int) -> None:
    lock, now, most = threading.Lock(), [0], [0]
    full = threading.Barrier(small_pool)

    @tool
    def count() -> None:
        """Count."""
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        full.wait(PATIENCE)
        with lock:
            now[0] -= 1

    model = ScriptedModel([calls(*[call("count")] * 3 * small_pool), say("ok")])
    result = within_time(lambda: go(way, Agent(model, tools=[count]), parallel=True))
    assert all(e.outcome is Outcome.DONE for e in result.executions)
    assert most == [small_pool]


def test_two_jobs_never_count_on_the_same_waiting_thread() -> None:
    for _ in range(50):
        both = threading.Barrier(2)
        futures = [pool().submit(both.wait, PATIENCE) for _ in range(2)]
        assert sorted(future.result(PATIENCE) for future in futures) == [0, 1]


def test_there_is_one_portal_for_the_whole_process() -> None:
    portals = [within_time(portal), within_time(portal), portal()]
    assert portals[0] is portals[1] is portals[2]


@pytest.mark.parametrize("way", ["arun", "astream"])
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("seconds", [None, PATIENCE])
def test_a_blocking_tool_does_not_hold_up_the_event_loop(way: str, parallel: bool, seconds: float | None) -> None:
    ticked = threading.Event()

    @tool(timeout=seconds)
    def wait() -> bool:
        """Wait until the loop has ticked."""
        return ticked.wait(PATIENCE)

    async def main() -> Any:
        entered = asyncio.ensure_future(
            _go_async(way, Agent(ScriptedModel([calls(call("wait")), say("ok")]), tools=[wait]), parallel=parallel)
        )
        for _ in range(100):
            await asyncio.sleep(0)
        ticked.set()
        return await entered

    assert within_time(lambda: asyncio.run(main())).executions[0].value is True


@pytest.mark.parametrize("way", ["arun", "astream"])
def test_blocking_hooks_that_are_offloaded_and_memories_do_not_hold_up_the_event_loop(way: str) -> None:
    ticked = threading.Event()

    class Memory:
        id = "default"

        def __init__(self) -> None:
            self.held: list[Any] = []

        def add(self, message: Any, /) -> None:
            self.add_all([message])

        def add_all(self, messages: Any, /) -> None:
            assert ticked.wait(PATIENCE)
            self.held.extend(messages)

        def messages(self) -> list[Any]:
            return list(self.held)

        def set(self, messages: Any, /) -> None:
            self.held = list(messages)

        def clear(self) -> None:
            self.held = []

    async def main() -> Any:
        running = asyncio.ensure_future(_go_async(way, Agent(ScriptedModel([say("ok")]), memory=Memory())))
        for _ in range(100):
            await asyncio.sleep(0)
        ticked.set()
        return await running

    assert within_time(lambda: asyncio.run(main())).output == "ok"


# ---------------------------------------------------------------- context


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("way", ["run", "stream", "arun", "astream"])
def test_context_variables_reach_every_body_and_every_undo(way: str, parallel: bool) -> None:
    seen: list[tuple[str, str]] = []

    def see(name: str) -> str:
        seen.append((name, tenant.get()))
        return name

    def undo_blocking(value: str) -> None:
        see(f"undo {value}")

    async def undo_awaitable(value: str) -> None:
        await asyncio.sleep(0)
        see(f"undo {value}")

    @tool(undo=undo_blocking)
    def body() -> str:
        """See."""
        return see("body")

    @tool(undo=undo_awaitable)
    async def coroutine() -> str:
        """See."""
        await asyncio.sleep(0)
        return see("coroutine")

    @tool(timeout=PATIENCE, undo=undo_blocking)
    def timed_body() -> str:
        """See."""
        return see("timed_body")

    @tool(timeout=PATIENCE, undo=undo_awaitable)
    async def timed_coroutine() -> str:
        """See."""
        return see("timed_coroutine")

    @tool(inline=True, undo=undo_blocking)
    def inline() -> str:
        """See."""
        return see("inline")

    names = ("body", "coroutine", "timed_body", "timed_coroutine", "inline")
    model = ScriptedModel([calls(*(call(name) for name in names)), OSError("end")])
    agent = Agent(model, tools=[body, coroutine, timed_body, timed_coroutine, inline])
    token = tenant.set("acme")
    try:
        with pytest.raises(OSError, match="end"):
            go(way, agent, parallel=parallel)
    finally:
        tenant.reset(token)
    assert sorted(seen) == sorted([(name, "acme") for name in (*names, *(f"undo {name}" for name in names))])


def test_the_context_of_one_run_does_not_reach_the_next_one_on_the_same_thread(small_pool: int) -> None:
    seen: list[str] = []

    @tool
    def body(ctx: ToolContext[Any]) -> None:
        """Set and see."""
        seen.append(tenant.get())
        tenant.set("left behind")

    for _ in range(4):
        model = ScriptedModel([calls(call("body"), call("body")), say("ok")])
        Agent(model, tools=[body]).run("go", parallel=True)
    assert seen == ["nobody"] * 8


def test_an_executor_of_the_application_runs_blocking_tools_until_it_is_taken_back() -> None:
    names: list[str] = []

    @tool(repeat="safe")
    def where() -> str:
        names.append(threading.current_thread().name)
        return tenant.get()

    def ask() -> Any:
        return Agent(ScriptedModel([calls(call("where")), say("ok")]), tools=[where]).arun("go")

    token = tenant.set("acme")
    try:
        with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
            use_executor(executor)
            result = asyncio.run(ask())
            use_executor(None)
        asyncio.run(ask())
    finally:
        use_executor(None)
        tenant.reset(token)
    assert result.executions[0].value == "acme"
    assert [name.startswith("mine") for name in names] == [True, False]


def test_what_is_no_executor_is_refused() -> None:
    nonsense: Any = 5
    with pytest.raises(UserError, match=r"use_executor\(5\): expected a concurrent.futures.Executor"):
        use_executor(nonsense)
