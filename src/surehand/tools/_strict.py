"""Switches off the conversions of pydantic that the coercion table refuses, in plain types only (spec 4.2.0).

Works on pydantic's core schemas, which are plain dictionaries; users' own models and validators are left alone.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pydantic_core import SchemaValidator, to_json

from ._dataclasses import is_pydantic
from ._json_text import is_exact, is_object, with_floats

__all__ = ["Strictness", "decimal_ways", "is_plain_decimal", "strict_arguments"]

# What a text needs to be a date, a time or a duration; pydantic would take a number as seconds since the epoch.
_ISO: dict[str, tuple[re.Pattern[str], str]] = {
    "date": (re.compile(r"\s*\d{4}-"), "a date as ISO 8601 text, such as 2031-05-03"),
    "time": (re.compile(r"\s*\d\d:"), "a time as ISO 8601 text, such as 10:30:00"),
    "datetime": (re.compile(r"\s*\d{4}-"), "a date and time as ISO 8601 text, such as 2031-05-03T10:00:00Z"),
    "timedelta": (re.compile(r"\s*[+-]?P"), "a duration as ISO 8601 text, such as P1DT2H or PT30M"),
}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

# Types without a rule here whose values are the same whether read straight from the text or from parsed data.
_EXACT = {"bytes", "none", "url", "multi-host-url", "definition-ref", "missing-sentinel"}


@dataclass(slots=True)
class Strictness:
    """What was met on the way: whether digits can get lost, whether a type takes anything, and the enums.

    ``keeps_scale``: some type is a decimal, for which 1.10 is not 1.1. ``parsed`` is what is asked for: a schema for
    what was read before, in which fractions are decimals where a float would lose something of them.
    """

    parsed: bool = False
    loses_digits: bool = False
    keeps_scale: bool = False
    takes_anything: bool = False
    enums: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def strict_arguments(schema: Any, seen: Strictness, *, keep_unknown: bool) -> dict[str, Any]:
    """The core schema of a tool's arguments (a typed dict), made strict; unknown names are kept if asked for."""
    if schema["type"] == "definitions":
        inner = strict_arguments(schema["schema"], seen, keep_unknown=keep_unknown)
        return {**schema, "schema": inner, "definitions": [_strict(entry, seen) for entry in schema["definitions"]]}
    fields = {name: _of_field(entry, seen) for name, entry in schema["fields"].items()}
    extra = "allow" if keep_unknown else "ignore"
    return {**_without_reference(schema), "fields": fields, "extra_behavior": extra, "total": True}


def _strict(schema: Any, seen: Strictness) -> Any:
    kind = schema["type"]
    rule = _RULES.get(kind)
    if rule is not None and "ref" in schema:
        # What others refer to is the whole, whatever a rule wraps around it.
        return {**rule(_without_reference(schema), seen), "ref": schema["ref"]}
    if rule is not None:
        return rule(schema, seen)
    if kind == "any":
        return {**schema, **_anything(seen)}
    if kind not in _EXACT:
        _note_opaque(schema, seen)
    return schema


def _anything(seen: Strictness) -> dict[str, Any]:
    seen.takes_anything = True
    if not seen.parsed:
        return {"type": "any"}
    return {"type": "function-plain", "function": {"type": "no-info", "function": with_floats}}


def _note_opaque(schema: Any, seen: Strictness) -> None:
    seen.loses_digits = seen.takes_anything = True
    seen.keeps_scale = seen.keeps_scale or _has_a_decimal(schema)


def _has_a_decimal(schema: Any) -> bool:
    if is_object(schema):
        return schema.get("type") == "decimal" or any(map(_has_a_decimal, schema.values()))
    return isinstance(schema, (list, tuple)) and any(map(_has_a_decimal, schema))  # pyright: ignore[reportUnknownArgumentType]


def _of_field(entry: Any, seen: Strictness) -> Any:
    return {**entry, "schema": _strict(entry["schema"], seen)}


# ---------------------------------------------------------------- plain types


def _strict_flag(schema: Any, seen: Strictness) -> Any:
    return {**schema, "strict": schema.get("strict", True)}


def _strict_float(schema: Any, seen: Strictness) -> Any:
    strict = {**schema, "strict": schema.get("strict", True), "allow_inf_nan": False}
    return _checked(strict, with_floats) if seen.parsed else strict


def _text(schema: Any, seen: Strictness) -> Any:
    if schema.get("min_length") != 1 or schema.get("max_length") != 1:
        return schema
    # A complaint of its own: a number is no character, while it is a text as it is written.
    return {
        "type": "custom-error", "schema": schema, "custom_error_type": "single_character",
        "custom_error_message": "expected a single character",
    }  # fmt: skip


class _OtherKind:
    """Stands in for a value of another kind, so that pydantic makes its usual complaint."""


_OTHER_KIND = _OtherKind()


