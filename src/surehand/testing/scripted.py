"""A model that plays a script: for tests of agents, in every mode, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, cast

from .._codec import to_json
from ..errors import UnexpectedRequestError, UserError
from ..messages import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    FinishReason,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallReady,
    Usage,
)
from ..models import ChatModel

__all__ = ["Reply", "ScriptedModel", "call", "calls", "say"]

Reply: TypeAlias = (
    "ChatResponse | BaseException | Sequence[StreamPiece] | Callable[[ChatRequest], ChatResponse | BaseException]"
)
"""One entry of a script: a response, an error to raise, the pieces of a stream, or a function of the request."""


def call(name: str, arguments: str | Mapping[str, Any] = "{}", *, id: str | None = None) -> ToolCall:
    """A call as a model would make it; ``arguments`` as the raw text, or as a mapping that is written as JSON."""
    return ToolCall(id, name, arguments if isinstance(arguments, str) else to_json(dict(arguments)).decode())


def say(text: str, *, usage: Usage | None = None) -> ChatResponse:
    """A final answer."""
    return ChatResponse(AssistantMessage(text), usage, FinishReason.STOP)


def calls(
    *asked: ToolCall,
    text: str | None = None,
    usage: Usage | None = None,
    finish_reason: FinishReason = FinishReason.TOOL_EXECUTION,
) -> ChatResponse:
    """A reply that asks for these calls; those without an id get ``c0``, ``c1``, … by position."""
    for one in asked:
        if not isinstance(one, ToolCall):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"calls({one!r}): expected calls one after the other, as in calls(call('a'), call('b'))")
    named = [ToolCall(f"c{n}", c.name, c.arguments) if c.id is None else c for n, c in enumerate(asked)]
    return ChatResponse(AssistantMessage(text, tuple(named)), usage, finish_reason)


def _checked(replies: Any) -> list[Any]:
    if isinstance(replies, ChatResponse | str) or not isinstance(replies, Iterable):
        raise UserError(f"ScriptedModel({replies!r}): expected a list of replies, such as [say('…')]")
    entries: list[Any] = [*replies]
    for entry in entries:
        is_reply = isinstance(entry, ChatResponse | BaseException | Sequence) or callable(entry)
        if not is_reply or isinstance(entry, str | bytes | type):
            raise UserError(f"ScriptedModel: {entry!r} is no reply; write say('…'), calls(call('…')), or an exception")
    return entries


class ScriptedModel(ChatModel):
    """Answers the n-th request with the n-th reply of its script, blocking, awaitable or streaming.

    ``requests`` records what it was asked. A request beyond the script raises ``UnexpectedRequestError``.
    Streams give the text in pieces cut after spaces, then each call once it is complete, unless
    ``complete_calls`` is false.
    """

    provider = "scripted"

    def __init__(self, replies: Iterable[Reply], *, complete_calls: bool = True, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        self._replies = _checked(replies)
        self._complete_calls = complete_calls

    @property
    def is_spent(self) -> bool:
        """Whether the whole script has been played."""
        return len(self.requests) >= len(self._replies)

    def _next(self, request: ChatRequest) -> ChatResponse | Sequence[StreamPiece]:
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._replies):
            raise UnexpectedRequestError(
                f"the script of {self.name!r} has {len(self._replies)} replies, but request {number + 1} came; "
                f"its last message is {request.messages[-1]!r}"
            )
        reply: Any = self._replies[number]
        if callable(reply) and not isinstance(reply, BaseException):
            reply = reply(request)
        if isinstance(reply, BaseException):
            raise reply
        if not isinstance(reply, ChatResponse | Sequence):
            raise UserError(f"reply {number + 1} of {self.name!r} is {reply!r}; expected a ChatResponse")
        return cast("ChatResponse | Sequence[StreamPiece]", reply)

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The next reply of the script."""
        reply = self._next(request)
        if isinstance(reply, ChatResponse):
            return reply
        for piece in reply:
            if isinstance(piece, ResponseDone):
                return piece.response
        raise UnexpectedRequestError(f"the script of {self.name!r} has a stream that never ends: no ResponseDone")

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The next reply of the script."""
        return self.generate(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        """The next reply of the script, in pieces."""
        reply = self._next(request)
        yield from self._pieces(reply) if isinstance(reply, ChatResponse) else reply

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        """The next reply of the script, in pieces."""
        for piece in self.stream(request):
            yield piece

    def _pieces(self, response: ChatResponse) -> Iterator[StreamPiece]:
        message = response.message
        for word in (message.text or "").replace(" ", " \0").split("\0"):
            if word:
                yield TextPiece(word)
        if self._complete_calls:
            for index, asked in enumerate(message.tool_calls):
                yield ToolCallReady(index, asked)
        yield ResponseDone(response)
