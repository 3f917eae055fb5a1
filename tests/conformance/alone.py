"""Scenarios about one tool alone: what its method receives for a text, and what the model reads of what it returns.

Each case is a call of the tool in a run of an agent of ours, so that decoding, encoding and the strategies for what
goes wrong are the real ones. ``promised_alone`` is the model's word on the same scenario.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from surehand import ToolExecutionError, UserError

from .behaviour import Planned, compact, planned
from .coercion import build_problem, decoded
from .kinds import Kind, kind_of
from .live import Player, build
from .modes import drive
from .reading import Refused
from .record import Trace
from .scenario import Scenario
from .searching import normal_search, observe_search, promised_search

__all__ = ["normal_alone", "observe_alone", "promised_alone"]

_SHOWN, _FAILED, _LATE = "contents", "execution_error", "render_error_outside_error_handling"

# ---------------------------------------------------------------- what we do


def observe_alone(scenario: Scenario, mode: str) -> dict[str, Any]:
    """What comes of the scenario's tool in that mode, in the words of the recordings."""
    if scenario.kind == "search":
        return observe_search(scenario, mode)
    returns = scenario.kind == "returns"
    texts = ["{}"] if returns else [text or "" for text in scenario.raw["cases"]]
    played = _as_service(scenario, texts)
    trace = Trace()
    try:
        agent = build(played, trace, Player(played, trace), {})
    except UserError:
        outcome: dict[str, Any] = {"build_error": "<configuration error>"}
        return outcome if returns else {"cases": [outcome for _ in texts]}
    drive(agent, mode)
    return _returned(trace) if returns else {"cases": _received(trace)}


def _as_service(scenario: Scenario, texts: list[str]) -> Scenario:
    calls = [{"id": str(number), "name": "t", "arguments": text} for number, text in enumerate(texts)]
    told = {"text": "told"}
    return Scenario(
        {
            "name": scenario.name,
            "tools": [scenario.raw["tool"]],
            "config": {"listeners": False, "arguments_error_handler": told, "execution_error_handler": told},
            "model_script": [{"tool_calls": calls}, {"text": "done"}],
            "calls": [{"user": "go"}],
        }
    )


def _received(trace: Trace) -> list[dict[str, Any]]:
    """One outcome for each call: its hooks frame what it received, or the error."""
    outcomes: list[dict[str, Any]] = []
    for event in trace.events:
        match event["ev"]:
            case "before_tool":
                outcomes.append({})
            case "tool_invoked":
                outcomes[-1]["received"] = event["args"]
            case "arguments_error_handler":
                outcomes[-1]["arguments_error"] = our_refusal(str(trace.errors[event["id"]]))
            case "execution_error_handler":
                outcomes[-1]["other_error"] = str(trace.errors[event["id"]])
    return outcomes


def _returned(trace: Trace) -> dict[str, Any]:
    events = {event["ev"]: event for event in trace.events}
    if "execution_error_handler" in events:
        error = trace.errors["0"]
        ours = isinstance(error, ToolExecutionError)
        return {_FAILED: "<cannot be shown>" if ours else type(error).__name__}
    after = events["after_tool"]
    return {_SHOWN: after["result_contents"] if "result_contents" in after else [{"text": after["result_text"]}]}


_OUR_REFUSALS = (
    (r"are not a JSON object", "not JSON"),
    (r"^The arguments of 't' do not fit: [\w.\[\]]+: missing", "missing"),
    (r"^The arguments of 't' do not fit: \w+: [^;]*, received null", "missing"),  # at the top, null is like nothing
    (r"^[^;]*there is no such property", "unknown property"),
    (r"^[^;]*(non-integer value|it has a fraction)", "fraction"),
    (r"^[^;]*(out of range|(less|greater) than)", "range"),
    (r"^[^;]*'RED', 'GREEN' or 'blue'", "no member"),
    (r"^The arguments of 't' do not fit: ", "not convertible"),
)


