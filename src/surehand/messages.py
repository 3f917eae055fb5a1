"""Frozen values that travel between application, model and tools, and their one JSON codec (spec 2).

Nothing here does I/O or knows of a run. Every value is compared by content. Values of a union carry a
``type`` tag in JSON; fields that hold their default are left out, so old and new versions read each other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ._codec import JsonValue, from_json, require_json, to_json
from .contents import (
    AudioContent,
    Content,
    ImageContent,
    PdfContent,
    TextContent,
    Value,
    VideoContent,
    text_of,
)
from .errors import UserError

__all__ = [
    "AssistantMessage",
    "AudioContent",
    "ChatParameters",
    "ChatRequest",
    "ChatResponse",
    "Content",
    "CustomMessage",
    "FinishReason",
    "ImageContent",
    "Message",
    "PdfContent",
    "ProviderEvent",
    "ReasoningPiece",
    "ResponseDone",
    "ResponseFormat",
    "StreamPiece",
    "SystemMessage",
    "TextContent",
    "TextPiece",
    "ToolCall",
    "ToolCallPiece",
    "ToolCallReady",
    "ToolChoice",
    "ToolMessage",
    "ToolSpec",
    "Usage",
    "UserMessage",
    "VideoContent",
    "messages_from_json",
    "messages_to_json",
    "replace_last_user",
    "require_unique_names",
    "text_of",
]

_NO_ATTRIBUTES: Mapping[str, Any] = {}


# ---------------------------------------------------------------- tools as the model sees them (spec 2.3, 2.4)


class ToolSpec(Value, frozen=True):
    """What a model is told about a tool (spec 2.3).

    ``parameters`` is a JSON schema of type object, or ``None`` for a tool without parameters. ``metadata`` is
    for the application and is not sent to a provider. ``strict`` asks the provider to enforce the schema.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = _NO_ATTRIBUTES
    strict: bool | None = None

    def __hash__(self) -> int:
        # Its mappings have no hash of their own, but a specification may be a key: {spec: executor} (spec 6.1.1).
        return hash((self.name, self.description))


class ToolCall(Value, frozen=True, gc=False):
    """One call that a model asks for (spec 2.4.1): ``arguments`` is the raw text, normally a JSON object.

    ``id`` may be missing, repeated or reused: nothing in surehand relies on it. A call that the provider has
    run itself carries ``executed_by_provider`` and is never run again.
    """

    id: str | None
    name: str
    arguments: str = ""
    executed_by_provider: bool = False


def require_unique_names(specs: Iterable[ToolSpec]) -> None:
    """Raise ``UserError`` naming the first tool name that occurs twice (spec 2.3.5)."""
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise UserError(f"two tools are named {spec.name!r}; give one of them another name with @tool(name=…)")
        seen.add(spec.name)


# ---------------------------------------------------------------- messages (spec 2.1)


class SystemMessage(Value, frozen=True, tag_field="type", tag="system"):
    """Instructions to the model; never empty."""

    text: str

    def __post_init__(self) -> None:
        if not self.text:
            raise UserError("SystemMessage needs a text that is not empty")


