"""Whether any object fits a schema that came with a tool: if none does, every call of the tool would be refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._json_schema_near import kind_of
from ._json_schema_plain import every_schema, is_legacy, part_of
from ._json_text import is_array, is_object

__all__ = ["why_no_object_fits"]

_ALL = frozenset({"null", "boolean", "number", "string", "array", "object"})


def why_no_object_fits(schema: dict[str, Any]) -> str | None:
    """The reason, or ``None`` if one may fit; not every schema that nothing fits is found out."""
    kinds = _Kinds(schema)
    try:
        if "object" in kinds.of(schema):
            return None
    except RecursionError:  # references to references to references: nobody knows
        return None
    impossible = kinds.impossible_property(schema)
    return "no object fits them" if impossible is None else f"no value fits their required property {impossible!r}"


class _Kinds:
    """The JSON types of the values that fit a part of a schema; in doubt, of more."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._is_legacy = is_legacy(schema)
        self._has_constants = "draft-04" not in str(schema.get("$schema", ""))
        # References in a part that has an address of its own lead to places in that part.
        self._has_parts = any(path and ("$id" in node or "id" in node) for path, node in every_schema(schema))
        self._known: dict[int, frozenset[str]] = {}

    def of(self, node: Any) -> frozenset[str]:
        """The types; none if nothing fits."""
        if not is_object(node):
            return frozenset() if node is False else _ALL
        if id(node) not in self._known:
            self._known[id(node)] = _ALL  # for a schema that leads back to itself
            self._known[id(node)] = self._found(node)
        return self._known[id(node)]

    def impossible_property(self, node: dict[str, Any]) -> str | None:
        """A property that must be there and that nothing fits."""
        required, properties = node.get("required"), node.get("properties")
        if not is_array(required) or not is_object(properties):
            return None
        return next((name for name in required if name in properties and not self.of(properties[name])), None)

    def _found(self, node: dict[str, Any]) -> frozenset[str]:
        reference = node.get("$ref")
        kinds = _ALL
        if isinstance(reference, str) and reference.startswith("#") and not self._has_parts:
            kinds = self.of(part_of(self._schema, reference[1:]))
        if isinstance(reference, str) and self._is_legacy:  # there it hides what stands beside it
            return kinds
        kinds &= self._named(node) & self._listed(node)
        for part in _schemas(node, "allOf"):
            kinds &= self.of(part)
        for key in ("anyOf", "oneOf"):
            if key in node:
                kinds &= _union(self.of(option) for option in _schemas(node, key))
        if node.get("not") in ({}, True):
            return frozenset()
        return kinds - {"object"} if self.impossible_property(node) is not None else kinds

    def _named(self, node: dict[str, Any]) -> frozenset[str]:
        types = node.get("type", sorted(_ALL))
        return frozenset("number" if name == "integer" else name for name in (types if is_array(types) else [types]))

    def _listed(self, node: dict[str, Any]) -> frozenset[str]:
        options = node.get("enum")
        if "const" in node and self._has_constants:
            options = [node["const"]]
        return frozenset(map(kind_of, options)) if is_array(options) else _ALL


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*sets)


def _schemas(node: dict[str, Any], key: str) -> list[Any]:
    found = node.get(key)
    return found if is_array(found) else []
