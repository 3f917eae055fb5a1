"""Finds the valid arguments from which only stringification separates what a model sent (spec 4.2, 4.3).

Only what does not fit is changed. Of alternatives that can be reached, one of the JSON type that was sent is taken
before others, then the one that declares most of the names that were sent, then the one with the fewest changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from ._json_exact import read_exact, write_json
from ._json_schema_check import Failure, SchemaCheck, TooMuch, value_at
from ._json_schema_near import DeclaredNames, kind_of
from ._json_text import NotJson, is_array, is_number_text, is_object
from ._places import NOTHING, Written, changed
from ._problems import Path, show_path
from ._tool import Repair

__all__ = ["Mended", "mended", "without_inner_nulls", "without_nulls"]

_ROUNDS = 16  # JSON text inside of JSON text shows its own problems only once it is read
_STEPS = 20_000
_Change: TypeAlias = tuple[Any, tuple[Repair, ...]]
_KEYWORDS = ("enum", "const", "anyOf", "oneOf", "type")  # the most telling first


@dataclass(frozen=True, slots=True)
class Mended:
    """A value after its repairs, as far as they went; ``is_too_much`` if the search for them was given up."""

    value: Any
    is_valid: bool
    repairs: tuple[Repair, ...] = ()
    is_too_much: bool = False


def mended(data: dict[str, Any], check: SchemaCheck, written: Written) -> Mended:
    """The arguments with the places repaired that can be; raises ``TooMuch`` when that takes too many steps.

    ``written`` is what the model sent: a number that has to be text becomes the text that it was.
    """
    return _Search(check, written).mended(data, "", ())


def without_nulls(data: dict[str, Any], check: SchemaCheck) -> dict[str, Any]:
    """Without the nulls that are not allowed for a property that need not be there: they count as absent (rule M)."""
    if None not in data.values():
        return data
    required = {failure.detail.get("property") for failure in check.failures({}, "") if not failure.path}
    absent = {
        failure.path[0]
        for failure in check.failures(data, "")
        if len(failure.path) == 1 and failure.is_declared and data[str(failure.path[0])] is None
    }
    kept = {name: value for name, value in data.items() if name not in absent or name in required}
    return kept if len(kept) < len(data) else data


def without_inner_nulls(data: dict[str, Any], check: SchemaCheck) -> Mended:
    """The arguments without nulls for what has a default, at any depth, and otherwise as they are."""
    return _Search(check, Written("", exact=True), is_quiet=True).mended(data, "", ())


@dataclass(slots=True)
class _Search:
    check: SchemaCheck
    written: Written
    is_quiet: bool = False  # nothing is repaired then
    steps: int = 0
    known: dict[tuple[Path, int, str], Mended] = field(default_factory=dict[tuple[Path, int, str], Mended])
    kept: list[Any] = field(default_factory=list[Any])  # what is known by identity must not make room for others
    names: DeclaredNames = field(init=False)

    def __post_init__(self) -> None:
        self.names = DeclaredNames(self.check.schema)

    def mended(self, value: Any, pointer: str, path: Path) -> Mended:
        """The value, which is at that place, made to fit that part of the schema."""
        key = (path, id(value), pointer)
        if key not in self.known:
            self.kept.append(value)
            self.known[key] = Mended(value, False)  # for a schema that leads back to itself
            self.known[key] = self._mended(value, pointer, path)
        return self.known[key]

    def _mended(self, value: Any, pointer: str, path: Path) -> Mended:
        repairs: tuple[Repair, ...] = ()
        for _ in range(_ROUNDS):
            self._count(1)
            if self.check.fits(value, pointer):
                return Mended(value, True, repairs)
            changes = self._changes(value, pointer, path)
            if not changes:
                break
            value = (
                changes[()][0] if () in changes else changed(value, [(at, after) for at, (after, _) in changes.items()])
            )
            repairs += tuple(repair for _, made in changes.values() for repair in made)
        return Mended(value, False, repairs)

    def _changes(self, value: Any, pointer: str, path: Path) -> dict[Path, _Change]:
        changes: dict[Path, _Change] = {}
        absent: list[Path] = []
        for place, failures in self._places(value, pointer).items():
            here = value_at(value, place)
            if here is None and any(failure.is_declared and failure.has_default for failure in failures):
                absent.append(place)
            elif (change := self._change(here, failures, (*path, *place))) is not None:
                changes[place] = change
        if absent:
            without = changed(value, [(place, NOTHING) for place in absent])
            needed = {
                (*failure.path, failure.detail["property"])
                for failure in self.check.failures(without, pointer)
                if failure.keyword == "required"
            }
            changes |= {place: (NOTHING, ()) for place in absent if place not in needed}
        # What becomes of the whole takes the place of what would become of its parts.
        return {at: change for at, change in changes.items() if not any(at[:n] in changes for n in range(len(at)))}

    def _places(self, value: Any, pointer: str) -> dict[Path, list[Failure]]:
        found = [failure for failure in self.check.failures(value, pointer) if failure.keyword in _KEYWORDS]
        places: dict[Path, list[Failure]] = {}
        for failure in sorted(found, key=lambda failure: _KEYWORDS.index(failure.keyword)):
            places.setdefault(failure.path, []).append(failure)
        return places

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _STEPS:
            raise TooMuch

    def _change(self, value: Any, failures: Sequence[Failure], path: Path) -> _Change | None:
        for failure in failures:
            if failure.branches:
                best = self._nearest(value, failure, path)
                if best is not None:
                    return best.value, best.repairs
            elif not self.is_quiet and (after := self._converted(value, failure, path)) is not NOTHING:
                return after, (Repair(show_path(path), value, after),)
        return None

    def _nearest(self, value: Any, failure: Failure, path: Path) -> Mended | None:
        """The nearest alternative that can be reached; none if two are as near and differ only in case."""
        self._count(len(failure.branches))
        reached: list[tuple[tuple[bool, int, int], Mended]] = []
        for branch in failure.branches:
            each = self.mended(value, branch, path)
            is_reached = each.is_valid and each.value is not value
            if is_reached and (failure.keyword == "anyOf" or self._fitting(each.value, failure) == 1):
                reached.append((self._rank(value, each, branch), each))
        if not reached:
            return None
        least = min(rank for rank, _ in reached)
        nearest = [each for rank, each in reached if rank == least]
        folded = {each.value for each in nearest if isinstance(each.value, str)}
        is_doubtful = isinstance(value, str) and len(folded) > 1
        return None if is_doubtful else nearest[0]

    def _rank(self, value: Any, found: Mended, branch: str) -> tuple[bool, int, int]:
        is_of_another_kind = kind_of(found.value) != kind_of(value)
        return is_of_another_kind, -self.names.count(found.value, branch), len(found.repairs)

    def _fitting(self, value: Any, failure: Failure) -> int:
        return sum(self.check.fits(value, branch) for branch in failure.branches)

    def _converted(self, value: Any, failure: Failure, path: Path) -> Any:
        match failure.keyword:
            case "type":
                return self._of_type(value, failure.detail["types"], path)
            case "enum":
                return self._member(value, failure.detail["options"], path)
            case _:
                return self._member(value, [failure.detail["expected_value"]], path)

    def _of_type(self, value: Any, types: Sequence[str], path: Path) -> Any:
        if isinstance(value, str):
            found = next((found for found in _read(value) if _is_of(found, types)), NOTHING)
            if found is not NOTHING and "integer" in types and "number" not in types:
                return _whole(found)
            return found
        if isinstance(value, (float, Decimal)) and "integer" in types:  # 2.0, where the draft takes no fraction at all
            return _whole(value) if _is_whole(value) else NOTHING
        return next(self._texts(value, path), NOTHING) if "string" in types else NOTHING

    def _texts(self, value: Any, path: Path) -> Iterator[str]:
        """What the value is as text; numbers, also those in it, first as they were written."""
        if isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, (int, float, Decimal)):
            written = self.written.at(path)
            yield from [written] if written is not None else []
            yield write_json(value)
        elif value is not None:
            plain = write_json(value)
            tokens = self.written.tokens_at(path)
            if (is_object(tokens) or is_array(tokens)) and _plainly(sent := write_json(tokens)) == plain:
                yield sent
            yield plain

    def _member(self, value: Any, options: Sequence[Any], path: Path) -> Any:
        """The option that is the value but for stringification, or else the only one that is it but for case too."""
        for option in options:
            if self._is_meant(option, value, path, in_any_case=False):
                return option
        folded = [option for option in options if self._is_meant(option, value, path, in_any_case=True)]
        return folded[0] if len(folded) == 1 else NOTHING

    def _is_meant(self, option: Any, value: Any, path: Path, *, in_any_case: bool) -> bool:
        if is_object(option) and is_object(value):
            return option.keys() == value.keys() and all(
                self._is_meant(option[key], value[key], (*path, key), in_any_case=in_any_case) for key in option
            )
        if is_array(option) and is_array(value):
            pairs = enumerate(zip(option, value, strict=False))
            return len(option) == len(value) and all(
                self._is_meant(one, other, (*path, number), in_any_case=in_any_case) for number, (one, other) in pairs
            )
        if isinstance(option, str) and isinstance(value, str):
            return option == value or (in_any_case and option.casefold() == value.casefold())
        if isinstance(option, str):
            return option in self._texts(value, path)
        if isinstance(value, str):
            return any(self._is_meant(option, found, path, in_any_case=in_any_case) for found in _read(value))
        return bool(option == value) and isinstance(option, bool) == isinstance(value, bool)


# ---------------------------------------------------------------- one value


def _read(text: str) -> Iterator[Any]:
    """What the text is as JSON: a number, true or false in any case, null, an array or an object."""
    word = text.strip().lower()
    if is_number_text(text):
        try:  # through Decimal, since a model may write +7 or 007
            yield read_exact(f"[{Decimal(text.strip())}]")[0][0]
        except NotJson:  # too large
            return
    elif word in ("true", "false"):
        yield word == "true"
    elif word == "null":
        yield None
    elif word[:1] in ("[", "{", '"'):
        try:
            found, _ = read_exact(text)
        except NotJson:
            return
        if is_object(found) or is_array(found):
            yield found


def _plainly(text: str) -> str | None:
    """The JSON text, which is sound, with its numbers as we write them."""
    try:
        return write_json(read_exact(text, "strict")[0])
    except NotJson:  # nested too deeply, once its texts were read
        return None


def _is_of(value: Any, types: Sequence[str]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return "number" in types or "integer" in types
        case float() | Decimal():
            return "number" in types or ("integer" in types and _is_whole(value))
        case _:
            return ("object" if is_object(value) else "array") in types


def _is_whole(value: float | Decimal) -> bool:
    return value == value.to_integral_value() if isinstance(value, Decimal) else float(value).is_integer()


def _whole(value: Any) -> Any:
    if isinstance(value, float):
        return int(Decimal(repr(value)))  # of what is written as 1e23 the digits count, not those of the binary number
    return int(value) if isinstance(value, Decimal) else value
