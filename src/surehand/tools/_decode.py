"""From the text that a model sent to a tool's arguments, or to an error that it can learn from (spec 4).

Two steps. First the text is validated as it is. Only if that fails are the failing places repaired, with the few
conversions that the coercion table allows and pydantic refuses, and validated again. Repairing first would break
unions: ``"[1]"`` for ``str | list`` has to stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from .._codec import clean_text
from ..errors import ToolArgumentsError
from ._json_text import NotJson, is_array, is_object, read_json
from ._places import Written
from ._problems import Problem, located
from ._refusals import arguments_of, misfit, not_an_object, object_in, refused
from ._repairs import beyond_repair, compact, fix, fix_quietly, is_hopeless, schema_echo
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

# So many problems are worth a look at the first ones.
_MANY = 300

# Texts that must not be validated straight: numbers that become infinite or lose digits in binary, and the words that
# JSON has not. Up to 15 digits survive, but no zeros at the end.
_NOT_FINITE = re.compile(r"[0-9](?:[eE]\+?[0-9]{3}|[0-9]{299})|NaN|Infinity")
_NOT_EXACT = re.compile(r"[0-9](?:[eE]|[0-9.]{16})|NaN|Infinity")
_NOT_AS_WRITTEN = re.compile(r"[0-9](?:[eE]|[0-9.]{16}|\.[0-9]*0(?![0-9]))|NaN|Infinity")
_LONG = re.compile(r"[0-9](?:[eE]|[0-9.]{16}|\.[0-9]*0(?![0-9]))")


def _doubt(schema: ArgumentsSchema) -> tuple[Callable[[str], object] | None, str]:
    """What tells which texts must be read with care, and a mark that those have."""
    if not schema.has_decimals and not schema.takes_anything:
        return None, ""
    if schema.takes_anything:
        if schema.keeps_scale:
            return _NOT_AS_WRITTEN.search, ""
        return (_NOT_EXACT if schema.has_decimals else _NOT_FINITE).search, ""
    # Only decimals of our own, which notice for themselves what becomes a whole number. So without a point, only a
    # negative exponent can make a fraction.
    return _LONG.search, "."


def make_decoder(schema: ArgumentsSchema, tool: str, what: str | None = None) -> Decoder:
    """The function that reads this tool's arguments; it raises ``ToolArgumentsError`` and nothing else.

    ``what`` names them in the texts that a model reads: "The arguments of …" unless it says otherwise.
    """
    validate, count, names = schema.validate_json, schema.count, frozenset(schema.names)
    keeps_unknown = schema.keeps_unknown
    slow = _SlowDecoder(schema, what or arguments_of(tool))
    # Where all are plain, the careful way would cost several times as much as the reading itself.
    is_plain = schema.validate_leniently is not None and len(schema.scalars) == len(schema.names)
    quick_repair = slow.quick_repair if is_plain else None
    doubtful, mark = _doubt(schema)

    def decode(text: str, decoding: Decoding = "repair", /) -> Decoded:
        if doubtful is not None and text and (mark in text or "-" in text) and doubtful(text) is not None:
            return slow.decode(text, decoding)
        try:
            values = validate(text)
        except ValidationError as error:
            quick = quick_repair(text) if quick_repair is not None and decoding != "strict" else None
            if quick is not None and (quick[0].keys() <= names if count is None else len(quick[0]) == count):
                return quick
            return slow.failed(text, decoding, error)
        except Exception:  # a validator in the user's type, or text that has no UTF-8 form
            return slow.decode(text, decoding)
        if len(values) == count or (count is None and keeps_unknown and values.keys() <= names):
            return values, ()
        return slow.without_unknown(values, None, _Sent(text, decoding, ()))

    return decode


class _SlowDecoder:
    """The same result for any text, however broken."""

    def __init__(self, schema: ArgumentsSchema, what: str) -> None:
        self.schema = schema
        self.what = what
        lenient = schema.validate_leniently
        self.quick_repair = None if lenient is None else make_quick_repair(lenient, schema.scalars)

    def decode(self, text: str, decoding: Decoding) -> Decoded:
        """The whole way; no text at all is blank text."""
        text = text or ""
        data, repairs = self._read(text, decoding)
        return self._decoded(data, _Sent(text, decoding, repairs))

    def _decoded(self, data: dict[str, Any], sent: _Sent) -> Decoded:
        try:
            return self.without_unknown(self._validate(data), data, sent)
        except ValidationError as error:
            complaints = problems_of(error)
            self._refuse_the_hopeless(complaints, data, error, sent)
            return self._settled(data, error, located(complaints, data), sent)

    def _refuse_the_hopeless(
        self, complaints: list[dict[str, Any]], data: dict[str, Any], cause: ValidationError, sent: _Sent
    ) -> None:
        # Looking at each of very many problems takes seconds, though the first few often tell how it ends.
        if len(complaints) <= _MANY:
            return
        problems, written = located(complaints[:_MANY], data), sent.written(self.schema)
        if not any(map(_is_of_another_value, problems)) and is_hopeless(problems, self.schema, written):
            left = problems if sent.decoding == "strict" else beyond_repair(problems, self.schema, written)
            self._refuse(left, cause)

    def failed(self, text: str, decoding: Decoding, error: ValidationError) -> Decoded:
        """The way from a complaint about the text as it is."""
        complaints = problems_of(error)
        if not complaints[0]["loc"]:  # no JSON, or no object
            return self.decode(text, decoding)
        if self.quick_repair is not None and decoding != "strict" and self._are_of_scalars(complaints):
            quick = self.quick_repair(text)
            if quick is not None:
                return self.without_unknown(quick[0], None, _Sent(text, decoding, quick[1]))
        data, repairs = self._read(text, decoding)
        if self.schema.has_decimals and _has_decimal(data):  # what complained saw other numbers
            return self.decode(text, decoding)
        sent = _Sent(text, decoding, repairs)
        self._refuse_the_hopeless(complaints, data, error, sent)
        problems = located(complaints, data)
        if any(map(_is_of_another_value, problems)):  # the complaint is of the first of two values for one name
            return self.decode(text, decoding)
        return self._settled(data, error, problems, sent)

    def _are_of_scalars(self, complaints: list[dict[str, Any]]) -> bool:
        scalars = self.schema.scalars
        return all(len(complaint["loc"]) == 1 and complaint["loc"][0] in scalars for complaint in complaints)

    def without_unknown(self, values: dict[str, Any], data: dict[str, Any] | None, sent: _Sent) -> Decoded:
        """The values without names that the tool does not have, each reported (spec 4.1.6).

        ``data`` is what they were made of, or ``None`` if it was not looked at for itself.
        """
        schema = self.schema
        known = {name: values[name] for name in schema.names if name in values}
        if schema.keeps_unknown and len(known) == len(values):
            return values, sent.repairs
        if data is None:  # which refuses what pydantic takes under a name that it does not know, such as NaN
            data = self._read(sent.text, sent.decoding)[0]
        unknown = {name: value for name, value in data.items() if name not in schema.sent_names}
        if (inner := self._echo(data, sent)) is not None:
            # Every parameter has a default, and they must not stand in for what the model did send.
            return self._decoded(inner, sent.inside(data, inner))
        return known, (*sent.repairs, *(Repair(clean_text(name), value, None) for name, value in unknown.items()))

    def _takes(self, found: dict[str, Any]) -> bool:
        # An object between other words may be an example or the answer to something else.
        inner = schema_echo(found, self.schema)
        return not self.schema.sent_names.isdisjoint(found if inner is None else inner)

    def _echo(self, data: dict[str, Any], sent: _Sent) -> dict[str, Any] | None:
        return None if sent.decoding == "strict" or sent.is_inner else schema_echo(data, self.schema)

    def _read(self, text: str, decoding: Decoding) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        try:
            schema = self.schema
            data, repairs = read_json(
                text, exact=schema.has_decimals, scale=schema.keeps_scale, decoding=decoding, takes=self._takes
            )
        except NotJson as error:
            raise ToolArgumentsError(not_an_object(self.what, str(error), self.schema.json_schema)) from error
        return object_in(data, self.what, self.schema.json_schema), repairs

    def _settled(self, data: dict[str, Any], cause: ValidationError, problems: list[Problem], sent: _Sent) -> Decoded:
        schema, written = self.schema, sent.written(self.schema)
        if (quiet := fix_quietly(data, problems, schema, written)) is not None:
            try:
                return self.without_unknown(self._validate(quiet), quiet, sent)
            except ValidationError:
                pass  # then it is repaired from the start, as a union may want it otherwise
        if sent.decoding == "strict":
            self._refuse(problems, cause)
        if all(problem.kind == "missing" for problem in problems) and (inner := self._echo(data, sent)) is not None:
            return self._decoded(inner, sent.inside(data, inner))
        for _ in range(_ROUNDS):
            data, made = fix(data, problems, schema, written)
            if made is None:
                break
            sent = sent.repaired(made)
            try:
                return self.without_unknown(self._validate(data), data, sent)
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
            raise ToolArgumentsError(refused(self.what, f"{type(error).__name__}: {error}")) from error

    def _refuse(self, problems: list[Problem], cause: ValidationError) -> NoReturn:
        raise ToolArgumentsError(misfit(self.what, problems, self.schema.json_schema)) from cause


def _is_of_another_value(problem: Problem) -> bool:
    seen = None if problem.complaint is None else problem.complaint["input"]
    return type(seen) in (str, int, bool) and problem.received != seen and problem.kind != "key"


@dataclass(frozen=True, slots=True)
class _Sent:
    """What the model sent, how far it may be changed, and what was changed so far.

    ``is_inner``: the arguments stood inside the words of a schema.
    """

    text: str
    decoding: Decoding
    repairs: tuple[Repair, ...]
    is_inner: bool = False

    def repaired(self, made: tuple[Repair, ...]) -> _Sent:
        return _Sent(self.text, self.decoding, (*self.repairs, *made), self.is_inner)

    def inside(self, data: dict[str, Any], inner: dict[str, Any]) -> _Sent:
        return _Sent(self.text, self.decoding, (*self.repairs, Repair("", data, inner)), is_inner=True)

    def written(self, schema: ArgumentsSchema) -> Written:
        """The numbers as they were written, in the text as it was read."""
        is_text_repair = bool(self.repairs) and self.repairs[0].path == "" and isinstance(self.repairs[0].before, str)
        text = self.repairs[0].after if is_text_repair else self.text
        written = Written(text, exact=schema.has_decimals, scale=schema.keeps_scale)
        if self.is_inner:
            written.enter("properties")
        return written


def _has_decimal(node: Any) -> bool:
    if is_object(node):
        return any(map(_has_decimal, node.values()))
    if is_array(node):
        return any(map(_has_decimal, node))
    return isinstance(node, Decimal)
