"""What a tool of a scenario does, as data: it drives the real tools and the model of the reference alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .kinds import FIELDS

__all__ = ["BEHAVIOURS", "Planned", "compact", "neutral_object", "planned"]

# What a behaviour may say.
BEHAVIOURS = frozenset(
    {
        *("steps", "sleep_ms", "attributes", "throw", "error_result", "image_url", "content_text", "contents"),
        *("self_ref", "opaque", "optional", "count", "echo", "return", "return_null"),
    }
)


@dataclass(frozen=True)
class Planned:
    """What one execution does: sleeps, then raises ``error`` or gives something of that ``kind``."""

    kind: str  # throw, text, null, json, contents, error_result, cyclic, opaque
    value: Any = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sleep: float = 0.0


def compact(value: Any) -> str:
    """JSON without white space."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def neutral_object(returns: str, value: Any) -> Any:
    """The value with every field of its declared class."""
    if returns.startswith("object:") and isinstance(value, dict):
        return {name: value.get(name) for name in FIELDS[returns.removeprefix("object:")]}
    return value


def planned(tool: Mapping[str, Any], number: int, arguments: Mapping[str, Any]) -> Planned:
    """What the n-th execution of the tool does (n counts from 1), given its decoded arguments."""
    behaviour = dict(tool.get("behaviour") or {})
    if "steps" in behaviour:
        steps = behaviour.pop("steps")
        behaviour |= steps[min(number, len(steps)) - 1]
    made = _made(tool, behaviour, number, arguments)
    sleep = behaviour.get("sleep_ms", 0) / 1000
    return Planned(made.kind, made.value, behaviour.get("attributes") or {}, sleep)


def _made(tool: Mapping[str, Any], behaviour: Mapping[str, Any], number: int, arguments: Mapping[str, Any]) -> Planned:
    name, returns = tool["name"], tool.get("returns", "string")
    if "throw" in behaviour:
        return Planned("throw", behaviour["throw"])
    if "error_result" in behaviour:
        return Planned("error_result", behaviour["error_result"])
    if "image_url" in behaviour:
        return Planned("contents", [{"image_url": behaviour["image_url"]}])
    if "content_text" in behaviour:
        return Planned("contents", [{"text": behaviour["content_text"]}])
    if "contents" in behaviour:
        return Planned("contents", behaviour["contents"])
    if behaviour.get("self_ref"):
        return Planned("cyclic")
    if behaviour.get("opaque"):
        return Planned("opaque")
    if "optional" in behaviour:
        inner = behaviour["optional"]
        return Planned("null" if inner is None else "text" if isinstance(inner, str) else "json", inner)
    if behaviour.get("count"):
        return Planned("text", f"{name}#{number}")
    if behaviour.get("echo"):
        return Planned("text", name + compact(arguments))
    if "return" in behaviour:
        value = neutral_object(returns, behaviour["return"])
        return Planned("text", value) if isinstance(value, str) else Planned("json", value)
    if behaviour.get("return_null") or returns != "string":
        return Planned("null")
    return Planned("text", f"{name} ok")
