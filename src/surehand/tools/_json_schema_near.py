"""How near an alternative of a schema is to what a model sent: the kind of value, and the properties it declares."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from ._json_schema_plain import part_of
from ._json_text import is_array, is_object

__all__ = ["DeclaredNames", "kind_of"]

_DEPTH = 8  # levels of the value that are looked at; what is deeper hardly ever tells two alternatives apart


def kind_of(value: Any) -> str:
    """The JSON type of the value; all numbers are of one."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float() | Decimal():
            return "number"
        case str():
            return "string"
        case _:
            return "object" if is_object(value) else "array"


class DeclaredNames:
    """Counts the names in values that a schema declares as properties, at all depths.

    What was counted is known by identity, so the values must outlive the counter.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._known: dict[tuple[int, int, int], int] = {}

    def count(self, value: Any, pointer: str) -> int:
        """How many names in the value that part of the schema declares."""
        return self._count(value, part_of(self._schema, pointer), _DEPTH)

    def _count(self, value: Any, node: Any, depth: int) -> int:
        if depth == 0 or not is_object(node) or not (is_object(value) or is_array(value)):
            return 0
        key = (id(value), id(node), depth)
        if key not in self._known:
            self._known[key] = 0  # for a schema that leads back to itself
            self._known[key] = self._found(value, node, depth)
        return self._known[key]

    def _found(self, value: Any, node: dict[str, Any], depth: int) -> int:
        reference = node.get("$ref")
        found = 0
        if isinstance(reference, str) and reference.startswith("#"):
            found += self._count(value, part_of(self._schema, reference[1:]), depth)
        found += sum(self._count(value, part, depth) for part in _listed(node, "allOf"))
        for key in ("anyOf", "oneOf"):
            found += max((self._count(value, option, depth) for option in _listed(node, key)), default=0)
        if is_array(value):
            first, rest = _listed(node, "prefixItems"), node.get("items")
            entries = enumerate(value)
            return found + sum(
                self._count(item, (first[n] if n < len(first) else rest), depth - 1) for n, item in entries
            )
        properties = node.get("properties")
        if is_object(properties):
            names = [name for name in value if name in properties]
            found += len(names) + sum(self._count(value[name], properties[name], depth - 1) for name in names)
        return found


def _listed(node: dict[str, Any], key: str) -> list[Any]:
    found = node.get(key)
    return found if is_array(found) else []
