"""From the text that a model sent to a tool's arguments, or to an error that it can learn from (spec 4).

Two steps. First the text is validated as it is. Only if that fails are the failing places repaired, with the few
conversions that the coercion table allows and pydantic refuses, and validated again. Repairing first would break
unions: ``"[1]"`` for ``str | list`` has to stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from .._codec import clean_text
from ..errors import ToolArgumentsError
from ._json_text import NotJson, is_array, is_object, read_json
from ._places import Written
from ._problems import Problem, located
from ._refusals import misfit, not_an_object, object_in, refused
from ._repairs import beyond_repair, compact, fix, fix_quietly, schema_echo
from ._scalars import make_quick_repair
from ._schema import ArgumentsSchema, ValidationError, problems_of
from ._tool import Decoding, Repair

__all__ = ["Decoded", "Decoder", "make_decoder"]

Decoded = tuple[dict[str, Any], tuple[Repair, ...]]


class Decoder(Protocol):
    """Reads the arguments of one tool."""

    def __call__(self, text: str, decoding: Decoding = "repair", /) -> Decoded: ...


# JSON text inside of JSON text shows its own problems only once it is read: object, its fields, their fields.
_ROUNDS = 4

# Texts that must not be validated straight: numbers that become infinite or lose digits in binary, and the words that
# JSON has not. Up to 15 digits survive.
_NOT_FINITE = re.compile(r"[0-9](?:[eE]\+?[0-9]{3}|[0-9]{299})|NaN|Infinity")
_NOT_EXACT = re.compile(r"[0-9](?:[eE]|[0-9.]{16})|NaN|Infinity")
_LONG = re.compile(r"[0-9](?:[eE]|[0-9.]{16})")


def _doubt(schema: ArgumentsSchema) -> tuple[Callable[[str], object] | None, str]:
    """What tells which texts must be read with care, and a mark that those have."""
    if not schema.has_decimals and not schema.takes_anything:
        return None, ""
    if schema.takes_anything:
        return (_NOT_EXACT if schema.has_decimals else _NOT_FINITE).search, ""
    # Only decimals of our own, which notice for themselves what an exponent makes of a number without a point.
    return _LONG.search, "."


def make_decoder(schema: ArgumentsSchema, tool: str) -> Decoder:
    """The function that reads this tool's arguments; it raises ``ToolArgumentsError`` and nothing else."""
    validate, count = schema.validate_json, schema.count
    slow = _SlowDecoder(schema, tool)
    # Where all are plain, the careful way would cost several times as much as the reading itself.
    is_plain = schema.validate_leniently is not None and len(schema.scalars) == len(schema.names)
    quick_repair = slow.quick_repair if is_plain else None
    doubtful, mark = _doubt(schema)

    def decode(text: str, decoding: Decoding = "repair", /) -> Decoded:
        if doubtful is not None and mark in text and doubtful(text) is not None:
            return slow.decode(text, decoding)
        try:
            values = validate(text)
        except ValidationError as error:
            quick = quick_repair(text) if quick_repair is not None and decoding != "strict" else None
            return quick if quick is not None and len(quick[0]) == count else slow.failed(text, decoding, error)
        except Exception:  # a validator in the user's type, or text that has no UTF-8 form
            return slow.decode(text, decoding)
        if count is not None and len(values) != count:
            return slow.without_unknown(values, decoding, ())
        return values, ()

    return decode


