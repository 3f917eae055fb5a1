"""Types that have a JSON schema though no model may, or can, fill them: found in the core schema, however deep."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from typing_extensions import TypeIs

from ._hints import is_foreign
from ._json_text import is_array, is_object
from ._tool import Parameters, ToolContext, ToolExecution

__all__ = ["MEMORY_ID_MARK", "Unfillable", "check_fillable"]

# In the metadata of a core schema: surehand fills this with the memory id of the run.
MEMORY_ID_MARK = "surehand_memory_id"

_INJECTED = (Parameters, ToolContext, ToolExecution)
_FIELDS = ("typed-dict-field", "model-field", "dataclass-field")
_NO_TEXT = {"tuple", "list", "set", "frozenset", "dict", "typed-dict", "dataclass", "named-tuple", "call", "none"}
_BOUNDS = ("ge", "gt", "le", "lt", "multiple_of")
_FILLED = (
    "contains {}, which surehand fills and no model may; give the tool a parameter of its own for it, and take it out "
    "of the type"
)


class Unfillable(Exception):
    """Why a model cannot fill the type, and the remedy, as the rest of "parameter 'x' …"."""


def check_fillable(core: Mapping[str, Any]) -> None:
    """Raises ``Unfillable`` if a part of that core schema cannot be left to a model (spec 3.5.1)."""
    waiting: list[tuple[Any, bool]] = [(core, False)]
    seen: set[int] = set()
    definitions = {entry["ref"]: entry for entry in core.get("definitions", ())}
    while waiting:
        node, by_name = waiting.pop()
        if is_array(node) or _is_tuple(node):
            waiting.extend((entry, by_name) for entry in node)
        elif is_object(node) and id(node) not in seen:
            seen.add(id(node))
            if node.get("init") is False and node.get("type") == "dataclass-field":
                continue  # the constructor does not take it, so no model fills it
            config = node.get("config")
            by_name = bool(config.get("validate_by_name", by_name)) if is_object(config) else by_name
            _check(node, by_name, definitions)
            waiting.extend((value, by_name) for key, value in node.items() if key not in ("default", "serialization"))


def _is_tuple(node: object) -> TypeIs[tuple[Any, ...]]:
    return isinstance(node, tuple)


def _check(schema: Mapping[str, Any], by_name: bool, definitions: Mapping[str, Any]) -> None:
    metadata = schema.get("metadata")
    if is_object(metadata) and MEMORY_ID_MARK in metadata:
        raise Unfillable(_FILLED.format("Annotated[…, MemoryId]"))
    if isinstance(schema.get("cls"), type):
        _check_class(schema["cls"], schema.get("type"))
    if "keys_schema" in schema and not _can_be_text(schema["keys_schema"], definitions):
        raise Unfillable(
            "contains a dict whose keys are objects, arrays or null, while keys are text in JSON; use a list of pairs, "
            "or text as keys"
        )
    if schema.get("type") in ("set", "frozenset") and _has_no_hash(schema.get("items_schema"), definitions):
        raise Unfillable("contains a set of what has no hash; use a list, or a frozen dataclass for what is in it")
    updates = metadata.get("pydantic_js_updates") if is_object(metadata) else None
    if is_object(updates) and not _may_be_number(schema):
        for bound in _BOUNDS:
            if bound in updates:  # pydantic takes it, and fails with every value
                raise Unfillable(f"has the bound {bound}={updates[bound]!r}, which only numbers and dates can have")
    if schema.get("type") in _FIELDS and not by_name:
        _check_alias(schema.get("validation_alias"))


def _may_be_number(schema: Any) -> bool:
    if "choices" in schema:
        choices = schema["choices"]
        return any(_may_be_number(entry[0] if _is_tuple(entry) else entry) for entry in choices)
    inner = schema.get("schema")
    return _may_be_number(inner) if is_object(inner) else schema.get("type") not in (*_NO_TEXT, "str", "bytes", "bool")


def _has_no_hash(schema: Any, definitions: Mapping[str, Any]) -> bool:
    if not is_object(schema):
        return False
    if schema["type"] == "definition-ref" and schema["schema_ref"] in definitions:
        return _has_no_hash(definitions[schema["schema_ref"]], definitions)
    kind: Any = schema.get("cls")
    if isinstance(kind, type):
        return getattr(kind, "__hash__", None) is None
    return schema["type"] in ("list", "set", "dict", "typed-dict")


def _can_be_text(schema: Any, definitions: Mapping[str, Any]) -> bool:
    match schema["type"]:
        case "definition-ref" if schema["schema_ref"] in definitions:
            return _can_be_text(definitions[schema["schema_ref"]], definitions)
        case "model" if not schema.get("root_model"):
            return False
        case "model" | "nullable" | "default" | "function-after":
            return "schema" not in schema or _can_be_text(schema["schema"], definitions)
        case "model-fields":  # of a root model
            return _can_be_text(schema["fields"]["root"]["schema"], definitions)
        case "union":
            choices = [entry[0] if _is_tuple(entry) else entry for entry in schema["choices"]]
            return any(_can_be_text(entry, definitions) for entry in choices)
        case kind:
            return kind not in _NO_TEXT


def _check_class(kind: Any, node: Any) -> None:
    name: str = kind.__name__
    if issubclass(kind, _INJECTED):
        raise Unfillable(_FILLED.format(name))
    if inspect.isabstract(kind) and (node in ("model", "dataclass") or is_foreign(kind)):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise Unfillable(
            f"contains {name}, which is abstract ({missing}), so that none can be made; name the classes "
            "that are not, joined by |"
        )


def _check_alias(alias: Any) -> None:
    """A name that the model can be told is needed: a way into other data is none."""
    if not is_array(alias):
        return
    paths = alias if is_array(alias[0]) else []  # pydantic shows no single path, however short
    if not any(len(path) == 1 and isinstance(path[0], str) for path in paths):
        raise Unfillable(
            f"has the validation alias {alias!r}, a path into other data that no schema can tell the model; use "
            "Field(alias='…'), or AliasChoices with a plain name"
        )
