"""Classes of msgspec and attrs, which pydantic does not know, as types of arguments (spec 3.4.5).

pydantic leaves an ``is-instance`` node for each such class. Here it becomes a schema of the class's fields, followed
by a call of the constructor, wherever it stands: in a list, in a user's dataclass, in a union, or in itself.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, cast, get_args, get_origin

import msgspec
import typing_extensions
from msgspec import NODEFAULT
from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from ._dataclasses import called, is_pydantic, is_to_be_called
from ._hints import has_json_values, is_foreign, substituted
from ._members import base64_once, by_name, literal_by_value, text_key
from ._translate import portable
from ._unfillable import check_fillable

__all__ = ["CONFIG", "arguments_core"]

# Parts of a core schema that hold values or functions, not schemas.
_NO_SCHEMAS = frozenset({"metadata", "serialization", "function", "config", "default", "cls", "members", "expected"})
CONFIG = ConfigDict(
    arbitrary_types_allowed=True, ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings"
)
# The filters of warnings belong to the whole process.
_ONE_AT_A_TIME = threading.Lock()


def arguments_core(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The core schema of a typed dict with those fields; raises what pydantic raises for types that it cannot use."""
    rewriter = _Rewriter()
    core = rewriter.rewritten(_typed_dict(fields, "Arguments", None))
    if core["type"] == "definitions":
        rewriter.definitions = {**_by_ref(core["definitions"]), **rewriter.definitions}
        core = core["schema"]
    core = {**core, "extra_behavior": "ignore"}  # the names of the arguments themselves are the decoder's business
    if not rewriter.definitions:
        return core
    return {"type": "definitions", "schema": core, "definitions": list(rewriter.definitions.values())}


def _typed_dict(fields: Mapping[str, Any], name: str, doc: str | None) -> dict[str, Any]:
    make: Any = TypedDict  # the checkers know only its literal form
    kind = make(name, {key: portable(hint) for key, hint in fields.items()})
    kind.__pydantic_config__, kind.__doc__ = CONFIG, doc
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        # pydantic would take any value for what is no type.
        warnings.filterwarnings("error", message=".*is not a Python type")
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        if not adapter.pydantic_complete:
            adapter.rebuild(raise_errors=True)
    core = dict(cast("dict[str, Any]", adapter.core_schema))
    check_fillable(core)
    return core


def _by_ref(definitions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["ref"]: entry for entry in definitions}


class _Rewriter:
    """Collects a definition for each class that it meets, so that a class may contain itself."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._refs: list[tuple[Any, str]] = []
        self._originals: dict[str, dict[str, Any]] = {}

    def rewritten(self, node: Any) -> Any:
        """The node with every foreign class in it replaced."""
        if isinstance(node, list):
            entries: list[Any] = node  # pyright: ignore[reportUnknownVariableType]  # schemas have no types
            return [self.rewritten(entry) for entry in entries]
        if isinstance(node, tuple):
            parts: tuple[Any, ...] = node  # pyright: ignore[reportUnknownVariableType]
            return tuple(self.rewritten(part) for part in parts)
        if not isinstance(node, dict):
            return node
        schema: dict[str, Any] = node  # pyright: ignore[reportUnknownVariableType]
        match schema.get("type"):
            case "is-instance" if is_foreign(schema["cls"]):
                return self._reference(_type_of(schema))
            case "union":
                return self._union(schema)
            case "enum" if not has_json_values(schema["cls"]):
                return by_name(schema)
            case "literal":
                return literal_by_value(schema)
            case "function-after":
                return base64_once(self._inside(schema))
            case "dict" if "keys_schema" in schema:
                keys = text_key(schema["keys_schema"], self._originals)
                return self._inside({**schema, "keys_schema": keys})
            case "definitions":
                self._originals.update(_by_ref(schema["definitions"]))
                return self._inside(schema)
            case "model":  # pydantic has a validator of it already, and would not look at a changed schema
                return schema
            case "dataclass":
                return schema if is_pydantic(schema) else self._dataclass(schema)
            case "typed-dict":
                return {**self._inside(schema), **_closed(schema)}
            case _:
                return self._inside(schema)

    def _inside(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {key: value if key in _NO_SCHEMAS else self.rewritten(value) for key, value in schema.items()}

    def _dataclass(self, schema: dict[str, Any]) -> dict[str, Any]:
        changed = self._inside(schema)
        changed = {**changed, "schema": {**changed["schema"], **_closed(schema)}}
        return called(changed, _maker) if is_to_be_called(schema["cls"]) else changed

    def _union(self, schema: dict[str, Any]) -> dict[str, Any]:
        tags = [_tag_of(choice) for choice in schema["choices"]]
        names = {tag[0] for tag in tags if tag is not None}
        if None in tags or len(names) != 1 or len(set(tags)) < len(tags):
            return self._inside(schema)
        choices = {tag[1]: self.rewritten(choice) for tag, choice in zip(tags, schema["choices"], strict=True) if tag}
        return {"type": "tagged-union", "choices": choices, "discriminator": names.pop()}

    def _reference(self, alias: Any) -> dict[str, Any]:
        ref = next((ref for known, ref in self._refs if known == alias), None)
        if ref is None:
            kind: type[Any] = get_origin(alias) or alias
            ref = f"{kind.__module__}.{kind.__qualname__}:{len(self._refs)}.{id(kind)}"
            self._refs.append((alias, ref))  # before its fields, which may contain it
            self.definitions[ref] = {**self._definition(alias), "ref": ref}
        return {"type": "definition-ref", "schema_ref": ref}

    def _definition(self, alias: Any) -> dict[str, Any]:
        kind: type[Any] = get_origin(alias) or alias
        fields, make = (_struct_fields if issubclass(kind, msgspec.Struct) else _attrs_fields)(alias, kind)
        inner = _typed_dict(fields, kind.__name__, inspect.cleandoc(kind.__doc__) if kind.__doc__ else None)
        if inner["type"] == "definitions":
            self._originals.update(_by_ref(inner["definitions"]))
            for ref, entry in _by_ref(inner["definitions"]).items():
                if ref not in self.definitions:
                    self.definitions[ref] = entry
                    self.definitions[ref] = self.rewritten(entry)
            inner = inner["schema"]
        plain = {key: value for key, value in inner.items() if key != "ref"}
        schema = {**self.rewritten(plain), "extra_behavior": "forbid"}
        return {"type": "function-after", "function": {"type": "no-info", "function": make}, "schema": schema}


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that are invented are refused (spec 4.1.6), unless the class says otherwise."""
    return {} if "extra_fields_behavior" in schema.get("config", {}) else {"extra_behavior": "forbid"}


