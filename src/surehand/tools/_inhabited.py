"""Whether any JSON value fits a schema at all: a required parameter that nothing fits makes a tool useless."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

from ._json_text import is_array, is_object

__all__ = ["uninhabited"]


def uninhabited(schema: Mapping[str, Any]) -> list[str]:
    """The required properties of the object schema that no finite value fits, such as a type that contains itself."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    known: set[str] = set()
    while True:  # a definition has values if it has some by way of those that have; the smallest such set is the answer
        more = {name for name, entry in definitions.items() if name not in known and _has_values(entry, known)}
        if not more:
            break
        known |= more
    properties: Mapping[str, Any] = schema.get("properties", {})
    return [name for name in schema.get("required", ()) if not _has_values(properties.get(name, True), known)]


def _has_values(node: Any, known: Set[str]) -> bool:
    if not is_object(node):
        return node is not False
    if node.get("not") in ({}, True) or node.get("enum") == []:
        return False
    if "$ref" in node and str(node["$ref"]).rsplit("/", 1)[-1] not in known:
        return False
    for key in ("anyOf", "oneOf"):
        if is_array(node.get(key)) and not any(_has_values(option, known) for option in node[key]):
            return False
    if is_array(node.get("allOf")) and not all(_has_values(part, known) for part in node["allOf"]):
        return False
    match node.get("type"):
        case "string":
            return _fits(node, "minLength", "maxLength")
        case "integer" | "number":
            return _has_number(node, is_whole=node["type"] == "integer")
        case "array":
            return _fits(node, "minItems", "maxItems") and _has_items(node, known)
        case "object":
            return _fits(node, "minProperties", "maxProperties") and _has_fields(node, known)
        case _:
            return True


def _fits(node: Mapping[str, Any], least: str, most: str) -> bool:
    return bool(node.get(least, 0) <= node.get(most, math.inf))


def _has_number(node: Mapping[str, Any], *, is_whole: bool) -> bool:
    low, above = node.get("minimum", -math.inf), node.get("exclusiveMinimum", -math.inf)
    high, below = node.get("maximum", math.inf), node.get("exclusiveMaximum", math.inf)
    least, most = max(low, above), min(high, below)
    step = node.get("multipleOf", 1 if is_whole else None)
    if step is None or math.isinf(least) or math.isinf(most):
        return bool(least < most or (least == most and above < least and below > most))
    first = math.ceil(least / step)
    first += first * step == above
    return bool(first * step < below and first * step <= high)


def _has_items(node: Mapping[str, Any], known: Set[str]) -> bool:
    least = node.get("minItems", 0)
    first = node.get("prefixItems", [])
    if not all(_has_values(item, known) for item in first[:least]):
        return False
    return least <= len(first) or _has_values(node.get("items", True), known)


def _has_fields(node: Mapping[str, Any], known: Set[str]) -> bool:
    properties: Mapping[str, Any] = node.get("properties", {})
    return all(_has_values(properties.get(name, True), known) for name in node.get("required", ()))
