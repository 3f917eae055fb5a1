"""Histories of every kind become requests that a provider accepts."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surehand.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from surehand.models._wire import LOST_RESULT, UNNAMED, WireNames, valid_arguments, valid_history


def asked(*calls: ToolCall) -> AssistantMessage:
    return AssistantMessage(tool_calls=calls)


def got(id: str | None, text: str, name: str = "add") -> ToolMessage:
    return ToolMessage(id, name, (TextContent(text),))


def pairs(messages: list[Message]) -> list[tuple[str | None, str]]:
    """Id and text of each result, after checking that each answers the call in its place."""
    calls = [call for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [call.id for call in calls] == [result.call_id for result in results]
    return [(result.call_id, result.text) for result in results]


def test_a_valid_history_stays_the_same_objects() -> None:
    history: list[Message] = [
        SystemMessage("be brief"),
        UserMessage.of("add"),
        asked(ToolCall("a", "add", '{"x": 1}')),
        got("a", "1"),
        AssistantMessage("done"),
    ]
    valid = valid_history(history)
    assert all(new is old for new, old in zip(valid, history, strict=True))


def test_NAM_11_two_calls_with_one_id_get_different_ids_and_keep_their_results() -> None:
    history = [asked(ToolCall("c", "add", "{}"), ToolCall("c", "add", "{}")), got("c", "first"), got("c", "second")]
    assert pairs(valid_history(history)) == [("c", "first"), ("call_2", "second")]


@pytest.mark.parametrize("id", [None, ""])
def test_NAM_12_calls_without_ids_get_stable_ones_and_keep_their_results(id: str | None) -> None:
    history: list[Message] = [asked(ToolCall(id, "add", "{}"), ToolCall(id, "add", "{}")), got(id, "1"), got(id, "2")]
    assert pairs(valid_history(history)) == [("call_1", "1"), ("call_2", "2")]
    longer = [*history, AssistantMessage("ok"), UserMessage.of("again"), *history]
    assert pairs(valid_history(longer))[:2] == [("call_1", "1"), ("call_2", "2")]


def test_NAM_13_one_id_in_three_turns_keeps_all_results() -> None:
    history = [message for text in "abc" for message in (asked(ToolCall("X", "add", "{}")), got("X", text))]
    assert pairs(valid_history(history)) == [("X", "a"), ("call_2", "b"), ("call_3", "c")]


def test_a_made_up_id_leaves_alone_one_that_comes_later() -> None:
    history = [asked(ToolCall(None, "add", "{}")), got(None, "a"), asked(ToolCall("call_1", "add", "{}"))]
    history.append(got("call_1", "b"))
    assert pairs(valid_history(history)) == [("call_1_2", "a"), ("call_1", "b")]


def test_results_in_another_order_find_their_calls_by_id() -> None:
    history = [asked(ToolCall("a", "add", "{}"), ToolCall("b", "add", "{}")), got("b", "of b"), got("a", "of a")]
    assert pairs(valid_history(history)) == [("a", "of a"), ("b", "of b")]


def test_MEM_07_results_whose_ids_match_no_call_are_taken_in_order() -> None:
    history = [asked(ToolCall("a", "add", "{}"), ToolCall("b", "add", "{}")), got("x", "1"), got("y", "2")]
    assert pairs(valid_history(history)) == [("a", "1"), ("b", "2")]


def test_NAM_17_a_second_result_for_one_call_is_left_out() -> None:
    history = [asked(ToolCall("a", "add", "{}"), ToolCall("b", "add", "{}"))]
    history += [got("a", "first"), got("a", "late"), got("b", "b")]
    assert pairs(valid_history(history)) == [("a", "first"), ("b", "b")]


def test_MEM_04_a_call_without_a_result_gets_one_that_tells_so() -> None:
    history = [asked(ToolCall("a", "add", "{}")), UserMessage.of("and now?")]
    assert valid_history(history) == [
        history[0],
        ToolMessage("a", "add", (TextContent(LOST_RESULT),), is_error=True),
        history[1],
    ]


def test_MEM_06_a_result_without_a_call_is_left_out() -> None:
    assert valid_history([UserMessage.of("hi"), got("a", "1"), AssistantMessage("ho")]) == [
        UserMessage.of("hi"),
        AssistantMessage("ho"),
    ]


def test_custom_messages_are_left_out_even_between_call_and_result() -> None:
    history = [asked(ToolCall("a", "add", "{}")), CustomMessage({"k": 1}), got("a", "1")]
    assert valid_history(history) == [history[0], history[2]]


def test_calls_that_the_provider_ran_are_left_out() -> None:
    mine, theirs = ToolCall("a", "add", "{}"), ToolCall("p", "search", "{}", executed_by_provider=True)
    assert valid_history([asked(theirs, mine), got("a", "1")]) == [asked(mine), got("a", "1")]


@pytest.mark.parametrize("name", ["", " \n"])
def test_NAM_09_a_call_without_a_name_gets_a_placeholder(name: str) -> None:
    assert valid_history([asked(ToolCall("a", name, "{}")), got("a", "no such tool", name)]) == [
        asked(ToolCall("a", UNNAMED, "{}")),
        got("a", "no such tool", UNNAMED),
    ]


def test_ids_that_do_not_fit_the_provider_are_replaced() -> None:
    history = [asked(ToolCall("a/b", "add", "{}")), got("a/b", "1")]
    assert pairs(valid_history(history, id_pattern=re.compile("[a-z0-9_]+"))) == [("call_1", "1")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"x": 1}', '{"x": 1}'),
        ("", "{}"),
        (" \n", "{}"),
        ("null", "{}"),
        ("{'x': 1}", '{"_unparsed":"{\'x\': 1}"}'),
        ("[1]", '{"_unparsed":"[1]"}'),
        ('{"x": NaN}', '{"_unparsed":"{\\"x\\": NaN}"}'),
        ('{"x": "\ud800"}', '{"x": "\ufffd"}'),
    ],
)
def test_arguments_are_sent_as_the_text_of_an_object(text: str, expected: str) -> None:
    assert valid_arguments(text) == expected


@given(st.text())
def test_any_arguments_become_an_object_that_utf8_can_hold(text: str) -> None:
    assert isinstance(json.loads(valid_arguments(text).encode()), dict)


# ---------------------------------------------------------------- names


def specs(*names: str) -> list[ToolSpec]:
    return [ToolSpec(name) for name in names]


def test_NAM_21_an_illegal_name_is_legal_on_the_wire_and_comes_back_as_itself() -> None:
    names = WireNames(specs("nasa/get picture", "add"))
    assert [names.wire("nasa/get picture"), names.wire("add")] == ["nasa_get_picture", "add"]
    assert [names.own("nasa_get_picture"), names.own("add")] == ["nasa/get picture", "add"]


def test_a_made_name_does_not_take_one_that_is_in_use() -> None:
    names = WireNames(specs("a b", "a/b", "a_b"))
    assert [names.wire(name) for name in ("a b", "a/b", "a_b")] == ["a_b_2", "a_b_3", "a_b"]


def test_long_names_that_differ_at_the_end_stay_different() -> None:
    left, right = "x" * 70 + "left", "x" * 70 + "right"
    names = WireNames(specs(left, right))
    assert [names.own(names.wire(left)), names.own(names.wire(right))] == [left, right]


def test_a_name_that_a_model_invents_comes_back_unchanged() -> None:
    assert WireNames(specs("add")).own("subtract") == "subtract"


@given(st.lists(st.text(), unique=True, max_size=8))
def test_any_set_of_names_is_legal_unique_and_reversible(names: list[str]) -> None:
    wire = WireNames(specs(*names))
    sent = [wire.wire(name) for name in names]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in sent)
    assert len(set(sent)) == len(sent)
    assert [wire.own(name) for name in sent] == names
