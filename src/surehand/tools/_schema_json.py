"""The JSON schema of the very core schema that validates, so that the two cannot disagree (spec 3.4)."""

from __future__ import annotations

import enum
import json
import math
from decimal import Decimal
from typing import Any

from pydantic import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from ._dataclasses import is_made_otherwise, is_pydantic
from ._hints import has_json_values
from ._members import has_plain_members
from ._unfillable import Unfillable

__all__ = ["json_schema_of"]


def json_schema_of(core: Any) -> dict[str, Any]:
    """The JSON schema of what that core schema accepts; raises what pydantic raises if there is none."""
    return _Generator(by_alias=True).generate(core, mode="validation")


class _Generator(GenerateJsonSchema):
    """Numbers for decimals, base64 for bytes, objects for named tuples, and nothing that only Python code can make."""

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Nothing: a default that JSON cannot show, or a member of a union that no model can send, is left out."""

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        """A number with its bounds (spec 3.4.5)."""
        found: dict[str, Any] = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found

    def bytes_schema(self, schema: Any) -> dict[str, Any]:
        """Base64 text, unless a model of the user's own reads bytes as plain text."""
        found: dict[str, Any] = {"type": "string"}
        if self._config.val_json_bytes == "base64":
            return {**found, "contentEncoding": "base64"}  # the bounds count bytes, not characters
        self.update_with_validations(found, schema, self.ValidationsMapping.bytes)
        return found

    def set_schema(self, schema: Any) -> dict[str, Any]:
        """An array, in which repeated items collapse (spec 4.2)."""
        return {key: value for key, value in super().set_schema(schema).items() if key != "uniqueItems"}

    def frozenset_schema(self, schema: Any) -> dict[str, Any]:
        """The same."""
        return {key: value for key, value in super().frozenset_schema(schema).items() if key != "uniqueItems"}

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """An object; keys that have to be whole numbers, or constants, are said to be so in text."""
        found = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int":
            found["propertyNames"] = {"pattern": "^-?[0-9]+$"}
        names: dict[str, Any] = self.resolve_ref_schema(found.get("propertyNames", {}))
        if any(not isinstance(value, str) for value in names.get("enum", ())):
            texts = [value if isinstance(value, str) else json.dumps(value) for value in names["enum"]]
            found["propertyNames"] = {"enum": texts}
        return found

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:
        """Refused, in the user's words rather than pydantic's."""
        match schema["type"]:
            case "is-instance":
                reason = f"no JSON value is an instance of {getattr(schema['cls'], '__qualname__', schema['cls'])}"
            case "callable":
                reason = "no JSON value is a function"
            case "is-subclass":
                reason = "no JSON value is a class"
            case _:
                reason = f"it has no JSON schema: {error_info}"
        raise PydanticInvalidForJsonSchema(reason)

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        """The constants; refused where pydantic's own rules are left alone and take only the members themselves."""
        if has_plain_members(schema):
            raise PydanticInvalidForJsonSchema(
                "in a pydantic model, no JSON value is a member that a Literal names; name the enum, or its values"
            )
        return super().literal_schema(schema)

    def is_subclass_schema(self, schema: Any) -> dict[str, Any]:
        """Refused: no JSON value is a class."""
        found: dict[str, Any] = self.handle_invalid_for_json_schema(schema, "")
        return found

    def dataclass_args_schema(self, schema: Any) -> dict[str, Any]:
        """Only the fields that the constructor takes."""
        fields = [entry for entry in schema["fields"] if entry.get("init", True)]
        changed: Any = {**schema, "fields": fields}
        return super().dataclass_args_schema(changed)

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        """An object, closed where the validator refuses what is not a field."""
        inner: Any = schema["schema"]
        # Others have been replaced; what is left is inside of a model, where pydantic makes it.
        if not is_pydantic(schema) and is_made_otherwise(schema["cls"]):
            raise Unfillable(
                f"contains {schema['cls'].__name__} inside of a pydantic model, which would make it without calling "
                "its constructor; let it be a model or a pydantic dataclass, or take it out of the model"
            )
        return _closed(super().dataclass_schema(schema), inner)

    def typed_dict_schema(self, schema: Any) -> dict[str, Any]:
        """The same; older releases of pydantic look elsewhere."""
        return _closed(super().typed_dict_schema(schema), schema)

    def named_tuple_schema(self, schema: Any) -> dict[str, Any]:
        """An object, so that the model sees the names of the fields; an array is accepted as well."""
        fields = {entry["name"]: entry["schema"] for entry in schema["fields"]}
        return self._object({name: self.generate_inner(entry) for name, entry in fields.items()}, fields)

    def call_schema(self, schema: Any) -> dict[str, Any]:
        """The same, for how older releases of pydantic describe named tuples."""
        inner: Any = schema["arguments_schema"]
        if inner["type"] != "arguments":
            return super().call_schema(schema)
        fields = {entry["name"]: entry["schema"] for entry in inner["arguments_schema"]}
        return self._object({name: self.generate_inner(entry) for name, entry in fields.items()}, fields)

    def _object(self, properties: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        required = [name for name, entry in fields.items() if entry["type"] != "default"]
        found = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**found, "required": required} if required else found

    def encode_default(self, dft: Any) -> Any:
        """The default as JSON; raises for what JSON has not."""
        if isinstance(dft, Decimal) and dft.is_finite():
            return int(dft) if dft == dft.to_integral_value() else float(dft)
        if isinstance(dft, enum.Enum) and not has_json_values(type(dft)):
            return dft.name
        if isinstance(dft, float) and not math.isfinite(dft):
            raise PydanticSerializationError(f"{dft!r} has no JSON form")
        return super().encode_default(dft)


def _closed(found: dict[str, Any], schema: Any) -> dict[str, Any]:
    return {**found, "additionalProperties": False} if schema.get("extra_behavior") == "forbid" else found
