"""Plain numbers and truth values sent as text (spec 4.2), and the quick repair of these commonest of mistakes.

It does not look for the place: a second validator takes text for such parameters too, and what that let through is
converted by name. It gives the same as the careful way, in a fifth of the time, or nothing; then that way is taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from ._json_text import is_number_text
from ._strict import decimal_ways, is_plain_decimal
from ._tool import Repair

__all__ = [
    "Scalar",
    "decimal_in",
    "float_in",
    "integer_in",
    "lenient_arguments",
    "make_quick_repair",
    "truth_in",
]

_KINDS: Mapping[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
_UNCONSTRAINED = {"type", "strict", "allow_inf_nan", "metadata", "ref", "serialization"}
_TRUTHS = {"true": True, "false": False}
_DIGITS = re.compile(r"\s*[+-]?[0-9]{1,300}\s*")


class Scalar(NamedTuple):
    """A plain type that a parameter has, and whether null is one of its values."""

    kind: type
    nullable: bool


def lenient_arguments(strict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Scalar]]:
    """The core schema of arguments that takes text for plain scalars too, and which parameters those are."""
    if strict["type"] == "definitions":
        inner, scalars = lenient_arguments(strict["schema"])
        return {**strict, "schema": inner}, scalars
    fields, scalars = dict(strict.get("fields", {})), dict[str, Scalar]()
    for name, entry in fields.items():
        # A repair is told by the name that the model used, which an alias would hide.
        if "validation_alias" not in entry and (kind := _plain_kind(entry["schema"])) is not None:
            scalars[name] = Scalar(kind, _is_nullable(entry["schema"]))
            fields[name] = {**entry, "schema": _lenient(entry["schema"], kind)}
    return {**strict, "fields": fields}, scalars


def _is_nullable(schema: Any) -> bool:
    return schema["type"] == "nullable" or (schema["type"] == "default" and _is_nullable(schema["schema"]))


def _plain_kind(schema: Any) -> type | None:
    match schema["type"]:
        case "nullable":
            return _plain_kind(schema["schema"])
        case "default":
            kind = _plain_kind(schema["schema"])
            # A default of another type is the user's own affair, and must not be taken for what the model sent.
            return kind if "default" in schema and type(schema["default"]) in (kind, type(None)) else None
        case "custom-error":
            return Decimal if is_plain_decimal(schema) else None
        case kind if kind in _KINDS and set(schema) <= _UNCONSTRAINED:
            return _KINDS[kind]
        case _:
            return None


def _lenient(schema: Any, kind: type) -> Any:
    if schema["type"] == "default":
        return {**schema, "schema": _lenient(schema["schema"], kind)}
    text = {"type": "str", "strict": True}
    if kind is float:  # which has a rule of its own about infinite ones
        return {"type": "union", "mode": "left_to_right", "choices": [schema, text]}
    if kind is Decimal and is_plain_decimal(schema):
        whole, careful = decimal_ways(schema)
        return {"type": "union", "mode": "left_to_right", "choices": [whole, text, careful]}
    if kind is Decimal:
        return {**schema, "schema": _lenient(schema["schema"], kind)}
    return {"type": "any"}  # the type is looked at afterwards, which is quicker than trying two


def make_quick_repair(
    validate: Callable[[str], dict[str, Any]], scalars: Mapping[str, Scalar]
) -> Callable[[str], tuple[dict[str, Any], tuple[Repair, ...]] | None]:
    """The function that gives all values and the repairs, or ``None`` when it takes more than that."""
    entries = [(name, kind, nullable, _CONVERSIONS[kind]) for name, (kind, nullable) in scalars.items()]

    def repaired(text: str) -> tuple[dict[str, Any], tuple[Repair, ...]] | None:
        try:
            values = validate(text)
        except Exception:
            return None
        made: list[Repair] = []
        for name, kind, nullable, convert in entries:
            value = values.get(name)
            if type(value) is kind or (value is None and nullable):
                continue
            if (after := convert(value)) is None:
                return None
            values[name] = after
            made.append(Repair(name, value, after))
        return (values, tuple(made)) if made else None

    return repaired


def integer_in(text: Any) -> int | None:
    """The integer that the text is, written with digits alone; ``None`` for anything else."""
    if type(text) is not str:
        return None
    is_plain = text.isdigit() and text.isascii() and len(text) < 300
    return int(text) if is_plain or _DIGITS.fullmatch(text) is not None else None


def float_in(text: Any) -> float | None:
    """The finite number that the text is; ``None`` for anything else."""
    number = float(text) if type(text) is str and is_number_text(text) else math.inf
    return number if math.isfinite(number) else None


def truth_in(text: Any) -> bool | None:
    """What ``true`` or ``false``, in any case, says; ``None`` for anything else."""
    return _TRUTHS.get(text.lower()) if type(text) is str else None


def decimal_in(text: Any) -> Decimal | None:
    """The number that the text is, with all its digits; ``None`` for anything else."""
    return Decimal(text.strip()) if type(text) is str and is_number_text(text) else None


def _as_written(number: Any) -> str | None:
    return str(number) if type(number) is int and number and -(2**63) < number < 2**63 else None  # 0 may be -0


_CONVERSIONS: Mapping[type, Callable[[Any], Any]] = {
    int: integer_in, float: float_in, bool: truth_in, str: _as_written, Decimal: decimal_in,
}  # fmt: skip
