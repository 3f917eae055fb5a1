"""JSON schemas as plain data: a copy of what a user gave, and the schemas inside of a schema."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

from typing_extensions import TypeIs

from ..errors import UserError
from ._json_text import is_array, is_object
from ._problems import Path, show_path

__all__ = [
    "every_schema",
    "is_legacy",
    "part_of",
    "plain_schema",
    "pointer_to",
    "property_names",
    "with_sound_references",
]

_DEPTH = 200
_LEGACY = ("draft-04", "draft-06", "draft-07")
_IN_REFERENCES = "#/%~!$&'()*+,;=:@?"
_ONE = {
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
_NAMED = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
_LISTED = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}


def plain_schema(schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """A deep copy as dicts and lists; raises ``UserError`` for what JSON cannot hold, naming the place."""
    if not _is_mapping(schema):
        raise UserError(f"tool {tool!r}: its parameters are {schema!r:.100}; a JSON schema, as a mapping, is expected")
    copied: dict[str, Any] = _plain(schema, (), tool)
    return copied


def _plain(node: Any, path: Path, tool: str) -> Any:
    if len(path) > _DEPTH:
        raise UserError(f"tool {tool!r}: its parameters are nested more than {_DEPTH} levels deep")
    if _is_mapping(node):
        for key in node:
            if not isinstance(key, str):
                raise _foreign(key, path, tool)
        return {key: _plain(item, (*path, key), tool) for key, item in node.items()}
    if _is_sequence(node):
        return [_plain(item, (*path, number), tool) for number, item in enumerate(node)]
    if node is None or isinstance(node, (str, int, bool)):
        return node
    if isinstance(node, (float, Decimal)) and math.isfinite(node):
        return node
    raise _foreign(node, path, tool)


def _is_mapping(node: Any) -> TypeIs[Mapping[Any, Any]]:
    return isinstance(node, Mapping)


def _is_sequence(node: Any) -> TypeIs[Sequence[Any]]:
    return isinstance(node, (list, tuple))


def _foreign(value: Any, path: Path, tool: str) -> UserError:
    where = show_path(path) or "its top"
    return UserError(f"tool {tool!r}: its parameters are no JSON: {value!r:.100} at {where}; a JSON schema is expected")


def every_schema(schema: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The schema and all schemas in it, each with the path to it; not what only looks like one, in an enum say."""
    todo: list[tuple[Path, Any]] = [((), schema)]
    while todo:
        path, node = todo.pop()
        if not is_object(node):
            continue
        yield path, node
        for key, value in node.items():
            if key in _ONE and is_object(value):
                todo.append(((*path, key), value))
            elif key in _NAMED and is_object(value):
                todo += [((*path, key, name), inner) for name, inner in value.items()]
            elif key in _LISTED and is_array(value):
                todo += [((*path, key, number), inner) for number, inner in enumerate(value)]


def is_legacy(schema: Mapping[str, Any]) -> bool:
    """Whether its draft is one in which a reference hides what stands beside it."""
    return any(name in str(schema.get("$schema", "")) for name in _LEGACY)


def with_sound_references(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema itself; what may not stand in an address, such as spaces in names, is escaped in its references."""
    for _, node in every_schema(schema):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            node["$ref"] = quote(reference, safe=_IN_REFERENCES)
    return schema


def pointer_to(path: Path) -> str:
    """The path as the fragment of an address: ``/properties/x``."""
    steps = (str(key).replace("~", "~0").replace("/", "~1") for key in path)
    return "".join(f"/{quote(step)}" for step in steps)


def property_names(schema: Mapping[str, Any]) -> list[str]:
    """The names of an object's properties, also of those that a reference or a part of it declares."""
    names: dict[str, None] = {}
    todo: list[Any] = [schema]
    seen: list[int] = []
    while todo:
        node = todo.pop()
        if not _is_mapping(node) or id(node) in seen:
            continue
        seen.append(id(node))
        properties = node.get("properties")
        names |= dict.fromkeys(properties if _is_mapping(properties) else ())
        todo += [_referred(schema, node.get("$ref")), *(node.get("allOf") or ())]
    return list(names)


def _referred(schema: Mapping[str, Any], reference: Any) -> Any:
    """What a reference like ``#/$defs/x`` leads to; nothing for another kind of reference."""
    return part_of(schema, reference[1:]) if isinstance(reference, str) and reference.startswith("#") else None


def part_of(schema: Mapping[str, Any], pointer: str) -> Any:
    """What a pointer as ``pointer_to`` gives leads to; nothing if it leads nowhere, or is the name of an anchor."""
    if pointer and not pointer.startswith("/"):
        return None
    node: Any = schema
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if _is_mapping(node):
            node = node.get(name)
        elif _is_sequence(node):
            node = node[int(name)] if name.isdecimal() and int(name) < len(node) else None
        else:
            return None
    return node
