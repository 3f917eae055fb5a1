"""From the text that a model sent to a tool's arguments, or to an error that it can learn from (spec 4).

Two steps. First the text is validated as it is. Only if that fails are the failing places repaired, with the few
conversions that the coercion table allows and pydantic refuses, and validated again. Repairing first would break
unions: ``"[1]"`` for ``str | list`` has to stay text.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Protocol

from .._codec import clean_text
from ..errors import ToolArgumentsError
from ._json_text import NotJson, is_array, is_object, read_json
from ._problems import Problem, describe, explain, located
from ._repairs import fix
from ._schema import ArgumentsSchema, ValidationError, problems_of
from ._tool import Decoding, Repair

__all__ = ["Decoded", "Decoder", "make_decoder"]

Decoded = tuple[dict[str, Any], tuple[Repair, ...]]


class Decoder(Protocol):
    """Reads the arguments of one tool."""

    def __call__(self, text: str, decoding: Decoding = "repair", /) -> Decoded: ...


# JSON text inside of JSON text shows its own problems only once it is read: object, its fields, their fields.
_ROUNDS = 3


def make_decoder(schema: ArgumentsSchema, tool: str) -> Decoder:
    """The function that reads this tool's arguments; it raises ``ToolArgumentsError`` and nothing else."""
    validate, count, doubtful = schema.validate_json, schema.count, schema.doubtful
    slow = _SlowDecoder(schema, tool)

    def decode(text: str, decoding: Decoding = "repair", /) -> Decoded:
        try:
            values = validate(text)
        except Exception:  # of pydantic, or of a validator in the user's type: the slow way tells which
            return slow.decode(text)
        if count is not None and len(values) != count:
            return slow.without_unknown(values, ())
        return values, ()

    def decode_doubtful(text: str, decoding: Decoding = "repair", /) -> Decoded:
        return slow.decode(text) if doubtful is None or doubtful.search(text) else decode(text)

    return decode if doubtful is None else decode_doubtful


class _SlowDecoder:
    """The same result for any text, however broken."""

    def __init__(self, schema: ArgumentsSchema, tool: str) -> None:
        self.schema = schema
        self.tool = tool

    def decode(self, text: str) -> Decoded:
        try:
            data, repairs = read_json(text, exact=self.schema.has_decimals)
        except NotJson as error:
            raise ToolArgumentsError(self._not_json(str(error))) from error
        if data is None:
            data = {}  # what some models send for "no arguments"
        if not is_object(data):
            raise ToolArgumentsError(self._not_json(f"expected a JSON object, received {describe(data)}"))
        return self._validated(data, text, repairs)

    def without_unknown(self, values: dict[str, Any], repairs: tuple[Repair, ...]) -> Decoded:
        """The values without names that the tool does not have, each reported (spec 4.1.6)."""
        known = {name: values[name] for name in self.schema.names if name in values}
        unknown = tuple(Repair(clean_text(name), value, None) for name, value in values.items() if name not in known)
        return known, (*repairs, *unknown)

    def _validated(self, data: dict[str, Any], text: str, repairs: tuple[Repair, ...]) -> Decoded:
        for attempt in range(_ROUNDS + 1):
            try:
                return self.without_unknown(self._validate(data), repairs)
            except ValidationError as error:
                problems = located(problems_of(error), data)
                cause = error
            except Exception as error:  # raised by a validator in the user's own type
                message = f"The arguments of {self.tool!r} were refused: {type(error).__name__}: {error}"
                raise ToolArgumentsError(_short(message)) from error
            data, made = fix(data, problems, self.schema, text) if attempt < _ROUNDS else (data, None)
            if made is None:
                raise ToolArgumentsError(self._explained(problems)) from cause
            repairs = (*repairs, *made)
        raise AssertionError("the last round returns or raises")

    def _validate(self, data: dict[str, Any]) -> dict[str, Any]:
        # As text again where possible: a user's strict model takes an ISO date from JSON, but not from a str.
        if self.schema.has_decimals and _has_decimal(data):
            return self.schema.validate_python(data)
        return self.schema.validate_json(json.dumps(data, ensure_ascii=False))

    def _not_json(self, reason: str) -> str:
        return _short(f"The arguments of {self.tool!r} are not a JSON object: {reason}.{self._wanted()}")

    def _explained(self, problems: list[Problem]) -> str:
        return _short(f"The arguments of {self.tool!r} do not fit: {explain(problems)}.{self._wanted()}")

    def _wanted(self) -> str:
        schema = self.schema.json_schema
        if schema is None:
            return " It takes no arguments: send {}."
        required = schema.get("required", ())
        parts = [
            f"{name}: {_kind(entry)}{'' if name in required else ' (optional)'}"
            for name, entry in schema["properties"].items()
        ]
        return f" Expected {{{', '.join(parts)}}}."


def _kind(entry: dict[str, Any]) -> str:
    if "anyOf" in entry:
        return " or ".join(dict.fromkeys(_kind(option) for option in entry["anyOf"]))
    if "enum" in entry or "const" in entry:
        return "one of " + ", ".join(map(repr, entry.get("enum", [entry.get("const")])))
    if "$ref" in entry:
        return "object"
    return str(entry.get("format") or entry.get("type") or "any value")


def _short(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= 1000 else text[:999] + "…"


def _has_decimal(node: Any) -> bool:
    if is_object(node):
        return any(map(_has_decimal, node.values()))
    if is_array(node):
        return any(map(_has_decimal, node))
    return isinstance(node, Decimal)
