"""What a run may spend besides rounds: calls, tokens, seconds; and the token that cancels it (spec 7.2, 12)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from surehand import (
    CallLimitError,
    CancelToken,
    ConsecutiveErrorsError,
    Limits,
    MessageWindow,
    Outcome,
    RunCancelled,
    RunCancelledEvent,
    TimeLimitError,
    TokenLimitError,
    ToolUndone,
    UndoReason,
    Usage,
    UserMessage,
    tool,
)
from surehand.testing import FakeClock, ScriptedModel, call, calls, say

from .modes import Mode, ask, scripted


class Counter:
    """A tool that counts its calls, and can take them back."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def tools(self, then: Any = lambda: None) -> list[Any]:
        def cancel(value: int) -> None:
            self.log.append("undo")

        @tool(name="do", undo=cancel)
        def do() -> int:
            self.log.append("do")
            then()
            return len(self.log)

        return [do]


DO = call("do")


@pytest.mark.parametrize(("limit", "runs"), [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (None, 4)])
def test_a_round_that_would_exceed_the_limit_of_calls_does_not_begin(mode: Mode, limit: int | None, runs: int) -> None:
    counter = Counter()
    ended = mode.play(
        ask(DO, DO), ask(DO, DO), say("Done"), tools=counter.tools(), limits=Limits(calls=limit), undo=None
    )
    assert counter.log.count("do") == runs
    if runs == 4:
        assert ended.answer.output == "Done"
    else:
        assert isinstance(ended.error, CallLimitError)
        assert f"{runs} calls were made and 2 more" in str(ended.error) and f"calls={limit}" in str(ended.error)
        assert counter.log.count("undo") == runs


@pytest.mark.parametrize(("limit", "fails"), [(0, True), (10, True), (11, False), (None, False)])
def test_a_run_that_has_spent_too_many_tokens_starts_no_round(mode: Mode, limit: int | None, fails: bool) -> None:
    counter = Counter()
    ended = mode.play(
        calls(DO, usage=Usage(8, 3)), say("Done", usage=Usage(50, 50)),
        tools=counter.tools(), limits=Limits(tokens=limit),
    )  # fmt: skip
    assert isinstance(ended.error, TokenLimitError) is fails
    assert counter.log == ([] if fails else ["do"])
    if fails:
        assert "used 11 tokens" in str(ended.error) and f"tokens={limit}" in str(ended.error)


@pytest.mark.parametrize(("seconds", "fails"), [(5.0, False), (4.9, True)])
def test_a_run_that_has_taken_too_long_asks_the_model_no_more(mode: Mode, seconds: float, fails: bool) -> None:
    clock, counter = FakeClock(1000.0), Counter()
    ended = mode.play(
        ask(DO), say("Done"),
        tools=counter.tools(lambda: clock.advance(5)), limits=Limits(seconds=seconds), clock=clock,
    )  # fmt: skip
    if not fails:
        assert ended.answer.output == "Done"
        return
    assert isinstance(ended.error, TimeLimitError) and "Limits(seconds=4.9)" in str(ended.error)
    assert (len(ended.requests), counter.log) == (1, ["do", "undo"])


def test_a_run_that_has_taken_too_long_starts_no_tool(mode: Mode) -> None:
    clock, counter = FakeClock(1000.0), Counter()

    def slow(request: Any) -> Any:
        clock.advance(9)
        return ask(DO)

    ended = mode.play(slow, tools=counter.tools(), limits=Limits(seconds=5), clock=clock)
    assert isinstance(ended.error, TimeLimitError)
    assert counter.log == []
    assert [e.outcome for e in ended.executions] == [Outcome.NOT_RUN]


def test_consecutive_errors_are_counted_by_default(mode: Mode) -> None:
    ended = mode.play(*[ask(call("nope"))] * 9, tools=Counter().tools())
    assert isinstance(ended.error, ConsecutiveErrorsError)
    assert len(ended.requests) == 5


# ---------------------------------------------------------------- the token


def test_a_token_that_is_cancelled_before_the_run_lets_nothing_happen(mode: Mode) -> None:
    token, counter, memory = CancelToken(), Counter(), MessageWindow(10)
    token.cancel()
    ended = mode.play(ask(DO), tools=counter.tools(), memory=memory, run={"cancel": token})
    assert type(ended.error) is RunCancelled
    assert (counter.log, list(ended.requests)) == ([], [])
    assert memory.messages() == [UserMessage.of("Go")]


def test_a_token_that_is_cancelled_while_the_model_answers_stops_the_round(mode: Mode) -> None:
    token, counter = CancelToken(), Counter()

    def reply(request: Any) -> Any:
        token.cancel()
        return ask(DO)

    ended = mode.play(reply, tools=counter.tools(), run={"cancel": token})
    assert type(ended.error) is RunCancelled
    assert counter.log == []
    assert "ToolStarted" not in ended.names


def test_a_token_that_is_cancelled_while_a_tool_runs_lets_it_finish_and_undoes_it(mode: Mode) -> None:
    token, counter = CancelToken(), Counter()
    ended = mode.play(ask(DO), ask(DO), tools=counter.tools(token.cancel), run={"cancel": token})
    assert type(ended.error) is RunCancelled
    assert counter.log == ["do", "undo"]
    assert [(e.value, e.outcome) for e in ended.report.undone] == [(1, Outcome.DONE)]
    assert ended.results == [("do", "Tool 'do' had succeeded, but it was undone because the run was cancelled.", True)]
    assert [event.reason for event in ended.of(ToolUndone)] == [UndoReason.RUN_CANCELLED]
    assert ended.names[-1] == "RunCancelledEvent"
    assert len(ended.of(RunCancelledEvent)) == 1
    assert len(ended.requests) == 1


def test_a_token_cancelled_in_sequence_starts_no_further_call(sequential: Mode) -> None:
    token, counter = CancelToken(), Counter()
    ended = sequential.play(ask(DO, DO, DO), tools=counter.tools(token.cancel), run={"cancel": token})
    assert counter.log == ["do", "undo"]
    assert [e.outcome for e in ended.executions] == [Outcome.DONE, Outcome.NOT_RUN, Outcome.NOT_RUN]


def test_a_token_from_another_thread_cancels_every_mode_and_waits_for_the_tool(mode: Mode) -> None:
    token, entered = CancelToken(), threading.Event()

    def cancel() -> None:
        assert entered.wait(5)
        token.cancel()

    def enter() -> None:
        entered.set()
        while not token.is_cancelled:  # the tool goes on until the cancellation is there, and then finishes
            token.on_cancel(seen.set)
            seen.wait(5)

    seen, counter = threading.Event(), Counter()
    thread = threading.Thread(target=cancel)
    thread.start()
    ended = mode.play(ask(DO), say("Never"), tools=counter.tools(enter), run={"cancel": token})
    thread.join(5)
    assert type(ended.error) is RunCancelled
    assert counter.log == ["do", "undo"]


def test_a_token_that_is_cancelled_after_the_run_changes_nothing(mode: Mode) -> None:
    token, counter = CancelToken(), Counter()
    agent = scripted(ScriptedModel([ask(DO), say("Done")]), tools=counter.tools())
    ended = mode.drive(agent, cancel=token)
    token.cancel()
    token.cancel()
    assert (ended.answer.output, counter.log, ended.report.undone) == ("Done", ["do"], ())


def test_a_token_tells_its_callbacks_once(mode: Mode) -> None:
    token, told = CancelToken(), []
    token.on_cancel(lambda: told.append("before"))
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: told.append("after"))
    assert (told, token.is_cancelled) == (["before", "after"], True)
