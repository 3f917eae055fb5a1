"""What JSON writes differently from Python: members of enums in a ``Literal``, keys that are no text, Base64 twice."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic.types import Base64Encoder, Base64UrlEncoder, EncodedBytes

from ._hints import has_json_values
from ._json_text import is_object

__all__ = ["base64_once", "by_name", "has_plain_members", "literal_by_value", "text_key"]


def by_name(schema: Mapping[str, Any]) -> dict[str, Any]:
    """An enum whose values JSON has not: the model sends the name of a member."""
    kind: type[enum.Enum] = schema["cls"]
    made: dict[str, Any] = {
        "type": "function-after",
        "function": {"type": "no-info", "function": kind.__members__.__getitem__},
        "schema": {"type": "literal", "expected": [member.name for member in schema["members"]]},
    }
    return {**made, "ref": schema["ref"]} if "ref" in schema else made


def literal_by_value(schema: dict[str, Any]) -> dict[str, Any]:
    """A ``Literal`` of members, which pydantic shows as values and then refuses: it takes the values."""
    expected: list[Any] = schema["expected"]
    if not has_plain_members(schema):
        return schema
    sent = [_sent(entry) for entry in expected]
    # By type too: 1 and True are one key.
    found: dict[tuple[type, Any], Any] = {
        (type(value), value): entry for value, entry in zip(reversed(sent), reversed(expected), strict=True)
    }
    return _looked_up(schema, sent, lambda value: found[type(value), value])


def has_plain_members(schema: Mapping[str, Any]) -> bool:
    """Whether it names members that are not equal to their values."""
    return any(isinstance(entry, enum.Enum) and not isinstance(entry, (str, int)) for entry in schema["expected"])


def _sent(entry: Any) -> Any:
    if not isinstance(entry, enum.Enum):
        return entry
    value: Any = entry.value if has_json_values(type(entry)) else entry.name
    return value


def _looked_up(schema: Mapping[str, Any], sent: list[Any], find: Callable[[Any], Any]) -> dict[str, Any]:
    return {
        "type": "function-after",
        "function": {"type": "no-info", "function": find},
        "schema": {**schema, "type": "literal", "expected": sent},
    }


def text_key(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """The schema for keys of an object, with constants that are no text taken by their text."""
    match schema["type"]:
        case "definition-ref" if schema["schema_ref"] in definitions:
            entry = definitions[schema["schema_ref"]]
            changed = text_key(entry, definitions)
            return schema if changed is entry else {key: value for key, value in changed.items() if key != "ref"}
        case "literal":
            return _by_text(schema["expected"], schema)
        case "enum" if not all(isinstance(member.value, str) for member in schema["members"]):
            return _by_text(schema["members"], schema)
        case "nullable" | "default" | "function-after":
            inner = text_key(schema["schema"], definitions)
            return schema if inner is schema["schema"] else {**schema, "schema": inner}
        case "union":
            choices: list[Any] = schema["choices"]
            if any(not is_object(entry) or entry["type"] == "str" for entry in choices):  # text stays text
                return schema
            return {**schema, "choices": [text_key(entry, definitions) for entry in choices]}
        case _:
            return schema


def _by_text(members: list[Any], schema: Any) -> Any:
    found: dict[str, Any] = {}
    for member in sorted(members, key=lambda entry: not isinstance(_sent(entry), str)):  # what is text is meant first
        value = _sent(member)
        found.setdefault(value if isinstance(value, str) else json.dumps(value), member)
    if all(text == member for text, member in found.items()):
        return schema
    return _looked_up({}, list(found), found.__getitem__)


def base64_once(schema: dict[str, Any]) -> dict[str, Any]:
    """pydantic's encoded bytes: bytes are Base64 text here already, and would be decoded twice."""
    encoded = getattr(schema["function"]["function"], "__self__", None)
    inner = schema["schema"]
    if not isinstance(encoded, EncodedBytes) or inner["type"] != "bytes":
        return schema
    if encoded.encoder in (Base64Encoder, Base64UrlEncoder):
        # Not by its own decoder, which leaves out whatever is no Base64.
        kept = {key: schema[key] for key in ("metadata", "ref") if key in schema}
        return {**inner, **kept}
    bounds = {key: inner[key] for key in ("min_length", "max_length") if key in inner}
    text = {
        "type": "function-after",
        "function": {"type": "no-info", "function": str.encode},
        "schema": {"type": "str", **bounds},
    }
    return {**schema, "schema": text}
