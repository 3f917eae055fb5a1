"""Annotations in words that pydantic has: what it does not know is translated, and what it knows is left alone."""

from __future__ import annotations

import collections.abc
import typing
from typing import Annotated, Any, Literal, Never, NoReturn, Union, get_args, get_origin

import msgspec
import typing_extensions
from pydantic import Field, GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from ._hints import annotated, is_annotated, is_foreign, is_union, rebuilt
from ._typed_dicts import is_refused, taken

__all__ = ["portable"]

_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_LISTS = (collections.abc.Collection, collections.abc.Container, collections.abc.Reversible)
_NO_VALUE = (Never, NoReturn, typing_extensions.Never)


class Nothing:
    """The type without values, in a form that has a schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """Refuses everything."""
        return core_schema.no_info_plain_validator_function(_refuse)


def _refuse(value: Any) -> Any:
    raise PydanticCustomError("no_value", "no value is possible here")


class GenericStruct:
    """Carries a parametrised Struct or attrs class through pydantic, which would lose the parameters."""

    def __init__(self, alias: Any) -> None:
        self.alias = alias

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """A node that ``_structs`` finds again."""
        return core_schema.is_instance_schema(get_origin(self.alias), metadata={"surehand_type": self.alias})


def portable(hint: Any) -> Any:
    """The same type in words that pydantic has; what it knows is left as it is."""
    if hint is typing.LiteralString:
        return str
    if hint in _NO_VALUE or (get_origin(hint) in (Literal, typing_extensions.Literal) and not get_args(hint)):
        return Annotated[Nothing, WithJsonSchema({"not": {}})]
    if is_annotated(hint):
        inner, *marks = get_args(hint)
        return annotated(portable(inner), [found for mark in marks for found in _mark(mark)])
    if is_union(hint):
        # UNSET only says that a value was not sent.
        parts = [part for part in get_args(hint) if part is not msgspec.UnsetType and part not in _NO_VALUE]
        return Union[tuple(map(portable, parts))] if parts else portable(Never)  # noqa: UP007
    if is_refused(hint) or is_refused(get_origin(hint)):
        return taken(hint)
    if hint in _LISTS or get_origin(hint) in _LISTS:
        return rebuilt(list[get_args(hint)[0]], portable) if get_args(hint) else list  # type: ignore[misc]
    if is_foreign(get_origin(hint)):
        return Annotated[Any, GenericStruct(hint)]
    return rebuilt(hint, portable)


def _mark(mark: Any) -> list[Any]:
    if not isinstance(mark, msgspec.Meta):
        return [mark]
    told = {name: value for name in _CONSTRAINTS if (value := getattr(mark, name)) is not None}
    for name in ("title", "description", "examples"):
        if (value := getattr(mark, name)) is not None:
            told[name] = value
    if isinstance(mark.extra_json_schema, dict):
        told["json_schema_extra"] = mark.extra_json_schema
    return [Field(**told)] if told else []
