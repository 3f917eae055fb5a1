"""An undo that fails is tried again: how often, after which pauses, with what, and what ends it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from surehand import (
    Agent,
    Limits,
    RoundLimitError,
    RunCancelled,
    ToolContext,
    ToolExecution,
    ToolUndone,
    UndoOutcome,
    report_of,
    tool,
)
from surehand._patience import insist, insist_async
from surehand.testing import ScriptedModel, call

from .modes import Ended, Mode, ask

PATIENCE = 10.0  # seconds after which a test gives up

# ---------------------------------------------------------------- the pauses


def paused(fails: int, retries: int, *, is_async: bool) -> tuple[int, list[float]]:
    """How many attempts an action gets that fails so often, and the pauses between them."""
    attempts: list[int] = []
    pauses: list[float] = []

    def act() -> None:
        attempts.append(len(attempts))
        if len(attempts) <= fails:
            raise OSError(len(attempts))

    async def act_async() -> None:
        act()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    if is_async:
        asyncio.run(insist_async(act_async, retries, pause))
    else:
        insist(act, retries, pauses.append)
    return len(attempts), pauses


@pytest.mark.parametrize("is_async", [False, True])
def test_pauses_start_small_grow_and_are_never_long(is_async: bool) -> None:
    attempts, pauses = paused(40, 40, is_async=is_async)
    assert (attempts, len(pauses), pauses[0]) == (41, 40, 0.1)
    most = [min(0.1 * 2**number, 5.0) for number in range(40)]
    assert [0.1 <= pause <= limit for pause, limit in zip(pauses, most, strict=True)] == [True] * 40
    assert len(set(pauses[6:])) > 20 and max(pauses[6:]) > 2.5  # by chance, so that not all come back at once


@pytest.mark.parametrize("is_async", [False, True])
def test_an_action_that_works_is_not_repeated(is_async: bool) -> None:
    assert paused(0, 5, is_async=is_async) == (1, [])
    assert paused(1, 5, is_async=is_async) == (2, [0.1])


@pytest.mark.parametrize("is_async", [False, True])
def test_the_last_error_is_raised_as_it_is(is_async: bool) -> None:
    with pytest.raises(OSError) as caught:
        paused(9, 2, is_async=is_async)
    assert caught.value.args == (3,)


# ---------------------------------------------------------------- in runs


def failing(fails: int, log: list[Any], error: Callable[[int], BaseException]) -> Callable[..., None]:
    """An undo that fails so often, each time with another error."""

    def cancel(execution: ToolExecution[str], ctx: ToolContext[Any]) -> None:
        log.append((execution.value, execution.key, ctx.deps, ctx.idempotency_key))
        if len(log) <= fails:
            raise error(len(log))

    return cancel


def given_up(mode: Mode, undo: Any, *, is_async: bool = False, **options: Any) -> Ended:
    """How a run ends that does one thing, is given up and undoes it."""

    async def undo_async(execution: ToolExecution[str], ctx: ToolContext[Any]) -> None:
        undo(execution, ctx)

    @tool(undo=undo_async if is_async else undo)
    def do() -> str:
        return "done"

    return mode.play(
        ask(call("do")), ask(call("do")), tools=[do], limits=Limits(rounds=1), run={"deps": "airline"}, **options
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_an_undo_that_fails_is_tried_again_with_the_same_key(mode: Mode, is_async: bool) -> None:
    log: list[Any] = []
    ended = given_up(mode, failing(2, log, lambda n: OSError(f"line {n} is dead")), is_async=is_async, undo_retries=2)
    assert log == [("done", "1.0", "airline", "run-1:1.0")] * 3
    assert type(ended.error) is RoundLimitError
    assert [event.execution.undo for event in ended.of(ToolUndone)] == [UndoOutcome(None, 1000.0)]
    assert [execution.value for execution in ended.report.undone] == ["done"]


@pytest.mark.parametrize(("retries", "last"), [(0, 1), (1, 2)])
def test_an_undo_that_goes_on_failing_is_reported_with_its_last_error(mode: Mode, retries: int, last: int) -> None:
    log: list[Any] = []
    ended = given_up(mode, failing(9, log, lambda n: OSError(f"line {n} is dead")), undo_retries=retries)
    assert len(log) == last
    assert [e.undo for e in ended.report.failed_to_undo] == [UndoOutcome(f"OSError: line {last} is dead", 1000.0)]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_what_interrupts_an_undo_is_not_followed_by_another_attempt(mode: Mode, kind: type[BaseException]) -> None:
    log: list[Any] = []
    ended = given_up(mode, failing(9, log, lambda _: kind("stop")), undo_retries=3)
    assert (len(log), len(ended.report.failed_to_undo)) == (1, 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_undo_that_takes_too_long_is_tried_again(mode: Mode, is_async: bool) -> None:
    log: list[str] = []
    second = threading.Event()

    def cancel(execution: ToolExecution[str]) -> None:
        log.append("begun")
        if len(log) > 1:
            second.set()
        else:
            second.wait(PATIENCE)

    async def cancel_async(execution: ToolExecution[str]) -> None:
        log.append("begun")
        if len(log) == 1:
            await asyncio.Event().wait()

    @tool(undo=cancel_async if is_async else cancel, undo_timeout=0.05)
    def do() -> str:
        return "done"

    ended = mode.play(ask(call("do")), ask(call("do")), tools=[do], limits=Limits(rounds=1), undo_retries=1)
    assert (log, [execution.value for execution in ended.report.undone]) == (["begun", "begun"], ["done"])


@pytest.mark.parametrize("is_async", [False, True])
def test_cancelling_every_task_between_two_attempts_does_not_end_the_undoing(is_async: bool) -> None:
    async def main() -> tuple[list[str], BaseException]:
        log: list[str] = []
        loop, failed = asyncio.get_running_loop(), asyncio.Event()

        def cancel(value: str) -> None:
            log.append(value)
            if len(log) == 1:
                loop.call_soon_threadsafe(failed.set)
                raise OSError("line is dead")

        async def cancel_async(value: str) -> None:
            cancel(value)

        @tool(undo=cancel_async if is_async else cancel)
        def do() -> str:
            return "done"

        model = ScriptedModel([ask(call("do")), ask(call("do"))])
        agent = Agent(model, tools=[do], limits=Limits(rounds=1), undo_retries=1)
        task = asyncio.ensure_future(agent.arun("Go"))
        await asyncio.wait_for(failed.wait(), PATIENCE)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        while len(log) < 2 and not task.done():  # as a loop that shuts down, all through the pause
            for other in others:
                other.cancel()
            await asyncio.sleep(0)
        try:
            await task
        except (RoundLimitError, RunCancelled, asyncio.CancelledError) as error:
            return log, error
        raise AssertionError("the run was not given up")

    log, error = asyncio.run(main())
    report = report_of(error)
    assert log == ["done", "done"]
    assert report is not None and [execution.value for execution in report.undone] == ["done"]
