"""Types of parameters -> JSON schema for the model, and a validator for what the model sends (spec 3.4, 4.2).

Everything is built once per tool, from one core schema: what the model is told and what is checked cannot disagree.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, PydanticUserError, TypeAdapter
from pydantic_core import SchemaError, SchemaValidator, ValidationError, to_json

from ..errors import UserError
from ._fields import field_of
from ._inhabited import uninhabited
from ._parameter import Parameter
from ._presence import looks_of
from ._scalars import Scalar, lenient_arguments
from ._schema_json import json_schema_of
from ._strict import Strictness, strict_arguments
from ._structs import arguments_core
from ._tidy import tidy_schema
from ._unfillable import Unfillable

__all__ = [
    "RESULT",
    "ArgumentsSchema",
    "ValidationError",
    "adapter_of",
    "build_schema",
    "json_of",
    "output_schema",
    "problems_of",
]

RESULT = "result"
"""The name under which a value stands that is no object, and under which the decoder of outputs gives any value."""

_BYTES_AS_TEXT = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")

_UNKNOWN_NAME = re.compile(r"name '(\w+)' is not defined")


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentsSchema:
    """How one tool's arguments look and are read.

    ``json_schema`` is ``None`` without parameters. ``names`` are Python's, ``sent_names`` those that a model may send.
    ``keeps_unknown``: a result has the names that the tool does not have. ``count`` is the number of values in one
    that has none of those, or ``None`` where the number does not tell. ``has_decimals`` asks for fractions to be kept
    exact, ``keeps_scale`` for the zeros at their end too. ``validate_leniently`` takes text for the parameters in
    ``scalars`` too, where there are any. ``takes_anything``: some type takes any value, or reads numbers in its own
    way.
    """

    json_schema: dict[str, Any] | None
    names: tuple[str, ...]
    sent_names: frozenset[str]
    keeps_unknown: bool
    defaulted: frozenset[str]
    validate_json: Callable[[str], dict[str, Any]]
    validate_python: Callable[[Any], dict[str, Any]]
    count: int | None
    has_decimals: bool
    keeps_scale: bool
    enums: Mapping[str, type[enum.Enum]]
    validate_leniently: Callable[[str], dict[str, Any]] | None
    scalars: Mapping[str, Scalar]
    takes_anything: bool


def problems_of(error: ValidationError) -> list[dict[str, Any]]:
    """The single problems: ``type``, ``loc``, ``msg``, ``input`` and sometimes ``ctx``."""
    found: list[Any] = error.errors(include_url=False)
    return found


def build_schema(parameters: Sequence[Parameter], descriptions: Mapping[str, str], label: str) -> ArgumentsSchema:
    """The schema of those parameters; raises ``UserError`` naming the parameter whose type cannot be used."""
    fields = {entry.name: field_of(entry, descriptions.get(entry.name), label) for entry in parameters}
    return _schema_of(fields, {entry.name: entry.hint for entry in parameters}, label)


def _schema_of(fields: Mapping[str, Any], hints: Mapping[str, Any], label: str) -> ArgumentsSchema:
    core, json_schema = _described(fields, hints, label)
    names = list(json_schema.get("properties", {}))
    strictness = Strictness()
    looks = looks_of(core)
    strict: Any = strict_arguments(core, strictness, keep_unknown=looks.has_own_names)
    lenient: Any
    lenient, scalars = lenient_arguments(strict)
    try:
        validator = SchemaValidator(strict)
        parsed_validator = validator
        if strictness.loses_digits:
            parsed: Any = strict_arguments(core, Strictness(parsed=True), keep_unknown=looks.has_own_names)
            parsed_validator = SchemaValidator(parsed)
        lenient_validator = SchemaValidator(lenient) if scalars else None
    except SchemaError as error:
        raise UserError(f"{label}: the types of its parameters cannot be combined: {error}") from error
    return ArgumentsSchema(
        json_schema=json_schema if names else None,
        names=tuple(fields),
        sent_names=looks.sent_names,
        keeps_unknown=looks.has_own_names,
        defaulted=frozenset(name for name in names if name not in json_schema.get("required", ())),
        validate_json=validator.validate_json,
        validate_python=parsed_validator.validate_python,
        count=len(fields) if looks.has_own_names and looks.always_complete else None,
        has_decimals=strictness.loses_digits,
        keeps_scale=strictness.keeps_scale,
        enums=_enums_by_message(strictness.enums),
        validate_leniently=None if lenient_validator is None else lenient_validator.validate_json,
        scalars=scalars,
        takes_anything=strictness.takes_anything,
    )


def output_schema(hint: Any, label: str) -> tuple[ArgumentsSchema, bool]:
    """The schema of one value of that type, and whether it is ``{"result": …}`` around what is no object itself.

    The validators give ``{"result": value}`` in either case. Raises ``UserError`` for a type that cannot be used.
    """
    core, json_schema = _described({RESULT: hint}, {RESULT: hint}, label)
    definitions = json_schema.get("$defs", {})
    (shown,) = json_schema["properties"].values()
    if "$ref" in shown:
        shown = {**definitions[shown["$ref"].rsplit("/", 1)[-1]], **{k: v for k, v in shown.items() if k != "$ref"}}
    if shown.get("type") != "object":
        return _schema_of({RESULT: hint}, {RESULT: hint}, label), True
    strictness = Strictness()
    validator = _validator_inside(strict_arguments(core, strictness, keep_unknown=True))
    parsed_validator = validator
    if strictness.loses_digits:
        parsed_validator = _validator_inside(strict_arguments(core, Strictness(parsed=True), keep_unknown=True))
    properties = frozenset(shown.get("properties", ()))
    schema = ArgumentsSchema(
        json_schema={**shown, "$defs": definitions} if definitions else shown,
        names=(RESULT,),
        sent_names=properties,
        keeps_unknown=True,
        defaulted=properties.difference(shown.get("required", ())),
        validate_json=lambda text: {RESULT: validator.validate_json(text)},
        validate_python=lambda data: {RESULT: parsed_validator.validate_python(data)},
        count=1,
        has_decimals=strictness.loses_digits,
        keeps_scale=strictness.keeps_scale,
        enums=_enums_by_message(strictness.enums),
        validate_leniently=None,
        scalars={},
        takes_anything=strictness.takes_anything,
    )
    return schema, False


def _validator_inside(core: Any) -> SchemaValidator:
    """What validates the one field of these arguments, by itself."""
    if core["type"] != "definitions":
        return SchemaValidator(core["fields"][RESULT]["schema"])
    inner: Any = {**core, "schema": core["schema"]["fields"][RESULT]["schema"]}
    return SchemaValidator(inner)


def _described(
    fields: Mapping[str, Any], hints: Mapping[str, Any], label: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The core schema and the JSON schema of these fields; a ``UserError`` names the field that has none."""
    try:
        core, json_schema = _schemas_of(fields)
    except Exception as error:
        for name, hint in fields.items():
            try:
                _schemas_of({name: hint})
            except Exception as cause:
                raise UserError(_unusable(label, name, hints[name], cause)) from cause
        raise UserError(f"{label}: the types of its parameters cannot be used together: {error}") from error
    if len(json_schema.get("properties", {})) < len(fields):
        raise UserError(f"{label}: {_hidden(fields)}; give each parameter a name of its own that the model can see")
    for name in uninhabited(json_schema):
        raise UserError(
            f"{label}: nothing that a model could send fits the parameter {name!r}, so the tool could never be called; "
            "correct its type or its bounds, or give a type that contains itself a way to end, such as list[…] or None"
        )
    return core, tidy_schema(json_schema)


