"""What is wrong with arguments, said so that a model can correct itself (spec 4.2.3, 4.3.3)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, TypeAlias

from msgspec import Struct

from ._json_text import is_array, is_huge, is_number_text, is_object

__all__ = ["Path", "Problem", "Step", "describe", "explain", "located", "show_path"]

Path: TypeAlias = tuple[str | int, ...]
Step: TypeAlias = tuple[bool, str | int]

_ABSENT: Any = object()
_NO_CONTEXT: Mapping[str, Any] = {}
_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument", "missing_positional_only_argument")
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument", "unexpected_positional_argument")
_NOT_CONVERTIBLE = "not convertible"
_OUT_OF_RANGE = "out of range"

_TYPES = {
    "an integer": ("int_type", "int_parsing", "int_parsing_size"),
    "a number": ("float_type", "float_parsing", "decimal_type", "decimal_parsing"),
    "true or false": ("bool_type", "bool_parsing"),
    "text": ("string_type", "string_sub_type", "string_unicode", "bytes_type", "url_type"),
    "an array": (
        "list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type", "iteration_error",
    ),
    "an object": (
        "dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type", "dataclass_exact_type",
        "arguments_type",
    ),
    "an array or an object": ("named_tuple_type",),
    "null": ("none_required",),
    "base64 text": ("bytes_invalid_encoding",),
    "a UUID": ("uuid_type", "uuid_parsing"),
    "JSON text": ("json_type", "json_invalid"),
}  # fmt: skip
_TYPE_OF = {kind: name for name, kinds in _TYPES.items() for kind in kinds}

# What is said of the other kinds: the sort of problem, and what was expected, filled in from pydantic's context.
_SAID: dict[str, tuple[str, str]] = {
    "int_from_float": ("non-integer value", "an integer"),
    "single_character": (_NOT_CONVERTIBLE, "a single character"),
    "finite_number": (_OUT_OF_RANGE, "a finite number"),
    "greater_than": (_OUT_OF_RANGE, "more than {gt}"),
    "greater_than_equal": (_OUT_OF_RANGE, "at least {ge}"),
    "less_than": (_OUT_OF_RANGE, "less than {lt}"),
    "less_than_equal": (_OUT_OF_RANGE, "at most {le}"),
    "multiple_of": (_OUT_OF_RANGE, "a multiple of {multiple_of}"),
    "decimal_max_digits": (_OUT_OF_RANGE, "at most {max_digits} digits"),
    "decimal_max_places": (_OUT_OF_RANGE, "at most {decimal_places} digits after the point"),
    "decimal_whole_digits": (_OUT_OF_RANGE, "at most {whole_digits} digits before the point"),
    "string_too_short": (_OUT_OF_RANGE, "a text of at least {min_length} characters"),
    "string_too_long": (_OUT_OF_RANGE, "a text of at most {max_length} characters"),
    "bytes_too_short": (_OUT_OF_RANGE, "at least {min_length} bytes"),
    "bytes_too_long": (_OUT_OF_RANGE, "at most {max_length} bytes"),
    "too_short": (_OUT_OF_RANGE, "at least {min_length} items"),
    "too_long": (_OUT_OF_RANGE, "at most {max_length} items"),
    "string_pattern_mismatch": ("", "a text that matches the pattern {pattern}"),
    "uuid_version": ("", "a UUID of version {expected_version}"),
    "enum": ("not a valid enum value", "{expected}"),
    "literal_error": ("not a valid enum value", "{expected}"),
    "union_tag_not_found": ("", "an object whose {discriminator} says which kind it is"),
    "union_tag_invalid": ("not a valid enum value", "an object with one of {expected_tags} as its {discriminator}"),
}


class Problem(Struct, frozen=True):
    """One complaint: its kind in pydantic's words, where it is in the data, and how to tell the model.

    ``trouble`` is the sort of problem (spec 4.2.3). ``route`` is the path with the members of unions that were tried
    in between: each step says whether it is a key of the data. A complaint of pydantic's is put into words only when
    somebody reads them: most are repaired.
    """

    kind: str
    path: Path
    received: Any
    expected: str
    context: Mapping[str, Any]
    trouble: str = ""
    route: tuple[Step, ...] = ()
    complaint: Mapping[str, Any] | None = None

    @property
    def words(self) -> tuple[str, str]:
        """The sort of problem, and what was expected."""
        return (self.trouble, self.expected) if self.complaint is None else _said(self.complaint, self.received)

    @property
    def is_in_a_union(self) -> bool:
        """Whether members of a union were tried on the way."""
        return len(self.route) != len(self.path)


# ---------------------------------------------------------------- in words


def explain(problems: Sequence[Problem], most: int = 20) -> str:
    """One clause per place; what the members of a union would accept is joined by "or"."""
    places: dict[Path, list[Problem]] = {}
    for problem in problems:
        places.setdefault(problem.path, []).append(problem)
    clauses = [_clause(path, here) for path, here in islice(places.items(), most)]
    left = len(places) - len(clauses)
    return "; ".join([*clauses, f"and {left} more"] if left else clauses)


def _clause(path: Path, here: Sequence[Problem]) -> str:
    place = show_path(path) or "the arguments"
    if here[0].received is _ABSENT:
        return f"{place}: missing"
    said = [problem.words for problem in here]
    troubles = list(dict.fromkeys(trouble for trouble, _ in said))
    trouble = troubles[0] if len(troubles) == 1 else "none of the possible types"
    options = list(dict.fromkeys(expected for _, expected in said))
    rest = [option.removeprefix("expected ") for option in options[1:]]
    wanted = " or ".join([options[0], *rest])
    return f"{place}: {trouble + ': ' if trouble else ''}{wanted}, received {describe(here[0].received)}"


def show_path(path: Sequence[str | int]) -> str:
    """``("order", "items", 2, "qty")`` as ``order.items[2].qty``; an empty name as ``[""]``."""
    parts = [f"[{key}]" if isinstance(key, int) else f".{_cut(key)}" if key else '[""]' for key in path]
    return "".join(parts).removeprefix(".")


def describe(value: Any) -> str:
    """The kind of a JSON value and, if it is short, the value: ``text "x"``, ``an array``."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return f"the number {_number(value)}"
        case str():
            return f"the text {_quoted(value)}"
        case _ if is_array(value):
            return f"an array of {len(value)}"
        case _ if is_object(value):
            return f"an object with {_cut(', '.join(map(_quoted, islice(value, 10))), 60) or 'no properties'}"
        case _:
            return "something else"


