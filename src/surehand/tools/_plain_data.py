"""Any value a body may return -> JSON text, or a definite refusal (spec 5.1).

JSON's own types go straight to text. Everything else is first made plain data here, because a serializer left alone
writes some things by accident: it reads an open file, runs an endless iterator, shows the repr of a key, and lists a
set in an order that differs from process to process. What is no data is refused by name; a repr tells a model nothing.
"""

from __future__ import annotations

import base64
import collections
import collections.abc
import dataclasses
import enum
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec

from .._codec import clean_text, cleaned
from ._schema import json_of
from ._tool import ToolResult

__all__ = ["NotData", "json_text", "ordered_like", "type_name"]

_DEEPEST = 200
_MOST_ITEMS = 100_000  # of what makes its items one by one, and may never end
_write_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class NotData(TypeError):
    """The value, or something in it, is no data; the message says what, and shows nothing of it."""


def json_text(value: Any) -> str:
    """Compact JSON of the value by its own type; raises ``NotData``, or what the value's own code raises.

    Sets come in a stable order: sorted by value where values can be compared, otherwise by their JSON. So the same set
    reads the same in every process. NaN and infinite numbers are ``null``; bytes are base64; a key that is no text
    reads as the same value would, without quotes; lone surrogates are replaced.
    """
    try:
        return clean_text(_write_json(value))
    except (TypeError, ValueError, RecursionError):  # not of JSON's own types, or not finite, or endless: see below
        pass
    data = _Walk().data(value)
    try:
        return _written(data)
    except ValueError as error:
        if "surrogate" not in str(error):
            raise
        return _written(cleaned(data))


def type_name(value: Any) -> str:
    """The name of the value's type for messages, with its module unless everybody knows it."""
    kind = _kind_of(value)
    if kind is type:
        return f"the class {value.__name__}"
    known = kind.__module__ in ("builtins", "__main__")
    return str(kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}")


def _kind_of(value: object) -> Any:
    # As something unknown: the checkers would narrow by ``type(value)`` to types that are known only by half.
    return type(value)


def _written(data: Any) -> str:
    refused: list[str] = []

    def refuse(value: Any) -> Any:
        refused.append(type_name(value))
        raise TypeError

    try:
        return json_of(data, refuse)
    except Exception as error:
        if refused:
            raise NotData(f"{refused[0]} is not data") from error
        raise


# ---------------------------------------------------------------- one value to plain data


