"""Our values and events in the words of the recordings. One recorder notes everything that happens, in order."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from surehand import (
    AssistantMessage,
    ChatResponse,
    Content,
    ImageContent,
    Message,
    OutputError,
    RequestIssued,
    ResponseReceived,
    RoundLimitError,
    RunFailed,
    RunFinished,
    RunResult,
    RunStarted,
    SearchResult,
    SystemMessage,
    TextContent,
    ToolArgumentsError,
    ToolCall,
    ToolError,
    ToolExecuted,
    ToolExecution,
    ToolExecutionError,
    ToolMessage,
    UnknownToolError,
    Usage,
    UserError,
    UserMessage,
)

__all__ = ["Scripted", "Trace", "error_of", "exception_of"]

# Words that the recordings have for our events; ours that they have no word for are named in `normal.PROJECTIONS`.
LISTENER_WORDS: dict[type, str] = {
    RunStarted: "Started",
    RequestIssued: "RequestIssued",
    ResponseReceived: "ResponseReceived",
    ToolExecuted: "ToolExecuted",
    RunFinished: "Completed",
    RunFailed: "Error",
}


# ---------------------------------------------------------------- exceptions of the scenario, and ours


class Scripted:
    """Marks an exception that a scenario asked for, with the words in which it did."""

    described: Mapping[str, Any]


_OURS: dict[str, type[Exception]] = {
    "ToolArgumentsException": ToolArgumentsError,
    "ToolExecutionException": ToolExecutionError,
    "AssertionError": AssertionError,
}
_CLASSES: dict[str, type[Exception]] = {}


def exception_of(described: Mapping[str, Any]) -> Exception:
    """A live exception of that class, message and cause."""
    name = described["class"]
    if name not in _CLASSES:
        _CLASSES[name] = type(name, (Scripted, _OURS.get(name, Exception)), {})
    message = described.get("message")
    error = _CLASSES[name](*(() if message is None and name not in _OURS else (message or "",)))
    error.described = described  # type: ignore[attr-defined]
    if described.get("cause"):
        error.__cause__ = exception_of(described["cause"])
    return error


def error_of(error: BaseException) -> dict[str, Any]:
    """The exception in the recordings' words; what surehand itself raises becomes a token.

    An exception of the scenario's keeps the cause that the scenario gave it: surehand hangs the tool's own error
    behind what a handler raises, which the recordings do not.
    """
    if isinstance(error, Scripted):
        return {key: value for key, value in error.described.items() if key != "cause" or value}
    token = _token_of(error)
    if token is None:
        return {"class": type(error).__name__, "message": str(error)}
    return {"class": token, "message": token}


_UNKNOWN = r"called '(.*?)', but no such tool"
_ROUNDS = r"after (\d+) rounds"


def _token_of(error: BaseException) -> str | None:
    text = str(error)
    match error:
        case ToolArgumentsError() | ToolError():
            return "<arguments do not fit>"
        case UnknownToolError():
            return f"<no tool {_first(_UNKNOWN, text)}>"
        case RoundLimitError():
            return f"<limit of {_first(_ROUNDS, text)} rounds>"
        case OutputError():
            return "<the answer does not fit>"
        case ToolExecutionError():
            return "<result cannot be shown>"
        case UserError() if "returned None" in text:
            return "<a handler gave nothing>"
        case UserError():
            return "<configuration error>"
        case _:
            return None


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return "" if found is None else found.group(1) or ""


# ---------------------------------------------------------------- messages, contents, usage


def content_of(content: Content) -> dict[str, Any]:
    match content:
        case TextContent(text):
            return {"text": text}
        case ImageContent():
            return {"image_url": content.url}
        case _:
            return {type(content).__name__: repr(content)}


def call_of(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": call.arguments}


def message_of(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage(text):
            return {"role": "system", "text": text}
        case UserMessage():
            return {"role": "user", **_text_or(message.contents, "contents")}
        case AssistantMessage():
            calls = {"tool_calls": [call_of(call) for call in message.tool_calls]} if message.tool_calls else {}
            return {"role": "ai", "text": message.text, **calls}
        case ToolMessage():
            attributes = {"attributes": dict(message.attributes)} if message.attributes else {}
            return {
                "role": "tool",
                "id": message.call_id,
                "name": message.tool_name,
                **_text_or(message.contents, "contents"),
                "is_error": message.is_error,
                **attributes,
            }
        case _:
            return {"role": type(message).__name__}


def _text_or(contents: Sequence[Content], key: str, text_key: str = "text") -> dict[str, Any]:
    if len(contents) == 1 and isinstance(contents[0], TextContent):
        return {text_key: contents[0].text}
    return {key: [content_of(content) for content in contents]}


def execution_of(execution: ToolExecution[Any]) -> dict[str, Any]:
    result = execution.result
    attributes = {"attributes": dict(result.attributes)} if result.attributes else {}
    return {
        **call_of(execution.call),
        "has_failed": result.is_error,
        **_text_or(result.contents, "result_contents", "result_text"),
        "result_object": object_of(result.value),
        **attributes,
    }


def object_of(value: Any) -> Any:
    if isinstance(value, SearchResult):
        return {}  # as the recordings show what they know nothing of
    if isinstance(value, TextContent | ImageContent):
        return content_of(value)
    if isinstance(value, list | tuple):
        return [object_of(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return f"<{type(value).__name__}>" if hasattr(value, "__dict__") else value


def usage_of(usage: Usage | None) -> dict[str, Any] | None:
    return None if usage is None else {"input": usage.input, "output": usage.output, "total": usage.total}


def result_of(result: RunResult[Any]) -> dict[str, Any]:
    return {
        "content": object_of(result.output),
        "token_usage": usage_of(result.usage),
        "finish_reason": None if result.finish_reason is None else result.finish_reason.name,
        "tool_executions": [execution_of(execution) for execution in result.executions],
        "intermediate_responses": [message_of(response.message) for response in result.intermediate],
        "final_response": message_of(result.response.message),
        "final_response_usage": usage_of(result.response.usage),
    }


# ---------------------------------------------------------------- the trace


class Trace:
    """Notes events from whichever thread they come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.events: list[dict[str, Any]] = []
        self.errors: dict[str | None, BaseException] = {}  # what handlers were given, by the id of the call

    def note(self, event: str, **fields: Any) -> None:
        with self._lock:
            self.events.append({"ev": event, **fields})

    def listen(self, event: Any) -> None:
        """As a listener: the events that the recordings have a word for."""
        word = LISTENER_WORDS.get(type(event))
        if word is None:
            return
        fields: dict[str, Any] = {}
        if isinstance(event, ToolExecuted):
            execution = event.execution
            contents = [content_of(content) for content in execution.result.contents]
            fields = {"id": execution.call.id, "name": execution.call.name, "result": contents}
        elif isinstance(event, RunFailed):
            fields = {"error": error_of(event.error)}
        self.note("listener", type=word, **fields)

    def intermediate(self, response: ChatResponse) -> None:
        self.note("stream_intermediate", message=message_of(response.message), usage=usage_of(response.usage))

    def complete(self, response: ChatResponse) -> None:
        reason = None if response.finish_reason is None else response.finish_reason.name
        message, usage = message_of(response.message), usage_of(response.usage)
        self.note("stream_complete", message=message, usage=usage, finish_reason=reason)