def our_refusal(message: str) -> str:
    """The kind of refusal that a message of ours tells the model, by its first clause."""
    for pattern, kind in _OUR_REFUSALS:
        if re.search(pattern, message):
            return kind
    return message


# ---------------------------------------------------------------- what the model says


def promised_alone(scenario: Scenario, on: frozenset[str]) -> dict[str, Any]:
    """The same, with these deviations in force."""
    if scenario.kind == "search":
        return promised_search(scenario, on)
    tool = scenario.raw["tool"]
    if scenario.kind == "returns":
        return _promised_contents(tool, on)
    params = tool.get("params") or []
    if build_problem(params, on) is not None:
        return {"cases": [{"build_error": "<configuration error>"} for _ in scenario.raw["cases"]]}
    return {"cases": [_promised_case(params, text, on) for text in scenario.raw["cases"]]}


def _promised_case(params: list[Mapping[str, Any]], text: str | None, on: frozenset[str]) -> dict[str, Any]:
    try:
        return {"received": decoded(params, text, on)}
    except Refused as refused:
        return {"arguments_error": refused.kind}


def _promised_contents(tool: Mapping[str, Any], on: frozenset[str]) -> dict[str, Any]:
    behaviour, returns = tool.get("behaviour") or {}, tool.get("returns", "string")
    plan = planned(tool, 1, {})
    unshowable = {_FAILED: "<cannot be shown>"}
    match plan.kind:
        case "cyclic" | "opaque":
            return unshowable if "D-13" in on else {_LATE: "<cannot be shown>"}
        case "contents" if not plan.value:
            return {_SHOWN: [{"text": "[]"}]}
        case "contents":
            is_mixed = any("raw" in each for each in plan.value)
            return unshowable if is_mixed else {_SHOWN: plan.value}
        case "throw":
            return {_FAILED: plan.value["class"]}
    return {_SHOWN: [{"text": _promised_text(plan, returns, "optional" in behaviour, on)}]}


def _promised_text(plan: Planned, returns: str, is_optional: bool, on: frozenset[str]) -> str:
    by_value = "5.1" in on
    if plan.kind == "error_result":
        return plan.value
    if is_optional and not by_value:
        return compact({"empty": plan.value is None, "present": plan.value is not None})
    if plan.kind == "null":
        return "Success" if returns == "void" else "null"
    kind = kind_of(returns)
    if plan.kind == "text" and (kind.name == "string" or (by_value and not _is_written_as_json(kind))):
        return plan.value
    return compact(_written(kind, plan.value) if by_value else plan.value)


def _is_written_as_json(kind: Kind) -> bool:
    return kind.name in ("uuid", "date", "time", "datetime", "decimal")


def _written(kind: Kind, value: Any) -> Any:
    """The JSON that we write: decimals as text, which keeps their digits, and sets in order."""
    if value is None:
        return None
    if kind.name == "decimal":
        return str(value)
    if kind.name in ("list", "array", "set") and kind.inside:
        items = [_written(kind.inside[0], item) for item in value]
        return sorted(items) if kind.name == "set" else items
    if kind.name == "map" and len(kind.inside) == 2:
        return {key: _written(kind.inside[1], item) for key, item in value.items()}
    return value


# ---------------------------------------------------------------- both sides in one form

