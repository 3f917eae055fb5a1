"""The pieces that the model of the reference is made of: calls, results, arguments, usage, and conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import coercion
from .reading import ABSENT, Refused
from .scenario import Scenario

__all__ = [
    "CHECKED",
    "Call",
    "Conversation",
    "Failed",
    "add_usage",
    "ai",
    "configuration_problem",
    "decoded",
    "result_fields",
    "same_request",
    "text_result",
    "thrown",
    "usage_of",
]


# Exceptions that Java makes a method declare.
CHECKED = frozenset({"Exception", "IOException", "FileNotFoundException", "InterruptedException", "TimeoutException"})


class Failed(Exception):
    """The run is given up. ``silent``: nobody is told. ``by_tool``: it happened while a call was run."""

    def __init__(self, error: Mapping[str, Any], *, silent: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.silent = silent
        self.by_tool = False


class Call:
    """One call of a reply, and what became of it."""

    def __init__(self, reply: int, position: int, raw: Mapping[str, Any]) -> None:
        self.key = f"{reply}.{position}"
        self.id, self.name, self.arguments = raw["id"], raw["name"], raw["arguments"]
        self.fields = {"id": self.id, "name": self.name, "arguments": self.arguments}
        self.tool: Mapping[str, Any] | None = None
        self.decoded: dict[str, Any] = {}
        self.result: dict[str, Any] | None = None
        self.joined: dict[str, Any] | None = None  # another call's result, if it has been taken for this one's
        self.failure: Failed | None = None
        self.undone: str | None = None
        self.slow = self.told = False

    @property
    def shown_name(self) -> str:
        return self.name or ""

    @property
    def shown(self) -> dict[str, Any]:
        found = self.joined or self.result
        assert found is not None
        return found

    def message(self) -> dict[str, Any]:
        """The message that carries the result to the model."""
        shown = self.shown
        head = {"role": "tool", "id": self.id, "name": self.name}
        attributes = {"attributes": shown["attributes"]} if shown.get("attributes") else {}
        if self.undone is not None:
            return {**head, "text": self.undone, "is_error": True, **attributes}
        contents = shown["contents"]
        only_text = len(contents) == 1 and "text" in contents[0]
        body = {"text": contents[0]["text"]} if only_text else {"contents": contents}
        return {**head, **body, "is_error": shown["is_error"], **attributes}


def same_request(one: Call, other: Call) -> bool:
    """Whether two calls are equal as values, which the reference takes for the same."""
    return one.fields == other.fields


# ---------------------------------------------------------------- results, errors, usage


def thrown(token: str) -> dict[str, Any]:
    """An exception of the framework's own."""
    return {"class": token, "message": token}


def text_result(
    text: str, *, is_error: bool = False, value: Any = None, attributes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"contents": [{"text": text}], "is_error": is_error, "object": value, "attributes": attributes or {}}


