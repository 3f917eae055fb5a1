"""Which schemas no JSON value fits."""

from __future__ import annotations

from typing import Any

import pytest

from surehand.tools._inhabited import uninhabited

SOME = [
    {},
    True,
    {"type": "string", "minLength": 3, "maxLength": 3},
    {"type": "integer", "minimum": 3, "maximum": 3},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "number", "exclusiveMinimum": 3, "exclusiveMaximum": 4},
    {"type": "number", "exclusiveMinimum": 3},
    {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 4},
    {"type": "array", "items": {"not": {}}},
    {"type": "array", "prefixItems": [{"not": {}}]},
    {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    {"anyOf": [{"not": {}}, {"type": "null"}]},
    {"allOf": [{"type": "string"}]},
    {"enum": ["a"]},
    {"type": "object", "properties": {"x": {"not": {}}}},
    {"type": "object", "required": ["x"]},
    {"$ref": "#/$defs/List"},
    {"$ref": "#/$defs/Maybe"},
]
NONE = [
    False,
    {"not": {}},
    {"enum": []},
    {"type": "string", "minLength": 4, "maxLength": 3},
    {"type": "integer", "minimum": 4, "maximum": 3},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 3},
    {"type": "number", "minimum": 3, "exclusiveMaximum": 3},
    {"type": "number", "exclusiveMinimum": 3, "maximum": 2},
    {"type": "integer", "minimum": 5, "maximum": 7, "multipleOf": 4},
    {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 1},
    {"type": "array", "items": {"not": {}}, "minItems": 1},
    {"type": "array", "prefixItems": [{"not": {}}], "minItems": 1},
    {"type": "array", "items": False, "minItems": 1},
    {"anyOf": [{"not": {}}, {"enum": []}]},
    {"oneOf": []},
    {"allOf": [{"type": "string"}, {"not": {}}]},
    {"type": "object", "properties": {"x": {"not": {}}}, "required": ["x"]},
    {"type": "object", "minProperties": 2, "maxProperties": 1},
    {"$ref": "#/$defs/Loop"},
    {"$ref": "#/$defs/There"},
    {"$ref": "#/$defs/Crowd"},
]


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


DEFINITIONS = {
    "List": _object(items={"type": "array", "items": _reference("List")}),
    "Maybe": _object(next={"anyOf": [_reference("Maybe"), {"type": "null"}]}),
    "Loop": _object(again=_reference("Loop")),
    "There": _object(back=_reference("Back")),
    "Back": _object(there=_reference("There")),
    "Crowd": _object(others={"type": "array", "items": _reference("Crowd"), "minItems": 1}),
}


def found(schema: Any, *, required: bool = True) -> list[str]:
    return uninhabited({**_object(it=schema), "required": ["it"] if required else [], "$defs": DEFINITIONS})


@pytest.mark.parametrize("schema", SOME, ids=str)
def test_a_schema_that_some_value_fits_is_left_alone(schema: Any) -> None:
    assert found(schema) == []


@pytest.mark.parametrize("schema", NONE, ids=str)
def test_a_schema_that_nothing_fits_is_found_if_it_is_required(schema: Any) -> None:
    assert found(schema) == ["it"]
    assert found(schema, required=False) == []
