"""The conversions that the coercion table allows and pydantic refuses, applied to failing places only (spec 4.2)."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from .._codec import to_json
from ..errors import UserError
from ._json_text import NotJson, echoed, is_huge, is_number_text, is_object, read_json
from ._places import NOTHING, NewName, Written, changed, names_collide
from ._problems import Path, Problem, Step, show_path
from ._scalars import decimal_in, float_in, integer_in, truth_in
from ._schema import ArgumentsSchema
from ._tool import Repair

__all__ = ["beyond_repair", "compact", "fix", "fix_quietly", "is_hopeless", "schema_echo"]

_MOST = 1000  # more problems than anybody is told
_QUIET = {float, Decimal, type(None)}


class _Change(NamedTuple):
    """What a place becomes; ``NOTHING`` if its property is left out."""

    path: Path
    before: Any
    after: Any


_Changes: TypeAlias = list[_Change]


def fix(
    data: dict[str, Any], problems: Sequence[Problem], schema: ArgumentsSchema, written: Written
) -> tuple[dict[str, Any], tuple[Repair, ...] | None]:
    """The data with failing places repaired, and what was done; ``None`` when one of the places cannot be.

    In a union, the places are repaired for the first member for which all of them can be.
    """
    changes = _resolved(problems, lambda problem: _change(problem, schema, written))
    if not changes or names_collide(data, ((change.path, change.after) for change in changes)):
        return data, None
    made = [
        Repair(show_path(path), before, _shown(after))
        for path, before, after in changes
        if not _is_quiet(before, after)
    ]
    return _with(data, changes), tuple(made)


def fix_quietly(
    data: dict[str, Any], problems: Sequence[Problem], schema: ArgumentsSchema, written: Written
) -> dict[str, Any] | None:
    """The data with what needs no repair, though pydantic refuses it; ``None`` if there is no such place.

    A null for what has a default counts as absent (spec 3.6.1), and 2.0 is an integer in JSON schema.
    """
    if not any(type(problem.received) in _QUIET for problem in problems):
        return None
    changes = _resolved(problems, lambda problem: _quiet_change(problem, schema, written))
    return _with(data, changes) if changes else None


def is_hopeless(problems: Sequence[Problem], schema: ArgumentsSchema, written: Written) -> bool:
    """Whether these, the first of many problems, already tell that no repair settles all of them.

    The last place is not looked at: not all that is said about it may be among these.
    """
    places = [_place_before_unions(problem) for problem in problems]
    whole = [problem for problem, place in zip(problems, places, strict=True) if place != places[-1]]
    return bool(whole) and _resolved(whole, lambda problem: _change(problem, schema, written)) is None


def _place_before_unions(problem: Problem) -> tuple[Step, ...]:
    route = problem.route
    return next((route[:at] for at, (is_key, _) in enumerate(route) if not is_key), route)


def beyond_repair(problems: Sequence[Problem], schema: ArgumentsSchema, written: Written) -> list[Problem]:
    """The problems that no repair settles; all of them if each could be settled by itself."""
    places: dict[tuple[Step, ...], list[Problem]] = {}
    for problem in problems:
        places.setdefault(_place_before_unions(problem), []).append(problem)
    left: list[Problem] = []
    for here in places.values():
        if len(left) > _MOST:
            break
        if _resolved(here, lambda problem: _change(problem, schema, written)) is None:
            settled = {problem.path for problem in here[:_MOST] if _change(problem, schema, written) is not None}
            left += [problem for problem in here[:_MOST] if problem.path not in settled] or here[:_MOST]
    return left or list(problems[:_MOST])


def schema_echo(data: dict[str, Any], schema: ArgumentsSchema) -> dict[str, Any] | None:
    """The inner object, when the model wrapped all its arguments as ``{"properties": {…}}``."""
    inner = echoed(data)
    if inner is None or not schema.sent_names.isdisjoint(data):
        return None
    is_schema = all(is_object(value) and "type" in value for value in inner.values())
    return inner if inner and not is_schema else None


# ---------------------------------------------------------------- which places


@dataclass(slots=True)
class _Node:
    """A place in the data, or what a member of a union says about it."""

    problems: list[Problem] = field(default_factory=list[Problem])
    keys: list[_Node] = field(default_factory=list["_Node"])
    members: list[_Node] = field(default_factory=list["_Node"])
    found: _Changes | None = None


def _resolved(problems: Sequence[Problem], change: Callable[[Problem], _Change | None]) -> _Changes | None:
    """The changes that settle the problems; ``None`` if there are none."""
    if not any(problem.is_in_a_union for problem in problems):
        changes: _Changes = []
        for problem in problems:
            if (made := change(problem)) is None:
                return None
            changes.append(made)
        return changes
    nodes = _tree(problems)
    for node in reversed(nodes):  # children come after their parents
        node.found = _settled(node, change)
    return nodes[0].found


def _tree(problems: Sequence[Problem]) -> list[_Node]:
    nodes = [_Node()]
    by_route: dict[tuple[int, Step], int] = {}
    for problem in problems:
        at = 0
        for step in problem.route:
            if (at, step) not in by_route:
                by_route[at, step] = len(nodes)
                nodes.append(_Node())
                (nodes[at].keys if step[0] else nodes[at].members).append(nodes[-1])
            at = by_route[at, step]
        nodes[at].problems.append(problem)
    return nodes


def _settled(node: _Node, change: Callable[[Problem], _Change | None]) -> _Changes | None:
    inside = _together([child.found for child in node.keys]) if node.keys else None
    if inside is not None:
        return inside
    # A member that takes the value with changes inside of it comes before one that wants another kind of value.
    ways = [child for child in node.members if child.found is not None]
    deep = [child for child in ways if child.keys]
    if ways:
        found = [child.found for child in deep or ways]
        return next((changes for changes in found if not _loses_digits(changes)), found[0])
    made = (change(problem) for problem in node.problems)
    return next(([one] for one in made if one is not None), None)


def _shown(after: Any) -> Any:
    return str(after) if type(after) is NewName else after


def _loses_digits(changes: _Changes | None) -> bool:
    """Whether a number sent as text became a float that is not that number: 9007199254740993 for ``float | int``."""
    return any(
        type(after) is float and type(before) is str and Decimal(repr(after)) != Decimal(before.strip())
        for _, before, after in changes or ()
    )


def _with(data: dict[str, Any], changes: _Changes) -> dict[str, Any]:
    made: dict[str, Any] = changed(data, ((change.path, change.after) for change in changes))
    return made


def _together(parts: list[_Changes | None]) -> _Changes | None:
    changes: _Changes = []
    for part in parts:
        if part is None:
            return None
        changes += part
    return changes or None


# ---------------------------------------------------------------- one place


def _is_quiet(before: Any, after: Any) -> bool:
    return type(before) in _QUIET and (after is NOTHING or isinstance(after, (int, float)))


def _change(problem: Problem, schema: ArgumentsSchema, written: Written) -> _Change | None:
    if type(problem.received) in _QUIET and (quiet := _quiet_change(problem, schema, written)) is not None:
        return quiet
    if problem.kind == "key":
        after = _new_name(problem, schema)
    elif problem.kind == "enum":
        after = _member(schema.enums.get(str(problem.context.get("expected"))), problem.received)
    else:
        repair = _BY_KIND.get(problem.kind)
        after = NOTHING if repair is None or not problem.path else repair(problem.received, problem.path, written)
    return None if after is NOTHING else _Change(problem.path, problem.received, after)


def _new_name(problem: Problem, schema: ArgumentsSchema) -> Any:
    is_enum = problem.complaint is not None and problem.complaint["type"] == "enum"
    kind = schema.enums.get(str(problem.context.get("expected"))) if is_enum else None
    found = _member(kind, problem.received)
    return NewName(found) if isinstance(found, str) else NOTHING


def _quiet_change(problem: Problem, schema: ArgumentsSchema, written: Written) -> _Change | None:
    received, after = problem.received, NOTHING
    if received is None:
        return _Change(problem.path, None, NOTHING) if _is_optional(problem.path, schema) else None
    if isinstance(received, (float, Decimal)):
        if problem.kind in ("int_type", "int_from_float"):
            after = _as_int(received, problem.path, written)
        elif problem.kind in ("float_type", "float_parsing"):
            after = _as_float(received, problem.path, written)
    return None if after is NOTHING else _Change(problem.path, received, after)


def _is_optional(path: Path, schema: ArgumentsSchema) -> bool:
    """Whether a property may be left out there, whichever member of a union its object is read as."""
    if len(path) == 1:
        return path[0] in schema.defaulted
    root = schema.json_schema or {}
    options = [root]
    for key in path[:-1]:
        options = [inner for option in options for inner in _inside(option, key, root)]
    objects = [member for option in options for member in _members(option, root)]
    if any(_is_entry(member, path[-1]) for member in objects):
        return False
    return any(
        path[-1] in member.get("properties", ()) and path[-1] not in member.get("required", ()) for member in objects
    )


def _is_entry(schema: dict[str, Any], key: str | int) -> bool:
    """Whether a property of that name would be an entry of a map, which must not get lost."""
    if schema.get("type", "object") != "object" or key in schema.get("properties", ()):
        return False
    return "properties" not in schema or schema.get("additionalProperties", False) is not False


def _inside(schema: dict[str, Any], key: str | int, root: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[Any] = []
    for option in _members(schema, root):
        if isinstance(key, int):
            first = option.get("prefixItems", ())
            found.append(first[key] if key < len(first) else option.get("items"))
        else:
            found.append(option.get("properties", {}).get(key, option.get("additionalProperties")))
    return [option for option in found if is_object(option)]


def _members(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    waiting, found = [schema], list[dict[str, Any]]()
    while waiting:
        option = waiting.pop()
        if "$ref" in option:
            waiting.append(root.get("$defs", {}).get(str(option["$ref"]).rsplit("/", 1)[-1], {}))
        elif "anyOf" in option:
            waiting.extend(option["anyOf"])
        else:
            found.append(option)
    return found


# ---------------------------------------------------------------- one cell each


def _as_int(value: Any, path: Path, written: Written) -> Any:
    if (found := integer_in(value)) is not None:
        return found
    if isinstance(value, (float, Decimal)) and value == 0:
        return 0  # however its exponent is written
    if isinstance(value, float):
        value = written.at(path) or repr(value)
    if not isinstance(value, (str, Decimal)) or not is_number_text(str(value)) or is_huge(str(value)):
        return NOTHING
    number = Decimal(str(value).strip())
    whole = int(number)
    return whole if number == whole else NOTHING


def _as_float(value: Any, path: Path, written: Written) -> Any:
    if not isinstance(value, Decimal):
        return _or_nothing(float_in(value))
    number = float(value)
    return number if math.isfinite(number) else NOTHING


def _as_decimal(value: Any, path: Path, written: Written) -> Any:
    return _or_nothing(decimal_in(value))


def _as_bool(value: Any, path: Path, written: Written) -> Any:
    return _or_nothing(truth_in(value))


def _or_nothing(found: Any) -> Any:
    return NOTHING if found is None else found


def _as_text(value: Any, path: Path, written: Written) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal)):
        return written.at(path) or str(value)
    if isinstance(value, (list, dict)):
        return compact(value)
    return NOTHING


def compact(value: Any) -> str:
    """Compact JSON of what was read from JSON."""
    try:
        return to_json(value).decode()
    except UserError:  # integers of more than 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _as_array(value: Any, path: Path, written: Written) -> Any:
    return _decoded(value, list, written)


def _as_object(value: Any, path: Path, written: Written) -> Any:
    return _decoded(value, dict, written)


def _as_object_or_array(value: Any, path: Path, written: Written) -> Any:
    return _decoded(value, (dict, list), written)


def _decoded(value: Any, kind: type | tuple[type, ...], written: Written) -> Any:
    if not isinstance(value, str) or not value.strip():
        return NOTHING
    try:
        found, _ = read_json(
            value, exact=written.exact, scale=written.scale, decoding="strict"
        )  # once, and nothing else
    except NotJson:
        return NOTHING
    return found if isinstance(found, kind) else NOTHING


def _member(kind: type[enum.Enum] | None, value: Any) -> Any:
    """The value of the constant with that name, else of the only one that differs in case alone."""
    if kind is None or not isinstance(value, str):
        return NOTHING
    if value in kind.__members__:
        return kind.__members__[value].value
    wanted = value.casefold()
    found = {
        member.name: member.value
        for name, member in kind.__members__.items()
        if wanted == name.casefold() or (isinstance(member.value, str) and wanted == member.value.casefold())
    }
    return next(iter(found.values())) if len(found) == 1 else NOTHING


_BY_KIND: Mapping[str, Callable[[Any, Path, Written], Any]] = {
    "int_type": _as_int,
    "int_parsing": _as_int,
    "int_from_float": _as_int,
    "float_type": _as_float,
    "float_parsing": _as_float,
    "decimal_type": _as_decimal,
    "decimal_parsing": _as_decimal,
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
    "named_tuple_type": _as_object_or_array,
}