def _decimal(schema: Any, seen: Strictness) -> Any:
    seen.loses_digits = seen.keeps_scale = True
    careful = _checked(schema, _exact_number)
    if not set(schema) <= {"type", "ref", "metadata", "serialization"}:
        return careful
    # An integer goes straight into Decimal: a function of ours in between would cost more than all the rest.
    whole = {
        "type": "function-after", "function": {"type": "no-info", "function": Decimal},
        "schema": {"type": "int", "strict": True},
    }  # fmt: skip
    return {
        "type": "custom-error", "custom_error_type": "decimal_type",
        "schema": {"type": "union", "mode": "left_to_right", "choices": [whole, careful]},
    }  # fmt: skip


def is_plain_decimal(schema: Any) -> bool:
    """Whether this was made of a decimal without constraints."""
    return bool(schema["type"] == "custom-error" and schema["custom_error_type"] == "decimal_type")


def decimal_ways(schema: Any) -> list[Any]:
    """The ways to read a plain decimal: from an integer, and from any number."""
    ways: list[Any] = schema["schema"]["choices"]
    return ways


def _exact_number(value: Any) -> Any:
    """The value, unless it is text or a float that may have lost digits; whole ones had an exponent, or a zero."""
    if type(value) is float:
        return value if is_exact(value) and not value.is_integer() else _OTHER_KIND
    return _OTHER_KIND if type(value) is str else value


def _iso_only(schema: Any, seen: Strictness) -> Any:
    pattern, wanted = _ISO[schema["type"]]
    return _of_text(schema, pattern.match, wanted)


def _uuid(schema: Any, seen: Strictness) -> Any:
    return _of_text(schema, _UUID.fullmatch, "a UUID, such as 123e4567-e89b-12d3-a456-426614174000")


def _of_text(schema: Any, fits: Callable[[str], object], wanted: str) -> Any:
    """What is written as text of that form.

    Between the members of a union, pydantic prefers the one that the value fits more exactly. A function in between
    would turn the JSON into Python's text, which fits no date exactly: a union would then prefer ``str``, and give a
    date for a date and time. A function that only chooses leaves the JSON as it is.
    """

    def tag(value: Any) -> str | None:
        return "text" if isinstance(value, str) and fits(value) is not None else None

    from_json = {
        "type": "tagged-union", "discriminator": tag, "choices": {"text": schema},
        "custom_error_type": "text_form", "custom_error_message": f"expected {wanted}",
    }  # fmt: skip
    return {
        "type": "json-or-python",
        "json_schema": from_json,
        "python_schema": _of_text_in_python(schema, tag, wanted),
    }


def _of_text_in_python(schema: Any, tag: Callable[[Any], str | None], wanted: str) -> Any:
    # The same for what was parsed before: what JSON makes of it fits exactly, like text as ``str``.
    strict: Any = {**schema, "strict": True}
    exactly = SchemaValidator(strict).validate_json

    def read(value: Any, otherwise: Callable[[Any], Any]) -> Any:
        if tag(value) is None:
            raise ValueError(f"expected {wanted}")
        try:
            return exactly(to_json(value))
        except ValueError:
            return otherwise(value)

    return {"type": "function-wrap", "function": {"type": "no-info", "function": read}, "schema": schema}


def _without_reference(schema: Any) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "ref"}


def _enum(schema: Any, seen: Strictness) -> Any:
    # They are found again by the members that pydantic names; two classes with the same ones would be mixed up.
    if not any(_look_alike(schema, other) for other in seen.enums):
        seen.enums.append({**schema})
    members: list[enum.Enum] = schema["members"]
    return _of_members(schema, [member.value for member in members])


def _look_alike(one: Any, other: Any) -> bool:
    if repr([member.value for member in one["members"]]) != repr([member.value for member in other["members"]]):
        return False
    names = [[member.name for member in schema["members"]] for schema in (one, other)]
    if names[0] != names[1]:
        other["cls"] = None  # neither is repaired then
    return True


def _literal(schema: Any, seen: Strictness) -> Any:
    return _of_members(schema, [getattr(member, "value", member) for member in schema["expected"]])


def _of_members(schema: Any, members: list[Any]) -> Any:
    # 1, 1.0, true and "1" are one value to pydantic where an int is among the members.
    if not any(isinstance(member, (int, float)) for member in members):
        return schema

    def check(value: Any) -> Any:
        if not isinstance(value, (bool, int, float, str)):
            return value
        return value if any(_kind(member) is _kind(value) and member == value for member in members) else _OTHER_KIND

    return _checked(schema, check)


def _kind(value: Any) -> type:
    return next(kind for kind in (bool, int, float, str, object) if isinstance(value, kind))


def _checked(schema: Any, check: Callable[[Any], Any]) -> Any:
    return {"type": "function-before", "function": {"type": "no-info", "function": check}, "schema": schema}


# ---------------------------------------------------------------- containers


def _inside(*keys: str) -> Callable[[Any, Strictness], Any]:
    def rule(schema: Any, seen: Strictness) -> Any:
        changed = {key: _strict(schema[key], seen) for key in keys if key in schema}
        if schema["type"] in ("list", "set", "frozenset") and len(changed) < len(keys):
            changed["items_schema"] = _anything(seen)
        return {**schema, **changed}

    return rule


