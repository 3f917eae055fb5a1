"""Tools for models that have none: what to say to the model, and which replies its decoder may write.

The model reads a list of the tools and worked examples made from their schemas, and a JSON schema holds the
decoder to ``{"name": …, "arguments": …}`` of an offered tool or to ``{"answer": …}``. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import UNSET

from .._codec import clean_text
from ..errors import UserError
from ..messages import (
    AssistantMessage,
    ChatRequest,
    Content,
    Message,
    ResponseFormat,
    SystemMessage,
    TextContent,
    ToolChoice,
    ToolMessage,
    UserMessage,
)
from ._examples import Example, first_sentence, worked_examples
from ._narrow import by_relevance, reply_schema
from ._wire import valid_history

__all__ = ["Plan", "Policy", "plan_reply"]


class Policy(NamedTuple):
    """How much is done to help a model.

    ``spans``: arguments are taken from the words and numbers of the user's request. ``tool_rounds``: rounds of
    calls for one user message, after which the model must answer (``None``: as many as it likes). ``quote``:
    results are quoted after an introduction that the model writes, instead of retold.
    """

    spans: bool
    tool_rounds: int | None
    quote: bool
    examples: tuple[Example, ...] = ()


class Plan(NamedTuple):
    """One reply: the chat to send, and what may come back.

    ``schema`` constrains the decoder (``None``: free text); ``form`` says how to read what it writes: ``text`` as
    it is, ``tools`` as calls or an answer, ``intro`` as a line to which ``quoted`` is added.
    """

    chat: list[dict[str, str]]
    form: str
    schema: Mapping[str, Any] | None = None
    answer_is_json: bool = False
    quoted: str = ""


def plan_reply(request: ChatRequest, policy: Policy) -> Plan:
    """What to ask of the model for this request, whose parameters are complete."""
    parameters = request.parameters
    wanted = parameters.response_format
    format_schema = _format_schema(wanted) if isinstance(wanted, ResponseFormat) else None
    messages = valid_history(request.messages)
    latest = _latest_turn(messages)
    choice = parameters.tool_choice if parameters.tool_choice is not UNSET else ToolChoice.AUTO
    rounds = sum(isinstance(message, AssistantMessage) for message in latest)
    may_call = policy.tool_rounds is None or rounds < policy.tool_rounds or choice is ToolChoice.REQUIRED
    if request.tools and choice is not ToolChoice.NONE and may_call:
        return _tool_plan(request, messages, policy, choice, format_schema)
    results = [message for message in latest if isinstance(message, ToolMessage)]
    if results and policy.quote and format_schema is None:
        return _quoting_plan(_request_text(messages), results)
    return Plan(_chat(messages, as_json=False), "text", format_schema)


# ---------------------------------------------------------------- the three plans


def _tool_plan(
    request: ChatRequest,
    messages: Sequence[Message],
    policy: Policy,
    choice: ToolChoice,
    format_schema: Mapping[str, Any] | None,
) -> Plan:
    may_answer = choice is ToolChoice.AUTO
    text = _request_text(messages)
    # What stands last before the request weighs most with a small model.
    tools = by_relevance(request.tools, text) if policy.spans else list(request.tools)
    chat = [{"role": "system", "content": _instructions(request, messages, may_answer)}]
    for example in worked_examples(tools, policy.examples, may_answer=may_answer):
        chat.append({"role": "user", "content": example.request})
        chat.append({"role": "assistant", "content": _dumps(example.reply())})
    chat += _chat([message for message in messages if not isinstance(message, SystemMessage)], as_json=True)
    answer: Mapping[str, Any] | None = (format_schema or {"type": "string"}) if may_answer else None
    schema = reply_schema(request.tools, answer, text if policy.spans else None)
    return Plan(chat, "tools", schema, answer_is_json=format_schema is not None)


_INTRODUCTIONS = (
    ("What time is it in Rome?", "get_time", "14:05", "The time in Rome is:"),
    ("Delete the file a.txt", "delete_file", "ok", "I asked to delete the file a.txt, with this result:"),
    ("Open the door", "open_door", "Error: the door is locked", "I asked to open the door, with this result:"),
)
_SHOWN = 300  # characters of a result that the model sees before it introduces it


def _quoting_plan(request: str, results: Sequence[ToolMessage]) -> Plan:
    chat = [
        {"role": "system", "content": "You introduce the result of a request in one short line that ends with a colon."}
    ]
    for asked, name, result, line in _INTRODUCTIONS:
        chat.append({"role": "user", "content": _asked_and_got(asked, [(name, result)])})
        chat.append({"role": "assistant", "content": line})
    shown = [(result.tool_name, _result_text(result)[:_SHOWN]) for result in results]
    chat.append({"role": "user", "content": _asked_and_got(request, shown)})
    texts = [_result_text(result) for result in results]
    quoted = texts[0] if len(texts) == 1 else "\n".join(f"- {text}" for text in texts)
    return Plan(chat, "intro", quoted=(" " if len(texts) == 1 else "\n") + quoted)


def _asked_and_got(request: str, results: Sequence[tuple[str, str]]) -> str:
    return "\n".join([f"Request: {request}", *(f"Result of {name}: {text}" for name, text in results)])


# ---------------------------------------------------------------- what the model reads


def _instructions(request: ChatRequest, messages: Sequence[Message], may_answer: bool) -> str:
    own = [message.text for message in messages if isinstance(message, SystemMessage)]
    how = 'You call functions. Reply with one JSON object: {"name": ..., "arguments": {...}} to call a function'
    how += ', or {"answer": ...} when no function fits.' if may_answer else "."
    lines = [*own, how, "Functions:"]
    for spec in request.tools:
        parameters: Mapping[str, Any] = (spec.parameters or {}).get("properties", {})
        lines.append(f"- {spec.name}({', '.join(parameters)}): {first_sentence(spec)}")
    return clean_text("\n".join(lines))


def _chat(messages: Sequence[Message], *, as_json: bool) -> list[dict[str, str]]:
    return [{"role": role, "content": clean_text(text)} for role, text in _turns(messages, as_json)]


def _turns(messages: Sequence[Message], as_json: bool) -> Iterator[tuple[str, str]]:
    for message in messages:
        match message:
            case SystemMessage():
                yield "system", message.text
            case UserMessage():
                yield "user", _texts(message.contents)
            case AssistantMessage():
                yield "assistant", _said(message, as_json)
            case ToolMessage():
                yield "user", f"Result of {message.tool_name}: {_result_text(message)}"
            case _:  # custom messages: valid_history has left them out
                continue


def _said(message: AssistantMessage, as_json: bool) -> str:
    if message.tool_calls:
        calls = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in message.tool_calls]
        return "\n".join(map(_dumps, calls))
    return _dumps({"answer": message.text or ""}) if as_json else message.text or ""


def _latest_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """What has come since the user last said something."""
    users = [place for place, message in enumerate(messages) if isinstance(message, UserMessage)]
    return messages[users[-1] + 1 :] if users else messages


def _request_text(messages: Sequence[Message]) -> str:
    users = [message for message in messages if isinstance(message, UserMessage)]
    return _texts(users[-1].contents) if users else ""


def _result_text(message: ToolMessage) -> str:
    return _texts(message.contents)


def _texts(contents: Sequence[Content]) -> str:
    texts: list[str] = []
    for content in contents:
        if not isinstance(content, TextContent):
            raise UserError(
                f"LocalModel reads text alone, not {type(content).__name__}; leave it out or use another model"
            )
        texts.append(content.text)
    return "\n".join(texts)


def _format_schema(wanted: ResponseFormat) -> Mapping[str, Any] | None:
    return (wanted.schema or {"type": "object"}) if wanted.kind == "json" else None


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
