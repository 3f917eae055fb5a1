"""OpenAI's replies and errors as our values: pure functions; the SDK is known here by its attributes alone."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextLengthError,
    ModelError,
    NetworkError,
    OverloadedError,
    RateLimitError,
)
from ..messages import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    StreamPiece,
    ToolCall,
    Usage,
)
from ._assemble import StreamAssembler
from ._wire import WireNames

__all__ = ["ReplyReader", "model_error", "whole_reply"]

_FINISH = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_EXECUTION,
    "function_call": FinishReason.TOOL_EXECUTION,
    "content_filter": FinishReason.CONTENT_FILTER,
}
_TOO_LONG = ("context_length_exceeded", "exceed_context_size_error", "maximum context length", "context window")
_FILTERED = ("content_filter", "content_policy_violation", "content_policy")
_TRANSPORT_PACKAGES = ("httpx", "httpx2", "httpcore", "httpcore2", "ssl", "socket", "json")


# ---------------------------------------------------------------- replies


def whole_reply(completion: Any, names: WireNames) -> ChatResponse:
    """Our response for a ``ChatCompletion``."""
    if not completion.choices:
        raise OverloadedError("the provider's reply holds no choices; ask again")
    choice = completion.choices[0]
    message = choice.message
    calls = tuple(_call(item, names) for item in message.tool_calls or ())
    return ChatResponse(
        message=AssistantMessage(_visible_text(message), calls, _reasoning(message)),
        usage=_usage(completion.usage),
        finish_reason=_finish_reason(choice.finish_reason),
        id=completion.id,
        model=completion.model,
    )


class ReplyReader:
    """Turns the chunks of one streamed reply into pieces; ``has_ended`` tells whether its end has come."""

    def __init__(self, names: WireNames) -> None:
        self._names = names
        self._assembler = StreamAssembler()
        self._finish: FinishReason | None = None
        self._usage: Usage | None = None
        self._id: str | None = None
        self._model: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether a finish reason has come; a connection that closes without one was broken."""
        return self._finish is not None

    def read(self, chunk: Any) -> Iterator[StreamPiece]:
        """The pieces in a ``ChatCompletionChunk``."""
        self._id = chunk.id or self._id
        self._model = chunk.model or self._model
        self._usage = _usage(chunk.usage) or self._usage
        for choice in chunk.choices or ():
            delta = choice.delta
            if delta is not None:
                yield from self._assembler.reasoning(_reasoning(delta))
                yield from self._assembler.text(_visible_text(delta))
                for item in delta.tool_calls or ():
                    yield from self._call_pieces(item)
            self._finish = _finish_reason(choice.finish_reason) or self._finish

    def done(self) -> Iterator[StreamPiece]:
        """The last pieces."""
        yield from self._assembler.done(self._finish, usage=self._usage, id=self._id, model=self._model)

    def _call_pieces(self, item: Any) -> Iterator[StreamPiece]:
        function = item.function
        name = function.name if function is not None else None
        arguments = function.arguments if function is not None else None
        own = self._names.own(name) if name else None
        yield from self._assembler.call(item.index, id=item.id, name=own, arguments=arguments)


def _call(item: Any, names: WireNames) -> ToolCall:
    function = getattr(item, "function", None)
    if function is None:  # a "custom" tool: free text instead of JSON arguments
        return ToolCall(item.id, names.own(item.custom.name), item.custom.input)
    return ToolCall(item.id, names.own(function.name or ""), function.arguments or "")


def _visible_text(message: Any) -> str | None:
    # A refusal is what the model says to the user, in a field of its own.
    return message.content or getattr(message, "refusal", None) or None


def _reasoning(message: Any) -> str | None:
    # Not in OpenAI's own schema; compatible servers use one of these two names.
    return getattr(message, "reasoning_content", None) or _text_or_none(getattr(message, "reasoning", None))


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _finish_reason(reason: str | None) -> FinishReason | None:
    return None if reason is None else _FINISH.get(reason, FinishReason.OTHER)


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    prompt, completion = (getattr(usage, f"{side}_tokens_details", None) for side in ("prompt", "completion"))
    counts = {
        "cached": getattr(prompt, "cached_tokens", None),
        "audio_input": getattr(prompt, "audio_tokens", None),
        "reasoning": getattr(completion, "reasoning_tokens", None),
        "audio_output": getattr(completion, "audio_tokens", None),
    }
    extras = {name: count for name, count in counts.items() if count}
    return Usage(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, extras)


# ---------------------------------------------------------------- errors


def model_error(error: Exception) -> ModelError | None:
    """Our error for one of the SDK's (or of the HTTP client below it); ``None`` for any other exception."""
    kinds = {cls.__name__ for cls in type(error).__mro__}
    if "APIConnectionError" in kinds or _is_transport_error(error):
        return NetworkError(f"the provider could not be reached, or the connection broke: {error}")
    if "APIError" in kinds:
        return _refusal(error)
    return None


def _is_transport_error(error: Exception) -> bool:
    # Before the SDK has wrapped it, a break in the middle of a stream comes as the HTTP client's own error, or as
    # a JSON error when half an event has arrived.
    packages = {cls.__module__.partition(".")[0] for cls in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or not packages.isdisjoint(_TRANSPORT_PACKAGES)


def _refusal(error: Any) -> ModelError:
    body = _mapping(error.body)
    details = _mapping(body.get("error")) or body
    words = " ".join(str(details.get(key, "")) for key in ("code", "type", "message")).lower()
    status = getattr(error, "status_code", None)
    if status is None and isinstance(details.get("code"), int):
        status = details["code"]  # an error in the middle of a stream has no status line of its own
    text = f"the provider refused the request: {error}"
    if status == 429 or (status is None and "rate_limit" in words):
        return RateLimitError(text, status=status, retry_after=_retry_after(error))
    if status in (401, 403):
        return AuthenticationError(f"{text}; check api_key=", status=status)
    if any(mark in words for mark in _TOO_LONG):
        return ContextLengthError(text, status=status)
    if any(mark in words for mark in _FILTERED):
        return ContentFilterError(text, status=status)
    if status in (408, 409) or status is None or status >= 500:
        return OverloadedError(f"the provider failed: {error}", status=status)
    return BadRequestError(text, status=status)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _retry_after(error: Any) -> float | None:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    for header, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        value = headers.get(header)
        if value is None:
            continue
        try:
            return max(0.0, float(value) / divisor)
        except ValueError:
            moment = email.utils.parsedate_tz(value)
            if moment is not None:
                return max(0.0, email.utils.mktime_tz(moment) - time.time())
    return None
