"""The embedded model: a tiny one with made-up weights for how it behaves, the real one for what it can do."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from surehand.errors import BadRequestError, ContextLengthError, UserError
from surehand.messages import (
    AssistantMessage,
    ChatParameters,
    ChatRequest,
    FinishReason,
    ResponseDone,
    ResponseFormat,
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
from surehand.models.local import LocalModel

from .asking import WAYS, async_pieces_of, pieces_of


def spec(name: str, description: str, /, **properties: Any) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": list(properties)})


WEATHER = spec("get_weather", "Get the current weather for a city.", city={"type": "string"})
TIMER = spec("set_timer", "Start a countdown timer for a number of minutes.", minutes={"type": "integer"})
FLIGHT = spec("book_flight", "Book a flight to a city.", city={"type": "string"})
VOLUME = spec("set_volume", "Set the loudspeaker volume in percent.", percent={"type": "integer"})
REQUIRED = ChatParameters(tools=(WEATHER, TIMER), tool_choice=ToolChoice.REQUIRED)
MUST_CALL = ChatRequest((UserMessage.of("Weather in Rome in 5 minutes?"),), REQUIRED)
TALK = ChatRequest((UserMessage.of("hi"),))


# ---------------------------------------------------------------- how it behaves


@pytest.mark.parametrize("way", WAYS)
def test_each_mode_gives_a_valid_call_of_an_offered_tool(tiny: LocalModel, way: str) -> None:
    response = WAYS[way](tiny, MUST_CALL)
    (call,) = response.message.tool_calls
    arguments = json.loads(call.arguments)
    assert (call.name, arguments) == ("set_timer", {"minutes": 5}) or (
        call.name == "get_weather" and arguments["city"] in "Weather in Rome in 5 minutes?"
    )
    assert response.finish_reason is FinishReason.TOOL_EXECUTION
    assert response.usage is not None
    assert response.usage.input
    assert response.usage.output
    assert response.model == "tiny"


@pytest.mark.parametrize("way", WAYS)
def test_each_mode_gives_the_same_reply(tiny: LocalModel, way: str) -> None:
    assert WAYS[way](tiny, MUST_CALL).message == tiny.generate(MUST_CALL).message


@pytest.mark.parametrize("pieces", [pieces_of, async_pieces_of], ids=["stream", "astream"])
def test_a_call_comes_in_pieces_while_it_is_written(tiny: LocalModel, pieces: Any) -> None:
    *parts, ready, done = pieces(tiny, MUST_CALL)
    assert len(parts) > 1
    assert all(isinstance(part, ToolCallPiece) for part in parts)
    assert isinstance(ready, ToolCallReady)
    assert "".join(part.arguments for part in parts) == ready.call.arguments
    assert isinstance(done, ResponseDone)
    assert done.response.message.tool_calls == (ready.call,)


@pytest.mark.parametrize("way", WAYS)
def test_the_token_limit_ends_a_reply(tiny: LocalModel, way: str) -> None:
    response = WAYS[way](tiny, ChatRequest(TALK.messages, ChatParameters(max_output_tokens=3)))
    assert response.finish_reason is FinishReason.LENGTH
    assert response.usage is not None
    assert response.usage.output == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_conversation_that_is_too_long_is_told_apart(tiny: LocalModel, way: str) -> None:
    with pytest.raises(ContextLengthError, match="n_ctx"):
        WAYS[way](tiny, ChatRequest((UserMessage.of("word " * 3000),)))


def test_tools_that_the_decoder_cannot_be_held_to_are_refused(tiny: LocalModel) -> None:
    odd = spec("odd", "Is odd.", x={"$ref": "#/$defs/nowhere"})
    with pytest.raises(BadRequestError, match="JSON schema"):
        tiny.generate(ChatRequest(TALK.messages, ChatParameters(tools=(odd,), tool_choice=ToolChoice.REQUIRED)))


def test_schema_words_that_the_decoder_does_not_know_are_overlooked(tiny: LocalModel) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2, "uniqueItems": True}
    wanted = ChatParameters(response_format=ResponseFormat("json", schema))
    text = tiny.generate(ChatRequest(TALK.messages, wanted)).message.text
    assert text is not None
    assert len(json.loads(text)) in (1, 2)


def test_a_json_answer_fits_its_schema(tiny: LocalModel) -> None:
    schema = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    wanted = ChatParameters(response_format=ResponseFormat("json", {**schema, "additionalProperties": False}))
    text = tiny.generate(ChatRequest(TALK.messages, wanted)).message.text
    assert text is not None
    assert json.loads(text) in ({"on": True}, {"on": False})


def test_many_threads_share_one_model(tiny: LocalModel) -> None:
    alone = tiny.generate(MUST_CALL).message
    replies: list[AssistantMessage] = []
    threads = [threading.Thread(target=lambda: replies.append(tiny.generate(MUST_CALL).message)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == [alone] * 6


def test_nobody_else_on_the_machine_can_use_the_model(tiny: LocalModel) -> None:
    tiny.load()
    address = f"{tiny._engine._server.listening_address}/v1/chat/completions"
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    caught.value.close()
    assert caught.value.code == 401


def test_closing_a_stream_frees_the_model_for_the_next_request(tiny_path: Path) -> None:
    model = LocalModel(tiny_path, n_ctx=30_000, max_output_tokens=25_000)
    pieces: Any = model.stream(TALK)
    assert isinstance(next(pieces), TextPiece)
    pieces.close()
    short = ChatRequest(TALK.messages, ChatParameters(max_output_tokens=2))
    assert model.generate(short).finish_reason is FinishReason.LENGTH
    model.close()


def test_cancelling_frees_the_model_for_the_next_request(tiny_path: Path) -> None:
    model = LocalModel(tiny_path, n_ctx=30_000, max_output_tokens=25_000)

    async def leave() -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in model.astream(TALK):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        short = ChatRequest(TALK.messages, ChatParameters(max_output_tokens=2))
        assert (await model.agenerate(short)).finish_reason is FinishReason.LENGTH

    asyncio.run(leave())
    model.close()


_FORKING = """
import os, sys
from surehand.messages import ChatParameters, ChatRequest, UserMessage
from surehand.models.local import LocalModel

