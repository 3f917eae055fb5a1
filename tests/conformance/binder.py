"""The lenient JSON binder of the recorded system, which takes over below the top level (D-8 does away with it)."""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from .kinds import FIELDS, MEMBERS, Kind, kind_of, range_of
from .reading import Number, Refused, as_decimal, java_text

__all__ = ["bound", "float32", "needs_text_as_json"]

NO, RANGE, NO_MEMBER, UNKNOWN = "not convertible", "range", "no member", "unknown property"
_ZERO: dict[str, Any] = {"bool": False, "char": "\0"}


def needs_text_as_json(kind: Kind) -> bool:
    """Whether a text for a parameter of that type is read as JSON: all but collections, which are bound as they are."""
    return kind.name not in ("list", "set", "map")


def float32(number: float) -> float:
    """The nearest float of 32 bits, as the shortest number that means it."""
    bits = struct.pack("f", number)
    nearest = float(struct.unpack("f", bits)[0])
    shown = (float(f"{nearest:.{digits}g}") for digits in range(1, 10))
    return next((each for each in shown if struct.pack("f", each) == bits), nearest)


def bound(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    """The value as the binder makes it; raises ``Refused``."""
    if value is None and kind.name != "optional":
        return _ZERO.get(kind.name, 0) if kind.is_primitive else None
    for names, bind in _BINDERS:
        if re.fullmatch(names, kind.name):
            return bind(kind, value, on)
    raise AssertionError(f"the model has no binder for {kind.name!r}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


def _blank(kind: Kind) -> Any:
    return _ZERO.get(kind.name, 0) if kind.is_primitive else None


def _whole(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Refused(NO)
    if isinstance(value, Number):
        number = int(as_decimal(value, on))
    elif not value.strip():
        return _blank(kind)
    elif re.fullmatch(r"[+-]?\d+", value.strip()):
        number = int(value)
    else:
        raise Refused(NO)
    bounds = None if kind.name == "bigint" else range_of(kind.name)
    if bounds and not bounds[0] <= number <= bounds[1]:
        raise Refused(RANGE)
    return number


def _real(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Refused(NO)
    if _is_text(value) and not value.strip():
        return _blank(kind)
    try:
        number = as_decimal(value, on) if isinstance(value, Number) else Decimal(value.strip())
    except InvalidOperation:
        raise Refused(NO) from None
    if kind.name == "decimal":
        return number
    return float32(float(number)) if kind.name == "float32" else float(number)


def _flag(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, Number) and value.is_whole:
        return int(value) != 0
    if _is_text(value):
        if not value.strip():
            return _blank(kind)
        if value.strip() in ("true", "True", "TRUE", "false", "False", "FALSE"):
            return value.strip().lower() == "true"
    raise Refused(NO)


def _text(kind: Kind, value: Any, on: frozenset[str]) -> str:
    if isinstance(value, list | dict):
        raise Refused(NO)
    return java_text(value)


def _character(kind: Kind, value: Any, on: frozenset[str]) -> str:
    if _is_text(value) and len(value) == 1:
        return value
    if isinstance(value, Number) and value.is_whole and 0 <= int(value) < 0x10000:
        return chr(int(value))
    raise Refused(NO)


def _constant(kind: Kind, value: Any, on: frozenset[str]) -> str:
    members = MEMBERS[kind.name.removeprefix("enum:")]
    if isinstance(value, Number) and value.is_whole and 0 <= int(value) < len(members):
        return members[int(value)]
    if _is_text(value) and not value.strip():
        raise Refused(NO)
    named = {member.casefold(): member for member in members}
    if not _is_text(value) or value.strip().casefold() not in named:
        raise Refused(NO_MEMBER)
    return named[value.strip().casefold()]


def _anything(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    match value:
        case Number():
            return as_decimal(value, on)
        case list():
            return [_anything(kind, item, on) for item in value]
        case dict():
            return {key: _anything(kind, inner, on) for key, inner in value.items()}
        case _:
            return value


def _items(kind: Kind, value: Any, on: frozenset[str]) -> list[Any]:
    if not isinstance(value, list):
        raise Refused(NO)
    inner = kind.inside[0] if kind.inside else Kind("any")
    items = [bound(inner if kind.name == "array" else inner.boxed, item, on) for item in value]
    if kind.name == "set":
        return [item for index, item in enumerate(items) if item not in items[:index]]
    return items


def _entries(kind: Kind, value: Any, on: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(NO)
    keys, values = kind.inside or (Kind("string"), Kind("any"))
    return {str(bound(keys, key, on)): bound(values.boxed, inner, on) for key, inner in value.items()}


def _fields(kind: Kind, value: Any, on: frozenset[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused(NO)
    fields = FIELDS[kind.name.removeprefix("object:")]
    if set(value) - set(fields):
        raise Refused(UNKNOWN)
    return {name: bound(kind_of(type_name), value.get(name), on) for name, type_name in fields.items()}


_DATE, _TIME = ("year", "month", "day"), ("hour", "minute", "second", "nano")
_MAY_LACK = ("second", "nano")
_WRITTEN = {
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?",
    "datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?",
}


def _moment(kind: Kind, value: Any, on: frozenset[str]) -> str:
    read: Any = {"date": datetime.date, "time": datetime.time, "datetime": datetime.datetime}[kind.name]
    try:
        if isinstance(value, dict) and "D-36" not in on:
            return read(*_parts(kind, value)).isoformat()
        if isinstance(value, str) and re.fullmatch(_WRITTEN[kind.name], value):
            return read.fromisoformat(value).isoformat()
    except (ValueError, TypeError, KeyError):
        pass
    raise Refused(NO)


def _parts(kind: Kind, value: dict[str, Any]) -> list[int]:
    if kind.name == "datetime":
        return [*_parts(Kind("date"), value["date"]), *_parts(Kind("time"), value["time"])]
    names = _DATE if kind.name == "date" else _TIME
    parts = [int(value.get(name, 0) if name in _MAY_LACK else value[name]) for name in names]
    return parts if kind.name == "date" else [*parts[:3], parts[3] // 1000]


def _maybe(kind: Kind, value: Any, on: frozenset[str]) -> dict[str, Any]:
    return {"optional": bound((kind.inside[0] if kind.inside else Kind("any")).boxed, value, on)}


def _identifier(kind: Kind, value: Any, on: frozenset[str]) -> str:
    if _is_text(value) and re.fullmatch(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}", value):
        return value.lower()
    raise Refused(NO)


_Bind = Callable[[Kind, Any, frozenset[str]], Any]
_BINDERS: tuple[tuple[str, _Bind], ...] = (
    (r"int\d+|bigint", _whole),
    (r"float\d+|decimal", _real),
    (r"bool", _flag),
    (r"string", _text),
    (r"char", _character),
    (r"enum:.*", _constant),
    (r"any", _anything),
    (r"list|array|set", _items),
    (r"map", _entries),
    (r"object:.*", _fields),
    (r"date|time|datetime", _moment),
    (r"optional", _maybe),
    (r"uuid", _identifier),
)
