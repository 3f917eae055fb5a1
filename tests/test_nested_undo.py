"""What agents did that were called as tools is undone with what their caller did: each once, newest first."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import (
    AssistantMessage,
    MessageWindow,
    Outcome,
    RunFailed,
    SurehandError,
    ToolUndone,
    UndoPolicy,
    UndoReason,
    UserMessage,
)
from surehand.testing import say

from .modes import Mode, answer_of, ask
from .nested import to, travel
from .shop import WHY_GIVEN_UP, Shop, book, pay

OFF, ON_ERROR, ON_GIVE_UP = UndoPolicy.OFF, UndoPolicy.ON_TOOL_ERROR, UndoPolicy.ON_GIVE_UP
BOTH = [(parent, child) for parent in UndoPolicy for child in UndoPolicy]
policies = pytest.mark.parametrize(("parent", "child"), BOTH)
PAID = "This call of 'pay' may have happened; it is not known. Do not repeat it."
WHY_TOOL = "undone because tool 'travel' failed"


def texts(messages: Any) -> list[str]:
    """What is read of each call, in order."""
    return [message.text for message in messages if type(message).__name__ == "ToolMessage"]


# ---------------------------------------------------------------- both policies


@policies
def test_an_agent_that_gives_up_undoes_its_own_part_and_its_caller_reads_what_stands(
    sequential: Mode, parent: UndoPolicy, child: UndoPolicy
) -> None:
    shop, memory = Shop(), MessageWindow(50)
    inner = travel(ask(book("a")), ask(pay("badly")), tools=[shop], undo=child, memory=memory)
    ended = sequential.play(ask(book("z")), ask(to()), ask(book("y")), say("Done"), tools=[shop, inner], undo=parent)
    log = ["book z", "book a", "pay badly"]
    log += [] if child is OFF else ["cancel booked a"]
    log += ["cancel booked z"] if parent is ON_ERROR else []
    assert shop.log == [*log, "book y"]
    standing = "'pay' (call 2.0/2.0)" if child is not OFF else "'book' (call 2.0/1.0), 'pay' (call 2.0/2.0)"
    told = f"The agent behind 'travel' gave up with ValueError. This may still stand: {standing}."
    of_z = f"Tool 'book' had succeeded, but it was {WHY_TOOL}." if parent is ON_ERROR else "booked z"
    assert [text for _, text, _ in ended.results] == [of_z, told, "booked y"]
    of_a = {
        OFF: "booked a", ON_GIVE_UP: WHY_GIVEN_UP,
        ON_ERROR: "Tool 'book' had succeeded, but it was undone because tool 'pay' failed.",
    }  # fmt: skip
    assert texts(memory.messages()) == [of_a[child], PAID]
    assert [e.key for e in ended.report.unknown] == ["2.0/2.0"]


@policies
def test_a_caller_that_gives_up_undoes_what_its_agents_did_if_both_want_that(
    sequential: Mode, parent: UndoPolicy, child: UndoPolicy
) -> None:
    shop, memory = Shop(), MessageWindow(50)
    inner = travel(ask(book("a")), say("Booked a."), tools=[shop], undo=child, memory=memory)
    ended = sequential.play(ask(book("z")), ask(to()), ask(book("y")), OSError("end"), tools=[shop, inner], undo=parent)
    log = ["book z", "book a", "book y"]
    is_undone = parent is not OFF and child is not OFF
    if parent is not OFF:
        log += ["cancel booked y", *(["cancel booked a"] if is_undone else []), "cancel booked z"]
    assert shop.log == log
    of_agent = "What was done here was undone because the run was given up: ['book']."
    assert ended.results[1] == ("travel", of_agent if is_undone else "Booked a.", is_undone)
    assert texts(memory.messages()) == [WHY_GIVEN_UP if is_undone else "booked a"]
    assert [e.key for e in ended.report.undone] == [
        key for key in ("1.0", "2.0/1.0", "3.0") if parent is not OFF and (child is not OFF or key != "2.0/1.0")
    ]  # fmt: skip


@policies
def test_a_call_that_fails_in_an_agent_undoes_by_the_agents_policy_and_is_no_failure_of_its_callers(
    sequential: Mode, parent: UndoPolicy, child: UndoPolicy
) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(pay("politely")), ask(book("b")), say("Booked b."), tools=[shop], undo=child)
    ended = sequential.play(ask(book("z")), ask(to()), say("Done"), tools=[shop, inner], undo=parent)
    undone = ["cancel booked a"] if child is ON_ERROR else []
    assert shop.log == ["book z", "book a", "pay politely", *undone, "book b"]
    assert ended.results == [("book", "booked z", False), ("travel", "Booked b.", False)]


@policies
def test_a_call_that_fails_beside_agents_undoes_what_they_did_if_both_want_that(
    mode: Mode, parent: UndoPolicy, child: UndoPolicy
) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), say("Booked a."), tools=[shop], undo=child)
    ended = mode.play(ask(to()), ask(pay("politely")), ask(book("y")), say("Done"), tools=[shop, inner], undo=parent)
    is_undone = parent is ON_ERROR and child is not OFF
    assert shop.log == ["book a", "pay politely", *(["cancel booked a"] if is_undone else []), "book y"]
    of_agent = "What was done here was undone because tool 'pay' failed: ['book']."
    assert ended.results[0] == ("travel", of_agent if is_undone else "Booked a.", is_undone)


# ---------------------------------------------------------------- order, and once


def test_three_levels_are_undone_newest_first_each_call_once(mode: Mode) -> None:
    shop = Shop()
    last = travel(ask(book("c")), say("c"), tools=[shop], name="third")
    second = travel(ask(book("b")), ask(to("third")), ask(book("d")), say("b"), tools=[shop, last], name="second")
    ended = mode.play(ask(book("a")), ask(to("second")), ask(book("e")), OSError("end"), tools=[shop, second])
    assert shop.log == [f"book {what}" for what in "abcde"] + [f"cancel booked {what}" for what in "edcba"]
    undone = [(e.path, e.execution.key, e.reason) for e in ended.of(ToolUndone)]
    keys = [("", "3.0"), ("2.0", "2.0/3.0"), ("2.0/2.0", "2.0/2.0/1.0"), ("2.0", "2.0/1.0"), ("", "1.0")]
    assert undone == [(path, key, UndoReason.RUN_GIVEN_UP) for path, key in keys]
    assert [e.key for e in ended.report.executions] == [
        "1.0", "2.0", "2.0/1.0", "2.0/2.0", "2.0/2.0/1.0", "2.0/3.0", "3.0",
    ]  # fmt: skip
    assert [text for _, text, _ in ended.results] == [
        WHY_GIVEN_UP, "What was done here was undone because the run was given up: ['book', 'book', 'book'].",
        WHY_GIVEN_UP,
    ]  # fmt: skip
    assert ended.report.standing == ()


def test_an_agent_that_gives_up_in_the_middle_takes_along_what_those_below_it_did_and_nothing_else(mode: Mode) -> None:
    shop = Shop()
    last = travel(ask(book("c")), say("c"), tools=[shop], name="third")
    second = travel(ask(book("b")), ask(to("third")), OSError("line is dead"), tools=[shop, last], name="second")
    ended = mode.play(ask(book("a")), ask(to("second")), ask(book("e")), say("Done"), tools=[shop, second])
    assert ended.answer.output == "Done"
    assert shop.log == ["book a", "book b", "book c", "cancel booked c", "cancel booked b", "book e"]
    text = "The agent behind 'second' gave up with OSError. Nothing that it did stands."
    assert ended.results == [("book", "booked a", False), ("second", text, True), ("book", "booked e", False)]
    assert [(e.key, e.outcome) for e in ended.report.executions] == [
        ("1.0", Outcome.DONE), ("2.0", Outcome.FAILED), ("2.0/1.0", Outcome.DONE), ("2.0/2.0", Outcome.DONE),
        ("2.0/2.0/1.0", Outcome.DONE), ("3.0", Outcome.DONE),
    ]  # fmt: skip
    assert [(e.path, type(e.error)) for e in ended.of(RunFailed)] == [("2.0", OSError)]


def test_what_an_agent_has_undone_its_caller_does_not_undo_again(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("b")), OSError("line is dead"), tools=[shop])
    ended = mode.play(ask(book("a")), ask(to()), OSError("end"), tools=[shop, inner])
    assert shop.log == ["book a", "book b", "cancel booked b", "cancel booked a"]
    assert [text for _, text, _ in ended.results] == [
        WHY_GIVEN_UP, "The agent behind 'travel' gave up with OSError. Nothing that it did stands.",
    ]  # fmt: skip


def test_agents_side_by_side_undo_their_own_parts_and_the_rest_stays_for_their_caller(concurrent: Mode) -> None:
    shop = Shop()
    good = travel(ask(book("a")), ask(book("b")), say("ok"), tools=[shop], name="good")
    bad = travel(ask(book("c")), OSError("line is dead"), tools=[shop], name="bad")
    ended = concurrent.play(ask(to("good"), to("bad"), to("bad")), OSError("end"), tools=[good, bad])
    booked = [entry for entry in shop.log if entry.startswith("book")]
    cancelled = [entry for entry in shop.log if entry.startswith("cancel")]
    assert sorted(cancelled) == sorted(f"cancel {entry.replace('book', 'booked')}" for entry in booked)
    assert cancelled[-2:] == ["cancel booked b", "cancel booked a"]
    assert ended.report.standing == ()


def test_an_agent_between_that_undoes_nothing_leaves_what_those_below_it_did_to_its_caller(mode: Mode) -> None:
    shop = Shop()
    last = travel(ask(book("c")), say("c"), tools=[shop], name="third")
    second = travel(ask(to("third")), OSError("line is dead"), tools=[last], name="second", undo=OFF)
    ended = mode.play(ask(book("a")), ask(to("second")), OSError("end"), tools=[shop, second])
    assert shop.log == ["book a", "book c", "cancel booked c", "cancel booked a"]
    assert ended.report.standing == ()


# ---------------------------------------------------------------- undos that fail


@pytest.mark.parametrize("who", ["agent", "caller"])
def test_an_undo_that_fails_in_an_agent_keeps_nothing_else_from_being_undone_and_is_named(mode: Mode, who: str) -> None:
    shop, memory = Shop(fails_to_cancel=["b"]), MessageWindow(50)
    last = OSError("line is dead") if who == "agent" else say("ok")
    inner = travel(ask(book("a")), ask(book("b")), last, tools=[shop], memory=memory)
    ended = mode.play(ask(book("z")), ask(to()), OSError("end"), tools=[shop, inner])
    assert shop.log == ["book z", "book a", "book b", "cancel booked b", "cancel booked a", "cancel booked z"]
    failed = (
        "Tool 'book' had succeeded. Undoing it because the run was given up was attempted and failed: its effect may "
        "stand."
    )
    assert texts(memory.messages()) == [WHY_GIVEN_UP, failed]
    told = {
        "agent": "The agent behind 'travel' gave up with OSError. This may still stand: 'book' (call 2.0/2.0).",
        "caller": "What was done here was undone because the run was given up: ['book']. Undoing ['book'] because the "
        "run was given up was attempted and failed: that may stand.",
    }
    assert ended.results[1] == ("travel", told[who], True)
    report = ended.report
    assert ([e.key for e in report.failed_to_undo], [e.key for e in report.undone]) == (["2.0/2.0"], ["1.0", "2.0/1.0"])
    assert [e.key for e in report.standing] == ["2.0/2.0"]


def test_an_undo_that_fails_three_levels_deep_is_tried_once_and_named_at_every_level(mode: Mode) -> None:
    shop = Shop(fails_to_cancel=["c"])
    last = travel(ask(book("c")), OSError("line is dead"), tools=[shop], name="third")
    second = travel(ask(book("b")), ask(to("third")), OSError("no line"), tools=[shop, last], name="second")
    ended = mode.play(ask(to("second")), OSError("end"), tools=[second])
    assert shop.log == ["book b", "book c", "cancel booked c", "cancel booked b"]
    text = "The agent behind 'second' gave up with OSError. This may still stand: 'book' (call 1.0/2.0/1.0)."
    assert ended.results == [("second", text, True)]
    assert [e.key for e in ended.report.standing] == ["1.0/2.0/1.0"]


# ---------------------------------------------------------------- conversations


@pytest.mark.parametrize("on_abort", ["complete", "discard"])
def test_the_conversation_of_an_agent_that_gave_up_is_closed_as_it_wants_that(mode: Mode, on_abort: str) -> None:
    shop, memory = Shop(), MessageWindow(50)
    inner = travel(
        ask(book("a")), ask(book("b", "x"), pay("badly")), tools=[shop], memory=memory, on_abort=on_abort,
        parallel=False,
    )  # fmt: skip
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert ended.answer.output == "Done"
    kept: list[Any] = [
        UserMessage.of("Book"), AssistantMessage(None, (book("a"),)), answer_of(book("a"), WHY_GIVEN_UP, is_error=True),
    ]  # fmt: skip
    last = [
        AssistantMessage(None, (book("b", "x"), pay("badly"))), answer_of(book("b", "x"), WHY_GIVEN_UP, is_error=True),
        answer_of(pay("badly"), PAID, is_error=True),
    ]  # fmt: skip
    assert memory.messages() == (kept if on_abort == "discard" else kept + last)


def test_what_was_undone_is_put_right_in_each_conversation_of_an_agent_that_was_asked_twice(mode: Mode) -> None:
    shop, memory = Shop(), MessageWindow(50)
    inner = travel(ask(book("a")), say("one"), ask(book("b")), say("two"), tools=[shop], memory=memory)
    mode.play(ask(to()), ask(to()), OSError("end"), tools=[inner])
    assert texts(memory.messages()) == [WHY_GIVEN_UP, WHY_GIVEN_UP]
    assert [m.text for m in memory.messages() if isinstance(m, AssistantMessage) and m.text] == ["one", "two"]


def test_an_undo_of_the_agent_as_a_tool_is_refused() -> None:
    with pytest.raises(SurehandError, match="undo"):
        travel().as_tool(undo=print)  # type: ignore[call-arg]
