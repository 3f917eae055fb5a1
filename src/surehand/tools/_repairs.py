"""The conversions that the coercion table allows and pydantic refuses, applied to failing places only (spec 4.2)."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ._json_text import NotJson, Token, is_array, is_number_text, is_object, read_json, tokens_of
from ._problems import Path, Problem, show_path
from ._schema import ArgumentsSchema
from ._tool import Repair

__all__ = ["fix"]

_NOTHING: Any = object()
_SCHEMA_WORDS = {"properties", "type", "required", "additionalProperties"}


def fix(
    data: dict[str, Any], problems: Sequence[Problem], schema: ArgumentsSchema, text: str
) -> tuple[dict[str, Any], tuple[Repair, ...] | None]:
    """The data with failing places repaired, and what was done; ``None`` when one of the places cannot be.

    A null for a parameter that has a default counts as absent and is no repair (spec 3.6.1).
    """
    if (unwrapped := _schema_echo(data, problems, schema)) is not None:
        return unwrapped, (Repair("", data, unwrapped),)
    places: dict[Path, list[Problem]] = {}
    for problem in problems:
        places.setdefault(problem.path, []).append(problem)
    written = _Written(text)
    changes: dict[Path, Any] = {}
    for path, here in places.items():
        if _is_absent_default(path, here[0].received, schema):
            changes[path] = _NOTHING
            continue
        # In a union the complaints of one member may be beyond repair while another's are not.
        found = (_repaired(problem, schema, written) for problem in here)
        after = next((value for value in found if value is not _NOTHING), _NOTHING)
        if after is not _NOTHING:
            changes[path] = after
    if not changes:
        return data, None
    made = (
        Repair(show_path(path), places[path][0].received, after)
        for path, after in changes.items()
        if after is not _NOTHING
    )
    return _changed(data, changes), tuple(made)


def _is_absent_default(path: Path, received: Any, schema: ArgumentsSchema) -> bool:
    return received is None and len(path) == 1 and path[0] in schema.defaulted


def _schema_echo(data: dict[str, Any], problems: Sequence[Problem], schema: ArgumentsSchema) -> dict[str, Any] | None:
    """The inner object, when the model wrapped its arguments as ``{"properties": {…}}``."""
    inner = data.get("properties")
    is_echo = "properties" not in schema.names and set(data) <= _SCHEMA_WORDS
    return inner if is_echo and is_object(inner) and all(problem.kind == "missing" for problem in problems) else None


def _changed(data: dict[str, Any], changes: Mapping[Path, Any]) -> dict[str, Any]:
    """A copy with the changes; what a path leads through is copied once, however many changes are in it."""
    copies: dict[Path, Any] = {(): data.copy()}

    def copy_at(path: Path) -> Any:
        if path not in copies:
            parent = copy_at(path[:-1])
            copies[path] = parent[path[-1]] = parent[path[-1]].copy()
        return copies[path]

    for path in sorted(changes, key=len, reverse=True):
        parent = copy_at(path[:-1])
        if changes[path] is _NOTHING:
            del parent[path[-1]]
        else:
            parent[path[-1]] = changes[path]
    root: dict[str, Any] = copies[()]
    return root


def _repaired(problem: Problem, schema: ArgumentsSchema, written: _Written) -> Any:
    if problem.kind == "enum":
        return _member(schema.enums.get(str(problem.context.get("expected"))), problem.received)
    repair = _BY_KIND.get(problem.kind)
    return _NOTHING if repair is None else repair(problem.received, problem.path, written)


# ---------------------------------------------------------------- one cell each


def _as_int(value: Any, path: Path, written: _Written) -> Any:
    if isinstance(value, float):
        value = written.at(path) or repr(value)
    if not isinstance(value, (str, Decimal)) or not is_number_text(str(value)):
        return _NOTHING
    number = Decimal(str(value).strip())
    whole = int(number)
    return whole if number == whole else _NOTHING


def _as_float(value: Any, path: Path, written: _Written) -> Any:
    if not isinstance(value, (str, Decimal)) or not is_number_text(str(value)):
        return _NOTHING
    number = float(value)
    return number if math.isfinite(number) else _NOTHING


def _as_bool(value: Any, path: Path, written: _Written) -> Any:
    lowered = value.lower() if isinstance(value, str) else None
    return {"true": True, "false": False}.get(lowered or "", _NOTHING)


def _as_text(value: Any, path: Path, written: _Written) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)):
        return written.at(path) or str(value)
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return _NOTHING


def _as_array(value: Any, path: Path, written: _Written) -> Any:
    return _decoded(value, list)


def _as_object(value: Any, path: Path, written: _Written) -> Any:
    return _decoded(value, dict)


def _decoded(value: Any, kind: type) -> Any:
    if not isinstance(value, str) or not value.strip():
        return _NOTHING
    try:
        found, _ = read_json(value)
    except NotJson:
        return _NOTHING
    return found if isinstance(found, kind) else _NOTHING


def _member(kind: type[enum.Enum] | None, value: Any) -> Any:
    """The value of the constant with that name, else of the only one that differs in case alone."""
    if kind is None or not isinstance(value, str):
        return _NOTHING
    if value in kind.__members__:
        return kind.__members__[value].value
    wanted = value.casefold()
    found = {
        member.name: member.value
        for name, member in kind.__members__.items()
        if wanted == name.casefold() or (isinstance(member.value, str) and wanted == member.value.casefold())
    }
    return next(iter(found.values())) if len(found) == 1 else _NOTHING


class _Written:
    """The numbers of a text as the model wrote them; the text is read again only when one is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._root: Any = _NOTHING

    def at(self, path: Path) -> str | None:
        """The number at that place, if it can still be found."""
        if self._root is _NOTHING:
            self._root = tokens_of(self._text)
        node = self._root
        for key in path:
            if is_object(node) and key in node:
                node = node[str(key)]
            elif is_array(node) and isinstance(key, int) and key < len(node):
                node = node[key]
            else:
                return None
        return str(node) if isinstance(node, Token) else None


_BY_KIND: dict[str, Callable[[Any, Path, _Written], Any]] = {
    "int_type": _as_int,
    "int_parsing": _as_int,
    "int_from_float": _as_int,
    "float_type": _as_float,
    "float_parsing": _as_float,
    "bool_type": _as_bool,
    "bool_parsing": _as_bool,
    "string_type": _as_text,
    "list_type": _as_array,
    "tuple_type": _as_array,
    "set_type": _as_array,
    "frozen_set_type": _as_array,
    "dict_type": _as_object,
    "mapping_type": _as_object,
    "model_type": _as_object,
    "model_attributes_type": _as_object,
    "dataclass_type": _as_object,
    "arguments_type": _as_object,
}