def _dict(schema: Any, seen: Strictness) -> Any:
    values = _strict(schema["values_schema"], seen) if "values_schema" in schema else _anything(seen)
    changed = {**schema, "values_schema": values}
    if "keys_schema" in schema:
        changed["keys_schema"] = _key(schema["keys_schema"], seen)
    return changed


def _key(schema: Any, seen: Strictness) -> Any:
    """Keys are text in JSON and must be converted, but what is no number or date as text is none as a key."""
    match schema["type"]:
        case "float":
            return {**schema, "allow_inf_nan": False}
        case "bool":
            return _checked(schema, _truth)
        case "enum":
            return _enum(schema, seen)
        case "date" | "time" | "datetime" | "timedelta" | "uuid":
            return _strict(schema, seen)
        case "nullable" | "default" | "function-after":
            return {**schema, "schema": _key(schema["schema"], seen)}
        case _:
            return schema


def _truth(name: Any) -> Any:
    return name if isinstance(name, str) and name.lower() in ("true", "false") else _OTHER_KIND


def _generator(schema: Any, seen: Strictness) -> Any:
    # pydantic would check the items one by one while the body runs; a bad one has to be refused before (spec 4.4).
    items = {"items_schema": schema["items_schema"]} if "items_schema" in schema else {}
    return _strict({"type": "list", **items}, seen)


def _tuple(schema: Any, seen: Strictness) -> Any:
    return {**schema, "items_schema": [_strict(item, seen) for item in schema["items_schema"]]}


def _union(schema: Any, seen: Strictness) -> Any:
    choices: list[Any] = schema["choices"]
    if seen.parsed:  # JSON text fits a UUID more exactly than str for pydantic, but Python's text does not
        choices = sorted(choices, key=_is_not_uuid)
    return {**schema, "choices": [_choice(choice, seen) for choice in choices]}


def _is_not_uuid(choice: Any) -> bool:
    return isinstance(choice, tuple) or bool(choice["type"] != "uuid")


def _choice(choice: Any, seen: Strictness) -> Any:
    if isinstance(choice, tuple):  # with a label
        labelled: tuple[Any, ...] = choice  # pyright: ignore[reportUnknownVariableType]  # schemas have no types
        return (_choice(labelled[0], seen), *labelled[1:])
    strict = _strict(choice, seen)
    # In a union the short cut would look like an exact fit, and come before an int or a float.
    return decimal_ways(strict)[1] if is_plain_decimal(strict) else strict


def _tagged_union(schema: Any, seen: Strictness) -> Any:
    return {**schema, "choices": {tag: _strict(choice, seen) for tag, choice in schema["choices"].items()}}


def _typed_dict(schema: Any, seen: Strictness) -> Any:
    return {**schema, "fields": {name: _of_field(entry, seen) for name, entry in schema["fields"].items()}}


def _dataclass(schema: Any, seen: Strictness) -> Any:
    if is_pydantic(schema):
        _note_opaque(schema, seen)  # a pydantic dataclass follows its own configuration
        return schema
    inner = schema["schema"]
    fields = [_of_field(entry, seen) for entry in inner["fields"]]
    return {**schema, "schema": {**inner, "fields": fields}}


def _definitions(schema: Any, seen: Strictness) -> Any:
    entries = [_strict(entry, seen) for entry in schema["definitions"]]
    return {**schema, "schema": _strict(schema["schema"], seen), "definitions": entries}


def _named_tuple(schema: Any, seen: Strictness) -> Any:
    return {**schema, "fields": [_of_field(entry, seen) for entry in schema["fields"]]}


def _call(schema: Any, seen: Strictness) -> Any:
    inner = schema["arguments_schema"]
    if inner["type"] != "arguments":
        return schema
    entries = [_of_field(entry, seen) for entry in inner["arguments_schema"]]
    return {**schema, "arguments_schema": {**inner, "arguments_schema": entries}}


_RULES: dict[str, Callable[[Any, Strictness], Any]] = {
    "int": _strict_flag,
    "bool": _strict_flag,
    "float": _strict_float,
    "decimal": _decimal,
    "date": _iso_only,
    "time": _iso_only,
    "datetime": _iso_only,
    "timedelta": _iso_only,
    "uuid": _uuid,
    "str": _text,
    "enum": _enum,
    "literal": _literal,
    "list": _inside("items_schema"),
    "set": _inside("items_schema"),
    "frozenset": _inside("items_schema"),
    "deque": _inside("items_schema"),
    "dict": _dict,
    "ordered-dict": _dict,
    "counter": _dict,
    "nullable": _inside("schema"),
    "default": _inside("schema"),
    "function-after": _inside("schema"),
    "lax-or-strict": _inside("lax_schema"),
    "json-or-python": _inside("json_schema", "python_schema"),
    "generator": _generator,
    "tuple": _tuple,
    "union": _union,
    "tagged-union": _tagged_union,
    "typed-dict": _typed_dict,
    "dataclass": _dataclass,
    "named-tuple": _named_tuple,
    "call": _call,
    "definitions": _definitions,
}
