"""The model's half that fits values to types: the recorded system's ways, and our one table (spec 4.2, 4.3).

Reference: strict about numbers at the top level, lenient below it (``binder``), and texts for anything else are read
as JSON. With ``D-8`` there is one table for every level.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

from .binder import bound, float32, needs_text_as_json
from .kinds import FIELDS, GENERIC, MEMBERS, Kind, kind_of, range_of
from .reading import Number, Refused, as_decimal, java_text, json_text, read_arguments, read_inner

__all__ = ["build_problem", "decoded"]

NO, FRACTION, RANGE, MISSING, NO_MEMBER = "not convertible", "fraction", "range", "missing", "no member"
_OUR_NUMBERS = re.compile(r"\s*[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?\s*")


def build_problem(params: list[Mapping[str, Any]], on: frozenset[str]) -> str | None:
    """Why a tool with these parameters cannot be made, if it cannot."""
    for param in params:
        kind = kind_of(param["type"])
        if param.get("default") is not None and not _has_fitting_default(kind, param["default"], on):
            return "a default that does not fit"
        if "3.4.9" in on:
            continue
        if "default" in param and kind.name == "optional":
            return "a default of something optional"
        if kind.is_primitive and not param.get("required", True) and "default" not in param:
            return "an optional primitive"
    return None


def decoded(params: list[Mapping[str, Any]], text: str | None, on: frozenset[str]) -> dict[str, Any]:
    """What the method gets, by parameter, in the words of the recordings; raises ``Refused``."""
    given = read_arguments(text, on)
    received: dict[str, Any] = {}
    for param in params:
        if not param["type"].startswith("inject:"):
            received[param["name"]] = _argument(param, given, on)
    return received


def _argument(param: Mapping[str, Any], given: Mapping[str, Any], on: frozenset[str]) -> Any:
    kind, value = kind_of(param["type"]), given.get(param["name"])
    if value is not None:
        return _fitted(kind, value, on)
    has_null = kind.nullable or kind.name == "optional"
    is_null = "3.4.9" in on and has_null and param["name"] in given  # a value like any other, where the type has it
    if param.get("default") is not None and not is_null:
        return _default(kind, param["default"], on)
    if kind.name == "optional":
        return {"optional": None}
    takes_null = kind.nullable or (kind.name == "any" and param["name"] in given)
    if param.get("required", True) and (kind.is_primitive or ("D-8" in on and not takes_null)):
        raise Refused(MISSING)
    return None


def _has_fitting_default(kind: Kind, text: str, on: frozenset[str]) -> bool:
    try:
        return _default(kind, text, on) is not None or (kind.nullable and "3.4.9" in on)
    except (ValueError, Refused):
        return False


def _default(kind: Kind, text: str, on: frozenset[str]) -> Any:
    verbatim = kind.name in ("string", "uuid", "char") or kind.name.startswith("enum:")
    value = text if verbatim else read_inner(text, on)
    return None if value is None else _fitted(kind, value, on)


def _inside(kind: Kind) -> Kind:
    return kind.inside[0] if kind.inside else Kind("any")


def _fitted(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if kind.name == "optional":
        return {"optional": _fitted(_inside(kind).boxed, value, on)}
    return _uniform(kind, value, on) if "D-8" in on else _reference(kind, value, on)


# ---------------------------------------------------------------- the recorded system, at the top level


def _reference(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if kind.name == "string":
        return java_text(value) if "D-9" not in on or not isinstance(value, Number) else str(value)
    if kind.name == "uuid":
        return _loose_uuid(java_text(value))
    if kind.name.startswith("enum:"):
        return _constant(kind, java_text(value))
    if kind.name == "bool":
        return _flag(value, on)
    if kind.name in ("float32", "float64"):
        return _java_float(kind, value, on)
    if kind.name == "decimal" or kind.name == "bigint" or kind.name.startswith("int"):
        return _exact(kind, _java_number(value, on), on)
    if isinstance(value, str) and not isinstance(value, Number) and needs_text_as_json(kind):
        if not value.strip():
            raise Refused(NO)
        try:
            value = read_inner(value, on)
        except ValueError:
            raise Refused("not JSON") from None
    return bound(kind, value, on)


def _constant(kind: Kind, text: str) -> str:
    members = MEMBERS[kind.name.removeprefix("enum:")]
    for attempt in (text, text.upper()):
        if attempt in members:
            return attempt
    raise Refused(NO_MEMBER)


def _java_float(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Refused(NO)
    number = _java_double(value)
    bounds = range_of(kind.name)
    if bounds and not isinstance(value, Number) and number in (float("inf"), float("-inf")):
        raise Refused(RANGE)
    if bounds and (number < bounds[0] or number > bounds[1]):
        raise Refused(RANGE)
    if "D-9" in on and number in (float("inf"), float("-inf")) and isinstance(value, Number):
        raise Refused("not JSON")
    return _shown_float(float32(number) if bounds else number)


def _java_double(text: str) -> float:
    text = text.strip()
    if text in ("NaN", "Infinity", "-Infinity", "+Infinity", "+NaN", "-NaN"):
        return float(text.removeprefix("+").removeprefix("-") if "NaN" in text else text)
    if re.fullmatch(r"[+-]?0[xX][\da-fA-F]*\.?[\da-fA-F]*[pP][+-]?\d+[fFdD]?", text):
        return float.fromhex(text.rstrip("fFdD") if text[-1] in "fFdD" and not text[-1].isdigit() else text)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?", text):
        raise Refused(NO)
    return float(text.rstrip("fFdD"))


def _shown_float(number: float) -> Any:
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _java_number(value: Any, on: frozenset[str]) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Refused(NO)
    if isinstance(value, Number):
        number = as_decimal(value, on)
        if not number.is_finite():
            raise Refused(NO)
        return number
    text = value.strip()
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        raise Refused(NO)
    return _bounded_decimal(text, on)


def _bounded_decimal(text: str, on: frozenset[str]) -> Decimal:
    if "D-9" in on and not _OUR_NUMBERS.fullmatch(text):
        raise Refused(NO)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Refused(NO) from None


# ---------------------------------------------------------------- both


def _exact(kind: Kind, number: Decimal, on: frozenset[str]) -> Any:
    if kind.name == "decimal":
        return number
    if number.adjusted() > 10_000 or number != number.to_integral_value():
        raise Refused(FRACTION if number.adjusted() <= 10_000 else RANGE)
    bounds = range_of(kind.name) if kind.name != "bigint" else None
    if bounds and not bounds[0] <= number <= bounds[1]:
        raise Refused(RANGE)
    return int(number)


def _flag(value: Any, on: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return value
    if "D-36" in on and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise Refused(NO)


def _loose_uuid(text: str) -> str:
    parts = text.split("-")
    if len(text) > 36 or len(parts) != 5 or not all(re.fullmatch(r"[\da-fA-F]{1,16}", part) for part in parts):
        raise Refused(NO)
    return str(
        uuid.UUID("-".join(part.zfill(size)[-size:] for part, size in zip(parts, (8, 4, 4, 4, 12), strict=True)))
    )


def _uuid(text: str) -> str:
    if not re.fullmatch(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}", text):
        raise Refused(NO)
    return str(uuid.UUID(text))


# ---------------------------------------------------------------- our table


def _uniform(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if kind.name == "optional":
        return {"optional": None if value is None else _uniform(_inside(kind).boxed, value, on)}
    if value is None:
        if kind.nullable or kind.name == "any":
            return None
        raise Refused(NO_MEMBER if kind.name.startswith("enum:") else NO)
    if kind.name in GENERIC or kind.name.startswith("object:"):
        return _container(replace(kind, nullable=False), value, on)
    if kind.name.startswith("enum:"):
        return _member(kind, value)
    if kind.name == "any":
        return _any(value, on)
    if kind.name in ("string", "char"):
        return _text(kind, value, on)
    if kind.name == "bool":
        return _flag(value, on)
    if kind.name in ("uuid", "date", "time", "datetime"):
        return _from_text(kind, value)
    return _number(kind, value, on)


def _text(kind: Kind, value: Any, on: frozenset[str]) -> str:
    if kind.name == "char":
        if not isinstance(value, str) or isinstance(value, Number) or len(value) != 1:
            raise Refused(NO)
        return value
    if isinstance(value, Number):
        return str(value) if "D-9" in on else java_text(value)
    if isinstance(value, bool):
        return java_text(value)
    return value if isinstance(value, str) else json_text(value)


def _number(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    if isinstance(value, bool) or not isinstance(value, str):
        raise Refused(NO)
    if not isinstance(value, Number) and not _OUR_NUMBERS.fullmatch(value):
        raise Refused(NO)
    number = as_decimal(value, on) if isinstance(value, Number) else Decimal(value.strip())
    if not kind.name.startswith("float"):
        if not number.is_finite():
            raise Refused(NO)
        return _exact(kind, number, on)
    found = float(value)
    bounds = range_of(kind.name)
    if found in (float("inf"), float("-inf")):
        if "D-9" not in on and isinstance(value, Number) and not bounds:
            return _shown_float(found)
        raise Refused(RANGE if bounds else NO)
    if bounds and not bounds[0] <= found <= bounds[1]:
        raise Refused(RANGE)
    return float32(found) if bounds else found


def _member(kind: Kind, value: Any) -> str:
    members = MEMBERS[kind.name.removeprefix("enum:")]
    if not isinstance(value, str) or isinstance(value, Number):
        raise Refused(NO_MEMBER)
    if value in members:
        return value
    found = [member for member in members if member.casefold() == value.casefold()]
    if len(found) != 1:
        raise Refused(NO_MEMBER)
    return found[0]


def _any(value: Any, on: frozenset[str]) -> Any:
    match value:
        case Number():
            return as_decimal(value, on)
        case list():
            return [_any(item, on) for item in value]
        case dict():
            return {key: _any(inner, on) for key, inner in value.items()}
        case _:
            return value


def _from_text(kind: Kind, value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Number):
        raise Refused(NO)
    if kind.name == "uuid":
        return _uuid(value)
    read: Any = {"date": _date, "time": datetime.time.fromisoformat, "datetime": datetime.datetime.fromisoformat}
    try:
        if (":" if kind.name == "time" else "-") in value:
            return read[kind.name](value).isoformat()
    except ValueError:
        pass
    raise Refused(NO)


def _date(text: str) -> datetime.date:
    moment = datetime.datetime.fromisoformat(text)  # a date is also a moment at midnight
    if moment.time() != datetime.time():
        raise ValueError(text)
    return moment.date()


def _container(kind: Kind, value: Any, on: frozenset[str]) -> Any:
    wanted = list if kind.name in ("list", "array", "set") else dict
    if isinstance(value, str) and not isinstance(value, Number):
        try:
            value = read_inner(value, on)
        except ValueError:
            raise Refused(NO) from None
    if not isinstance(value, wanted):
        raise Refused(NO)
    if isinstance(value, list):
        items = [_uniform(_inside(kind), item, on) for item in value]
        return _distinct(items) if kind.name == "set" else items
    if kind.name == "map":
        keys, values = kind.inside or (Kind("string"), Kind("any"))
        return {str(_uniform(keys, key, on)): _uniform(values, inner, on) for key, inner in value.items()}
    return _fields(kind, value, on)


def _distinct(items: list[Any]) -> list[Any]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def _fields(kind: Kind, value: dict[str, Any], on: frozenset[str]) -> dict[str, Any]:
    fields = FIELDS[kind.name.removeprefix("object:")]
    received: dict[str, Any] = {}
    for name, type_name in fields.items():
        inner = kind_of(type_name)
        may_be_absent = inner.nullable or inner.name in GENERIC or inner.name.startswith("object:")
        if name not in value and not may_be_absent:
            raise Refused(MISSING)
        received[name] = _uniform(inner.boxed if may_be_absent else inner, value.get(name), on)
    if set(value) - set(fields):
        raise Refused("unknown property")
    return received