def _type_of(schema: Mapping[str, Any]) -> Any:
    return schema.get("metadata", {}).get("surehand_type", schema["cls"])


def _tag_of(choice: Any) -> tuple[str, str | int] | None:
    if not isinstance(choice, dict) or choice.get("type") != "is-instance" or not is_foreign(choice["cls"]):  # pyright: ignore[reportUnknownMemberType]
        return None
    config = getattr(choice["cls"], "__struct_config__", None)  # pyright: ignore[reportUnknownArgumentType]
    return None if config is None or config.tag is None else (config.tag_field, config.tag)


def _maker(kind: type[Any], names: Mapping[str, str]) -> Callable[[dict[str, Any]], Any]:
    def make(values: dict[str, Any]) -> Any:
        try:
            return kind(**{names[name]: value for name, value in values.items() if name in names})
        except (ValueError, AssertionError):
            raise  # pydantic makes a complaint of these itself, with the path
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    return make


# ---------------------------------------------------------------- msgspec


def _struct_fields(alias: Any, kind: type[Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    config: Any = getattr(kind, "__struct_config__")  # noqa: B009  (the checkers know no such attribute)
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    if config.tag is not None:
        fields[config.tag_field] = Literal[config.tag]
    for entry, hint in _struct_hints(alias, kind):
        fields[entry.encode_name] = hint if entry.required else _optional(hint, entry.default)
        names[entry.encode_name] = entry.name
    return fields, _maker(kind, names)


def _struct_hints(alias: Any, kind: type[Any]) -> list[tuple[Any, Any]]:
    try:
        return [(entry, entry.type) for entry in msgspec.structs.fields(alias)]
    except NameError:  # defined inside a function, and refers to itself
        hints = _hints_of(kind)
        defaults = dict(zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False))
        encoded = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
        return [(_Field(name, wire, defaults.get(name, NODEFAULT)), hints[name]) for name, wire in encoded]


class _Field:
    """What msgspec would say about the field, as far as it is needed here."""

    def __init__(self, name: str, encode_name: str, default: Any) -> None:
        self.name, self.encode_name = name, encode_name
        self.required = default is NODEFAULT
        self.default = default


def _hints_of(kind: type[Any]) -> dict[str, Any]:
    return typing_extensions.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)


def _optional(hint: Any, default: Any) -> Any:
    # The constructor fills in what is left out; only what a model can read is shown as a default.
    if isinstance(default, (str, int, float, bool, type(None))):
        return NotRequired[Annotated[hint, FieldInfo(default=default)]]
    return NotRequired[hint]


# ---------------------------------------------------------------- attrs


def _attrs_fields(alias: Any, kind: type[Any]) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]:
    hints = _hints_of(kind)
    values = dict(zip(getattr(kind, "__parameters__", ()), get_args(alias), strict=False))
    attributes: tuple[Any, ...] = getattr(kind, "__attrs_attrs__")  # noqa: B009
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for entry in attributes:
        if not entry.init:
            continue
        name = getattr(entry, "alias", None) or entry.name.lstrip("_")
        hint = substituted(_accepted(entry.converter, hints.get(entry.name, Any)), values)
        is_required = type(entry.default).__name__ == "_Nothing"  # of a package that may be absent
        fields[name] = hint if is_required else _optional(hint, entry.default)
        names[name] = name
    return fields, _maker(kind, names)


def _accepted(converter: Any, hint: Any) -> Any:
    """What the attribute can be made of: what its converter says it takes, else its own type."""
    function = getattr(converter, "converter", converter)
    if not inspect.isfunction(function):
        return hint
    first = next(iter(inspect.signature(function).parameters.values()), None)
    try:
        found = typing_extensions.get_type_hints(function, include_extras=True)
    except Exception:  # names that are not there at run time
        return hint
    return hint if first is None else found.get(first.name, hint)
