"""What a body does in ``ctx.step`` is done once, whatever becomes of the attempt, the call and the process."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from surehand import Absent, JournalUnavailable, Outcome, ToolContext, tool
from surehand.testing import call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, asked, every_mode, raised
from .test_failing_journal import Failing


@every_mode
@pytest.mark.parametrize("repeat", ["safe", "with_key", "never"])
@pytest.mark.parametrize("dies_after", ["reserve", "price", "pay"])
def test_a_body_that_runs_again_after_a_crash_repeats_no_step_that_was_recorded(
    mode: Mode, repeat: Any, dies_after: str
) -> None:
    life = Life()

    def do(name: str, value: Any) -> Any:
        life.log.append(name)
        return value

    @tool(repeat=repeat, probe=lambda context, arguments: Absent())
    def buy(ctx: ToolContext[Any]) -> dict[str, Any]:
        got: dict[str, Any] = {}
        for name, value in (("reserve", {"id": 7}), ("price", 12.5), ("pay", ["a", None])):
            got[name] = ctx.step(name, lambda name=name, value=value: do(name, value))
            if name == dies_after:
                life.dies()
        return got

    mode.drive(agent(life, calls(call("buy")), say("Done"), tools=[buy]), run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, say("Done"), tools=[buy]), run_id=RUN)
    assert life.log == ["reserve", "price", "pay"]
    assert [e.value for e in ended.answer.executions] == [{"reserve": {"id": 7}, "price": 12.5, "pay": ["a", None]}]
    assert [r.step for r in life.journal.records(RUN) if r.kind == "STEP"] == [
        "1.0:reserve",
        "1.0:price",
        "1.0:pay",
    ]


@every_mode
def test_async_steps_are_awaited_once_and_come_back_awaitable(mode: Mode) -> None:
    life = Life()

    async def reserve() -> int:
        life.log.append("reserve")
        return 7

    @tool(repeat="safe")
    async def buy(ctx: ToolContext[Any]) -> int:
        held = await ctx.step("reserve", reserve)
        life.dies()
        return held

    mode.drive(agent(life, calls(call("buy")), say("Done"), tools=[buy]), run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, say("Done"), tools=[buy]), run_id=RUN)
    assert (life.log, [e.value for e in ended.answer.executions]) == (["reserve"], [7])


@every_mode
def test_a_step_is_done_once_over_retries_and_then_over_a_crash(mode: Mode) -> None:
    life = Life()

    @tool(repeat="with_key", retries=2)
    def buy(ctx: ToolContext[Any]) -> str:
        ctx.step("reserve", lambda: life.log.append("reserve"))
        life.log.append(f"attempt {ctx.attempt}")
        if ctx.attempt < 3:
            raise OSError("line broke")
        life.dies()
        return "bought"

    mode.drive(agent(life, calls(call("buy")), say("Done"), tools=[buy]), run_id=RUN)
    life.next()
    assert life.log == ["reserve", "attempt 1", "attempt 2", "attempt 3"]
    ended = mode.drive(agent(life, say("Done"), tools=[buy]), run_id=RUN)
    assert life.log.count("reserve") == 1 and ended.answer.executions[0].outcome is Outcome.DONE


@every_mode
def test_a_step_of_an_attempt_that_timed_out_is_not_done_again(mode: Mode) -> None:
    life, release = Life(), threading.Event()

    @tool(repeat="with_key", retries=1, timeout=0.1)
    def buy(ctx: ToolContext[Any]) -> str:
        ctx.step("reserve", lambda: life.log.append("reserve"))
        if ctx.attempt == 1:
            release.wait(20)
        return f"bought at attempt {ctx.attempt}"

    ended = mode.drive(agent(life, calls(call("buy")), say("Done"), tools=[buy]), run_id=RUN)
    release.set()
    assert (life.log, ended.answer.executions[0].value) == (["reserve"], "bought at attempt 2")


@every_mode
def test_the_same_names_in_two_calls_are_two_steps(mode: Mode) -> None:
    life = Life()

    @tool(repeat="safe")
    def act(n: int, ctx: ToolContext[Any]) -> int:
        return ctx.step("act", lambda: life.log.append(n) or n)

    script = [calls(call("act", {"n": 1}), call("act", {"n": 2})), calls(call("act", {"n": 1})), say("Done")]
    ended = mode.drive(agent(life, *script, tools=[act]), run_id=RUN)
    assert (sorted(life.log), [e.value for e in ended.answer.executions]) == ([1, 1, 2], [1, 2, 1])


@every_mode
def test_a_step_that_the_journal_could_not_keep_ends_the_run_with_its_error(mode: Mode) -> None:
    life = Life()
    life.journal = journal = Failing(4)  # the reply, the intent, the first step; then the disk is full

    @tool(repeat="with_key")
    def buy(ctx: ToolContext[Any]) -> str:
        ctx.step("one", lambda: life.log.append("one"))
        ctx.step("two", lambda: life.log.append("two"))
        life.log.append("bought")
        return "bought"

    first = agent(life, calls(call("buy")), say("Done"), tools=[buy])
    error = mode.drive(first, run_id=RUN).error
    assert isinstance(error, JournalUnavailable) and life.log == ["one", "two"]
    journal.fails_at = 10**6
    second = agent(life, say("Done"), tools=[buy])
    assert mode.drive(second, run_id=RUN).answer.output == "Done"
    assert life.log == ["one", "two", "two", "bought"]  # what was not recorded is done again, and nothing else
    assert asked(second) == 1 and raised(lambda: second.resume(RUN)) is None