def _schemas_of(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    core = arguments_core(fields)
    return core, json_schema_of(core)


def _hidden(fields: Mapping[str, Any]) -> str:
    seen: dict[str, str] = {}
    for name, hint in fields.items():
        visible = next(iter(_schemas_of({name: hint})[1].get("properties", {})), None)
        if visible is None:
            return f"parameter {name!r} is hidden from the model by its own annotation"
        if visible in seen:
            return f"the parameters {seen[visible]!r} and {name!r} have the same alias {visible!r}"
        seen[visible] = name
    return "two parameters have the same alias"


def _unusable(label: str, name: str, hint: Any, cause: Exception) -> str:
    if isinstance(cause, Unfillable):
        return f"{label}: parameter {name!r} {cause}"
    lines = str(cause).splitlines() or [type(cause).__name__]
    # pydantic-core tells the way to the problem first, and the problem last.
    reason = (lines[-1] if lines[0].startswith("Error building") else lines[0]).strip().rstrip(".:")
    if "is not a Python type" in reason:
        reason = "it is no type"
    elif "isinstance" in reason:
        reason = "no JSON value is an instance of it"
    return f"{label}: parameter {name!r} has the type {hint!r}, which a model cannot fill ({reason}); {_remedy(reason)}"


def _remedy(reason: str) -> str:
    if unknown := _UNKNOWN_NAME.search(reason):
        return (
            f"define {unknown[1]} at module level and import it at run time (not only under TYPE_CHECKING): inside of "
            "a function, the types that refer to it cannot find it"
        )
    if "typing_extensions.TypedDict" in reason:
        return "import TypedDict from typing_extensions where that class is defined"
    return (
        "use plain types, dataclasses, TypedDicts, enums or pydantic models, or take it from a ToolContext parameter: "
        "ctx.deps"
    )


def _enums_by_message(schemas: Sequence[Any]) -> dict[str, type[enum.Enum]]:
    # pydantic's complaint names the members but not the class; the same words lead back to it when repairing.
    found: dict[str, type[enum.Enum]] = {}
    for schema in schemas:
        try:
            without_lookup: Any = {**schema, "missing": None}
            SchemaValidator(without_lookup).validate_python(object())
        except ValidationError as error:
            context = error.errors(include_url=False)[0].get("ctx", {})
            found[str(context.get("expected"))] = schema["cls"]
        except Exception:  # a schema of the user's own making: its names are not repaired
            continue
    return found


# ---------------------------------------------------------------- what comes back


def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Writes and reads values of that type; raises what pydantic raises for a type that it does not know."""
    try:
        return TypeAdapter(hint, config=_BYTES_AS_TEXT)
    except PydanticUserError:  # models and their like bring a configuration of their own
        return TypeAdapter(hint)


def json_of(value: Any, foreign: Callable[[Any], Any]) -> str:
    """Compact JSON of the value by its own type; ``foreign`` makes plain data of what pydantic does not know."""
    return to_json(value, bytes_mode="base64", inf_nan_mode="null", fallback=foreign).decode()
