"""What a schema complains about, as the problems that the arguments of functions have too (spec 4.2.3, 4.3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ._json_exact import write_json
from ._json_schema_check import UNCHECKED, Failure, SchemaCheck, TooMuch, value_at
from ._json_schema_near import DeclaredNames, kind_of
from ._json_text import is_array, is_object
from ._problems import Path, Problem, located

__all__ = ["problems_in"]

_MOST = 100  # problems to look into: the text has room for fewer
_ENOUGH = 1000  # failures of one part of the data, of which some only follow from others
_STEPS = 2000

_TYPES = {
    "integer": "int_type", "number": "float_type", "boolean": "bool_type", "string": "string_type",
    "array": "list_type", "object": "dict_type", "null": "none_required",
}  # fmt: skip

_IMPOSSIBLE = "no value is possible here"
_ABOUT_NAMES = ("required", "additionalProperties", "unevaluatedProperties")

# The name that pydantic has for the same complaint, and for the limit in it.
_LIMITS = {
    "minimum": ("greater_than_equal", "ge", "limit"),
    "exclusiveMinimum": ("greater_than", "gt", "limit"),
    "maximum": ("less_than_equal", "le", "limit"),
    "exclusiveMaximum": ("less_than", "lt", "limit"),
    "multipleOf": ("multiple_of", "multiple_of", "multiple_of"),
    "minLength": ("string_too_short", "min_length", "limit"),
    "maxLength": ("string_too_long", "max_length", "limit"),
    "minItems": ("too_short", "min_length", "limit"),
    "maxItems": ("too_long", "max_length", "limit"),
    "pattern": ("string_pattern_mismatch", "pattern", "pattern"),
}


def problems_in(data: Any, check: SchemaCheck, sent: Any) -> list[Problem]:
    """What is wrong with the data; of alternatives, what the nearest one says, or several that are as near.

    ``sent`` is the data as the model sent it, before some of it was repaired: that is what it can recognise.
    Raises ``TooMuch`` when that cannot be found out in a bounded number of steps.
    """
    return [_as_sent(problem, sent) for problem in located(_Explainer(check).errors(data, "")[:_MOST], data)]


def _as_sent(problem: Problem, sent: Any) -> Problem:
    if problem.kind == "missing":
        return problem
    for key in problem.path:
        is_there = key in sent if is_object(sent) else is_array(sent) and isinstance(key, int) and key < len(sent)
        if not is_there:  # it is in what was text
            return problem
        sent = value_at(sent, (key,))
    return replace(problem, received=sent)


class _Explainer:
    """One search; what was found out about a part of the data is not found out again."""

    def __init__(self, check: SchemaCheck) -> None:
        self._check = check
        self._names = DeclaredNames(check.schema)
        self._steps = 0
        # By identity, which is safe: the data that is explained outlives the search.
        self._known: dict[tuple[int, str], list[dict[str, Any]]] = {}

    def errors(self, value: Any, pointer: str) -> list[dict[str, Any]]:
        """The complaints in pydantic's form, places relative to the value."""
        key = (id(value), pointer)
        if key not in self._known:
            self._steps += 1
            if self._steps > _STEPS:
                raise TooMuch
            self._known[key] = []  # for a schema that leads back to itself
            self._known[key] = self._found(value, pointer)
        return self._known[key]

    def _found(self, value: Any, pointer: str) -> list[dict[str, Any]]:
        places: dict[Path, list[Failure]] = {}
        for failure in self._check.failures(value, pointer, _ENOUGH):
            places.setdefault(failure.path, []).append(failure)
        errors: list[dict[str, Any]] = []
        for path, failures in places.items():
            here = value_at(value, path)
            for failure in _decisive(failures):
                if failure.branches:
                    errors += (_below(path, error) for error in self._nearest(here, failure))
                else:
                    errors += (_below(path, error) for error in _complaints(failure, here))
                if len(errors) > _MOST:
                    return errors
        return errors

    def _nearest(self, value: Any, failure: Failure) -> list[dict[str, Any]]:
        found = [self.errors(value, branch) for branch in failure.branches]
        if not all(found):
            several = sum(not errors for errors in found) > 1
            text = "expected one alternative to fit, but several do" if several else "expected one alternative to fit"
            return [_error("one_of", value, text)]
        counts = [self._names.count(value, branch) for branch in failure.branches]
        ranks = [_rank(errors, value, count) for errors, count in zip(found, counts, strict=True)]
        nearest = [errors for errors, rank in zip(found, ranks, strict=True) if rank == min(ranks)]
        if min(ranks)[:2] > (0, 0) and is_object(value) and (tags := _tags_of(found)):
            return tags
        if all(not error["loc"] for errors in nearest for error in errors):
            return [error for errors in nearest for error in errors]
        return nearest[0]


