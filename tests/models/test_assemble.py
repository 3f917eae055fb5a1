"""Streams of calls, cut in every way that providers cut them."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from surehand.messages import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ReasoningPiece,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
    Usage,
)
from surehand.models._assemble import StreamAssembler

Delta = tuple[int | None, str | None, str | None, str | None]  # index, id, name, arguments


def pieces_of(deltas: Iterable[Delta], finish: FinishReason | None = FinishReason.TOOL_EXECUTION) -> list[StreamPiece]:
    assembler = StreamAssembler()
    pieces: list[StreamPiece] = []
    for index, id, name, arguments in deltas:
        pieces += assembler.call(index, id=id, name=name, arguments=arguments)
    return [*pieces, *assembler.done(finish)]


def calls_of(deltas: Iterable[Delta], finish: FinishReason | None = FinishReason.TOOL_EXECUTION) -> list[ToolCall]:
    """The calls of the final message, which must also be those announced, in the same places."""
    pieces = pieces_of(deltas, finish)
    done = pieces[-1]
    assert isinstance(done, ResponseDone)
    calls = list(done.response.message.tool_calls)
    announced = {piece.index: piece.call for piece in pieces if isinstance(piece, ToolCallReady)}
    assert announced == dict(enumerate(calls))
    assert sum(isinstance(piece, ToolCallReady) for piece in pieces) == len(calls)
    return calls


def test_STR_01_interleaved_calls_with_ids_on_their_first_pieces_only_stay_apart() -> None:
    deltas: list[Delta] = [
        (0, "a", "first", '{"x"'),
        (1, "b", "second", '{"y"'),
        (0, None, None, ":1}"),
        (1, None, None, ":2}"),
    ]
    first, second = ToolCall("a", "first", '{"x":1}'), ToolCall("b", "second", '{"y":2}')
    assert pieces_of(deltas) == [
        ToolCallPiece(0, "a", "first", '{"x"'),
        ToolCallPiece(1, "b", "second", '{"y"'),
        ToolCallPiece(0, "a", "first", ":1}"),
        ToolCallReady(0, first),
        ToolCallPiece(1, "b", "second", ":2}"),
        ToolCallReady(1, second),
        ResponseDone(
            ChatResponse(AssistantMessage(tool_calls=(first, second)), finish_reason=FinishReason.TOOL_EXECUTION)
        ),
    ]


def test_STR_03_two_entries_for_one_index_in_the_first_chunk_make_one_call() -> None:
    assert calls_of([(0, "a", "ping", None), (0, None, None, "{"), (0, None, None, "}")]) == [
        ToolCall("a", "ping", "{}")
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_arguments_are_the_same_however_they_are_cut(size: int) -> None:
    text = '{"text": "' + "ä}{" * 330 + '"}'
    cut: list[Delta] = [(0, None, None, text[place : place + size]) for place in range(0, len(text), size)]
    assert calls_of([(0, "a", "say", None), *cut]) == [ToolCall("a", "say", text)]


def test_a_name_repeated_in_each_piece_is_one_name() -> None:
    assert calls_of([(0, "a", "add", '{"x"'), (0, "a", "add", ":1"), (0, "a", "add", "}")]) == [
        ToolCall("a", "add", '{"x":1}')
    ]


def test_a_name_that_comes_in_fragments_is_joined() -> None:
    assert calls_of([(0, "a", "get_", None), (0, None, "weather", None), (0, None, None, "{}")]) == [
        ToolCall("a", "get_weather", "{}")
    ]


def test_an_index_that_comes_back_with_another_id_is_another_call() -> None:
    assert calls_of([(0, "a", "add", '{"x":1}'), (0, "b", "add", '{"x":2}')]) == [
        ToolCall("a", "add", '{"x":1}'),
        ToolCall("b", "add", '{"x":2}'),
    ]


def test_whole_calls_without_ids_at_one_index_are_several_calls() -> None:
    assert calls_of([(0, None, "add", '{"x":1}'), (0, None, "add", '{"x":1}')]) == [
        ToolCall(None, "add", '{"x":1}'),
        ToolCall(None, "add", '{"x":1}'),
    ]


def test_calls_without_indexes_are_told_apart_by_their_ids() -> None:
    deltas: list[Delta] = [
        (None, "a", "first", "{"),
        (None, None, None, "}"),
        (None, "b", "second", "{"),
        (None, "b", None, "}"),
        (None, "a", None, " "),
    ]
    assert [call.id for call in calls_of(deltas)] == ["a", "b"]
    assert [call.arguments for call in calls_of(deltas)] == ["{}", "{}"]


def test_an_id_that_comes_late_is_kept() -> None:
    assert calls_of([(0, None, "add", '{"x"'), (0, "late", None, ":1}")]) == [ToolCall("late", "add", '{"x":1}')]


def test_an_empty_id_is_no_id() -> None:
    assert calls_of([(0, "", "add", "{}"), (1, "", "add", "{}")]) == [
        ToolCall(None, "add", "{}"),
        ToolCall(None, "add", "{}"),
    ]


def test_calls_are_numbered_in_the_order_in_which_they_begin() -> None:
    assert [call.name for call in calls_of([(5, "a", "first", "{}"), (2, "b", "second", "{}")])] == ["first", "second"]


def test_fragments_before_the_name_wait_for_it() -> None:
    assert pieces_of([(0, "a", None, '{"x"'), (0, None, "add", ":1}")])[:2] == [
        ToolCallPiece(0, "a", "add", '{"x"'),
        ToolCallPiece(0, "a", "add", ":1}"),
    ]


def test_a_call_is_announced_when_the_next_one_begins() -> None:
    assembler = StreamAssembler()
    first = list(assembler.call(0, id="a", name="add", arguments='{"x":1}'))
    second = list(assembler.call(1, id="b", name="add", arguments="{"))
    assert first == [ToolCallPiece(0, "a", "add", '{"x":1}')]
    assert second == [ToolCallReady(0, ToolCall("a", "add", '{"x":1}')), ToolCallPiece(1, "b", "add", "{")]


def test_what_follows_an_announced_call_does_not_change_it() -> None:
    deltas: list[Delta] = [(0, "a", "add", "{}"), (1, "b", "add", "{}"), (0, "a", None, '{"x":1}')]
    assert calls_of(deltas) == [ToolCall("a", "add", "{}"), ToolCall("b", "add", "{}")]


def test_a_call_cut_by_the_token_limit_is_kept_and_not_announced() -> None:
    pieces = pieces_of([(0, "a", "add", "{}"), (1, "b", "add", '{"x"')], FinishReason.LENGTH)
    announced = [piece.call for piece in pieces if isinstance(piece, ToolCallReady)]
    assert announced == [ToolCall("a", "add", "{}")]
    assert pieces[-1] == ResponseDone(
        ChatResponse(
            AssistantMessage(tool_calls=(ToolCall("a", "add", "{}"), ToolCall("b", "add", '{"x"'))),
            finish_reason=FinishReason.LENGTH,
        )
    )


def test_arguments_that_are_no_json_are_announced_as_they_are() -> None:
    assert calls_of([(0, "a", "add", "x = 1")]) == [ToolCall("a", "add", "x = 1")]


def test_a_call_without_arguments_is_announced_at_the_end() -> None:
    assert calls_of([(0, "a", "ping", None)], None) == [ToolCall("a", "ping", "")]


def test_a_call_that_the_provider_ran_is_marked() -> None:
    assembler = StreamAssembler()
    list(assembler.call(0, id="a", name="search", arguments="{}", by_provider=True))
    assert assembler.message().tool_calls == (ToolCall("a", "search", "{}", executed_by_provider=True),)


def test_text_and_reasoning_come_in_pieces_and_whole_at_the_end() -> None:
    assembler = StreamAssembler()
    pieces = [
        *assembler.reasoning("hm"),
        *assembler.reasoning("m"),
        *assembler.text("He"),
        *assembler.text(""),
        *assembler.text(None),
        *assembler.text("llo"),
        *assembler.done(FinishReason.STOP, usage=Usage(3, 2), id="r1", model="m"),
    ]
    assert pieces == [
        ReasoningPiece("hm"),
        ReasoningPiece("m"),
        TextPiece("He"),
        TextPiece("llo"),
        ResponseDone(
            ChatResponse(AssistantMessage("Hello", reasoning="hmm"), Usage(3, 2), FinishReason.STOP, "r1", "m")
        ),
    ]


def test_an_empty_reply_is_a_message_without_anything() -> None:
    assert pieces_of([], FinishReason.STOP) == [
        ResponseDone(ChatResponse(AssistantMessage(), finish_reason=FinishReason.STOP))
    ]