def result_fields(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result as hooks and records show it."""
    contents = result["contents"]
    if "text_error" in result:
        body = {"result_text_error": result["text_error"]}
    elif len(contents) == 1 and "text" in contents[0]:
        body = {"result_text": contents[0]["text"]}
    else:
        body = {"result_contents": contents}
    attributes = {"attributes": result["attributes"]} if result.get("attributes") else {}
    return {"has_failed": result["is_error"], **body, "result_object": result["object"], **attributes}


def ai(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The reply as a message."""
    calls = entry.get("tool_calls")
    asked = [{"id": call["id"], "name": call["name"], "arguments": call["arguments"]} for call in calls or []]
    return {"role": "ai", "text": entry.get("text"), **({"tool_calls": asked} if asked else {})}


def _full(usage: Sequence[Any]) -> list[Any]:
    counts = list(usage)
    if len(counts) == 2:
        counts.append(None if None in counts else sum(counts))
    return counts


def add_usage(total: list[Any] | None, usage: Sequence[Any] | None) -> list[Any] | None:
    """The sum, count by count; what is known on neither side stays unknown."""
    if usage is None or total is None:
        return total if usage is None else _full(usage)
    pairs = zip(total, _full(usage), strict=True)
    return [None if left is None and right is None else (left or 0) + (right or 0) for left, right in pairs]


def usage_of(usage: Sequence[Any] | None) -> dict[str, Any] | None:
    return None if usage is None else dict(zip(("input", "output", "total"), _full(usage), strict=True))


# ---------------------------------------------------------------- conversations

Kept = tuple[dict[str, Any], "str | None"]


class Conversation:
    """Messages, each result under its call's key. ``window`` is how many are kept; none is no memory at all.

    ``by_exchange`` keeps a reply and its results together (D-6); otherwise the oldest message goes first, a reply
    with the results that follow it, after every single message that comes.
    """

    def __init__(self, window: int | None, by_exchange: bool) -> None:
        self._window = window
        self._by_exchange = by_exchange
        self._kept: list[Kept] = []

    def view(self) -> list[dict[str, Any]]:
        return [message for message, _ in self._kept]

    def add_system(self, text: str) -> None:
        message = {"role": "system", "text": text}
        if message not in self.view():
            self._kept = [entry for entry in self._kept if entry[0]["role"] != "system"]
            self.add([(message, None)])

    def add(self, batch: Sequence[Kept]) -> None:
        self._kept += batch
        while self._window is not None and len(self._kept) > self._window:
            if not self._drop_oldest():
                break

    def _drop_oldest(self) -> bool:
        start = 1 if self._kept[0][0]["role"] == "system" else 0
        end = start + 1
        if start < len(self._kept) and (self._by_exchange or self._kept[start][0].get("tool_calls")):
            while end < len(self._kept) and self._kept[end][0]["role"] == "tool":
                end += 1
        if start >= len(self._kept):
            return False
        if self._by_exchange and end >= len(self._kept) and (start == 0 or self._kept[start][0].get("tool_calls")):
            return False  # the latest exchange stays, whole; a lone message gives way to the system message
        del self._kept[start:end]
        return True

    def replace(self, key: str, message: dict[str, Any]) -> None:
        """Replace the result with that key, if it is still there."""
        self._kept = [(message, key) if kept == key else (old, kept) for old, kept in self._kept]

    def replace_by_id(self, call_id: str | None, message: dict[str, Any]) -> bool:
        """Replace the first result with that id; false when a result without an id comes before it."""
        for index, (old, key) in enumerate(self._kept):
            if old["role"] != "tool":
                continue
            if old["id"] is None:
                return False
            if old["id"] == call_id:
                self._kept[index] = (message, key)
                return True
        return True


# ---------------------------------------------------------------- configuration


def configuration_problem(scenario: Scenario, on: frozenset[str]) -> str | None:
    """What is wrong with the scenario's configuration, if anything is."""
    if scenario.config.get("max_round_trips", 0) < 0 and "D-1" in on:
        return "a negative limit"
    if any(tool["kind"] in ("nested_list", "not_a_tool") for tool in scenario.tools):
        return "something that is no tool"
    names = [tool["name"] for tool in scenario.tools if tool["kind"] != "map" or "D-10" in on]
    if len(set(names)) < len(names):
        return "a name that occurs twice"
    if scenario.compensates or "D-25" in on:
        return _undo_problem(scenario, on)
    return None


def _undo_problem(scenario: Scenario, on: frozenset[str]) -> str | None:
    seen: set[str] = set()
    for index, tool in enumerate(scenario.tools):
        wanted = tool.get("compensation")
        if not wanted:
            continue
        # The reference knows only what was registered before, and lets the last undo of a tool win.
        known = scenario.tools if "D-25" in on else scenario.tools[: index + 1]
        name = wanted.get("for", tool["name"])
        target = {each["name"]: each for each in known}.get(name)
        if name in seen and "D-25" in on:
            return "two undos of one tool"
        seen.add(name)
        if target is None or target["kind"] != "method":
            return "an undo of a tool that does not exist"
        if wanted["style"] == "wrong_params":
            return "an undo whose parameters do not fit"
    return None


# ---------------------------------------------------------------- arguments


def decoded(
    tool: Mapping[str, Any],
    text: str | None,
    memory_id: Any,
    parameters: Any,
    on: frozenset[str],
) -> tuple[str | None, dict[str, Any]]:
    """What is wrong with the arguments, if anything, and the arguments by parameter."""
    params = tool.get("params") or []
    try:
        arguments = coercion.decoded(params, text, on)
    except Refused as refused:
        return "<arguments are null>" if refused.kind == ABSENT else "<arguments do not fit>", {}
    injected = {"inject:memory_id": memory_id, "inject:invocation_params": parameters}
    return None, {param["name"]: injected.get(param["type"], arguments.get(param["name"])) for param in params}