def _rank(errors: Sequence[Mapping[str, Any]], value: Any, declared: int) -> tuple[int, int, int, int]:
    """How far an alternative is from the value: another type, another constant, fewer names, more that is wrong."""
    distance = max((_distance(error, kind_of(value)) for error in errors if not error["loc"]), default=0)
    return distance, sum(map(_is_tag, errors)), -declared, len(errors)


def _distance(error: Mapping[str, Any], kind: str) -> int:
    if error["type"] == "falseSchema":
        return 3
    if error["type"] == "literal_error":
        return 1 if kind in error["kinds"] else 2
    if error["type"] == "int_type" and kind == "number":
        return 1
    return 2 if error["type"] in _TYPES.values() else 0


def _tags_of(found: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The complaints about the one property whose constant tells the alternatives that are objects apart."""
    tags = [error for errors in found for error in errors if _is_tag(error)]
    is_one = len({error["loc"] for error in tags}) == 1
    return tags if is_one else []


def _is_tag(error: Mapping[str, Any]) -> bool:
    return error["type"] == "literal_error" and len(error["loc"]) == 1


def _decisive(failures: list[Failure]) -> list[Failure]:
    """The complaint about one place from which the others follow, or the first: of several, "or" would be said."""
    for keywords in (("enum", "const"), ("type",)):
        if found := [failure for failure in failures if failure.keyword in keywords]:
            return found[:1]
    # What alternatives have looked at is not known where they are left out, so it may be no complaint at all.
    evaluated = [failure for failure in failures if not failure.keyword.startswith("unevaluated")]
    return _with_all_names(evaluated or failures)


def _with_all_names(failures: list[Failure]) -> list[Failure]:
    """The first complaint and, as they are about other places, those about single properties."""
    about_names = [failure for failure in failures if failure.keyword in _ABOUT_NAMES]
    others = [failure for failure in failures if failure.keyword not in _ABOUT_NAMES]
    return others[:1] + about_names


def _below(path: Path, error: dict[str, Any]) -> dict[str, Any]:
    return {**error, "loc": (*path, *error["loc"])}


def _error(kind: str, value: Any, message: str = "", path: Path = (), **context: Any) -> dict[str, Any]:
    return {"type": kind, "loc": path, "msg": message, "input": value, "ctx": context}


def _complaints(failure: Failure, value: Any) -> Iterable[dict[str, Any]]:
    detail, keyword = failure.detail, failure.keyword
    if keyword in _LIMITS:
        kind, name, key = _LIMITS[keyword]
        limit = detail[key]
        return [_error(kind, value, f"Input should satisfy {keyword} {limit}", **{name: limit})]
    match keyword:
        case "type":
            return [_error(_TYPES[name], value) for name in sorted(detail["types"], key="null".__eq__)]
        case "enum" | "const":
            options = detail["options"] if keyword == "enum" else [detail["expected_value"]]
            if not options:
                return [_error("falseSchema", value, _IMPOSSIBLE)]
            error = _error("literal_error", value, expected=_any_of(options))
            return [{**error, "kinds": set(map(kind_of, options))}]
        case "required":
            return [_error("missing", value, path=(detail["property"],))]
        case "additionalProperties" | "unevaluatedProperties":
            return [_error("extra_forbidden", value[name], path=(name,)) for name in detail["unexpected"]]
        case "not" if detail["schema"] in ({}, True):
            return [_error("falseSchema", value, _IMPOSSIBLE)]
        case _:
            say = _SAID.get(keyword)
            return [_error(keyword, value, say(detail) if say else failure.message)]


_SAID: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "minProperties": lambda detail: f"expected at least {_properties(detail['limit'])}",
    "maxProperties": lambda detail: f"expected at most {_properties(detail['limit'])}",
    "additionalItems": lambda detail: f"expected at most {detail['limit']} items",
    "unevaluatedItems": lambda detail: f"expected no items at {detail['unexpected']}",
    "uniqueItems": lambda detail: "expected items that all differ",
    "contains": lambda detail: (
        "expected other items: not as many as must be, or more than may be, are of a certain kind"
    ),
    "propertyNames": lambda detail: f"expected other property names than {_short_json(detail['error'].instance)}",
    "falseSchema": lambda detail: _IMPOSSIBLE,
    "not": lambda detail: f"expected something else than what fits {_short_json(detail['schema'])}",
    UNCHECKED: lambda detail: "expected a text that can be checked against the pattern; this one takes too many steps",
}


def _properties(limit: int) -> str:
    return "1 property" if limit == 1 else f"{limit} properties"


def _any_of(options: Sequence[Any]) -> str:
    shown = [repr(option) if isinstance(option, str) else _short_json(option) for option in options]
    return ", ".join(shown[:-1]) + " or " + shown[-1] if len(shown) > 1 else "".join(shown)


def _short_json(value: Any) -> str:
    text = write_json(value)
    return text if len(text) <= 60 else text[:59] + "…"
