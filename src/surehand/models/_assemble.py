"""One assembler for every provider's stream: deltas in, pieces and the whole message out (spec 2.7.2).

Providers disagree about how a call is cut into deltas: ids only on the first one or on each, names repeated,
calls interleaved, indexes missing or used again. All of that is settled here, without I/O; an adapter only
translates its provider's events into ``text``, ``reasoning``, ``call`` and ``done``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..messages import (
    AssistantMessage,
    ChatResponse,
    FinishReason,
    ReasoningPiece,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallPiece,
    ToolCallReady,
    Usage,
)

__all__ = ["StreamAssembler"]

_CUT = (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


class _Open:
    """A call that is being assembled; ``position`` is its place in the reply, whatever index the provider uses."""

    def __init__(self, position: int, by_provider: bool) -> None:
        self.position = position
        self.id: str | None = None
        self.name = ""
        self.fragments: list[str] = []
        self.unsent: list[str] = []
        self.by_provider = by_provider
        self.ready = False

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, so that nothing but white space can follow."""
        # Parsing for every delta would cost the square of their number: only a closing brace can complete an object.
        last = next((part for part in reversed(self.fragments) if part.strip()), "")
        return last.rstrip().endswith("}") and _is_json_object("".join(self.fragments))

    def call(self) -> ToolCall:
        return ToolCall(self.id, self.name, "".join(self.fragments), self.by_provider)


class StreamAssembler:
    """Assembles one reply. Feed it deltas and pass on the pieces that each call gives; ``done`` comes last.

    Calls are numbered in the order in which they first appear, and that number is the ``index`` of their pieces
    and their place in the final message. A call is announced with ``ToolCallReady`` once: when its arguments are
    a whole object and another call has begun, or when the reply ends. A call that the token limit or a content
    filter has cut in the middle stays in the message and is never announced.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Open] = []
        self._by_index: dict[int, _Open] = {}

    def text(self, piece: str | None) -> Iterator[StreamPiece]:
        """The piece for a fragment of the answer; nothing for an empty one."""
        if piece:
            self._text.append(piece)
            yield TextPiece(piece)

    def reasoning(self, piece: str | None) -> Iterator[StreamPiece]:
        """The piece for a fragment of the reasoning; nothing for an empty one."""
        if piece:
            self._reasoning.append(piece)
            yield ReasoningPiece(piece)

    def call(
        self,
        index: int | None,
        *,
        id: str | None = None,
        name: str | None = None,
        arguments: str | None = None,
        by_provider: bool = False,
    ) -> Iterator[StreamPiece]:
        """The pieces for one delta of a call.

        ``index`` is the provider's, or ``None`` where it has none (then the id decides, else the latest call goes
        on). An index that comes back with another id is a new call; so is a name with arguments, when the call at
        that index has no id and its arguments are complete.
        """
        open_call = self._find(index, id, name, arguments)
        if open_call is None:
            open_call = self._start(index, by_provider)
            yield from self._settle(but=open_call)
        if not open_call.ready:
            _add(open_call, id, name, arguments)
            yield from _pieces(open_call)
            if open_call is not self._calls[-1] and open_call.is_complete:
                yield from _announce(open_call)

    def done(
        self,
        finish_reason: FinishReason | None = None,
        *,
        usage: Usage | None = None,
        id: str | None = None,
        model: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Iterator[StreamPiece]:
        """The last pieces: calls not announced so far, then ``ResponseDone``."""
        for open_call in self._calls:
            if not open_call.ready and (finish_reason not in _CUT or open_call.is_complete):
                yield from _announce(open_call)
        message = self.message(attributes)
        yield ResponseDone(ChatResponse(message, usage, finish_reason, id, model))

    def message(self, attributes: Mapping[str, Any] | None = None) -> AssistantMessage:
        """The message as far as it has come."""
        return AssistantMessage(
            text="".join(self._text) or None,
            tool_calls=tuple(open_call.call() for open_call in self._calls),
            reasoning="".join(self._reasoning) or None,
            attributes=attributes or {},
        )

    def _find(self, index: int | None, id: str | None, name: str | None, arguments: str | None) -> _Open | None:
        if index is None:
            if id:
                return next((known for known in self._calls if known.id == id), None)
            known = self._calls[-1] if self._calls else None
        else:
            known = self._by_index.get(index)
        return None if known is None or _starts_anew(known, id, name, arguments) else known

    def _start(self, index: int | None, by_provider: bool) -> _Open:
        open_call = _Open(len(self._calls), by_provider)
        self._calls.append(open_call)
        if index is not None:
            self._by_index[index] = open_call
        return open_call

    def _settle(self, *, but: _Open) -> Iterator[StreamPiece]:
        # Interleaved calls go on after a later one has begun, so only those with whole arguments are ready.
        for open_call in self._calls:
            if open_call is not but and not open_call.ready and open_call.is_complete:
                yield from _announce(open_call)


def _starts_anew(known: _Open, id: str | None, name: str | None, arguments: str | None) -> bool:
    if id and known.id:
        return id != known.id
    if id:
        return known.is_complete
    return bool(name and not known.id and arguments and arguments.strip() and known.is_complete)


def _add(open_call: _Open, id: str | None, name: str | None, arguments: str | None) -> None:
    if id and not open_call.id:
        open_call.id = id
    if name and name != open_call.name and not open_call.fragments:
        open_call.name += name  # a name that comes in fragments; one that is repeated whole is the same name
    elif name and not open_call.name:
        open_call.name = name
    if arguments:
        open_call.fragments.append(arguments)
        open_call.unsent.append(arguments)


def _pieces(open_call: _Open) -> Iterator[StreamPiece]:
    # A piece always carries a name, so fragments that come before it wait.
    if open_call.name.strip():
        for fragment in open_call.unsent:
            yield ToolCallPiece(open_call.position, open_call.id, open_call.name, fragment)
        open_call.unsent.clear()


def _announce(open_call: _Open) -> Iterator[StreamPiece]:
    open_call.ready = True
    yield ToolCallReady(open_call.position, open_call.call())


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
