"""Real Python functions for the tools of a scenario, with the signatures that it describes."""

from __future__ import annotations

import dataclasses
import decimal
import itertools
import threading
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from surehand import (
    ImageContent,
    Parameters,
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
from surehand.tools._signature import MemoryId

from .behaviour import planned
from .record import Trace, exception_of, object_of
from .scenario import Scenario

__all__ = ["Toolbox"]


class Color(Enum):
    RED = "RED"
    GREEN = "GREEN"
    blue = "blue"


@dataclasses.dataclass
class Address:
    city: str
    zip: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None


@dataclasses.dataclass
class Person:
    name: str
    age: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    address: Address | None = None
    tags: list[str] | None = None


class SelfRef:
    """An object that holds itself, and so has no JSON form."""

    def __init__(self) -> None:
        self.self = self


def _bounded(bits: int) -> Any:
    return Annotated[int, Field(ge=-(2 ** (bits - 1)), lt=2 ** (bits - 1))]


_TYPES: dict[str, Any] = {
    "string": str,
    "bool": bool,
    "int8": _bounded(8),
    "int16": _bounded(16),
    "int32": _bounded(32),
    "int64": _bounded(64),
    "bigint": int,
    "float32": float,
    "float64": float,
    "decimal": decimal.Decimal,
    "any": Any,
    "map": dict[str, Any],
    "enum:Color": Color,
    "object:Person": Person,
    "object:Address": Address,
    "inject:memory_id": Annotated[Any, MemoryId],
    "inject:invocation_params": Parameters,
    "void": None,
}
_BEHAVIORS = {
    "TO_LLM": ReturnBehavior.TO_MODEL,
    "IMMEDIATE": ReturnBehavior.IMMEDIATE,
    "IMMEDIATE_IF_LAST": ReturnBehavior.IMMEDIATE_IF_LAST,
}


def type_of(name: str) -> Any:
    """The Python type that a scenario's neutral type name stands for."""
    if name.endswith("?"):
        return type_of(name[:-1]) | None
    for outer, made in (("list", list), ("set", set)):
        if name.startswith(f"{outer}<"):
            return made[type_of(name[len(outer) + 1 : -1])]  # type: ignore[index]
    return _TYPES.get(name, Any)


class Toolbox:
    """Makes the tools of one scenario, whose executions are counted together."""

    def __init__(self, scenario: Scenario, trace: Trace) -> None:
        self._scenario = scenario
        self._trace = trace
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def entries(self) -> list[Any]:
        """What goes into ``Agent(tools=…)``."""
        return list(itertools.chain.from_iterable(self._entry(each) for each in self._scenario.tools))

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
            shown = {name: _shown(arguments[name]) for name in (p["name"] for p in described.get("params") or [])}
            self._in_turn(arguments.get("ctx"))
            self._trace.note("tool_invoked", tool=described["name"], args=shown)
            return self._perform(described, shown)

        params = list(described.get("params") or [])
        hints = {param["name"]: _hint(param) for param in params}
        if self._scenario.config.get("stagger_ms"):
            hints["ctx"] = ToolContext[Any]
        optional = [param["name"] for param in params if not param.get("required", True)]
        function = function_with(described["name"], hints, optional, type_of(described.get("returns", "string")), body)
        options = {"description": described.get("description"), "returns": _BEHAVIORS[described["returnBehavior"]]}
        return tool(name=described["name"], repeat="safe", **options)(function)

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
            shown = {param["name"]: _shown(arguments[param["name"]]) for param in described.get("params") or []}
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
                function = function_with(f"undo_{name}", hints, [], None, same_params)
            case "tool_execution":
                function = function_with(f"undo_{name}", {"execution": ToolExecution[Any]}, [], None, tool_execution)
            case _:
                function = function_with(f"undo_{name}", {"other_1": int, "other_2": int}, [], None, same_params)
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


def _live(described: Mapping[str, Any], kind: str, value: Any) -> Any:
    match kind:
        case "throw":
            raise exception_of(value)
        case "error_result":
            return ToolResult.error(value)
        case "contents":
            contents = [ImageContent(url=c["image_url"]) if "image_url" in c else TextContent(c["text"]) for c in value]
            return contents[0] if described.get("returns") in ("image", "content") else contents
        case "cyclic":
            return SelfRef()
        case "json" if described.get("returns") == "object:Person":
            return Person(**value)
        case _:
            return value


def function_with(
    name: str, hints: Mapping[str, Any], optional: list[str], returns: Any, body: Callable[..., Any]
) -> Callable[..., Any]:
    """A real function with parameters of these types; optional ones may be left out and are then ``None``."""
    names = [f"{each}: hints[{each!r}]{' = None' if each in optional else ''}" for each in hints]
    taken = ("*, " + ", ".join(names)) if names else ""
    given = ", ".join(f"{each}={each}" for each in hints)
    inside: dict[str, Any] = {"hints": hints, "returns": returns, "body": body}
    source = f"def {name}({taken}) -> returns:\n    return body({given})\n"
    exec(source, inside)  # the one way to make a function whose signature is known only now
    function: Callable[..., Any] = inside[name]
    return function


def _hint(param: Mapping[str, Any]) -> Any:
    hint = type_of(param["type"])
    return hint if param.get("required", True) or param["type"].startswith("inject:") else hint | None


def _spec(described: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(described["name"], described.get("description"))


def _shown(value: Any) -> Any:
    match value:
        case Parameters():
            return dict(value)
        case Enum():
            return value.name
        case set():
            return sorted(value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        case _:
            return value
