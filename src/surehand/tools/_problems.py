"""What is wrong with arguments, said so that a model can correct itself (spec 4.2.3, 4.3.3)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from ._json_text import is_array, is_object

__all__ = ["Path", "Problem", "describe", "explain", "located", "show_path"]

Path: TypeAlias = tuple[str | int, ...]

_ABSENT: Any = object()
_TYPE_NAMES = {
    "int_type": "an integer", "int_parsing": "an integer", "int_from_float": "an integer", "float_type": "a number",
    "float_parsing": "a number", "bool_type": "true or false", "bool_parsing": "true or false",
    "string_type": "text", "list_type": "an array", "tuple_type": "an array", "set_type": "an array",
    "frozen_set_type": "an array", "dict_type": "an object", "model_type": "an object",
    "model_attributes_type": "an object", "dataclass_type": "an object", "decimal_type": "a number",
    "decimal_parsing": "a number", "finite_number": "a finite number", "none_required": "null",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """One complaint: its kind in pydantic's words, where it is in the data, and how to tell the model."""

    kind: str
    path: Path
    received: Any
    expected: str
    context: dict[str, Any]


def explain(problems: Sequence[Problem], most: int = 20) -> str:
    """One clause per place; what the members of a union would accept is joined by "or"."""
    places: dict[Path, list[Problem]] = {}
    for problem in problems:
        places.setdefault(problem.path, []).append(problem)
    clauses = [_clause(path, here) for path, here in list(places.items())[:most]]
    left = len(places) - len(clauses)
    return "; ".join([*clauses, f"and {left} more"] if left else clauses)


def _clause(path: Path, here: Sequence[Problem]) -> str:
    if here[0].received is _ABSENT:
        return f"{show_path(path)}: missing"
    options = list(dict.fromkeys(problem.expected for problem in here))
    rest = [option.removeprefix("expected ") for option in options[1:]]
    return f"{show_path(path)}: {' or '.join([options[0], *rest])}, received {describe(here[0].received)}"


def show_path(path: Sequence[str | int]) -> str:
    """``("order", "items", 2, "qty")`` as ``order.items[2].qty``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in path]
    return "".join(parts).removeprefix(".")


def describe(value: Any) -> str:
    """The kind of a JSON value and, if it is short, the value: ``text "x"``, ``an array``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return f"the number {_cut(str(value))}"
        case str():
            return f"the text {_cut(json.dumps(value, ensure_ascii=False))}"
        case _ if is_array(value):
            return f"an array of {len(value)}"
        case _ if is_object(value):
            return f"an object with {_cut(', '.join(map(repr, value)), 60) or 'no properties'}"
        case _:
            return type(value).__name__


def _cut(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def located(errors: Sequence[dict[str, Any]], data: Any) -> list[Problem]:
    """The errors with their places in the data; names of union members, which pydantic mixes in, are left out."""
    return [_problem(error, data) for error in errors]


def _problem(error: dict[str, Any], data: Any) -> Problem:
    kind, node = error["type"], data
    path: list[str | int] = []
    for position, key in enumerate(error["loc"]):
        is_last = position == len(error["loc"]) - 1
        if is_object(node) and key in node:
            node = node[str(key)]
        elif is_array(node) and isinstance(key, int) and key < len(node):
            node = node[key]
        elif is_last and kind in ("missing", "missing_argument", "missing_keyword_only_argument"):
            node = _ABSENT
        else:
            continue
        path.append(key)
    return Problem(kind, tuple(path), node, _expected(error, node), error.get("ctx", {}))


def _expected(error: dict[str, Any], received: Any) -> str:
    kind, message = error["type"], str(error["msg"])
    if kind in ("int_type", "int_from_float") and isinstance(received, (float, Decimal)):
        return "expected an integer, but it has a fraction"
    if kind in _TYPE_NAMES:
        return f"expected {_TYPE_NAMES[kind]}"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "there is no such property"
    message = message.removeprefix("Value error, ")
    return message.replace("Input should be", "expected", 1) if message.startswith("Input should be") else message
