"""A JSON schema that came with a tool, compiled: whether a value fits, and every single reason why not.

The only importer of jsonschema-rs. Nothing is ever fetched, whatever a schema refers to.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ._json_schema_plain import every_schema, is_legacy, part_of, plain_schema, pointer_to, with_sound_references
from ._json_schema_possible import why_no_object_fits
from ._json_text import is_array, is_object
from ._problems import Path, show_path

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["UNCHECKED", "Failure", "SchemaCheck", "TooMuch", "value_at"]

UNCHECKED = "pattern (unchecked)"  # the keyword of a failure to tell whether a text matches

_ROOT = "surehand://schema/"  # with a path, so that what a schema calls itself by a relative address resolves
_AT = "surehand:at"
_REF = "surehand:ref"
# A pattern may try that many ways per text; then the text counts as one that cannot be checked.
_BACKTRACKING = 100_000
_MOST = 50_000  # failures of one value, each of which takes some twenty microseconds to tell
_OF_NAMES = (["additionalProperties"], ["propertyNames"])
_BESIDE_A_REFERENCE = ("$schema", "$id", "id", "$defs", "definitions")


class TooMuch(Exception):
    """Finding out what is wrong with a value takes more steps than it may."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One keyword that a value does not satisfy.

    ``path`` leads to the place in the value, ``detail`` is what the keyword wants. ``branches`` are the alternatives
    of an ``anyOf`` or ``oneOf``. Of a null, ``is_declared`` tells whether it is that of a declared property, and not of
    one that only other rules cover, and ``has_default`` whether a default is declared for it.
    """

    keyword: str
    path: Path
    detail: Mapping[str, Any]
    message: str
    branches: tuple[str, ...] = ()
    is_declared: bool = False
    has_default: bool = False


def value_at(value: Any, path: Path) -> Any:
    """What the path leads to, which must be there."""
    for key in path:
        value = value[key]
    return value


class SchemaCheck:
    """The schema of one tool. ``""`` is the pointer to all of it, ``"/properties/x"`` the pointer to a part."""

    def __init__(self, schema: Mapping[str, Any], tool: str) -> None:
        self._rs = _library(tool)
        self.schema = with_sound_references(plain_schema(schema, tool))
        self._options: dict[str, Any] = {
            "validate_formats": False,
            "offline": True,
            "pattern_options": self._rs.FancyRegexOptions(backtrack_limit=_BACKTRACKING),
        }
        try:
            self.is_valid: Callable[[Any], bool] = self._rs.validator_for(self.schema, **self._options).is_valid
        except Exception as error:
            raise UserError(_no_schema(self.schema, tool, error)) from error
        if (reason := why_no_object_fits(self.schema)) is not None:
            raise UserError(
                f"tool {tool!r}: its parameters would refuse every call, as {reason}; "
                "a JSON schema that objects fit is expected, such as one of type 'object'"
            )
        self._judges: dict[str, jsonschema_rs.Validator] = {}
        self._explainers: dict[str, jsonschema_rs.Validator] = {}
        self._explaining: tuple[jsonschema_rs.Registry, dict[str, Any]] | None = None
        self._registry: jsonschema_rs.Registry | None = None

    def fits(self, value: Any, pointer: str) -> bool:
        """Whether the value fits that part of the schema."""
        judge = self._judges.get(pointer)
        if judge is None:
            registry = self._registry = self._registry or self._rs.Registry([(_ROOT, self.schema)])
            judge = self._judges[pointer] = self._compiled(pointer, registry, {})
        return judge.is_valid(value)

    def failures(self, value: Any, pointer: str, enough: int | None = None) -> list[Failure]:
        """Why the value does not fit that part of the schema, or ``enough`` of it; alternatives are not looked into.

        What references lead to counts as written in place. Each part is applied once to each place, so that parts
        that refer to themselves twice do not double the work with each level. Raises ``TooMuch``.
        """
        found: list[Failure] = []
        todo: list[tuple[Path, str, bool, bool]] = [((), pointer, False, False)]
        seen: set[tuple[Path, str]] = {((), pointer)}
        while todo:
            path, part, is_declared, has_default = todo.pop()
            here = value_at(value, path)
            for error in self._explainer(part).iter_errors(here):
                inner = _full_path(error.instance_path, here, "\n\nOn instance{}:\n", error)
                failure = self._failure(error, (*path, *inner), value_at(here, inner))
                if not inner:
                    failure = replace(failure, is_declared=is_declared, has_default=failure.has_default or has_default)
                if failure.keyword != _REF:
                    found.append(failure)
                elif (step := (failure.path, error.message)) not in seen:
                    seen.add(step)
                    todo.append((*step, failure.is_declared, failure.has_default))
                if len(found) + len(seen) > _MOST:
                    raise TooMuch
                if enough is not None and len(found) >= enough:
                    return found
        return found

    def _failure(self, error: jsonschema_rs.ValidationError, path: Path, value: Any) -> Failure:
        keyword = error.kind.name
        branches: tuple[str, ...] = ()
        detail: Mapping[str, Any] = {}
        if keyword in ("anyOf", "oneOf"):
            branches = tuple(error.message.split())
        elif keyword == "falseSchema" and error.schema_path[-1:] in _OF_NAMES:
            # Where no name is allowed at all, the library complains about the object.
            keyword, detail = "additionalProperties", {"unexpected": list(value)}
        elif keyword != _REF:
            detail = error.kind.as_dict()
            detail = {"schema": _without_stops(detail["schema"])} if keyword == "not" else detail
            keyword = UNCHECKED if keyword == "pattern" and "pattern" not in detail else keyword
        failure = Failure(keyword, path, detail, error.message, branches)
        return failure if value is not None or not path else self._of_null(failure, error)

    def _of_null(self, failure: Failure, error: jsonschema_rs.ValidationError) -> Failure:
        declared = self._declaration(error, failure.path[-1])
        places = [pointer_to(declared)] if declared else []
        places += [error.message] if failure.keyword == _REF else []
        has_default = any("default" in (part_of(self.schema, place) or ()) for place in places)
        return replace(failure, is_declared=bool(declared), has_default=has_default)

    def _declaration(self, error: jsonschema_rs.ValidationError, name: str | int) -> Path:
        """Where the property of that name is declared, if what is wrong is wrong with such a property."""
        *place, keyword = error.schema_path
        path = (*_full_path(place, self.schema, " in schema{}\n\n", error), keyword)
        ends = [at + 2 for at, step in enumerate(pairwise(path)) if step == ("properties", name)]
        return path[: ends[-1]] if ends else ()

    def _explainer(self, pointer: str) -> jsonschema_rs.Validator:
        explainer = self._explainers.get(pointer)
        if explainer is None:
            if self._explaining is None:
                registry = self._rs.Registry([(_ROOT, _with_stops(self.schema))])
                self._explaining = registry, {key: _stop(self, key) for key in ("anyOf", "oneOf", _REF)}
            explainer = self._explainers[pointer] = self._compiled(pointer, *self._explaining)
        return explainer

    def _compiled(
        self, pointer: str, registry: jsonschema_rs.Registry, keywords: dict[str, Any]
    ) -> jsonschema_rs.Validator:
        # The draft of the whole also for the part, or else its own keywords would be unknown to the part.
        draft = {"$schema": self.schema["$schema"]} if "$schema" in self.schema else {}
        whole = {**draft, "$ref": f"{_ROOT}#{pointer}"}
        made: jsonschema_rs.Validator = self._rs.validator_for(
            whole, registry=registry, keywords=keywords, **self._options
        )
        return made


def _full_path(path: list[str | int], root: Any, frame: str, error: jsonschema_rs.ValidationError) -> Path:
    """The path with the names in it that are empty: the library leaves those out, except where it shows the path."""
    node = root
    for key in path:
        if is_object(node) and "" in node:
            break
        if not (is_array(node) or is_object(node)):
            return tuple(path)
        node = value_at(node, (key,)) if is_array(node) or key in node else None
    if not (is_object(node) and "" in node):
        return tuple(path)
    message = error.verbose_message
    return next((way for way in _ways(path, root) if frame.format(_as_shown(way)) in message), tuple(path))


def _ways(path: Sequence[str | int], root: Any) -> Iterator[Path]:
    """The path, with empty names between its steps wherever something has that name; the shortest first."""
    todo: deque[tuple[Path, Any, int]] = deque([((), root, 0)])
    while todo:
        way, node, used = todo.popleft()
        if used == len(path):
            yield way
        elif (is_object(node) and path[used] in node) or (is_array(node) and isinstance(path[used], int)):
            todo.append(((*way, path[used]), value_at(node, (path[used],)), used + 1))
        if is_object(node) and "" in node:
            todo.append(((*way, ""), node[""], used))


def _as_shown(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f'["{key}"]' for key in path)


# ---------------------------------------------------------------- where an explanation stops


def _with_stops(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a mark at each alternative and each reference, which the validator then leaves to ``_stop``.

    By itself it would list what is wrong with every alternative inside of every alternative, which doubles the time
    with each level of a value.
    """
    hides_others = is_legacy(schema)
    has_parts_of_its_own = any(
        path and isinstance(node.get(key), str) for path, node in every_schema(schema) for key in ("$id", "id")
    )
    changed = plain_schema(schema, "")  # as a copy, which is changed below
    for path, node in list(every_schema(changed)):
        if "anyOf" in node or "oneOf" in node:
            node[_AT] = pointer_to(path)
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#") and not has_parts_of_its_own:
            if hides_others:  # there a reference hides what stands beside it
                for key in [key for key in node if key not in _BESIDE_A_REFERENCE]:
                    del node[key]
            node.pop("$ref", None)
            node[_REF] = reference
    return changed


