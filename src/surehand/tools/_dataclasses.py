"""Dataclasses that only their own constructor can make: pydantic would set the fields and never call it (spec 3.4.5).

Their core schema becomes that of the fields that the constructor takes, followed by the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ._unfillable import Unfillable

__all__ = ["called", "is_made_otherwise", "is_pydantic", "is_to_be_called"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_pydantic(schema: Mapping[str, Any]) -> bool:
    """Whether the schema of a dataclass is of one of pydantic's own, which follows its own configuration."""
    return hasattr(schema["cls"], "__pydantic_fields__") or schema["schema"]["type"] != "dataclass-args"


def is_to_be_called(kind: Any) -> bool:
    """Whether making an instance is more than setting the fields, or can fail in another way than a validator."""
    return hasattr(kind, "__post_init__") or is_made_otherwise(kind)  # pydantic calls the former, but not as safely


def is_made_otherwise(kind: Any) -> bool:
    """Whether pydantic, which only sets the fields, would make an instance that the class itself would not."""
    if kind.__new__ is not object.__new__ or type(kind).__call__ is not type.__call__:
        return True
    if kind.__setattr__ is not object.__setattr__ and not _is_generated(kind.__setattr__):
        return True
    owner: Any = next(base for base in kind.__mro__ if "__init__" in vars(base))
    fields = getattr(owner, "__dataclass_fields__", {})
    return not _is_generated(kind.__init__) or set(fields) != set(kind.__dataclass_fields__)


def called(
    schema: Mapping[str, Any], maker: Callable[[type[Any], Mapping[str, str]], Callable[[dict[str, Any]], Any]]
) -> dict[str, Any]:
    """The core schema of a dataclass that is made by calling it; raises ``Unfillable`` if that cannot work."""
    kind: Any = schema["cls"]
    entries = {entry["name"]: entry for entry in schema["schema"]["fields"] if entry.get("init", True)}
    parameters = _parameters(kind, entries)
    fields = {name: _field(entry, parameters.get(name)) for name, entry in entries.items()}
    inner: dict[str, Any] = {
        "type": "typed-dict",
        "fields": fields,
        "cls": _shown(kind),
        "extra_behavior": schema["schema"].get("extra_behavior", "ignore"),
    }
    if "config" in schema:
        inner["config"] = schema["config"]
    made: dict[str, Any] = {
        "type": "function-after",
        "function": {"type": "no-info", "function": maker(kind, {name: name for name in fields})},
        "schema": inner,
    }
    return {**made, "ref": schema["ref"]} if "ref" in schema else made


def _parameters(kind: Any, fields: Mapping[str, Any]) -> dict[str, inspect.Parameter]:
    """The parameters of the constructor by name; every field must be one, and every one without a default a field."""
    try:
        found = dict(inspect.signature(kind).parameters)
    except (TypeError, ValueError) as error:
        raise Unfillable(f"contains {kind.__name__}, whose constructor cannot be read ({error})") from error
    takes_any = any(entry.kind is entry.VAR_KEYWORD for entry in found.values())
    named = {name: entry for name, entry in found.items() if entry.kind in _NAMED}
    unknown = [] if takes_any else [name for name in fields if name not in named]
    missing = [
        name
        for name, entry in found.items()
        if entry.default is entry.empty and name not in fields and entry.kind in (*_NAMED, entry.POSITIONAL_ONLY)
    ]
    if unknown or missing:
        reason = f"does not take {unknown[0]!r}" if unknown else f"also needs {missing[0]!r}"
        raise Unfillable(
            f"contains {kind.__name__}, whose constructor is to be called with its fields but {reason}; let __init__ "
            "take the fields by name, or mark the others with field(init=False)"
        )
    return named


def _field(entry: Mapping[str, Any], parameter: inspect.Parameter | None) -> dict[str, Any]:
    """The field as the key of a typed dict; what is left out, the constructor fills in."""
    schema = entry["schema"]
    is_optional = schema["type"] == "default" if parameter is None else parameter.default is not parameter.empty
    if schema["type"] == "default":
        default = schema.get("default", schema)
        # Shown, and passed, only if the constructor would take the same.
        if parameter is None or parameter.default is not default:
            schema = schema["schema"]
    found: dict[str, Any] = {"type": "typed-dict-field", "schema": schema, "required": not is_optional}
    for key in ("validation_alias", "metadata"):
        if key in entry:
            found[key] = entry[key]
    return found


def _shown(kind: Any) -> type[Any]:
    """What the JSON schema takes the name and the description from; the text that dataclass makes itself is none."""
    doc: str | None = kind.__doc__
    written = None if doc is None or doc.startswith(f"{kind.__name__}(") else inspect.cleandoc(doc)
    return type(kind.__name__, (), {"__doc__": written, "__module__": kind.__module__})


def _is_generated(function: Any) -> bool:
    # If another Python names it differently, the class is called, which is slower and the same otherwise.
    return getattr(getattr(function, "__code__", None), "co_qualname", "").startswith("__create_fn__.")
