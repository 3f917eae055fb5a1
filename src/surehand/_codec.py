"""The one JSON codec, and the one place that cleans values for it.

Imports nothing of ours but errors. Lone surrogates (which JSON escapes can smuggle into a ``str``) would raise
in every UTF-8 encoder, and NaN would turn into ``null`` in silence, so both are dealt with here, once.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import enum
import math
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from .errors import UserError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")
JsonValue = Any

_encoder = msgspec.json.Encoder(decimal_format="number")
_plain_encoder = msgspec.json.Encoder(order="sorted")


def clean_text(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, so that it can be stored, hashed and sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def to_json(value: Any) -> bytes:
    """Compact UTF-8 JSON of our own values and plain data; raises ``UserError`` for what JSON cannot hold."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(cleaned(msgspec.to_builtins(cleaned(value))))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise UserError(f"{type(value).__name__} has no JSON form: {error}") from error


def require_json(value: Any) -> None:
    """Raise ``UserError`` for what JSON cannot hold, also where the encoder would write ``null`` in silence."""
    if not _is_finite(value):
        raise UserError("NaN and infinite numbers have no JSON form; store them as text")
    to_json(value)


def _is_finite(value: Any) -> bool:
    kind: Any = value
    match kind:
        case float():
            return math.isfinite(value)
        case Mapping():
            return all(map(_is_finite, value.values()))
        case list() | tuple() | Set():
            return all(map(_is_finite, value))
        case _:
            return True


def from_json(data: bytes | str, type: type[T] | Any) -> T:
    """The value of that type in the JSON text; raises ``UserError`` telling what does not fit, and where."""
    try:
        return msgspec.json.decode(data, type=type)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise UserError(f"not the JSON of {type!r}: {error}") from error


def canonical(value: Any) -> str:
    """One text for one meaning: keys sorted, no white space; used to tell whether two calls are the same."""
    try:
        return _plain_encoder.encode(plain(value)).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return repr(value)


def plain(value: Any) -> Any:
    """The value as dicts, lists and scalars, as far as that goes; used for fingerprints and display."""
    kind: Any = value  # matched instead of the value, whose type would be half-known in the branches
    match kind:
        case str():
            return clean_text(value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else repr(value)
        case enum.Enum():
            return plain(value.value)
        case decimal.Decimal() | datetime.timedelta():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case Mapping():
            return _plain_entries(value)
        case list() | tuple():
            return [plain(item) for item in value]
        case Set():
            return _plain_members(value)
        case _:
            return _plain_object(value)


def _plain_entries(entries: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(plain(key)): plain(item) for key, item in entries.items()}


def _plain_members(members: Set[Any]) -> list[Any]:
    return sorted((plain(item) for item in members), key=repr)


def _cleaned_entries(entries: Mapping[Any, Any]) -> dict[Any, Any]:
    return {cleaned(key): cleaned(item) for key, item in entries.items()}


def _plain_object(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if hasattr(value, "__struct_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return str(value)


def cleaned(value: Any) -> Any:
    """Our own values and plain data with each text as ``clean_text`` gives it."""
    kind: Any = value  # matched instead of the value, whose type would be half-known in the branches
    match kind:
        case str():
            return clean_text(value)
        case Mapping():
            return _cleaned_entries(value)
        case list() | tuple():
            return [cleaned(item) for item in value]
        case msgspec.Struct():
            fields = {name: _cleaned_field(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case _:
            return value


def _cleaned_field(value: Any) -> Any:
    clean = cleaned(value)
    return tuple(clean) if isinstance(value, tuple) else clean


class PydanticField:
    """Lets a msgspec Struct be a field of a user's pydantic model, with its JSON schema (design 6)."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A schema that takes an instance or its JSON form, and writes the JSON form."""
        from pydantic_core import core_schema

        def read(value: Any) -> Any:
            if isinstance(value, cls):
                return value
            try:
                return msgspec.convert(value, cls)
            except msgspec.ValidationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            read, serialization=core_schema.plain_serializer_function_ser_schema(msgspec.to_builtins)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """The JSON schema of the JSON form, its own definitions inlined where they are not recursive."""
        (root,), definitions = msgspec.json.schema_components([cls])
        inlined: dict[str, Any] = _inlined(root, definitions)
        return inlined


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    # pydantic renames definitions of its own; a foreign "$ref" would dangle, so ours are written out in place.
    kind: Any = node
    match kind:
        case list():
            return _inlined_items(node, definitions)
        case {"$ref": str(reference)}:
            return _inlined(definitions[reference.rsplit("/", 1)[-1]], definitions)
        case dict():
            return _inlined_schema(node, definitions)
        case _:
            return node


def _inlined_items(items: list[Any], definitions: Mapping[str, Any]) -> list[Any]:
    return [_inlined(item, definitions) for item in items]


def _inlined_schema(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _inlined(item, definitions) for key, item in schema.items() if key != "discriminator"}
