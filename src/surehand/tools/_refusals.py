"""The texts that a model reads when its arguments are refused (spec 4.2.3, 4.4): what is wrong, and what is wanted.

And the refusal that all tools have in common: of what is no object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .._codec import clean_text
from ..errors import ToolArgumentsError
from ._json_text import is_array, is_object
from ._problems import Problem, describe, explain

__all__ = ["misfit", "not_an_object", "object_in", "refused"]

_MOST = 1000


def object_in(data: Any, tool: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was read, as arguments; raises ``ToolArgumentsError`` if it is no object (spec 4.1.4)."""
    if data is None:
        return {}  # what some models send for "no arguments"
    if not is_object(data):
        raise ToolArgumentsError(not_an_object(tool, f"expected a JSON object, received {describe(data)}", schema))
    return data


def not_an_object(tool: str, reason: str, schema: Mapping[str, Any] | None) -> str:
    """The text for what is no JSON, or no object."""
    return _short(f"The arguments of {tool!r} are not a JSON object: {reason}.{_wanted(schema)}")


def misfit(tool: str, problems: Sequence[Problem], schema: Mapping[str, Any] | None) -> str:
    """The text for arguments with those problems."""
    return _short(f"The arguments of {tool!r} do not fit: {explain(problems)}.{_wanted(schema)}")


def refused(tool: str, reason: str) -> str:
    """The text for arguments that are refused for another reason."""
    return _short(f"The arguments of {tool!r} were refused: {reason}")


def _short(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _wanted(schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return " It takes no arguments: send {}."
    properties = schema.get("properties")
    if not is_object(properties) or not properties:
        return ""
    required = schema.get("required", ())
    parts = [f"{name}: {_kind(entry)}{'' if name in required else ' (optional)'}" for name, entry in properties.items()]
    return f" Expected {{{', '.join(parts)}}}."


def _kind(entry: Any) -> str:
    if not is_object(entry):
        return "any value"
    for key in ("anyOf", "oneOf"):
        if is_array(entry.get(key)):
            return " or ".join(dict.fromkeys(_kind(option) for option in entry[key]))
    if "enum" in entry or "const" in entry:
        return "one of " + ", ".join(map(_shown, entry.get("enum", [entry.get("const")])))
    if "$ref" in entry:
        return "object"
    kind = entry.get("format") or entry.get("type") or "any value"
    return " or ".join(map(str, kind)) if is_array(kind) else str(kind)


def _shown(member: Any) -> str:
    # As Python writes text and numbers, which models read well, and as JSON writes the rest.
    return repr(member) if isinstance(member, (str, int, float)) and not isinstance(member, bool) else _json(member)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