def _without_stops(schema: Any) -> Any:
    """The schema as it was, for showing it."""
    if is_array(schema):
        return [_without_stops(item) for item in schema]
    if not is_object(schema):
        return schema
    return {"$ref" if key == _REF else key: _without_stops(item) for key, item in schema.items() if key != _AT}


def _stop(check: SchemaCheck, keyword: str) -> type[Any]:
    """A keyword that says whether it holds, and in its complaint where to look on."""
    # The check keeps validators that keep this class, and no garbage collector sees through those.
    fits = weakref.WeakMethod(check.fits)

    class Stop:
        def __init__(self, parent: Mapping[str, Any], value: Any, path: list[str | int]) -> None:
            numbers = range(0 if keyword == _REF else len(value))
            branches = tuple(f"{parent[_AT]}/{keyword}/{number}" for number in numbers)
            self.pointers = (str(value)[1:],) if keyword == _REF else branches

        def validate(self, instance: Any) -> None:
            judge = fits()
            assert judge is not None, "the check, whose validator is asking, is gone"
            fitting = sum(judge(instance, pointer) for pointer in self.pointers)
            if not (fitting == 1 if keyword == "oneOf" else fitting):
                raise ValueError(" ".join(self.pointers))

    return Stop


# ---------------------------------------------------------------- what is refused when a tool is made


def _library(tool: str) -> ModuleType:
    try:
        import jsonschema_rs
    except ImportError as error:
        raise UserError(
            f"tool {tool!r}: checking its parameters, a JSON schema, needs jsonschema-rs; "
            "install it with pip install 'surehand[schema]'"
        ) from error
    return jsonschema_rs


def _no_schema(schema: dict[str, Any], tool: str, error: Exception) -> str:
    message = str(getattr(error, "message", error)).splitlines()[0]
    where = show_path(getattr(error, "instance_path", ())) or _blamed_reference(schema, message)
    place = f"at {where}: " if where else ""
    return f"tool {tool!r}: its parameters are not a JSON schema that can be used: {place}{message[:300]}"


def _blamed_reference(schema: dict[str, Any], message: str) -> str:
    """The place of the reference that the message is about."""
    if message.startswith("Unknown meta-schema"):
        return "$schema"
    for path, node in every_schema(schema):
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = node.get(key)
            if isinstance(reference, str) and (reference.strip("#") or reference) in message:
                return show_path((*path, key))
    return ""
