"""The neutral type names of the recordings: read, checked, and turned into Python hints."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, make_dataclass, replace
from enum import Enum
from functools import lru_cache
from types import GenericAlias
from typing import Annotated, Any

from pydantic import Field

from surehand import Parameters
from surehand.tools._signature import MemoryId

__all__ = ["FIELDS", "MEMBERS", "PRIMITIVES", "Kind", "class_of", "hint_of", "kind_of", "range_of", "unknown_types"]

# What cannot be absent in the recorded system: null and a missing argument are errors for these.
PRIMITIVES = frozenset({"int8", "int16", "int32", "int64", "float32", "float64", "bool", "char"})
GENERIC = {"list": 1, "array": 1, "set": 1, "map": 2, "optional": 1}

# Fields of the classes that scenarios name: name -> type, in the order in which they are written. The recorded
# system has no required fields; here those with a ``?``, and those that hold other things, have ``None`` as default.
FIELDS: dict[str, dict[str, str]] = {
    "Person": {"name": "string", "age": "int32", "address": "object:Address", "tags": "list<string>"},
    "Address": {"city": "string", "zip": "int32?"},
}
MEMBERS: dict[str, tuple[str, ...]] = {"Color": ("RED", "GREEN", "blue")}

_FLOAT32 = 3.4028234663852886e38


@dataclass(frozen=True)
class Kind:
    """A type: ``list<int32?>`` is ``Kind("list", (Kind("int32", nullable=True),))``."""

    name: str
    inside: tuple[Kind, ...] = ()
    nullable: bool = False

    @property
    def boxed(self) -> Kind:
        """The same, with a null among its values: what containers of the recorded system hold."""
        return replace(self, nullable=True)

    @property
    def is_primitive(self) -> bool:
        return self.name in PRIMITIVES and not self.nullable


@lru_cache(maxsize=512)
def kind_of(name: str) -> Kind:
    """The type of that name; whether the name is known is what ``unknown_types`` tells."""
    if name.endswith("?"):
        return kind_of(name[:-1]).boxed
    head, opened, rest = name.partition("<")
    if not opened or not rest.endswith(">"):
        return Kind(name)
    return Kind(head, tuple(kind_of(part) for part in _split(rest[:-1])))


def _split(inside: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, letter in enumerate(inside):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            yield inside[start:index].strip()
            start = index + 1
    yield inside[start:].strip()


def unknown_types(kind: Kind) -> Iterator[str]:
    """The words in it that have no meaning here."""
    if kind.name in GENERIC and (not kind.inside or len(kind.inside) == GENERIC[kind.name]):
        for inner in kind.inside:
            yield from unknown_types(inner)
    elif kind.inside or kind.name not in _HINTS:
        yield kind.name


def range_of(name: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a bounded number."""
    if name == "float32":
        return -_FLOAT32, _FLOAT32
    if name.startswith("int"):
        bits = int(name.removeprefix("int"))
        return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return None


# ---------------------------------------------------------------- hints


def hint_of(kind: Kind) -> Any:
    """The Python hint that it stands for; ``Any`` for a word without meaning."""
    if kind.nullable:
        return hint_of(replace(kind, nullable=False)) | None
    inside = tuple(hint_of(inner) for inner in kind.inside)
    match kind.name:
        case "list" | "array":
            return GenericAlias(list, inside or (Any,))
        case "set":
            return GenericAlias(set, inside or (Any,))
        case "map":
            return GenericAlias(dict, inside or (str, Any))
        case "optional":
            return (inside or (Any,))[0] | None
        case name:
            return _HINTS.get(name, Any)


def _bounded(name: str, base: type) -> Any:
    bounds = range_of(name)
    assert bounds is not None
    return Annotated[base, Field(ge=bounds[0], le=bounds[1])]


_HINTS: dict[str, Any] = {
    "string": str,
    "char": Annotated[str, Field(min_length=1, max_length=1)],
    "bool": bool,
    **{name: _bounded(name, int) for name in ("int8", "int16", "int32", "int64")},
    "bigint": int,
    "float32": _bounded("float32", float),
    "float64": float,
    "decimal": decimal.Decimal,
    "any": Any,
    "uuid": uuid.UUID,
    "date": datetime.date,
    "time": datetime.time,
    "datetime": datetime.datetime,
    "inject:memory_id": Annotated[Any, MemoryId],
    "inject:invocation_params": Parameters,
    "void": None,
}


def _dataclass_of(name: str) -> Any:
    required: list[Any] = []
    optional: list[Any] = []
    for name_of_field, type_name in FIELDS[name].items():
        kind = kind_of(type_name)
        if kind.nullable or kind.name in GENERIC or kind.name.startswith("object:"):
            optional.append((name_of_field, hint_of(replace(kind, nullable=False)) | None, field(default=None)))
        else:
            required.append((name_of_field, hint_of(kind)))
    return make_dataclass(name, required + optional)


for _name, _members in MEMBERS.items():
    _HINTS[f"enum:{_name}"] = Enum(_name, {member: member for member in _members})  # type: ignore[misc]
for _name in ("Address", "Person"):  # what another one holds comes first
    _HINTS[f"object:{_name}"] = _dataclass_of(_name)


def class_of(name: str) -> Any:
    """The dataclass or enum of that name, such as ``object:Person`` or ``enum:Color``."""
    return _HINTS[name]
