"""Undo when a tool fails and the run goes on: who triggers it, and what the model reads then (spec 11.3)."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    Limits,
    MemoryJournal,
    MessageWindow,
    RoundLimitError,
    ToolCall,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolResult,
    ToolUndone,
    UndoOutcome,
    UndoPolicy,
    UndoReason,
    UserMessage,
    report_of,
    tell_safely,
    tool,
    undo_on_any_error,
)
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Mode, answer_of, ask
from .shop import Shop, book, pay, undone

# ---------------------------------------------------------------- ON_TOOL_ERROR

WHY_TOOL = "Tool 'book' had succeeded, but it was undone because tool 'pay' failed."
ON_ERROR = UndoPolicy.ON_TOOL_ERROR


@pytest.mark.parametrize("with_memory", [False, True])
def test_under_on_tool_error_a_failed_tool_undoes_all_rounds_once_and_the_run_goes_on(
    sequential: Mode, with_memory: bool
) -> None:
    shop, memory = Shop(), MessageWindow(50) if with_memory else None
    ended = sequential.play(
        ask(book("seat", "x")), ask(book("bed", "y"), pay("politely")), ask(pay("politely")), say("Sorry"),
        tools=[shop], undo=ON_ERROR, memory=memory,
    )  # fmt: skip
    assert shop.log == [
        "book seat", "book bed", "pay politely", "cancel booked bed", "cancel booked seat", "pay politely",
    ]  # fmt: skip
    conversation = [
        UserMessage.of("Go"),
        AssistantMessage(None, (book("seat", "x"),)),
        answer_of(book("seat", "x"), WHY_TOOL, is_error=True),
        AssistantMessage(None, (book("bed", "y"), pay("politely"))),
        answer_of(book("bed", "y"), WHY_TOOL, is_error=True),
        answer_of(pay("politely"), "card refused", is_error=True),
    ]
    assert list(ended.requests[2].messages) == conversation
    assert undone(ended) == [("booked bed", None), ("booked seat", None)]
    assert {event.reason for event in ended.of(ToolUndone)} == {UndoReason.TOOL_FAILED}
    assert ended.answer.output == "Sorry"
    if memory is not None:
        assert memory.messages() == list(ended.answer.messages)


@pytest.mark.parametrize("ids", [(None, None), ("same", "same")])
@pytest.mark.parametrize("with_memory", [False, True])
def test_missing_and_repeated_ids_over_two_rounds_are_never_mixed_up(
    sequential: Mode, ids: tuple[str | None, str | None], with_memory: bool
) -> None:
    shop, memory = Shop(), MessageWindow(50) if with_memory else None
    earlier, emailed, later = book("seat", ids[0]), call("email", id=ids[0]), book("bed", ids[1])
    refused = ToolCall(ids[1], "pay", '{"how": "politely"}')
    # The script's own reply keeps missing ids missing.
    ended = sequential.play(
        ask(earlier, emailed), ask(later, refused), say("Sorry"), tools=[shop], undo=ON_ERROR, memory=memory
    )
    expected = [
        answer_of(earlier, WHY_TOOL, is_error=True),
        answer_of(emailed, "sent"),
        answer_of(later, WHY_TOOL, is_error=True),
        answer_of(refused, "card refused", is_error=True),
    ]
    sent = [
        message for message in ended.requests[2].messages if not isinstance(message, (UserMessage, AssistantMessage))
    ]
    assert sent == expected


@pytest.mark.parametrize(
    ("failing", "undoes_by_default"),
    [
        (pay("politely"), True),  # the body ran and failed
        (call("pay", '{"how": ', id="p"), False),  # nothing ran
        (call("nope", id="p"), False),  # nothing ran
        (call("closed", id="p"), True),  # it returned an error
        (call("reads", id="p"), True),  # a safe tool failed
    ],
    ids=["tool_error", "arguments", "unknown_name", "returned", "safe"],
)
@pytest.mark.parametrize("always", [False, True])
def test_a_predicate_says_which_failures_undo(
    mode: Mode, failing: ToolCall, undoes_by_default: bool, always: bool
) -> None:
    @tool
    def closed() -> ToolResult:
        return ToolResult.error("closed")

    @tool(repeat="safe")
    def reads() -> str:
        raise ValueError("x")

    shop = Shop()
    options: dict[str, Any] = {"undo_when": undo_on_any_error} if always else {}
    mode.play(ask(book("seat")), ask(failing), say("Ok"), tools=[shop, closed, reads], undo=ON_ERROR, **options)
    assert ("cancel booked seat" in shop.log) is (always or undoes_by_default)


@pytest.mark.without_journal("it is asked again when the run is told again")
def test_the_predicate_is_asked_of_failed_calls_alone(sequential: Mode) -> None:
    asked: list[str] = []

    def when(execution: ToolExecution[Any]) -> bool:
        asked.append(execution.result.text)
        return False

    shop = Shop()
    sequential.play(ask(book("seat"), pay("politely")), say("Ok"), tools=[shop], undo=ON_ERROR, undo_when=when)
    assert (asked, shop.log) == (["card refused"], ["book seat", "pay politely"])


def test_under_on_tool_error_a_run_that_is_given_up_undoes_too(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(ask(book("seat")), ask(book("bed")), tools=[shop], undo=ON_ERROR, limits=Limits(rounds=1))
    assert (type(ended.error), shop.log) == (RoundLimitError, ["book seat", "cancel booked seat"])


def test_what_has_been_undone_stays_marked_and_is_not_undone_again(sequential: Mode) -> None:
    shop = Shop()
    ended = sequential.play(
        ask(book("seat"), pay("politely")), ask(book("bed"), pay("badly")), tools=[shop], undo=ON_ERROR
    )
    assert shop.log.count("cancel booked seat") == shop.log.count("cancel booked bed") == 1
    assert [(e.value, e.undo) for e in ended.report.undone] == [
        ("booked seat", UndoOutcome(None, 1000.0)),
        ("booked bed", UndoOutcome(None, 1000.0)),
    ]


@pytest.mark.parametrize("has_journal", [False, True])
def test_ctrl_c_waits_for_the_undo_that_a_failed_tool_has_begun_and_then_gives_the_run_up(has_journal: bool) -> None:
    log: list[str] = []

    def cancel(seat: str) -> None:
        signal.raise_signal(signal.SIGINT)
        log.append(f"cancel {seat}")

    @tool(undo=cancel)
    def take() -> str:
        return "seat 1"

    @tool
    def refuse() -> None:
        raise ToolError("no")

    model = ScriptedModel([calls(call("take")), calls(call("refuse"))])
    journal = MemoryJournal() if has_journal else None
    with pytest.raises(KeyboardInterrupt) as raised:
        Agent(model, tools=[take, refuse], undo=ON_ERROR, journal=journal).run("Go")
    assert log == ["cancel seat 1"]
    report = report_of(raised.value)
    assert report is not None and [e.call.name for e in report.undone] == ["take"] and report.failed_to_undo == ()


def test_the_callback_for_failed_tools_is_called_once_for_each_round_with_failures(mode: Mode) -> None:
    told: list[str] = []

    def on_tool_error(context: ToolContext[Any]) -> None:
        told.append(context.call.name)

    shop = Shop()
    mode.play(
        ask(pay("politely"), pay("politely")), ask(book("seat")), ask(pay("badly")), say("Ok"),
        tools=[shop], on_tool_error=on_tool_error, on_error=tell_safely,
    )  # fmt: skip
    assert told == ["pay", "pay"]


def test_a_message_that_the_window_has_dropped_is_left_out(sequential: Mode) -> None:
    shop, memory = Shop(), MessageWindow(3)
    ended = sequential.play(
        ask(book("seat")), ask(pay("politely")), say("Ok"), tools=[shop], undo=ON_ERROR, memory=memory
    )
    assert ended.answer.output == "Ok"
    assert "cancel booked seat" in shop.log
    kept = memory.messages()
    refusal = answer_of(pay("politely"), "card refused", is_error=True)
    assert kept == [AssistantMessage(None, (pay("politely"),)), refusal, AssistantMessage("Ok")]