class _SlowDecoder:
    """The same result for any text, however broken."""

    def __init__(self, schema: ArgumentsSchema, tool: str) -> None:
        self.schema = schema
        self.tool = tool
        lenient = schema.validate_leniently
        self.quick_repair = None if lenient is None else make_quick_repair(lenient, schema.scalars)

    def decode(self, text: str, decoding: Decoding) -> Decoded:
        """The whole way."""
        data, repairs = self._read(text, decoding)
        try:
            return self.without_unknown(self._validate(data), decoding, repairs)
        except ValidationError as error:
            problems = located(problems_of(error), data)
            return self._settled(data, error, problems, _Sent(text, decoding, repairs))

    def failed(self, text: str, decoding: Decoding, error: ValidationError) -> Decoded:
        """The way from a complaint about the text as it is."""
        complaints = problems_of(error)
        if not complaints[0]["loc"]:  # no JSON, or no object
            return self.decode(text, decoding)
        if self.quick_repair is not None and decoding != "strict" and self._are_of_scalars(complaints):
            quick = self.quick_repair(text)
            if quick is not None:
                return self.without_unknown(quick[0], decoding, quick[1])
        data, repairs = self._read(text, decoding)
        if self.schema.has_decimals and _has_decimal(data):  # what complained saw other numbers
            return self.decode(text, decoding)
        problems = located(complaints, data)
        if any(map(_is_of_another_value, problems)):  # the complaint is of the first of two values for one name
            return self.decode(text, decoding)
        return self._settled(data, error, problems, _Sent(text, decoding, repairs))

    def _are_of_scalars(self, complaints: list[dict[str, Any]]) -> bool:
        scalars = self.schema.scalars
        return all(len(complaint["loc"]) == 1 and complaint["loc"][0] in scalars for complaint in complaints)

    def without_unknown(self, values: dict[str, Any], decoding: Decoding, repairs: tuple[Repair, ...]) -> Decoded:
        """The values without names that the tool does not have, each reported (spec 4.1.6)."""
        schema = self.schema
        if schema.count is not None and len(values) == schema.count:
            return values, repairs
        known = {name: values[name] for name in schema.names if name in values}
        unknown = {name: value for name, value in values.items() if name not in known}
        if decoding != "strict" and (inner := schema_echo(unknown, schema)) is not None:
            # Every parameter has a default, and they must not stand in for what the model did send.
            found, more = self.decode(compact(inner), decoding)
            return found, (*repairs, Repair("", unknown, inner), *more)
        return known, (*repairs, *(Repair(clean_text(name), value, None) for name, value in unknown.items()))

    def _read(self, text: str, decoding: Decoding) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        try:
            data, repairs = read_json(text, exact=self.schema.has_decimals, decoding=decoding)
        except NotJson as error:
            raise ToolArgumentsError(not_an_object(self.tool, str(error), self.schema.json_schema)) from error
        return object_in(data, self.tool, self.schema.json_schema), repairs

    def _settled(self, data: dict[str, Any], cause: ValidationError, problems: list[Problem], sent: _Sent) -> Decoded:
        schema, repairs, decoding = self.schema, sent.repairs, sent.decoding
        written = Written(repairs[0].after if repairs else sent.text, exact=schema.has_decimals)
        if (quiet := fix_quietly(data, problems, schema, written)) is not None:
            try:
                return self.without_unknown(self._validate(quiet), decoding, repairs)
            except ValidationError:
                pass  # then it is repaired from the start, as a union may want it otherwise
        if decoding == "strict":
            self._refuse(problems, cause)
        for _ in range(_ROUNDS):
            data, made = fix(data, problems, schema, written)
            if made is None:
                break
            repairs = (*repairs, *made)
            try:
                return self.without_unknown(self._validate(data), decoding, repairs)
            except ValidationError as error:
                cause, problems = error, located(problems_of(error), data)
        self._refuse(beyond_repair(problems, schema, written), cause)

    def _validate(self, data: dict[str, Any]) -> dict[str, Any]:
        # As text again where possible: a user's strict model takes an ISO date from JSON, but not from a str.
        try:
            if self.schema.has_decimals and _has_decimal(data):
                return self.schema.validate_python(data)
            return self.schema.validate_json(compact(data))
        except ValidationError:
            raise
        except Exception as error:  # raised by a validator in the user's own type
            raise ToolArgumentsError(refused(self.tool, f"{type(error).__name__}: {error}")) from error

    def _refuse(self, problems: list[Problem], cause: ValidationError) -> NoReturn:
        raise ToolArgumentsError(misfit(self.tool, problems, self.schema.json_schema)) from cause


def _is_of_another_value(problem: Problem) -> bool:
    seen = None if problem.complaint is None else problem.complaint["input"]
    return type(seen) in (str, int, bool) and problem.received != seen and problem.kind != "key"


class _Sent:
    """What the model sent, how far it may be changed, and what was changed to read it."""

    __slots__ = ("decoding", "repairs", "text")

    def __init__(self, text: str, decoding: Decoding, repairs: tuple[Repair, ...]) -> None:
        self.text = text
        self.decoding: Decoding = decoding
        self.repairs = repairs


def _has_decimal(node: Any) -> bool:
    if is_object(node):
        return any(map(_has_decimal, node.values()))
    if is_array(node):
        return any(map(_has_decimal, node))
    return isinstance(node, Decimal)