model = LocalModel(sys.argv[1])
request = ChatRequest((UserMessage.of("hi"),), ChatParameters(max_output_tokens=5))
before = model.generate(request)
child = os.fork()
if child == 0:
    os._exit(0 if model.generate(request).message == before.message else 3)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or model.generate(request).message != before.message)
"""


def test_a_forked_child_has_a_model_of_its_own(tiny_path: Path) -> None:
    # A process of its own: newer Pythons warn of forking where threads run, and here many do.
    command = [sys.executable, "-W", "ignore", "-c", _FORKING, str(tiny_path)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 0


def test_constructing_loads_nothing_and_a_missing_file_is_told_at_first_use() -> None:
    model = LocalModel("/nowhere/model.gguf")
    with pytest.raises(UserError, match=r"/nowhere/model\.gguf"):
        model.load()


def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("not a model")
    with pytest.raises(UserError, match=r"text\.gguf"):
        LocalModel(path).generate(TALK)


def test_missing_weights_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUREHAND_HOME", str(tmp_path))
    with pytest.raises(UserError, match="surehand model install"):
        LocalModel().generate(TALK)


def test_a_missing_runtime_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tiny_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UserError, match=r"pip install 'surehand\[local\]'"):
        LocalModel(tiny_path).load()


# ---------------------------------------------------------------- what the real weights can do

EXPECTED = [
    ("What is the weather in Paris?", "get_weather", {"city": "Paris"}),
    ("Set a timer for 10 minutes", "set_timer", {"minutes": 10}),
    ("Book a flight to Lisbon", "book_flight", {"city": "Lisbon"}),
    ("Turn the sound down to 20 percent", "set_volume", {"percent": 20}),
]


@pytest.mark.parametrize(("request_text", "name", "arguments"), EXPECTED)
def test_the_embedded_model_picks_the_tool_and_its_argument(
    smollm: LocalModel, request_text: str, name: str, arguments: dict[str, Any]
) -> None:
    parameters = ChatParameters(tools=(WEATHER, TIMER, FLIGHT, VOLUME), tool_choice=ToolChoice.REQUIRED)
    (call,) = smollm.generate(ChatRequest((UserMessage.of(request_text),), parameters)).message.tool_calls
    assert (call.name, json.loads(call.arguments)) == (name, arguments)


def test_the_embedded_model_answers_a_greeting_without_a_tool(smollm: LocalModel) -> None:
    message = smollm.generate(ChatRequest((UserMessage.of("Hello!"),), ChatParameters(tools=(WEATHER,)))).message
    assert message.tool_calls == ()
    assert message.text


@pytest.mark.parametrize("way", WAYS)
def test_the_embedded_model_ends_a_run_by_quoting_the_result(smollm: LocalModel, way: str) -> None:
    request = ChatRequest(
        (
            UserMessage.of("What is the weather in Paris?"),
            AssistantMessage(tool_calls=(ToolCall(None, "get_weather", '{"city": "Paris"}'),)),
            ToolMessage(None, "get_weather", (TextContent("18 degrees, {sunny}"),)),
        ),
        ChatParameters(tools=(WEATHER, TIMER)),
    )
    response = WAYS[way](smollm, request)
    assert response.message.tool_calls == ()
    assert response.message.text is not None
    introduction, _, result = response.message.text.partition(": ")
    assert introduction
    assert result == "18 degrees, {sunny}"
    assert response.finish_reason is FinishReason.STOP