class UserMessage(Value, frozen=True, tag_field="type", tag="user"):
    """What the user says: one or more contents. ``UserMessage.of("text")`` is the short form."""

    contents: tuple[Content, ...]
    name: str | None = None
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES

    def __post_init__(self) -> None:
        if not self.contents or isinstance(self.contents, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError("UserMessage needs at least one content; UserMessage.of('…') makes one from text")

    @classmethod
    def of(cls, *parts: str | Content) -> UserMessage:
        """A user message from texts and other contents, in order."""
        return cls(tuple([TextContent(part) if isinstance(part, str) else part for part in parts]))

    @property
    def text(self) -> str:
        """The single text; raises ``UserError`` unless there is exactly one text content."""
        return text_of(self.contents)


class AssistantMessage(Value, frozen=True, tag_field="type", tag="assistant"):
    """What the model said: text, reasoning, tool calls; all may be absent (spec 2.1.4)."""

    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES

    @property
    def has_tool_calls(self) -> bool:
        """Whether the model asks for at least one tool."""
        return bool(self.tool_calls)


class ToolMessage(Value, frozen=True, tag_field="type", tag="tool"):
    """The result of one call, as the model reads it (spec 2.1.5). ``is_error`` may be unknown (``None``)."""

    call_id: str | None
    tool_name: str
    contents: tuple[Content, ...]
    is_error: bool | None = None
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES

    def __post_init__(self) -> None:
        if not self.contents or isinstance(self.contents, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"ToolMessage of {self.tool_name!r} needs at least one content: (TextContent('…'),)")

    @property
    def has_single_text(self) -> bool:
        """Whether ``text`` may be read."""
        return len(self.contents) == 1 and isinstance(self.contents[0], TextContent)

    @property
    def text(self) -> str:
        """The single text; raises ``UserError`` unless there is exactly one text content."""
        return text_of(self.contents)


class CustomMessage(Value, frozen=True, tag_field="type", tag="custom"):
    """A message of the application's own: attributes only, never sent to a model (spec 2.1.6)."""

    attributes: Mapping[str, Any] = _NO_ATTRIBUTES


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage | CustomMessage
"""Any message of a conversation (spec 2.1.1)."""


def replace_last_user(messages: Sequence[Message], replacement: UserMessage | None) -> Sequence[Message]:
    """The messages with the last user message replaced; the same list when nothing would change (spec 2.1.3)."""
    if replacement is None:
        return messages
    for index in range(len(messages) - 1, -1, -1):
        if isinstance(messages[index], UserMessage):
            if messages[index] == replacement:
                return messages
            return [*messages[:index], replacement, *messages[index + 1 :]]
    return messages


def messages_to_json(messages: Sequence[Message]) -> bytes:
    """The messages as UTF-8 JSON; raises ``UserError`` naming a message and key that JSON cannot hold (spec 2.1.7)."""
    for message in messages:
        for key, value in getattr(message, "attributes", _NO_ATTRIBUTES).items():
            try:
                require_json(value)
            except UserError as error:
                what = f"attribute {key!r} of a {type(message).__name__}"
                raise UserError(f"{what} cannot be stored as JSON: {error}") from error
    return to_json(messages)


def messages_from_json(data: bytes | str | None) -> list[Message]:
    """The messages in that JSON text; nothing or blank text gives an empty list (spec 2.1.7)."""
    if not data or not data.strip():
        return []
    return from_json(data, list[Message])


# ---------------------------------------------------------------- usage (spec 2.5)


def _add(left: int | None, right: int | None) -> int | None:
    return None if left is None and right is None else (left or 0) + (right or 0)


class Usage(Value, frozen=True):
    """Tokens spent (spec 2.5). Counts may be unknown (``None``); ``total`` defaults to input plus output.

    ``extras`` holds what a provider counts besides, such as ``cached`` or ``reasoning`` tokens.
    """

    input: int | None = None
    output: int | None = None
    total: int | None = UNSET  # type: ignore[assignment]  # left out: input plus output; None: unknown, and kept so
    extras: Mapping[str, int] = _NO_ATTRIBUTES

    def __post_init__(self) -> None:
        if self.total is UNSET:  # type: ignore[comparison-overlap]
            known = self.input is not None and self.output is not None
            total = (self.input or 0) + (self.output or 0) if known else None
            msgspec.structs.force_setattr(self, "total", total)

    def __add__(self, other: Usage | None) -> Usage:
        """The field-wise sum: two unknown counts stay unknown, otherwise unknown counts as zero (spec 2.5.2)."""
        if other is None:
            return self
        extras = self.extras
        if other.extras:
            extras = {key: extras.get(key, 0) + other.extras.get(key, 0) for key in {**extras, **other.extras}}
        total = _add(self.total, other.total)
        return Usage(_add(self.input, other.input), _add(self.output, other.output), total, extras)


# ---------------------------------------------------------------- requests and responses (spec 2.6, 2.7)


class ToolChoice(enum.Enum):
    """Whether the model may, must or must not ask for tools."""

    AUTO = "auto"
    REQUIRED = "required"
    NONE = "none"


class FinishReason(enum.Enum):
    """Why the model stopped."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_EXECUTION = "tool_execution"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


class ResponseFormat(Value, frozen=True):
    """The form of the answer: text, or JSON with an optional schema."""

    kind: Literal["text", "json"] = "text"
    schema: Mapping[str, Any] | None = None
    name: str | None = None


class ChatParameters(Value, frozen=True):
    """Settings of one model call; a field that is ``UNSET`` leaves the choice to someone else (spec 2.6.2).

    ``tools=()`` says "no tools", which is not the same as leaving ``tools`` unset (spec 2.6.4).
    Adapters may subclass it with fields of their own; merging keeps the subclass and its fields.
    """

    model: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    frequency_penalty: float | UnsetType = UNSET
    presence_penalty: float | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    stop_sequences: tuple[str, ...] | UnsetType = UNSET
    tools: tuple[ToolSpec, ...] | UnsetType = UNSET
    tool_choice: ToolChoice | UnsetType = UNSET
    response_format: ResponseFormat | UnsetType = UNSET
    extra: Mapping[str, Any] | UnsetType = UNSET

    def override_with(self, other: ChatParameters) -> ChatParameters:
        """These parameters, each replaced by ``other``'s where that is set (spec 2.6.3)."""
        fields = {name: value for name in other.__struct_fields__ if (value := getattr(other, name)) is not UNSET}
        if isinstance(self, type(other)):
            return replace(self, **fields)
        own = {name: getattr(self, name) for name in self.__struct_fields__}
        shared = {name: value for name, value in own.items() if name in other.__struct_fields__}
        return replace(other, **{**shared, **fields})

    def defaulted_by(self, other: ChatParameters) -> ChatParameters:
        """These parameters, with ``other``'s where ours are unset: the mirror image of ``override_with``."""
        return other.override_with(self)


class ChatRequest(Value, frozen=True):
    """What is sent to a model: at least one message, and parameters (spec 2.6.1)."""

    messages: tuple[Message, ...]
    parameters: ChatParameters = ChatParameters()

    def __post_init__(self) -> None:
        if not self.messages:
            raise UserError("ChatRequest needs at least one message")

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools offered; empty when none are."""
        return self.parameters.tools or ()


class ChatResponse(Value, frozen=True):
    """One reply of a model, with what is known about it (spec 2.7.1)."""

    message: AssistantMessage
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    id: str | None = None
    model: str | None = None


# ---------------------------------------------------------------- what a streaming model yields (spec 2.7.2)


class TextPiece(Value, frozen=True, tag_field="type", tag="text"):
    """A piece of the answer's text."""

    text: str


class ReasoningPiece(Value, frozen=True, tag_field="type", tag="reasoning"):
    """A piece of the model's reasoning."""

    text: str


class ToolCallPiece(Value, frozen=True, tag_field="type", tag="call_piece"):
    """A piece of a call's arguments; ``index`` tells which call of the reply it belongs to."""

    index: int
    id: str | None
    name: str
    arguments: str


class ToolCallReady(Value, frozen=True, tag_field="type", tag="call"):
    """A call whose arguments are complete, although the reply may go on."""

    index: int
    call: ToolCall


class ProviderEvent(Value, frozen=True, tag_field="type", tag="provider"):
    """Something a provider sent for which there is no name of ours."""

    raw: JsonValue


class ResponseDone(Value, frozen=True, tag_field="type", tag="done"):
    """The end of the reply: always the last piece, exactly once, with the whole response."""

    response: ChatResponse


StreamPiece: TypeAlias = TextPiece | ReasoningPiece | ToolCallPiece | ToolCallReady | ProviderEvent | ResponseDone
"""Anything that a streaming model yields (spec 2.7.2)."""
