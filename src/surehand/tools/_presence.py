"""Which names a model may send for the fields of a tool's arguments, and whether each always gets a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Looks", "looks_of"]

_WRAPPED = ("schema", "lax_schema", "strict_schema", "json_schema", "python_schema")


@dataclass(frozen=True, slots=True)
class Looks:
    """``sent_names``: what a model may send. ``has_own_names``: those are Python's names, and no others.

    ``always_complete``: each field has a value, whatever was sent, so that one value more is one of an unknown name.
    """

    sent_names: frozenset[str]
    has_own_names: bool
    always_complete: bool


def looks_of(core: Mapping[str, Any]) -> Looks:
    """What there is to know of the core schema of a tool's arguments (a typed dict)."""
    while core["type"] == "definitions":
        core = core["schema"]
    fields: Mapping[str, Any] = core["fields"]
    return Looks(
        frozenset(name for own, entry in fields.items() for name in _sent(own, entry)),
        all(entry.get("validation_alias", own) == own for own, entry in fields.items()),
        all(map(_is_always_there, fields.values())),
    )


def _sent(own: str, entry: Mapping[str, Any]) -> list[str]:
    alias = entry.get("validation_alias", own)
    if isinstance(alias, str):
        return [alias]
    ways: list[Any] = alias if isinstance(alias[0], list) else [alias]
    return [str(way[0]) for way in ways]


def _is_always_there(entry: Mapping[str, Any]) -> bool:
    schema = entry["schema"]
    has_default = schema["type"] == "default" and ("default" in schema or "default_factory" in schema)
    return (entry.get("required", True) or has_default) and not _may_vanish(schema)


def _may_vanish(schema: Any) -> bool:
    """Whether the value may be left out by the schema itself: on an error, or by a function of the user's."""
    if isinstance(schema, tuple):  # a member of a union, with its label
        return _may_vanish(schema[0])  # pyright: ignore[reportUnknownArgumentType]  # schemas have no types
    kind: str = schema["type"]
    if kind.startswith("function") or kind == "definition-ref" or schema.get("on_error") == "omit":
        return True
    if kind in ("union", "tagged-union"):
        choices: Any = schema["choices"]  # by their tags, or in a list
        return any(map(_may_vanish, choices.values() if kind == "tagged-union" else choices))
    if kind == "chain":
        return any(map(_may_vanish, schema["steps"]))
    return any(_may_vanish(schema[key]) for key in _WRAPPED if key in schema and isinstance(schema[key], dict))