class _Walk:
    """Makes plain data of one value; remembers what it is inside of, so that it comes to an end."""

    def __init__(self) -> None:
        self._inside: set[int] = set()

    def data(self, value: Any) -> Any:
        """Dicts with text keys, lists and scalars; scalars that pydantic knows how to write are left to it."""
        known, kind = value, _kind_of(value)
        if value is None or kind is str or kind is bool or kind is int or kind is float:
            return value
        if isinstance(value, enum.Enum):
            return self.data(value.value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return base64.b64encode(bytes(known)).decode()
        if isinstance(value, (int, float, type, BaseException)):
            return known
        if id(value) in self._inside:
            raise NotData("it contains itself")
        if len(self._inside) >= _DEEPEST:
            raise NotData("it is nested too deeply")
        self._inside.add(id(value))
        try:
            return self._composed(known)
        finally:
            self._inside.discard(id(value))

    def _composed(self, value: Any) -> Any:
        known: Any = value
        if isinstance(value, (list, tuple)):
            return [self.data(item) for item in known]
        if isinstance(value, collections.abc.Mapping):
            return self._entries(known)
        if isinstance(value, collections.abc.Set):
            return _in_order([self.data(item) for item in known])
        if isinstance(value, ToolResult):
            raise NotData("a ToolResult is a whole answer and cannot be part of a value")
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if hasattr(_kind_of(known), "__pydantic_serializer__"):
            return self._model(known)
        fields = _field_names(known)
        if fields is not None:
            return {name: self.data(getattr(known, name)) for name in fields}
        return self._other(known)

    def _entries(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, item in value.items():
            text = self._key(key)
            if text in data:
                raise NotData(f"two keys of a dict read {clean_text(text)!r}")
            data[text] = self.data(item)
        return data

    def _key(self, key: Any) -> str:
        known: Any = key.value if isinstance(key, enum.Enum) else key
        parts = known
        if isinstance(known, tuple):
            return ",".join(self._key(part) for part in parts)
        data = self.data(known)
        if isinstance(data, str):
            return data
        if isinstance(data, (list, dict)):
            raise NotData(f"{type_name(known)} is no key that JSON can have")
        if isinstance(data, float) and data != data:
            return "NaN"
        text = _written(data)
        return str(json.loads(text)) if text.startswith('"') else text

    def _struct(self, value: msgspec.Struct) -> Any:
        config = value.__struct_config__
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        given = {shown: getattr(value, name) for name, shown in names}
        data = {shown: self.data(item) for shown, item in given.items() if item is not msgspec.UNSET}
        if config.array_like:
            return list(data.values()) if config.tag is None else [config.tag, *data.values()]
        return data if config.tag is None else {str(config.tag_field): config.tag, **data}

    def _model(self, value: Any) -> Any:
        """By the type's own serializer, whose aliases and formats are meant for JSON."""
        kind = _kind_of(value)
        write: Callable[..., Any] = kind.__pydantic_serializer__.to_python
        try:
            data: Any = write(value, mode="json", by_alias=True, warnings=False, fallback=self.data)
        except Exception:  # bytes that are no text, or something foreign, which we may know how to write
            return self.data(write(value, mode="python", by_alias=True, warnings=False))
        if not _may_hold_sets(kind):
            return data
        return ordered_like(data, write(value, mode="python", by_alias=True, warnings=False))

    def _other(self, value: Any) -> Any:
        if callable(getattr(value, "tolist", None)):  # arrays and scalars of numpy and its kin
            data: Any = value.tolist()
            return data if type(data) is type(value) else self.data(data)
        if isinstance(value, collections.UserString):
            return value.data
        if callable(getattr(_kind_of(value), "__fspath__", None)):
            return self.data(value.__fspath__())
        if callable(getattr(value, "read", None)) or callable(getattr(value, "write", None)):
            raise NotData(f"{type_name(value)} is not data")  # its lines are, but reading them changes it
        known: Any = value
        if isinstance(value, (collections.abc.Sequence, collections.abc.ValuesView, collections.abc.Iterator)):
            return [self.data(item) for item in _counted(known)]
        return known


def _counted(items: Iterable[Any]) -> list[Any]:
    found = list(islice(items, _MOST_ITEMS + 1))
    if len(found) > _MOST_ITEMS:
        raise NotData(f"{type_name(items)} gives more than {_MOST_ITEMS} items")
    return found


def _field_names(value: Any) -> list[str] | None:
    """The fields of a dataclass or of an attrs class."""
    kind = _kind_of(value)
    if dataclasses.is_dataclass(kind):
        return [entry.name for entry in dataclasses.fields(kind)]
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


# ---------------------------------------------------------------- the order of sets


def _in_order(items: list[Any]) -> list[Any]:
    """The members of a set, as plain data, in an order that does not change."""
    try:
        if not any(isinstance(item, float) and item != item for item in items):  # NaN has no place in an order
            return sorted(items)
    except TypeError:
        pass
    return sorted(items, key=lambda item: _written(cleaned(item)))


def ordered_like(data: Any, source: Any) -> Any:
    """The data with every list in order that was a set in ``source``, which has the same shape."""
    known, inside = data, source
    if isinstance(data, list):
        if isinstance(source, (set, frozenset)):
            return _in_order(known)
        if isinstance(source, (list, tuple, collections.deque)) and len(inside) == len(known):
            return [ordered_like(item, inner) for item, inner in zip(known, inside, strict=True)]
    if isinstance(data, dict) and isinstance(source, dict) and len(inside) == len(known):
        pairs = zip(known.items(), inside.values(), strict=True)
        return {key: ordered_like(item, inner) for (key, item), inner in pairs}
    return known


@lru_cache(maxsize=512)
def _may_hold_sets(kind: Any) -> bool:
    # The schema as text is the one place that names every type below, however deep.
    schema = repr(getattr(kind, "__pydantic_core_schema__", "'any'"))
    return any(word in schema for word in ("'set'", "'frozenset'", "'any'", "'is-instance'"))
