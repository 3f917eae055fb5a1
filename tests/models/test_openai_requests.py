"""What the OpenAI adapter sends, and what it makes of replies that a test dictates."""

from __future__ import annotations

from typing import Any

import pytest

from surehand.errors import UserError
from surehand.messages import (
    AssistantMessage,
    AudioContent,
    ChatParameters,
    ChatRequest,
    ChatResponse,
    FinishReason,
    ImageContent,
    Message,
    PdfContent,
    ReasoningPiece,
    ResponseDone,
    ResponseFormat,
    SystemMessage,
    TextContent,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
    VideoContent,
)
from surehand.models.openai import OpenAIChat

from .asking import WAYS, async_pieces_of, pieces_of
from .fake_provider import FakeProvider, streamed, whole

HI = UserMessage.of("hi")


def sent(*messages: Message, parameters: ChatParameters | None = None, **options: Any) -> dict[str, Any]:
    """The body of the request that the adapter makes."""
    with FakeProvider(whole({"content": "ok"})) as provider:
        model = OpenAIChat("m", base_url=provider.base_url, **options)
        model.generate(ChatRequest(messages, parameters or ChatParameters()))
        model.close()
        return provider.requests[0]


def test_a_plain_request_says_nothing_that_was_not_asked_for() -> None:
    assert sent(HI) == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def test_every_parameter_is_sent() -> None:
    parameters = ChatParameters(
        model="other",
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        frequency_penalty=0.1,
        presence_penalty=0.2,
        max_output_tokens=7,
        stop_sequences=("END",),
        response_format=ResponseFormat("json", {"type": "object"}, "thing"),
        extra={"seed": 3},
    )
    assert sent(HI, parameters=parameters) == {
        "model": "other",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.2,
        "max_tokens": 7,
        "stop": ["END"],
        "response_format": {"type": "json_schema", "json_schema": {"name": "thing", "schema": {"type": "object"}}},
        "seed": 3,
    }


def test_the_models_defaults_stand_under_the_requests_parameters() -> None:
    defaults = ChatParameters(temperature=0.1, top_p=0.3)
    body = sent(HI, parameters=ChatParameters(temperature=0.9), defaults=defaults)
    assert (body["temperature"], body["top_p"]) == (0.9, 0.3)


def test_json_without_a_schema_is_asked_for_as_an_object() -> None:
    body = sent(HI, parameters=ChatParameters(response_format=ResponseFormat("json")))
    assert body["response_format"] == {"type": "json_object"}


def test_tools_are_sent_with_legal_names_and_without_metadata() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tools = (ToolSpec("a b", "Adds.", schema, {"searchBehavior": "ALWAYS_VISIBLE"}, strict=True), ToolSpec("ping"))
    body = sent(HI, parameters=ChatParameters(tools=tools, tool_choice=ToolChoice.AUTO))
    assert body["tool_choice"] == "auto"
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "a_b", "description": "Adds.", "parameters": schema, "strict": True},
        },
        {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}},
    ]


def test_without_tools_no_tool_choice_is_sent() -> None:
    body = sent(HI, parameters=ChatParameters(tools=(), tool_choice=ToolChoice.REQUIRED))
    assert body.keys() == {"model", "messages"}


def test_a_round_of_calls_is_sent_with_its_results() -> None:
    body = sent(
        SystemMessage("be brief"),
        UserMessage.of("add", ImageContent(data="QUJD", mime_type="image/png", detail="high")),
        AssistantMessage("ok", (ToolCall("a", "a b", '{"x":1}'),), "secret thoughts"),
        ToolMessage("a", "a b", (TextContent("1"), TextContent("2"))),
        AssistantMessage(),
    )
    assert body["messages"] == [
        {"role": "system", "content": "be brief"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "add"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "high"}},
            ],
        },
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "a_b", "arguments": '{"x":1}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1\n2"},
        {"role": "assistant", "content": ""},
    ]


@pytest.mark.parametrize("given", ["x" * 41, "a b", "\ud800", "é"])
def test_an_id_that_the_protocol_does_not_take_is_replaced_in_the_call_and_in_its_result(given: str) -> None:
    messages = (
        UserMessage.of("Add."),
        AssistantMessage(None, (ToolCall(given, "add", "{}"), ToolCall("y" * 40, "add", "{}"))),
        ToolMessage("y" * 40, "add", (TextContent("two"),)),
        ToolMessage(given, "add", (TextContent("one"),)),
    )
    body = sent(*messages)["messages"]
    assert [call["id"] for call in body[1]["tool_calls"]] == ["call_1", "y" * 40]
    assert [(result["tool_call_id"], result["content"]) for result in body[2:]] == [
        ("call_1", "one"),
        ("y" * 40, "two"),
    ]


