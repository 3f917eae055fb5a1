"""A generated JSON schema made short and portable (spec 3.4.7, 3.4.8).

No titles, no definitions but recursive ones; and, since not every provider knows the newer words, ``anyOf`` for
``oneOf`` and a list of one for ``const``. Nothing that would change which values fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._json_text import is_array, is_object

__all__ = ["tidy_schema"]

_UUID = "A UUID, such as 123e4567-e89b-12d3-a456-426614174000"
_LEFT_OUT = ("title", "discriminator")
_NAMED_CHILDREN = ("properties", "$defs", "patternProperties", "dependentSchemas")


def tidy_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema with titles removed and references written out, except where a type contains itself."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    recursive = {name for name in definitions if name in _reachable(definitions[name], definitions)}
    root = {key: value for key, value in schema.items() if key not in ("$defs", "description")}
    if "$ref" in root:  # the arguments themselves never are a definition, but a type may refer to its own fields
        root = {**definitions[_name(root.pop("$ref"))], **root}
    tidy: dict[str, Any] = {"type": "object", **_tidied(root, definitions, recursive)}
    kept = {name: _tidied(definitions[name], definitions, recursive) for name in sorted(recursive)}
    for entry in tidy.get("properties", {}).values():
        if entry.get("format") == "uuid":
            entry.setdefault("description", _UUID)
    return {**tidy, "$defs": kept} if kept else tidy


def _name(reference: str) -> str:
    return reference.rsplit("/", 1)[-1]


def _reachable(node: Any, definitions: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if is_array(current):
            waiting.extend(current)
        elif is_object(current):
            waiting.extend(current.values())
            reference = current.get("$ref")
            if isinstance(reference, str) and _name(reference) in definitions and _name(reference) not in found:
                found.add(_name(reference))
                waiting.append(definitions[_name(reference)])
    return found


def _tidied(node: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if is_array(node):
        return [_tidied(item, definitions, recursive) for item in node]
    if not is_object(node):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str) and _name(reference) in definitions and _name(reference) not in recursive:
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        return _tidied({**definitions[_name(reference)], **siblings}, definitions, recursive)
    plain = {key: _child(key, value, definitions, recursive) for key, value in node.items() if key not in _LEFT_OUT}
    return _portable(plain)


def _portable(node: dict[str, Any]) -> dict[str, Any]:
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if "anyOf" in node:
        node["anyOf"] = [part for option in node["anyOf"] for part in _alternatives(option)]
    if "const" in node:
        node["enum"] = [node.pop("const")]
    return node


def _alternatives(option: Any) -> list[Any]:
    return option["anyOf"] if is_object(option) and option.keys() == {"anyOf"} else [option]


def _child(key: str, value: Any, definitions: Mapping[str, Any], recursive: set[str]) -> Any:
    if key in ("default", "const", "enum", "examples"):
        return value  # data, not schema
    if key in _NAMED_CHILDREN and is_object(value):
        return {name: _tidied(item, definitions, recursive) for name, item in value.items()}
    return _tidied(value, definitions, recursive)
