"""Types of parameters -> JSON schema for the model, and a validator for what the model sends (spec 3.4, 4.2).

Together with ``_codec`` the only importer of pydantic, also for what comes back. Everything is built once per tool.
"""

from __future__ import annotations

import enum
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, get_args, get_origin

from pydantic import ConfigDict, PydanticInvalidForJsonSchema, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticOmit, SchemaError, SchemaValidator, ValidationError, to_json
from typing_extensions import TypedDict

from ..errors import UserError
from ._signature import MISSING, Parameter, is_union
from ._strict import Strictness, strict_arguments
from ._tidy import tidy_schema

__all__ = ["ArgumentsSchema", "ValidationError", "adapter_of", "build_schema", "json_of", "problems_of"]

_BYTES_AS_TEXT = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")

# Numbers that lose digits or become infinite when they are read as binary floats, and the words that JSON has not.
_NOT_FINITE = re.compile(r"NaN|Infinity|\d[eE]\+?\d{3}|\d{300}")
_NOT_EXACT = re.compile(r"NaN|Infinity|\d[.eE]")


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentsSchema:
    """How one tool's arguments look and are read.

    ``json_schema`` is ``None`` without parameters. ``doubtful`` finds texts that must not be validated straight
    (``None``: every text may be). ``count`` is the number of values in a result without unknown names, or ``None``
    when unknown names are dropped anyway. ``has_decimals`` asks for fractions to be kept exact.
    """

    json_schema: dict[str, Any] | None
    names: tuple[str, ...]
    defaulted: frozenset[str]
    validate_json: Callable[[str], dict[str, Any]]
    validate_python: Callable[[Any], dict[str, Any]]
    doubtful: re.Pattern[str] | None
    count: int | None
    has_decimals: bool
    enums: Mapping[str, type[enum.Enum]]


def problems_of(error: ValidationError) -> list[dict[str, Any]]:
    """The single problems: ``type``, ``loc``, ``msg``, ``input`` and sometimes ``ctx``."""
    return [dict(problem) for problem in error.errors(include_url=False)]


def build_schema(parameters: Sequence[Parameter], descriptions: Mapping[str, str], label: str) -> ArgumentsSchema:
    """The schema of those parameters; raises ``UserError`` naming the parameter whose type cannot be used."""
    fields = {entry.name: _field(entry, descriptions.get(entry.name)) for entry in parameters}
    adapter = _adapter(fields, label)
    json_schema = _json_schema(adapter, fields, label)
    names = list(json_schema.get("properties", {}))
    strictness = Strictness()
    core: Any = strict_arguments(adapter.core_schema, strictness, keep_unknown=names == list(fields))
    try:
        validator = SchemaValidator(core)
    except SchemaError as error:
        raise UserError(f"{label}: the types of its parameters cannot be combined: {error}") from error
    return ArgumentsSchema(
        json_schema=json_schema if names else None,
        names=tuple(fields),
        defaulted=frozenset(name for name in names if name not in json_schema.get("required", ())),
        validate_json=validator.validate_json,
        validate_python=validator.validate_python,
        doubtful=_NOT_EXACT if strictness.loses_digits else _NOT_FINITE if strictness.takes_anything else None,
        count=len(fields) if names == list(fields) else None,
        has_decimals=strictness.loses_digits,
        enums=_enums_by_message(strictness.enums),
    )


# ---------------------------------------------------------------- one parameter


def _field(entry: Parameter, described: str | None) -> Any:
    hint, default = entry.hint, entry.default
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], MISSING
        if not entry.default.is_required():
            hint = NotRequired[hint]
    description = _own_description(entry.hint) or (None if _has_description(hint) else described)
    if description is not None:
        hint = Annotated[hint, FieldInfo(description=description)] if get_origin(hint) is not NotRequired else hint
    if default is not MISSING:
        return NotRequired[Annotated[hint, FieldInfo(default=default)]]
    if get_origin(hint) is not NotRequired and _takes_none(hint) and not _requires_value(hint):
        return NotRequired[Annotated[hint, FieldInfo(default=None)]]
    return hint


def _marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _own_description(hint: Any) -> str | None:
    for mark in _marks(hint):
        text = mark if isinstance(mark, str) else getattr(mark, "documentation", None)
        if isinstance(text, str) and text.strip():
            return text.strip()
    return None


def _has_description(hint: Any) -> bool:
    return any(isinstance(mark, FieldInfo) and mark.description for mark in _marks(hint))


def _requires_value(hint: Any) -> bool:
    return any(isinstance(mark, FieldInfo) and not mark.is_required() for mark in _marks(hint))


def _takes_none(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _takes_none(get_args(hint)[0])
    if is_union(hint):
        return any(_takes_none(part) for part in get_args(hint))
    return hint is None or hint is type(None)


# ---------------------------------------------------------------- pydantic


def _adapter(fields: Mapping[str, Any], label: str) -> TypeAdapter[Any]:
    try:
        return _typed_dict_adapter(fields)
    except Exception as error:
        for name, hint in fields.items():
            try:
                _typed_dict_adapter({name: hint})
            except Exception as cause:
                raise UserError(_unusable(label, name, hint, cause)) from cause
        raise UserError(f"{label}: the types of its parameters cannot be used together: {error}") from error


def _typed_dict_adapter(fields: Mapping[str, Any]) -> TypeAdapter[Any]:
    make: Any = TypedDict  # the checkers know only its literal form
    arguments = make("Arguments", dict(fields))
    adapter: TypeAdapter[Any] = TypeAdapter(arguments)
    if not adapter.pydantic_complete:
        adapter.rebuild(raise_errors=True)
    return adapter


def _unusable(label: str, name: str, hint: Any, cause: Exception) -> str:
    shown = hint if get_origin(hint) is not NotRequired else get_args(hint)[0]
    reason = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    return (
        f"{label}: parameter {name!r} has the type {shown!r}, which a model cannot fill ({reason}); use plain types, "
        "dataclasses, TypedDicts, enums or pydantic models, or take it from a ToolContext parameter: ctx.deps"
    )


class _SchemaForModels(GenerateJsonSchema):
    """Numbers for decimals (spec 3.4.5), and no complaint about defaults that JSON cannot show."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  (as pydantic declares it)

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """A number with its bounds."""
        found: dict[str, Any] = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found


def _json_schema(adapter: TypeAdapter[Any], fields: Mapping[str, Any], label: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = adapter.json_schema(schema_generator=_SchemaForModels)
    except (PydanticInvalidForJsonSchema, PydanticUserError, PydanticOmit, ValueError) as error:
        for name, hint in fields.items():
            try:
                _typed_dict_adapter({name: hint}).json_schema(schema_generator=_SchemaForModels)
            except Exception as cause:
                raise UserError(_unusable(label, name, hint, cause)) from cause
        raise UserError(f"{label}: its parameters have no JSON schema: {error}") from error
    return tidy_schema(found)


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
