"""Makes a history valid for a provider, whatever it went through: pure functions from messages to messages.

Providers refuse a whole request for one call without an id, one id used twice, one result missing, or one name
with a blank in it. Histories have all of these: ids are the models' own, and results get lost in crashes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .._codec import clean_text, to_json
from ..messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolMessage,
    ToolSpec,
)

__all__ = ["LOST_RESULT", "UNNAMED", "WireNames", "valid_arguments", "valid_history"]

LOST_RESULT = "The outcome of this call was not recorded: it may have happened or not."
UNNAMED = "unnamed_tool"

_LONGEST = 64
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]+")


class WireNames:
    """Tool names that every provider takes (``[a-zA-Z0-9_-]{1,64}``, unique), and the way back.

    Legal names stay as they are. Names that are not among the offered tools (a history may hold them) are made
    legal by the same rule, and what a model invents comes back unchanged.
    """

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        names = [spec.name for spec in specs]
        # Legal names go first, so that no made-up name can take one away from its owner.
        self._wire = {name: name for name in names if _LEGAL_NAME.fullmatch(name)}
        taken = set(self._wire)
        for name in names:
            if name not in self._wire:
                self._wire[name] = made = _unique(_legal_name(name), taken)
                taken.add(made)
        self._own = {wire: name for name, wire in self._wire.items()}

    def wire(self, name: str) -> str:
        """The name to send for one of ours."""
        return self._wire.get(name) or _legal_name(name)

    def own(self, wire: str) -> str:
        """Our name for one that a model sent."""
        return self._own.get(wire, wire)


def valid_arguments(text: str) -> str:
    """The arguments as the text of a JSON object: themselves where they are one, ``{}`` where there are none.

    Anything else becomes ``{"_unparsed": text}``, so that the model still sees what it has sent.
    """
    text = clean_text(text)
    if not text.strip():
        return "{}"
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = text
    if isinstance(value, dict):
        return text
    return "{}" if value is None else to_json({"_unparsed": text}).decode()


def valid_history(messages: Sequence[Message], *, id_pattern: re.Pattern[str] | None = None) -> list[Message]:
    """The messages in a form that a provider accepts.

    Every call gets an id that is not empty and not used by another call: its own where that is so (and where it
    fits ``id_pattern``), else ``call_<n>``. Every call is followed by exactly one result carrying that id: a
    result belongs to the call with its id, else to the next call without one, in order. A call whose result is
    missing gets ``LOST_RESULT``; results without a call, calls that the provider ran itself and custom messages
    are left out. Arguments become JSON objects, empty names a placeholder. Messages that need no change are the
    same objects.
    """
    ids = _Ids(messages, id_pattern)
    result: list[Message] = []
    sendable = [message for message in messages if not isinstance(message, CustomMessage)]
    position = 0
    while position < len(sendable):
        message = sendable[position]
        position += 1
        if isinstance(message, AssistantMessage):
            results = _results_from(sendable, position)
            position += len(results)
            result.extend(_round(message, results, ids))
        elif not isinstance(message, ToolMessage):
            result.append(message)
    return result


class _Ids:
    """Hands out ids that no other call of the history has."""

    def __init__(self, messages: Sequence[Message], pattern: re.Pattern[str] | None) -> None:
        self._pattern = pattern
        self._seen: set[str] = set()
        self._originals = {
            call.id for message in messages if isinstance(message, AssistantMessage) for call in message.tool_calls
        }
        self._count = 0

    def for_call(self, call: ToolCall) -> str:
        self._count += 1
        wanted = call.id
        if not wanted or wanted in self._seen or (self._pattern and not self._pattern.fullmatch(wanted)):
            # A made-up id must not take the place of one that a later call brings along.
            wanted = _unique(f"call_{self._count}", self._seen | self._originals)
        self._seen.add(wanted)
        return wanted


def _results_from(messages: Sequence[Message], start: int) -> list[ToolMessage]:
    results: list[ToolMessage] = []
    for message in messages[start:]:
        if not isinstance(message, ToolMessage):
            break
        results.append(message)
    return results


def _round(message: AssistantMessage, results: Sequence[ToolMessage], ids: _Ids) -> Iterator[Message]:
    calls = [call for call in message.tool_calls if not call.executed_by_provider]
    wire = tuple(_valid_call(call, ids.for_call(call)) for call in calls)
    yield message if wire == message.tool_calls else msgspec.structs.replace(message, tool_calls=wire)
    for call, result in zip(wire, _matched(calls, results), strict=True):
        if result is None:
            yield ToolMessage(call.id, call.name, (TextContent(LOST_RESULT),), is_error=True)
        elif (result.call_id, result.tool_name) == (call.id, call.name):
            yield result
        else:
            yield msgspec.structs.replace(result, call_id=call.id, tool_name=call.name)


def _valid_call(call: ToolCall, id: str) -> ToolCall:
    return ToolCall(id, call.name if call.name.strip() else UNNAMED, valid_arguments(call.arguments))


def _matched(calls: Sequence[ToolCall], results: Sequence[ToolMessage]) -> list[ToolMessage | None]:
    matched: list[ToolMessage | None] = [None] * len(calls)
    by_order: list[ToolMessage] = []
    for result in results:
        owners = [place for place, call in enumerate(calls) if call.id and call.id == result.call_id]
        free = next((place for place in owners if matched[place] is None), None)
        if free is not None:
            matched[free] = result
        elif not owners:
            by_order.append(result)
        # else: a second result for a call that has one; the first was the true one
    for place, result in zip([place for place, found in enumerate(matched) if found is None], by_order, strict=False):
        matched[place] = result
    return matched


def _legal_name(name: str) -> str:
    if _LEGAL_NAME.fullmatch(name):
        return name
    legal = _ILLEGAL.sub("_", name.strip()).strip("_") or UNNAMED
    if len(legal) <= _LONGEST:
        return legal
    # A plain cut would make one name of two long ones that differ only at the end.
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{legal[: _LONGEST - 9]}_{digest}"


def _unique(wanted: str, taken: set[str] | set[str | None]) -> str:
    candidate, number = wanted, 2
    while candidate in taken:
        suffix = f"_{number}"
        candidate, number = wanted[: _LONGEST - len(suffix)] + suffix, number + 1
    return candidate
