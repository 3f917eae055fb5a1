"""Messages, contents, usage, parameters, results: equality, their JSON, and what they refuse (spec 2)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from surehand import (
    AssistantMessage,
    AudioContent,
    ChatParameters,
    ChatRequest,
    ChatResponse,
    CustomMessage,
    FinishReason,
    ImageContent,
    Message,
    Outcome,
    PdfContent,
    ResponseFormat,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolChoice,
    ToolExecution,
    ToolMessage,
    ToolResult,
    ToolSpec,
    Usage,
    UserError,
    UserMessage,
    VideoContent,
    messages_from_json,
    messages_to_json,
    replace_last_user,
    require_unique_names,
    text_of,
)

IMAGE = ImageContent(data="aGk=", mime_type="image/png", detail="high", revised_prompt="a cat")
DOCUMENT = PdfContent(data="JVBERg==", mime_type="application/pdf")
MEDIA = (TextContent("look"), IMAGE, AudioContent(url="https://x/a.mp3"), VideoContent(url="https://x/v"), DOCUMENT)
CALLS = (ToolCall("1", "t", '{"a": 1}'), ToolCall(None, "u"), ToolCall("", "", "{"))
MESSAGES: list[Message] = [
    SystemMessage("Be kind — “always”"),
    UserMessage.of("Hi \x00 \u2028 😀"),
    UserMessage(MEDIA, "ann", {"n": {"deep": [1, 2.5, None, True]}}),
    AssistantMessage("text", CALLS, "hm", {"k": "v"}),
    AssistantMessage(),
    AssistantMessage(None, (ToolCall("p", "web", "{}", True),)),
    ToolMessage("1", "t", (TextContent("r"),), True, {"found_tools": ["a", "b"]}),
    ToolMessage(None, "u", (TextContent(""), IMAGE), None),
    ToolMessage("x", "u", (TextContent("ok"),), False),
    CustomMessage({"mine": 1}),
]


# ---------------------------------------------------------------- JSON (spec 2.1.7)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_survives_json(message: Message) -> None:
    data = messages_to_json([message])
    assert messages_from_json(data) == [message]
    assert messages_from_json(data.decode()) == [message]


def test_a_conversation_survives_json_in_order() -> None:
    assert messages_from_json(messages_to_json(MESSAGES)) == MESSAGES


def test_json_is_tagged_and_leaves_out_what_is_absent() -> None:
    assert json.loads(messages_to_json([SystemMessage("x"), UserMessage.of("y"), AssistantMessage("z")])) == [
        {"type": "system", "text": "x"},
        {"type": "user", "contents": [{"type": "text", "text": "y"}]},
        {"type": "assistant", "text": "z"},
    ]
    call = AssistantMessage(None, (ToolCall("1", "t", "{}"),))
    assert json.loads(messages_to_json([call, ToolMessage("1", "t", (TextContent("r"),))])) == [
        {"type": "assistant", "tool_calls": [{"id": "1", "name": "t", "arguments": "{}"}]},
        {"type": "tool", "call_id": "1", "tool_name": "t", "contents": [{"type": "text", "text": "r"}]},
    ]


@pytest.mark.parametrize("nothing", [None, "", b"", " \n", "[]"])
def test_no_json_gives_no_messages(nothing: Any) -> None:
    assert messages_from_json(nothing) == []


def test_fields_that_are_not_known_are_left_alone() -> None:
    assert messages_from_json('[{"type": "system", "text": "x", "new": 1}]') == [SystemMessage("x")]


@pytest.mark.parametrize("value", [object(), {1, 2, object()}, lambda: None])
def test_an_attribute_that_json_cannot_hold_fails_the_whole_save_by_name(value: Any) -> None:
    with pytest.raises(UserError, match=r"attribute 'bad' of a ToolMessage cannot be stored as JSON"):
        messages_to_json(
            [SystemMessage("x"), ToolMessage("1", "t", (TextContent("r"),), None, {"ok": 1, "bad": value})]
        )


# ---------------------------------------------------------------- messages and contents (spec 2.1, 2.2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SystemMessage(""), "not empty"),
        (lambda: UserMessage(()), "at least one content"),
        (lambda: ToolMessage("1", "t", ()), "'t' needs at least one content"),
        (lambda: ImageContent(), "exactly one of url= and data="),
        (lambda: ImageContent(url="u", data="d", mime_type="m"), "exactly one of url= and data="),
        (lambda: PdfContent(data="d"), "needs mime_type="),
        (lambda: ChatRequest(()), "at least one message"),
        (lambda: ToolResult(), "exactly one of them"),
        (lambda: ToolResult((TextContent("x"),), supplier=lambda: "y"), "exactly one of them"),
    ],
)
def test_a_value_that_would_mean_nothing_is_refused(make: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make()


def test_the_single_text_is_read_only_where_there_is_exactly_one() -> None:
    assert UserMessage.of("x").text == text_of((TextContent("x"),)) == "x"
    one, two = ToolMessage("1", "t", (TextContent("r"),)), ToolMessage("1", "t", (TextContent("r"), IMAGE))
    assert (one.has_single_text, one.text, two.has_single_text) == (True, "r", False)
    for contents in ((), (TextContent("a"), TextContent("b")), (IMAGE,)):
        with pytest.raises(UserError, match="expected exactly one TextContent"):
            text_of(contents)


def test_messages_are_frozen_equal_by_value_and_copied_with_changes() -> None:
    message = UserMessage.of("x")
    assert message == UserMessage.of("x") != UserMessage.of("y")
    assert replace(message, name="ann") == UserMessage(message.contents, "ann")
    with pytest.raises(AttributeError):
        message.name = "bob"  # type: ignore[misc]


def test_replacing_the_last_user_message_leaves_everything_else() -> None:
    first, last, new = UserMessage.of("1"), UserMessage.of("2"), UserMessage.of("3")
    messages = [first, AssistantMessage("a"), last, AssistantMessage("b")]
    assert replace_last_user(messages, new) == [first, AssistantMessage("a"), new, AssistantMessage("b")]
    assert replace_last_user(messages, None) is messages
    assert replace_last_user(messages, UserMessage.of("2")) is messages
    alone = [AssistantMessage("a")]
    assert replace_last_user(alone, new) is alone


def test_the_first_repeated_name_is_refused_by_name() -> None:
    require_unique_names([ToolSpec("a"), ToolSpec("b")])
    with pytest.raises(UserError, match="two tools are named 'b'"):
        require_unique_names([ToolSpec("a"), ToolSpec("b"), ToolSpec("b"), ToolSpec("a")])


# ---------------------------------------------------------------- usage (spec 2.5)


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [
        (Usage(1, 2), Usage(3, 4), Usage(4, 6, 10)),
        (Usage(), Usage(), Usage()),
        (Usage(None, None, 7), Usage(1, 1), Usage(1, 1, 9)),
        (Usage(1, 2, 5), Usage(1, 2, 5), Usage(2, 4, 10)),
        (Usage(1, 1, extras={"cached": 2}), Usage(1, 1), Usage(2, 2, extras={"cached": 2})),
        (Usage(1, 1), Usage(1, 1, extras={"cached": 2}), Usage(2, 2, extras={"cached": 2})),
        (
            Usage(1, 1, extras={"cached": 2, "audio": 1}),
            Usage(1, 1, extras={"cached": 3, "reasoning": 4}),
            Usage(2, 2, extras={"cached": 5, "audio": 1, "reasoning": 4}),
        ),
        (Usage(1, 2), None, Usage(1, 2)),
    ],
)
def test_usage_adds_field_by_field(left: Usage, right: Usage | None, total: Usage) -> None:
    assert left + right == total


def test_the_total_is_input_plus_output_unless_it_is_given() -> None:
    assert [usage.total for usage in (Usage(1, 2), Usage(1, 2, 9), Usage(1), Usage())] == [3, 9, None, None]


def test_a_total_that_is_known_on_neither_side_stays_unknown() -> None:
    usage = Usage(1) + Usage(None, 2)
    assert (usage.input, usage.output, usage.total) == (1, 2, None)


# ---------------------------------------------------------------- parameters (spec 2.6)


class Special(ChatParameters, frozen=True):
    """What an adapter may add."""

    effort: str | Any = UNSET


FIELDS: dict[str, Any] = {
    "model": "m", "temperature": 0.0, "top_p": 0.5, "top_k": 0, "frequency_penalty": 0.0, "presence_penalty": 1.0,
    "max_output_tokens": 5, "stop_sequences": (), "tools": (), "tool_choice": ToolChoice.NONE,
    "response_format": ResponseFormat("json"), "extra": {},
}  # fmt: skip


@pytest.mark.parametrize("name", FIELDS)
def test_each_parameter_overrides_when_it_is_set_even_to_nothing(name: str) -> None:
    filled = {"tools": (ToolSpec("t"),), "stop_sequences": ("x",)}
    base = ChatParameters(**{**FIELDS, **filled})
    changed = base.override_with(ChatParameters(**{name: FIELDS[name]}))
    assert changed == replace(base, **{name: FIELDS[name]})
    assert base.override_with(ChatParameters()) == base
    assert ChatParameters().override_with(base) == base
    assert ChatParameters(**{name: FIELDS[name]}).defaulted_by(base) == changed


def test_unset_is_not_the_same_as_empty() -> None:
    with_tools = ChatParameters(tools=(ToolSpec("t"),))
    assert with_tools.override_with(ChatParameters(tools=())).tools == ()
    assert with_tools.override_with(ChatParameters()).tools == (ToolSpec("t"),)
    assert ChatRequest((SystemMessage("x"),), ChatParameters()).tools == ()
    assert ChatParameters().tools is UNSET


@pytest.mark.parametrize("turn", [lambda a, b: a.override_with(b), lambda a, b: b.defaulted_by(a)])
def test_a_subclass_and_its_fields_survive_on_either_side(turn: Any) -> None:
    special, plain = Special(effort="high", model="s"), ChatParameters(model="p", temperature=1.0)
    assert turn(special, plain) == Special(effort="high", model="p", temperature=1.0)
    assert turn(plain, special) == Special(effort="high", model="s", temperature=1.0)
    assert type(turn(plain, special)) is Special is type(turn(special, plain))
    assert turn(special, Special(temperature=2.0)) == Special(effort="high", model="s", temperature=2.0)


# ---------------------------------------------------------------- results and executions (spec 2.4)


def test_a_lazy_result_asks_once_and_neither_printing_nor_comparing_asks() -> None:
    asked: list[int] = []

    def supply() -> str:
        asked.append(1)
        return "text"

    result = ToolResult.lazy(supply, value=7)
    same = replace(result, is_error=True)
    assert repr(result) and result == result and asked == []
    hash(supply)
    assert (result.text, result.text, asked) == ("text", "text", [1])
    assert (same.text, asked) == ("text", [1, 1])  # the supplier travels, not its value


def test_a_supplier_that_gives_nothing_counts_as_empty_text() -> None:
    assert ToolResult.lazy(lambda: None).contents == (TextContent(""),)


def test_a_result_makes_the_message_of_its_call() -> None:
    result = ToolResult.of("a", IMAGE, value=1, is_error=True, attributes={"k": 1})
    message = result.to_message(ToolCall("1", "t", "{}"))
    assert message == ToolMessage("1", "t", (TextContent("a"), IMAGE), True, {"k": 1})


def test_attributes_are_copied() -> None:
    attributes = {"k": 1}
    result = ToolResult.of("a", attributes=attributes)
    attributes["k"] = 2
    assert result.attributes == {"k": 1}


def test_an_execution_tells_its_duration_only_when_both_times_are_known() -> None:
    call, result = ToolCall("1", "t", "{}"), ToolResult.of("r", value=5)
    assert ToolExecution(call, result, "1.0", Outcome.DONE, 2.0, 5.5).duration == 3.5
    assert ToolExecution(call, result, "1.0", Outcome.DONE, 2.0).duration is None
    assert ToolExecution(call, result, "1.0", Outcome.NOT_RUN).duration is None
    done = ToolExecution(call, result, "1.0", Outcome.DONE)
    assert (done.value, done.has_failed) == (5, False)


# ---------------------------------------------------------------- fields of pydantic models


class Saved(BaseModel):
    """What an application may store."""

    message: UserMessage
    reply: AssistantMessage
    usage: Usage | None = None
    calls: list[ToolCall] = []
    response: ChatResponse | None = None


def test_values_are_fields_of_pydantic_models_in_python_and_json() -> None:
    saved = Saved(
        message=UserMessage.of("x"),
        reply=AssistantMessage("y"),
        usage=Usage(1, 2),
        calls=[ToolCall("1", "t", "{}")],
        response=ChatResponse(AssistantMessage("y"), None, FinishReason.STOP),
    )
    assert Saved.model_validate_json(saved.model_dump_json()) == saved
    assert Saved.model_validate(saved.model_dump(mode="json")) == saved
    assert Saved.model_validate({"message": UserMessage.of("x"), "reply": AssistantMessage("y")}).usage is None
    with pytest.raises(ValidationError):
        Saved.model_validate({"message": 7, "reply": AssistantMessage("y")})
    assert "message" in Saved.model_json_schema()["properties"]


@pytest.mark.parametrize("value", [float("nan"), {"deep": [float("inf")]}, (-float("inf"),)])
def test_numbers_that_json_cannot_hold_are_refused_and_not_turned_into_null(value: Any) -> None:
    with pytest.raises(UserError, match=r"attribute 'k' of a CustomMessage cannot be stored as JSON: NaN"):
        messages_to_json([CustomMessage({"k": value})])
