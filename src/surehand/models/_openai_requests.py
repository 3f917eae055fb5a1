"""Our requests in the form of OpenAI's chat completions: pure functions from values to plain dicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET

from .._codec import clean_text
from ..errors import UserError
from ..messages import (
    AssistantMessage,
    AudioContent,
    ChatParameters,
    ChatRequest,
    Content,
    ImageContent,
    Message,
    PdfContent,
    ResponseFormat,
    SystemMessage,
    TextContent,
    ToolCall,
    ToolChoice,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from ._portable import portable_schema
from ._wire import WireNames, valid_history

__all__ = ["request_body"]

_SAME_NAME = ("model", "temperature", "top_p", "frequency_penalty", "presence_penalty")
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}
# Longer ids are refused, although compatible servers make some and a conversation may have begun elsewhere.
_IDS = re.compile(r"[\x21-\x7e]{1,40}")
_NOT_IN_USER_NAMES = re.compile(r"[\s<|\\/>]+")


def request_body(request: ChatRequest, names: WireNames, *, limit_key: str) -> dict[str, Any]:
    """The keyword arguments of ``chat.completions.create`` for the request, without ``stream``.

    ``limit_key`` is the server's name for the limit on output tokens. What the SDK has no argument for, and
    everything in ``extra``, goes to ``extra_body``, which the SDK merges into the request.
    """
    parameters = request.parameters
    body: dict[str, Any] = {name: value for name in _SAME_NAME if (value := getattr(parameters, name)) is not UNSET}
    body["messages"] = list(_messages(request.messages, names))
    if parameters.max_output_tokens is not UNSET:
        body[limit_key] = parameters.max_output_tokens
    if parameters.stop_sequences is not UNSET:
        body["stop"] = list(parameters.stop_sequences)
    if parameters.response_format is not UNSET:
        body["response_format"] = _response_format(parameters.response_format)
    if request.tools:
        body["tools"] = [_tool(spec, names) for spec in request.tools]
        if isinstance(parameters.tool_choice, ToolChoice):
            body["tool_choice"] = parameters.tool_choice.value
    if extra := _extra(parameters):
        body["extra_body"] = extra
    return body


def _extra(parameters: ChatParameters) -> dict[str, Any]:
    extra: dict[str, Any] = {} if parameters.top_k is UNSET else {"top_k": parameters.top_k}
    if isinstance(parameters.extra, Mapping):
        extra.update(parameters.extra)
    return extra


def _response_format(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.kind == "text":
        return {"type": "text"}
    if wanted.schema is None:
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": wanted.name or "answer", "schema": portable_schema(wanted.schema)},
    }


def _tool(spec: ToolSpec, names: WireNames) -> dict[str, Any]:
    parameters = portable_schema(spec.parameters or _NO_PARAMETERS)
    function: dict[str, Any] = {"name": names.wire(spec.name), "parameters": parameters}
    if spec.description:
        function["description"] = clean_text(spec.description)
    if spec.strict is not None:
        function["strict"] = spec.strict
    return {"type": "function", "function": function}


# ---------------------------------------------------------------- messages


def _messages(messages: Sequence[Message], names: WireNames) -> Iterator[dict[str, Any]]:
    media: list[tuple[str, Content]] = []  # from tools, since the last result: see _media_message
    for message in valid_history(messages, id_pattern=_IDS):
        if media and not isinstance(message, ToolMessage):
            yield _media_message(media)
            media = []
        match message:
            case SystemMessage():
                yield {"role": "system", "content": clean_text(message.text)}
            case UserMessage():
                yield _user(message)
            case AssistantMessage():
                yield _assistant(message, names)
            case ToolMessage():
                yield {"role": "tool", "tool_call_id": message.call_id, "content": _result_text(message)}
                media.extend((message.tool_name, item) for item in message.contents if not _is_text(item))
            case _:  # custom messages: valid_history has left them out
                continue
    if media:
        yield _media_message(media)


def _user(message: UserMessage) -> dict[str, Any]:
    user: dict[str, Any] = {"role": "user", "content": _parts(message.contents)}
    if message.name:
        user["name"] = _NOT_IN_USER_NAMES.sub("_", clean_text(message.name))
    return user


def _assistant(message: AssistantMessage, names: WireNames) -> dict[str, Any]:
    text = clean_text(message.text or "")
    if not message.tool_calls:
        return {"role": "assistant", "content": text}
    calls = [_call(call, names) for call in message.tool_calls]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _call(call: ToolCall, names: WireNames) -> dict[str, Any]:
    function = {"name": names.wire(call.name), "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _result_text(message: ToolMessage) -> str:
    texts = [item.text for item in message.contents if isinstance(item, TextContent)]
    if len(texts) < len(message.contents):
        texts.append("(what this tool returned besides text is in the next user message)")
    return clean_text("\n".join(texts))


def _media_message(media: Sequence[tuple[str, Content]]) -> dict[str, Any]:
    # A tool message holds text alone, and nothing may stand between the results of one round.
    parts: list[dict[str, Any]] = []
    for tool_name, content in media:
        parts.append({"type": "text", "text": f"Returned by the tool {tool_name}:"})
        parts.append(_part(content))
    return {"role": "user", "content": parts}


def _parts(contents: Sequence[Content]) -> str | list[dict[str, Any]]:
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return clean_text(contents[0].text)
    return [_part(content) for content in contents]


def _is_text(content: Content) -> bool:
    return isinstance(content, TextContent)


def _part(content: Content) -> dict[str, Any]:
    match content:
        case TextContent():
            return {"type": "text", "text": clean_text(content.text)}
        case ImageContent():
            address = content.url or f"data:{content.mime_type};base64,{content.data}"
            return {"type": "image_url", "image_url": {"url": address, "detail": content.detail}}
        case AudioContent(data=str() as data, mime_type=str() as kind) if kind in _AUDIO_FORMATS:
            return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO_FORMATS[kind]}}
        case PdfContent(data=str() as data, mime_type=kind):
            return {"type": "file", "file": {"filename": "document.pdf", "file_data": f"data:{kind};base64,{data}"}}
        case _:
            raise UserError(
                f"OpenAIChat cannot send {type(content).__name__} in this form: it takes text, images, "
                "AudioContent(data=…) of type audio/wav or audio/mpeg, and PdfContent(data=…)"
            )
