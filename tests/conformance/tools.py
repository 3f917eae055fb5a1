"""Real Python functions for the tools of a scenario, with the signatures that it describes."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import TypeAdapter

from surehand import (
    ImageContent,
    Parameters,
    ProviderRequest,
    ReturnBehavior,
    TextContent,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolResult,
    ToolSpec,
    programmatic_tool,
    tool,
    undoes,
)

from .behaviour import planned
from .binder import float32
from .kinds import MEMBERS, Kind, class_of, hint_of, kind_of
from .record import Trace, exception_of, object_of
from .scenario import Scenario

__all__ = ["Toolbox"]


class SelfRef:
    """An object that holds itself, and so has no JSON form."""

    def __init__(self) -> None:
        self.self = self


class Opaque:
    """An object without anything that can be read from outside."""


_BEHAVIORS = {
    "TO_LLM": ReturnBehavior.TO_MODEL,
    "IMMEDIATE": ReturnBehavior.IMMEDIATE,
    "IMMEDIATE_IF_LAST": ReturnBehavior.IMMEDIATE_IF_LAST,
}


class Toolbox:
    """Makes the tools of one scenario, whose executions are counted together."""

    def __init__(self, scenario: Scenario, trace: Trace) -> None:
        self._scenario = scenario
        self._trace = trace
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def entries(self) -> list[Any]:
        """What goes into ``Agent(tools=…)``."""
        providers = [_Provider(self, *each) for each in enumerate(self._scenario.config.get("providers") or [])]
        return [*self.made(self._scenario.tools), *providers]

    def made(self, described: Iterable[Mapping[str, Any]]) -> list[Any]:
        """These tools."""
        return list(itertools.chain.from_iterable(map(self._entry, described)))

    def note(self, event: str, **fields: Any) -> None:
        """Write it into the trace."""
        self._trace.note(event, **fields)

    def _entry(self, described: Mapping[str, Any]) -> list[Any]:
        match described["kind"]:
            case "method":
                return [self._method(described), *self._compensation(described)]
            case "spec":
                return [self._programmatic(described)]
            case "map":
                return [{_spec(described): self._executor(described)}]
            case "nested_list":
                return [[object()]]
            case "not_a_tool":
                return [object()]
            case kind:
                raise AssertionError(f"this runner does not know tools of kind {kind!r}")

    # ------------------------------------------------------------ methods

    def _method(self, described: Mapping[str, Any]) -> Callable[..., Any]:
        def body(**arguments: Any) -> Any:
            shown = _shown_arguments(described, arguments)
            self._in_turn(arguments.get("ctx"))
            self._trace.note("tool_invoked", tool=described["name"], args=shown)
            return self._perform(described, shown)

        params = list(described.get("params") or [])
        hints = {param["name"]: _hint(param) for param in params}
        if self._scenario.config.get("stagger_ms"):
            hints["ctx"] = ToolContext[Any]
        defaults = {param["name"]: _default(param) for param in params if _has_default(param)}
        returns = hint_of(kind_of(described.get("returns", "string")))
        function = function_with(described["name"], hints, defaults, returns, body)
        options = {"description": described.get("description"), "returns": _BEHAVIORS[described["returnBehavior"]]}
        return tool(name=described["name"], repeat="safe", metadata=_metadata(described), **options)(function)

    def _in_turn(self, context: ToolContext[Any] | None) -> None:
        # The recording started the calls of a round that far apart: the n-th call of the round waits n times as long.
        if context is not None:
            position = int(context.idempotency_key.rpartition(".")[2])
            time.sleep(position * self._scenario.config["stagger_ms"] / 1000)

    def _compensation(self, described: Mapping[str, Any]) -> list[Callable[..., Any]]:
        wanted = described.get("compensation")
        if not wanted:
            return []
        name, style = described["name"], wanted["style"]

        def same_params(**arguments: Any) -> None:
            shown = _shown_arguments(described, arguments)
            self._trace.note("compensate", tool=name, style=style, args=shown)
            self._undo(wanted)

        def tool_execution(execution: Any) -> None:
            call, value = execution.call, object_of(execution.value)
            fields = {"id": call.id, "arguments": call.arguments, "result": value}
            self._trace.note("compensate", tool=name, style=style, **fields)
            self._undo(wanted)

        hints = {param["name"]: _hint(param) for param in described.get("params") or []}
        match style:
            case "same_params":
                function = function_with(f"undo_{name}", hints, {}, None, same_params)
            case "tool_execution":
                function = function_with(f"undo_{name}", {"execution": ToolExecution[Any]}, {}, None, tool_execution)
            case _:
                function = function_with(f"undo_{name}", {"other_1": int, "other_2": int}, {}, None, same_params)
        return [undoes(wanted.get("for", name))(function)]

    def _undo(self, wanted: Mapping[str, Any]) -> None:
        behaviour = wanted.get("behaviour") or {}
        if "throw" in behaviour:
            raise exception_of(behaviour["throw"])

    # ------------------------------------------------------------ programmatic tools

    def _programmatic(self, described: Mapping[str, Any]) -> Any:
        returns = _BEHAVIORS[described["returnBehavior"]]
        return programmatic_tool(_spec(described), self._executor(described), repeat="safe", returns=returns)

    def _executor(self, described: Mapping[str, Any]) -> Callable[..., Any]:
        def execute(call: ToolCall, context: ToolContext[Any]) -> Any:
            self._trace.note("tool_invoked", tool=described["name"], raw_arguments=call.arguments)
            return self._perform(described, call.arguments)

        return execute

    # ------------------------------------------------------------ what they do

    def _perform(self, described: Mapping[str, Any], arguments: Any) -> Any:
        name = described["name"]
        with self._lock:
            number = self._counts[name] = self._counts.get(name, 0) + 1
        plan = planned(described, number, arguments)
        time.sleep(plan.sleep)
        value = _live(described, plan.kind, plan.value)
        if plan.attributes and not isinstance(value, ToolResult):
            return ToolResult.of(str(value), value=value, attributes=plan.attributes)
        return value


class _Provider:
    """A provider that gives what it is told to, each time the next of its steps; the last of them for ever."""

    def __init__(self, toolbox: Toolbox, index: int, described: Mapping[str, Any]) -> None:
        self._toolbox, self._index, self._described = toolbox, index, described
        self._asked = 0
        self.dynamic = bool(described.get("dynamic"))

    def provide(self, request: ProviderRequest[Any]) -> list[Any] | None:
        self._asked += 1
        asked = {"user_message": request.user_message.text, "messages": len(request.messages)}
        self._toolbox.note("provider_called", provider=self._index, call=self._asked, **asked)
        if self._described.get("throw"):
            raise exception_of(self._described["throw"])
        steps = self._described["steps"]
        step = steps[min(self._asked, len(steps)) - 1]
        return None if step is None else self._toolbox.made(step)


def _metadata(described: Mapping[str, Any]) -> dict[str, Any]:
    return {key: described[key] for key in ("searchBehavior",) if key in described}


def _live(described: Mapping[str, Any], kind: str, value: Any) -> Any:
    match kind:
        case "throw":
            raise exception_of(value)
        case "error_result":
            return ToolResult.error(value)
        case "contents":
            contents = [_content(each) for each in value]
            return contents[0] if described.get("returns") in ("image", "content") else contents
        case "cyclic":
            return SelfRef()
        case "opaque":
            return Opaque()
        case "json" | "text":
            return _native(kind_of(described.get("returns", "string")), value)
        case _:
            return value


def _native(kind: Kind, value: Any) -> Any:
    """The value as the type that the tool is declared to return."""
    if kind.name.startswith("object:") and isinstance(value, dict):
        return class_of(kind.name)(**value)
    if kind.name.startswith("enum:"):
        return class_of(kind.name)[value]
    if kind.name in ("list", "array", "set") and kind.inside:
        items = [_native(kind.inside[0], item) for item in value]
        return set(items) if kind.name == "set" else items
    if kind.name == "map" and len(kind.inside) == 2:
        return {key: _native(kind.inside[1], item) for key, item in value.items()}
    if kind.name in ("decimal", "uuid", "date", "time", "datetime") and value is not None:
        return TypeAdapter(hint_of(kind)).validate_python(str(value))
    return value


def _content(described: Mapping[str, Any]) -> Any:
    if "image_url" in described:
        return ImageContent(url=described["image_url"])
    return TextContent(described["text"]) if "text" in described else described["raw"]


def function_with(
    name: str, hints: Mapping[str, Any], defaults: Mapping[str, Any], returns: Any, body: Callable[..., Any]
) -> Callable[..., Any]:
    """A real function with parameters of these types and these defaults."""
    names = [f"{each}: hints[{each!r}]{f' = defaults[{each!r}]' if each in defaults else ''}" for each in hints]
    taken = ("*, " + ", ".join(names)) if names else ""
    given = ", ".join(f"{each}={each}" for each in hints)
    inside: dict[str, Any] = {"hints": hints, "defaults": defaults, "returns": returns, "body": body}
    source = f"def {name}({taken}) -> returns:\n    return body({given})\n"
    exec(source, inside)  # the one way to make a function whose signature is known only now
    function: Callable[..., Any] = inside[name]
    return function


def _has_default(param: Mapping[str, Any]) -> bool:
    return not param["type"].startswith("inject:") and ("default" in param or not param.get("required", True))


def _default(param: Mapping[str, Any]) -> Any:
    """The default as a value of the type; the bare text if it is none, which the product has to find out."""
    text, kind = param.get("default"), kind_of(param["type"])
    if text is None:
        return None
    if kind.name.startswith("enum:"):
        named = {member.casefold(): member for member in MEMBERS[kind.name.removeprefix("enum:")]}
        return class_of(kind.name)[named[text.casefold()]] if text.casefold() in named else text
    try:
        value = text if kind.name in ("string", "char", "uuid") else json.loads(text)
        return TypeAdapter(hint_of(kind)).validate_python(value)
    except ValueError:
        return text


def _hint(param: Mapping[str, Any]) -> Any:
    hint = hint_of(kind_of(param["type"]))
    needs_none = _has_default(param) and "default" not in param
    return hint | None if needs_none else hint


def _spec(described: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(described["name"], described.get("description"), metadata=_metadata(described))


def _shown_arguments(described: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    params = described.get("params") or []
    return {param["name"]: _shown(kind_of(param["type"]), arguments[param["name"]]) for param in params}


def _shown(kind: Kind, value: Any) -> Any:
    """The value in the words of the recordings."""
    if kind.name == "optional":
        return {"optional": _shown(kind.inside[0] if kind.inside else Kind("any"), value)}
    if kind.name == "float32" and isinstance(value, float):
        return float32(value)  # Python has no such type; the body gets the float of 64 bits
    match value:
        case Parameters():
            return dict(value)
        case Enum():
            return value.name
        case Decimal():
            return value
        case uuid.UUID():
            return str(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case list() | set():
            inner = kind.inside[0] if kind.inside else Kind("any")
            shown = [_shown(inner, item) for item in value]
            return shown if isinstance(value, list) else sorted(shown, key=repr)
        case dict():
            values = kind.inside[1] if len(kind.inside) == 2 else Kind("any")
            return {str(_shown(Kind("any"), key)): _shown(values, inner) for key, inner in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        case _:
            return value