def _number(value: float | Decimal) -> str:
    if isinstance(value, int) and value.bit_length() > 500:  # its digits cost their square, and may be forbidden
        return "of more than 100 digits"
    return _cut(str(value))


def _quoted(text: str) -> str:
    return _cut(json.dumps(text[:41], ensure_ascii=False))


def _cut(text: str, most: int = 40) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


# ---------------------------------------------------------------- from pydantic's complaints


def located(errors: Sequence[dict[str, Any]], data: Any) -> list[Problem]:
    """The errors with their places in the data; names of union members, which pydantic mixes in, are no part of it."""
    return [_problem(error, data) for error in errors]


def _problem(error: dict[str, Any], data: Any) -> Problem:
    kind, location = error["type"], error["loc"]
    node: Any = data
    # Nearly always each step is a key of the data.
    for key in location:
        if is_object(node) and key in node:
            node = node[str(key)]
        elif is_array(node) and type(key) is int and key < len(node):
            node = node[key]
        else:
            return _problem_of_a_member(error, data)
    if _is_of_a_member(error, node):
        return _problem_of_a_member(error, data)
    route = tuple([(True, key) for key in location])
    return Problem(kind, location, node, "", error.get("ctx", _NO_CONTEXT), "", route, error)


def _problem_of_a_member(error: dict[str, Any], data: Any) -> Problem:
    kind, node, location = error["type"], data, error["loc"]
    route: list[Step] = []
    last = len(location) - 1
    for position, key in enumerate(location):
        is_key = True
        if is_object(node) and key in node and not (position == last and _is_of_a_member(error, node[str(key)])):
            node = node[str(key)]
        elif is_array(node) and isinstance(key, int) and key < len(node):
            node = node[key]
        elif position == last and kind in _MISSING:
            node = _ABSENT
        else:
            is_key = False
        route.append((is_key, key))
    path = tuple([key for is_key, key in route if is_key])
    if location and location[-1] == "[key]" and isinstance(error["input"], str):
        node, kind = error["input"], "key"  # of the name, so nothing that a value could be made of
    return Problem(kind, path, node, "", error.get("ctx", _NO_CONTEXT), "", tuple(route), error)


def _is_huge_number(text: str) -> bool:
    return is_number_text(text) and is_huge(text)


def _has_fraction(value: Any) -> bool:
    if isinstance(value, str):
        return is_number_text(value) and (number := Decimal(value.strip())) != number.to_integral_value()
    return isinstance(value, (float, Decimal))


def _is_of_a_member(error: dict[str, Any], found: Any) -> bool:
    """Whether the last step is the name of a union's member, though the object has a property of that name."""
    return type(error["input"]) is dict and type(found) is not dict and error["type"] not in _MISSING


def _said(error: Mapping[str, Any], received: Any) -> tuple[str, str]:
    kind = error["type"]
    if error["loc"] and error["loc"][-1] == "[key]":
        trouble, expected = _said({**error, "loc": ()}, received)
        return trouble, f"{expected} as its name"
    if kind in ("int_type", "int_parsing") and isinstance(received, str) and _is_huge_number(received):
        return _OUT_OF_RANGE, "expected a smaller integer"
    if kind in ("int_type", "int_parsing") and _has_fraction(received):
        kind = "int_from_float"
    if kind in _TYPE_OF:
        return _NOT_CONVERTIBLE, f"expected {_TYPE_OF[kind]}"
    if kind in _UNKNOWN:
        return "", "there is no such property"
    if kind in _SAID:
        trouble, template = _SAID[kind]
        context = {key: _cut(_shown(value), 300) for key, value in error.get("ctx", {}).items()}
        return trouble, "expected " + template.format_map(context)
    return "", _in_our_words(str(error["msg"]))


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _in_our_words(message: str) -> str:
    """Complaints of users' validators, and the rare ones of pydantic, without the phrases it puts around them."""
    message = re.sub(r"^(Value error|Assertion failed), ", "", message)
    message = re.sub(r"^Input should be\b", "expected", message)
    return _cut(re.sub(r"\bInput\b", "the value", message), 300)
