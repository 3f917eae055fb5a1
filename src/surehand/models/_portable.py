"""A tool's schema for providers that know only the older words of JSON schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

__all__ = ["portable_schema"]

_DATA = frozenset({"default", "const", "enum", "examples"})
_NAMED = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})


def portable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with plain ``items`` for tuples, and a description that tells the order.

    It takes more than the tool does, which checks what comes in any case.
    """
    return {key: _child(key, value) for key, value in _flat(schema).items()}


def _child(key: str, value: Any) -> Any:
    if key in _DATA:
        return value
    if isinstance(value, Mapping):
        node = cast("Mapping[str, Any]", value)
        return {name: _part(inner) for name, inner in node.items()} if key in _NAMED else portable_schema(node)
    if isinstance(value, (list, tuple)):
        return [_part(item) for item in cast("Sequence[Any]", value)]
    return value


def _part(value: Any) -> Any:
    return portable_schema(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def _flat(node: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(node.get("prefixItems"), (list, tuple)):
        return node
    items: list[Any] = list(node["prefixItems"])
    order = ", ".join(map(_kind, items))
    rest = node.get("items", False)
    is_open = rest is not False
    if is_open:
        items.append(rest)
    kinds = [item for index, item in enumerate(items) if item not in items[:index]]
    told = f"{'First' if is_open else 'Exactly'} these items, in this order: {order}"
    plain = {key: value for key, value in node.items() if key != "prefixItems"}
    return {"description": told, **plain, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}}


def _kind(item: Any) -> str:
    return str(cast("Mapping[str, Any]", item).get("type", "any")) if isinstance(item, Mapping) else "any"
