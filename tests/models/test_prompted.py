"""What a prompted model is told, what it may write, and how its writing is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surehand.errors import BadRequestError, UserError
from surehand.messages import (
    AssistantMessage,
    ChatParameters,
    ChatRequest,
    ChatResponse,
    FinishReason,
    ImageContent,
    Message,
    ResponseDone,
    ResponseFormat,
    StreamPiece,
    SystemMessage,
    TextContent,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from surehand.models._examples import Example
from surehand.models._narrow import reply_schema
from surehand.models._prompted import Plan, Policy, plan_reply
from surehand.models._prompted_reply import PromptedReader

HELPED = Policy(spans=True, tool_rounds=1, quote=True)
FREE = Policy(spans=False, tool_rounds=None, quote=False)


def spec(name: str, description: str | None = None, /, **properties: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ToolSpec(name, description, schema)


STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
WEATHER = spec("get_weather", "Get the weather in a city. Costs nothing.", city=STRING)
TIMER = spec("set_timer", "Start a timer.", minutes=INTEGER)


def plan(*messages: Message, policy: Policy = HELPED, **parameters: Any) -> Plan:
    return plan_reply(ChatRequest(messages, ChatParameters(**parameters)), policy)


def forms(plan: Plan) -> list[str]:
    """The tools that may be called, and ``answer`` where one may be given."""
    schema = plan.schema or {}
    each = schema.get("anyOf", [schema])
    return [form["properties"]["name"]["const"] if "name" in form["properties"] else "answer" for form in each]


def asked_and_got(result: str) -> tuple[Message, Message, Message]:
    call = AssistantMessage(tool_calls=(ToolCall(None, "get_weather", '{"city": "Rome"}'),))
    return UserMessage.of("Weather in Rome?"), call, ToolMessage(None, "get_weather", (TextContent(result),))


# ---------------------------------------------------------------- what is asked


def test_the_model_reads_the_tools_and_examples_made_from_them() -> None:
    chat = plan(SystemMessage("Be kind."), UserMessage.of("Weather in Rome?"), tools=(WEATHER,)).chat
    assert [turn["role"] for turn in chat] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert chat[0]["content"].splitlines() == [
        "Be kind.",
        'You call functions. Reply with one JSON object: {"name": ..., "arguments": {...}} to call a function, '
        'or {"answer": ...} when no function fits.',
        "Functions:",
        "- get_weather(city): Get the weather in a city",
    ]
    assert json.loads(chat[2]["content"]).keys() == {"answer"}
    example = json.loads(chat[4]["content"])
    assert example["name"] == "get_weather"
    assert chat[3]["content"] == f"Get the weather in a city: city {example['arguments']['city']}"
    assert chat[-1]["content"] == "Weather in Rome?"


def test_examples_that_are_given_replace_made_ones() -> None:
    own = ToolSpec("set_timer", None, TIMER.parameters, {"examples": [("Ping me in 3 minutes", {"minutes": 3})]})
    given = (Example("Hot in Oslo?", "get_weather", {"city": "Oslo"}), Example("x", "not_offered", {}))
    chat = plan(
        UserMessage.of("hi"),
        policy=HELPED._replace(examples=given),
        tools=(WEATHER, own),
        tool_choice=ToolChoice.REQUIRED,
    ).chat
    assert [turn["content"] for turn in chat[1:]] == [
        "Hot in Oslo?",
        '{"name": "get_weather", "arguments": {"city": "Oslo"}}',
        "Ping me in 3 minutes",
        '{"name": "set_timer", "arguments": {"minutes": 3}}',
        "hi",
    ]


def test_examples_of_the_wrong_form_are_refused_by_name() -> None:
    bad = ToolSpec("set_timer", None, None, {"examples": ["Ping me"]})
    with pytest.raises(UserError, match="'set_timer'"):
        plan(UserMessage.of("hi"), tools=(bad,))


def test_the_tool_that_fits_best_stands_last_before_the_request() -> None:
    chat = plan(UserMessage.of("weather in 3 cities"), tools=(WEATHER, TIMER), tool_choice=ToolChoice.REQUIRED).chat
    assert [json.loads(turn["content"])["name"] for turn in chat if turn["role"] == "assistant"] == [
        "set_timer",
        "get_weather",
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice.AUTO, ["get_weather", "answer"]),
        (ToolChoice.REQUIRED, ["get_weather"]),
    ],
)
def test_the_tool_choice_decides_whether_an_answer_may_be_given(choice: ToolChoice, expected: list[str]) -> None:
    assert forms(plan(UserMessage.of("Weather in Rome?"), tools=(WEATHER,), tool_choice=choice)) == expected


def test_the_tool_choice_none_gives_free_text() -> None:
    free = plan(UserMessage.of("hi"), tools=(WEATHER,), tool_choice=ToolChoice.NONE)
    assert free == Plan([{"role": "user", "content": "hi"}], "text")


def test_after_the_allowed_round_the_results_are_quoted() -> None:
    quoting = plan(*asked_and_got("18 degrees"), tools=(WEATHER,))
    assert (quoting.form, quoting.quoted) == ("intro", " 18 degrees")
    assert quoting.chat[-1] == {
        "role": "user",
        "content": "Request: Weather in Rome?\nResult of get_weather: 18 degrees",
    }


def test_several_results_are_quoted_as_a_list() -> None:
    call = ToolCall(None, "get_weather", "{}")
    results = [ToolMessage(None, "get_weather", (TextContent(text),)) for text in ("one", "two")]
    quoting = plan(UserMessage.of("both"), AssistantMessage(tool_calls=(call, call)), *results, tools=(WEATHER,))
    assert quoting.quoted == "\n- one\n- two"


def test_a_model_that_needs_no_help_may_call_again_after_results() -> None:
    again = plan(*asked_and_got("18 degrees"), policy=FREE, tools=(WEATHER,))
    assert forms(again) == ["get_weather", "answer"]
    assert [turn["content"] for turn in again.chat[-3:]] == [
        "Weather in Rome?",
        '{"name": "get_weather", "arguments": {"city": "Rome"}}',
        "Result of get_weather: 18 degrees",
    ]


def test_the_next_message_of_the_user_allows_calls_again() -> None:
    later = plan(
        *asked_and_got("18 degrees"), AssistantMessage("18 degrees"), UserMessage.of("Oslo?"), tools=(WEATHER,)
    )
    assert forms(later) == ["get_weather", "answer"]


def test_a_call_is_made_after_results_when_one_is_required() -> None:
    required = plan(*asked_and_got("18"), tools=(WEATHER,), tool_choice=ToolChoice.REQUIRED)
    assert forms(required) == ["get_weather"]


def test_a_response_format_constrains_the_answer() -> None:
    schema = {"type": "object", "properties": {"x": INTEGER}}
    wanted = ResponseFormat("json", schema)
    assert plan(UserMessage.of("hi"), response_format=wanted).schema == schema
    with_tools = plan(UserMessage.of("hi"), tools=(TIMER,), policy=FREE, response_format=wanted)
    assert with_tools.answer_is_json
    assert with_tools.schema is not None
    assert with_tools.schema["anyOf"][1]["properties"]["answer"] == schema


def test_a_content_that_is_not_text_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="ImageContent"):
        plan(UserMessage.of(ImageContent(url="https://example.com/a.png")))


# ---------------------------------------------------------------- what may be written


def arguments_of(tool: ToolSpec, request: str | None) -> Any:
    return reply_schema([tool], None, request)["properties"]["arguments"]["properties"]


def test_without_a_request_the_schema_is_the_tools_own() -> None:
    assert reply_schema([TIMER], None, None) == {
        "type": "object",
        "properties": {
            "name": {"const": "set_timer"},
            "arguments": {
                "type": "object",
                "properties": {"minutes": INTEGER},
                "required": ["minutes"],
                "additionalProperties": False,
            },
        },
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def test_strings_are_spans_of_the_request_that_neither_begin_nor_end_with_a_function_word() -> None:
    spans = arguments_of(WEATHER, "What is the weather in New York?")["city"]["enum"]
    assert spans == ["weather", "weather in New", "weather in New York", "New", "New York", "York"]


def test_quoted_text_and_text_after_a_colon_are_spans() -> None:
    spans = arguments_of(spec("say", text=STRING), 'Say "to be, or not to be"')["text"]["enum"]
    assert "to be, or not to be" in spans
    spans = arguments_of(spec("say", text=STRING), "Say: all of this is to be said by you")["text"]["enum"]
    assert "all of this is to be said by you" in spans


def test_numbers_are_those_of_the_request_written_either_way() -> None:
    assert arguments_of(spec("f", x=NUMBER), "from 3 to -2.5 or ten") == {"x": {"enum": [3, -2.5, 10]}}
    assert arguments_of(spec("f", x=INTEGER), "from 3 to 2.5") == {"x": {"enum": [3]}}


def test_choices_that_the_request_names_are_the_only_ones_left() -> None:
    colour = spec("f", x={"enum": ["red", "green", "blue"]})
    assert arguments_of(colour, "Green or blue, reduced?") == {"x": {"enum": ["green", "blue"]}}
    assert arguments_of(colour, "Some colour") == {"x": {"enum": ["red", "green", "blue"]}}


def test_strings_with_a_form_of_their_own_are_left_alone() -> None:
    day = {"type": "string", "format": "date"}
    assert arguments_of(spec("f", day=day), "on the third of May") == {"day": day}


def test_a_tool_that_needs_a_number_is_left_out_of_a_request_without_one() -> None:
    both = reply_schema([WEATHER, TIMER], {"type": "string"}, "Weather in Rome?")
    assert [form["properties"].get("name") for form in both["anyOf"]] == [{"const": "get_weather"}, None]


def test_a_tool_stays_when_there_is_nothing_else() -> None:
    assert arguments_of(TIMER, "Some time") == {"minutes": INTEGER}


def test_an_optional_number_is_left_out_alone() -> None:
    tool = ToolSpec("f", None, {"type": "object", "properties": {"q": STRING, "n": INTEGER}, "required": ["q"]})
    assert arguments_of(tool, "cats") == {"q": {"enum": ["cats"]}}


def test_definitions_of_two_tools_do_not_mix() -> None:
    def tool(name: str, kind: str) -> ToolSpec:
        schema = {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/X"}},
            "required": ["x"],
            "$defs": {"X": {"type": kind}},
        }
        return ToolSpec(name, None, schema)

    schema = reply_schema([tool("a", "string"), tool("b", "integer")], None, None)
    references = [form["properties"]["arguments"]["properties"]["x"]["$ref"] for form in schema["anyOf"]]
    found = [schema["$defs"][reference.removeprefix("#/$defs/")] for reference in references]
    assert found == [{"type": "string"}, {"type": "integer"}]


# ---------------------------------------------------------------- how it is read


def read(text: str, size: int, *, answer_is_json: bool = False) -> list[StreamPiece]:
    reader = PromptedReader(Plan([], "tools", None, answer_is_json))
    pieces = [piece for place in range(0, len(text), size) for piece in reader.read(text[place : place + size])]
    return [*pieces, *reader.done(FinishReason.STOP)]


SIZES = pytest.mark.parametrize("size", [1, 3, 1000])


@SIZES
@pytest.mark.parametrize("arguments", ['{"city": "a}\\"{b", "n": [1, {"x": null}]}', "{}"])
def test_a_call_is_read_while_it_is_written(size: int, arguments: str) -> None:
    call = ToolCall(None, "get weather", arguments)
    pieces = read(f'{{"name": "get weather", "arguments": {arguments}}}', size)
    parts = [piece for piece in pieces if isinstance(piece, ToolCallPiece)]
    assert "".join(part.arguments for part in parts) == arguments
    assert {(part.index, part.name) for part in parts} == {(0, "get weather")}
    response = ChatResponse(AssistantMessage(tool_calls=(call,)), finish_reason=FinishReason.TOOL_EXECUTION)
    assert pieces[len(parts) :] == [ToolCallReady(0, call), ResponseDone(response)]


@SIZES
@pytest.mark.parametrize("answer", ['say "hi"\n', "ä 😀 \\ end", ""])
def test_an_answer_is_read_as_text(size: int, answer: str) -> None:
    for written in (json.dumps({"answer": answer}), json.dumps({"answer": answer}, ensure_ascii=False)):
        *parts, done = read(written, size)
        assert all(isinstance(part, TextPiece) for part in parts)
        response = ChatResponse(AssistantMessage(answer or None), finish_reason=FinishReason.STOP)
        assert done == ResponseDone(response)


@SIZES
@pytest.mark.parametrize("value", ['{"x": "}"}', "[1, 2]", "12", '"a\\"b"', "null"])
def test_an_answer_in_json_stays_json(size: int, value: str) -> None:
    done = read(f'{{"answer": {value}}}', size, answer_is_json=True)[-1]
    assert done == ResponseDone(ChatResponse(AssistantMessage(value), finish_reason=FinishReason.STOP))


def test_a_reply_cut_before_its_form_is_clear_is_kept_as_text() -> None:
    reader = PromptedReader(Plan([], "tools"))
    assert list(reader.read('{"na')) == []
    done = [*reader.done(FinishReason.LENGTH)][-1]
    assert done == ResponseDone(ChatResponse(AssistantMessage('{"na'), finish_reason=FinishReason.LENGTH))


@pytest.mark.parametrize("written", ["Sure, here it is", "{}"])
def test_a_reply_in_no_form_that_was_asked_for_is_an_error(written: str) -> None:
    with pytest.raises(BadRequestError, match="JSON schema"):
        read(written, 1)


def test_an_answer_that_is_not_the_json_asked_for_is_an_error() -> None:
    reader = PromptedReader(Plan([], "text", {"type": "object"}))
    list(reader.read("Sure"))
    with pytest.raises(BadRequestError, match="JSON schema"):
        list(reader.done(FinishReason.STOP))