def test_an_image_from_a_tool_follows_the_results_of_its_round() -> None:
    image = ImageContent(url="https://example.com/a.png")
    body = sent(
        AssistantMessage(tool_calls=(ToolCall("a", "draw", "{}"), ToolCall("b", "add", "{}"))),
        ToolMessage("a", "draw", (image,)),
        ToolMessage("b", "add", (TextContent("2"),)),
    )
    assert [message["role"] for message in body["messages"]] == ["assistant", "tool", "tool", "user"]
    assert body["messages"][3]["content"] == [
        {"type": "text", "text": "Returned by the tool draw:"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
    ]


def test_sound_documents_and_the_users_name_are_sent() -> None:
    contents = (AudioContent(data="QQ==", mime_type="audio/wav"), PdfContent(data="QQ==", mime_type="application/pdf"))
    assert sent(UserMessage(contents, name="Ann Lee"))["messages"] == [
        {
            "role": "user",
            "name": "Ann_Lee",
            "content": [
                {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
                {
                    "type": "file",
                    "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,QQ=="},
                },
            ],
        }
    ]


def test_a_content_that_cannot_be_sent_is_named() -> None:
    with pytest.raises(UserError, match="VideoContent"):
        sent(UserMessage((VideoContent(url="https://example.com/v.mp4"),)))


def test_lone_surrogates_do_not_keep_a_request_from_being_sent() -> None:
    assert sent(UserMessage.of("a\ud800b"))["messages"] == [{"role": "user", "content": "a\ufffdb"}]


# ---------------------------------------------------------------- replies

CALL = {"id": "a", "type": "function", "function": {"name": "a_b", "arguments": '{"x": 1}'}}
COUNTS = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
OFFER = ChatRequest((HI,), ChatParameters(tools=(ToolSpec("a b"),)))
REPLY = ChatResponse(
    AssistantMessage("so", (ToolCall("a", "a b", '{"x": 1}'),), "because"),
    Usage(10, 5, 15, {"cached": 4, "reasoning": 3}),
    FinishReason.TOOL_EXECUTION,
    "r1",
    "fake-1",
)
DELTAS = [
    {"role": "assistant", "reasoning_content": "be"},
    {"reasoning_content": "cause"},
    {"content": "so"},
    {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "a_b", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"x": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
]
COUNTED = {
    "id": "r1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "fake-1",
    "choices": [],
    "usage": COUNTS,
}


@pytest.mark.parametrize("way", WAYS)
def test_each_mode_reads_the_same_reply(way: str) -> None:
    message = {"content": "so", "reasoning_content": "because", "tool_calls": [CALL]}
    answer = whole(message, finish="tool_calls", usage=COUNTS)
    if "stream" in way:
        answer = streamed(DELTAS, finish="tool_calls", then=[COUNTED, "[DONE]"])
    with FakeProvider(answer) as provider:
        model = OpenAIChat("m", base_url=provider.base_url)
        assert WAYS[way](model, OFFER) == REPLY
        model.close()


@pytest.mark.parametrize("pieces", [pieces_of, async_pieces_of], ids=["stream", "astream"])
def test_a_stream_gives_its_pieces_in_order_and_asks_for_usage(pieces: Any) -> None:
    with FakeProvider(streamed(DELTAS, finish="tool_calls", then=[COUNTED, "[DONE]"])) as provider:
        model = OpenAIChat("m", base_url=provider.base_url)
        assert pieces(model, OFFER) == [
            ReasoningPiece("be"),
            ReasoningPiece("cause"),
            TextPiece("so"),
            ToolCallPiece(0, "a", "a b", '{"x": '),
            ToolCallPiece(0, "a", "a b", "1}"),
            ToolCallReady(0, ToolCall("a", "a b", '{"x": 1}')),
            ResponseDone(REPLY),
        ]
        model.close()
    assert provider.requests[0]["stream"] is True
    assert provider.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("tool_calls", FinishReason.TOOL_EXECUTION),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("something_new", FinishReason.OTHER),
    ],
)
@pytest.mark.parametrize("way", WAYS)
def test_finish_reasons_are_translated(way: str, theirs: str, ours: FinishReason) -> None:
    answer = streamed([{"content": "x"}], finish=theirs) if "stream" in way else whole({"content": "x"}, finish=theirs)
    with FakeProvider(answer) as provider:
        model = OpenAIChat("m", base_url=provider.base_url)
        assert WAYS[way](model, ChatRequest((HI,))).finish_reason is ours
        model.close()


def test_a_refusal_is_what_the_model_says() -> None:
    with FakeProvider(whole({"content": None, "refusal": "I will not."})) as provider:
        model = OpenAIChat("m", base_url=provider.base_url)
        assert model.generate(ChatRequest((HI,))).message == AssistantMessage("I will not.")
        model.close()


def test_the_schema_of_an_answer_is_sent_in_the_words_that_providers_know() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}
    wanted = ResponseFormat("json", {"type": "object", "properties": {"result": pair}}, "answer")
    body = sent(HI, parameters=ChatParameters(response_format=wanted))
    sent_schema = body["response_format"]["json_schema"]["schema"]
    assert "prefixItems" not in sent_schema["properties"]["result"]


@pytest.mark.parametrize(("base_url", "supports"), [(None, True), ("http://localhost:1/v1", False)])
def test_schemas_are_relied_on_at_the_service_that_is_known_to_keep_to_them(
    base_url: str | None, supports: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIChat("m", api_key="k", base_url=base_url).supports_json_schema is supports