_REFUSALS = (
    # class, message: texts of the parser of JSON differ between its versions, and are not looked at
    (r"Json(Parse|EOF)Exception", r".*", "not JSON"),
    (r"MismatchedInputException", r".*LinkedHashMap<java\.lang\.String,java\.lang\.Object>.*", "not JSON"),
    (r"NullPointerException", r".*\"argumentsMap\" is null", "no arguments"),
    (r"IllegalArgumentException", r"Required parameter .* is missing", "missing"),
    (r"IllegalArgumentException", r".*has non-integer value.*", "fraction"),
    (r"IllegalArgumentException", r".*is out of range for.*", "range"),
    (r"InputCoercionException|JsonMappingException", r".*out of range.*", "range"),
    (r"IllegalArgumentException", r".*is not a valid enum value.*", "no member"),
    (r"InvalidFormatException", r".*Enum class.*", "no member"),
    (r"IllegalArgumentException", r".*(is not convertable to|Invalid UUID|UUID string).*", "not convertible"),
    (r"NumberFormatException", r"Character I is neither.*|.*Infinit.*", "not convertible"),
    (r"DateTime(Parse)?Exception", r".*", "not convertible"),
    (r"NullPointerException", r".*JsonNode\..*", "not convertible"),
    (r"UnrecognizedPropertyException", r"Unrecognized field.*", "unknown property"),
    (r"MismatchedInputException|InvalidFormatException", r"Cannot .*|No content to map.*", "not convertible"),
)


def normal_alone(scenario: Scenario, observed: Mapping[str, Any]) -> dict[str, Any]:
    """A recording, our doing or the model's word: numbers exact, sets sorted, errors by their kind."""
    if scenario.kind == "search":
        return normal_search(observed)
    if scenario.kind == "returns":
        return {key: _shown_error(inner) if key != _SHOWN else inner for key, inner in observed.items()}
    kinds = {param["name"]: kind_of(param["type"]) for param in scenario.raw["tool"].get("params") or []}
    return {**observed, "cases": [_normal_case(case, kinds) for case in observed["cases"]]}


def _normal_case(case: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, inner in case.items():
        match key:
            case "received":
                any_kind = Kind("any")
                found[key] = {name: _exact(kinds.get(name, any_kind), value) for name, value in inner.items()}
            case "arguments_error":
                found[key] = _refusal(inner) if isinstance(inner, Mapping) else inner
            case "build_error":
                is_ours = isinstance(inner, str) or inner.get("class") == "IllegalConfigurationException"
                found[key] = "<configuration error>" if is_ours else inner
            case _:
                found[key] = inner
    return found


def _refusal(error: Mapping[str, Any]) -> str:
    name, message = str(error.get("class")), str(error.get("message"))
    for class_pattern, message_pattern, kind in _REFUSALS:
        if re.fullmatch(class_pattern, name) and re.fullmatch(message_pattern, message, re.DOTALL):
            return kind
    return f"{name}: {message}"


_UNSHOWABLE = (
    (r"ClassCastException", r"Cannot cast .*\.Content"),
    (r"RuntimeException", r".*InvalidDefinitionException: .*"),
    (r"InvalidDefinitionException", r".*"),
)


def _shown_error(error: Any) -> str:
    if isinstance(error, str):
        return error
    name, message, cause = str(error.get("class")), str(error.get("message")), error.get("cause")
    is_known = any(re.fullmatch(one, name) and re.fullmatch(other, message) for one, other in _UNSHOWABLE)
    is_whole = cause is None or (_shown_error(cause) == "<cannot be shown>" and str(cause["message"]) in message)
    return "<cannot be shown>" if is_known and is_whole else f"{name}: {message}"


def _exact(kind: Kind, value: Any) -> Any:
    """The value with numbers as fractions, so that 2, 2.0 and 2.00 are one number and true is none."""
    match value:
        case str() if kind.name in ("time", "datetime"):  # seconds of zero may be written, or not
            return re.sub(r":00$", "", value) if re.fullmatch(r".*\d\d:\d\d:00", value) else value
        case bool() | None | str():
            return value
        case int() | float() | Decimal():
            exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            return {"number": str(Fraction(exact)) if exact.is_finite() else str(exact)}
        case list():
            inner = kind.inside[0] if kind.inside else Kind("any")
            items = [_exact(inner, item) for item in value]
            return sorted(items, key=repr) if kind.name == "set" else items
        case _:
            inner = kind.inside[-1] if kind.inside else Kind("any")
            return {key: _exact(inner, item) for key, item in value.items()}
