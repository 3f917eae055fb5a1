"""Reads JSON that a model wrote: exact numbers, bounded depth and size, few careful repairs (spec 4.1).

Of a name that an object has twice, the last one counts, here and in pydantic's own reader. A byte order mark at the
start is no part of the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import msgspec
from typing_extensions import TypeIs

from .._codec import clean_text
from ._tool import Decoding, Repair

__all__ = [
    "BYTE_ORDER_MARK",
    "NotJson",
    "Token",
    "echoed",
    "is_array",
    "is_exact",
    "is_huge",
    "is_number_text",
    "is_object",
    "may_be_deep",
    "read_json",
    "tokens_of",
    "with_floats",
]

_MOST_DIGITS = 4300  # what Python converts
_DEPTH = 201  # what pydantic's own reader takes
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # an open one too, or else quotes cost their square
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# "1_000" and "1e999999999" are numbers to Python, but hardly what a model means by text.
_NUMBER_TEXT = re.compile(r"\s*[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\s*")
# What stands before an object that is only a part of a larger one.
_PROPERTY_NAME = re.compile(r"[\"']\s*:\s*\Z")
BYTE_ORDER_MARK = "\ufeff"
_SCHEMA_WORDS = {"properties", "type", "required", "additionalProperties"}


def is_object(node: Any) -> TypeIs[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(node, dict)


def is_array(node: Any) -> TypeIs[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(node, list)


def may_be_deep(text: str) -> bool:
    """Whether the JSON text has enough brackets to be nested more deeply than may be."""
    return text.count("[") + text.count("{") > _DEPTH


def is_number_text(text: str) -> bool:
    """Whether the text is a number as a model would write one."""
    return len(text) < 5000 and _NUMBER_TEXT.fullmatch(text) is not None


def is_huge(text: str) -> bool:
    """Whether the text of a number says one that is refused as a number as well: it is too large (spec 4.1.8)."""
    return len(text) > _MOST_DIGITS or ("e" in text.lower() and math.isinf(float(text)))


def with_floats(node: Any) -> Any:
    """The same with floats for decimals, where those keep all digits: for who takes anything beside a decimal."""
    if is_object(node):
        return {key: with_floats(item) for key, item in node.items()}
    if is_array(node):
        return [with_floats(item) for item in node]
    if isinstance(node, Decimal) and Decimal(repr(number := float(node))) == node:
        return number
    return node


class NotJson(Exception):
    """The text is not JSON that we take; the message says why, in words for the model."""


class Token(str):
    """A number as it was written."""

    __slots__ = ()


def read_json(
    text: str,
    *,
    exact: bool = False,
    scale: bool = False,
    decoding: Decoding = "repair",
    takes: Callable[[dict[str, Any]], bool] | None = None,
) -> tuple[Any, tuple[Repair, ...]]:
    """What the text says, and the repair it took; blank text is an empty object (spec 4.1.1). Raises ``NotJson``.

    With ``exact``, a fraction that a float might not hold, and what has an exponent, comes as a ``Decimal``; with
    ``scale``, so does one that ends in a zero, such as 1.10. Lone surrogates are replaced. ``takes`` tells whether an
    object that was found between other words is meant.
    """
    text = text.removeprefix(BYTE_ORDER_MARK)
    if not text or text.isspace():
        return {}, ()
    value = _quickly(text, _scaled_decoder if scale else _exact_decoder if exact else _decoder)
    if value is not None and not isinstance(value, str):
        return value, ()
    text = clean_text(text)
    number = _scaled_number if scale else _exact_number if exact else _float_number
    try:
        value = _loads(text, number)
    except NotJson as first:
        return _repaired(text, number, first, decoding, takes)
    if isinstance(value, str):
        return _repaired(text, number, NotJson("it is a piece of text"), decoding, takes)
    return value, ()


def tokens_of(text: str) -> Any:
    """The same structure with numbers as ``Token``; ``None`` if the text is not JSON."""
    try:
        return _loads(text.removeprefix(BYTE_ORDER_MARK), Token, Token)
    except NotJson:
        return None


def echoed(data: dict[str, Any]) -> dict[str, Any] | None:
    """The inner object, where arguments stand inside the words of a schema: ``{"properties": {…}}``."""
    inner = data.get("properties")
    return inner if is_object(inner) and set(data) <= _SCHEMA_WORDS else None


# ---------------------------------------------------------------- repairs


def _repaired(
    text: str,
    number: Callable[[str], Any],
    first: NotJson,
    decoding: Decoding,
    takes: Callable[[dict[str, Any]], bool] | None,
) -> tuple[Any, tuple[Repair, ...]]:
    if decoding == "strict":
        raise first
    bare = text.strip()
    attempts = [_without_trailing_commas(_unwrapped(bare))]
    if decoding == "salvage" and (found := _only_object(bare)) is not None:
        attempts.append(_without_trailing_commas(found))
    for repaired in attempts:
        if repaired == bare:
            continue
        try:
            value = _loads(repaired, number)
        except NotJson:
            continue
        if isinstance(value, str):
            continue
        is_fenced_nothing = value == {} and bare.startswith("```")
        is_found = repaired is not attempts[0] and is_object(value) and not is_fenced_nothing
        if takes is None or not is_found or takes(value):
            return value, (Repair("", text, repaired),)
    raise first


def _unwrapped(text: str) -> str:
    """Without the quotes around all of it: an object that was encoded twice, or quoted without escaping."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        inner = text[1:-1].replace('\\"', '"')
    return inner.strip() if isinstance(inner, str) else text


def _without_trailing_commas(text: str) -> str:
    if _TRAILING_COMMA.search(text) is None:
        return text
    parts: list[str] = []
    end = 0
    for found in _STRING.finditer(text):
        parts += [_TRAILING_COMMA.sub(r"\1", text[end : found.start()]), found.group()]
        end = found.end()
    return "".join([*parts, _TRAILING_COMMA.sub(r"\1", text[end:])])


def _only_object(text: str) -> str | None:
    """From the first brace to the last: one object or, if there are two or one is cut, no JSON at all."""
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end:
        return None
    before, after = text[:start], text[end:]
    is_part = "[" in before or "]" in after or _PROPERTY_NAME.search(before[-100:]) is not None
    return None if is_part else text[start:end]


# ---------------------------------------------------------------- parsing


def _quickly(text: str, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The value of sound text; ``None`` for text that needs the careful way, or that says null."""
    try:
        value = decoder.decode(text)
    except (ValueError, RecursionError, NotJson):
        return None
    return None if may_be_deep(text) else value


def _loads(text: str, number: Callable[[str], Any], whole: Callable[[str], Any] | None = None) -> Any:
    try:
        value = json.loads(text, parse_float=number, parse_int=whole or _whole_number, parse_constant=_no_constant)
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise NotJson(_reason(text, error)) from error
    if "\\u" in text or may_be_deep(text):
        return _checked(value, 1)
    return value


def _checked(node: Any, depth: int) -> Any:
    if depth > _DEPTH and (is_object(node) or is_array(node)):
        raise NotJson("it is nested too deeply")
    if is_object(node):
        return {clean_text(key): _checked(item, depth + 1) for key, item in node.items()}
    if is_array(node):
        return [_checked(item, depth + 1) for item in node]
    return clean_text(node) if type(node) is str else node


def _reason(text: str, error: json.JSONDecodeError) -> str:
    start, place = text.lstrip()[:20], f"at character {error.pos + 1}"
    if start.startswith("```"):
        return "it is in a Markdown fence; send the bare object"
    if start[:1] not in '{["' and not start[:1].isdigit():
        return f"it begins with {json.dumps(start, ensure_ascii=False)}; send a bare object"
    if error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()):
        return "it ends too early, as if cut off"
    if error.msg == "Extra data":
        return f"it goes on after its end ({place})"
    if error.msg.startswith("Expecting property name"):
        return f"a property name in double quotes is missing {place}"
    if error.msg.startswith("Invalid control character"):
        return f"a control character {place} has to be escaped, such as a line break as \\n"
    if error.msg.startswith("Invalid"):
        return f"the escape {place} is none that JSON has"
    return f"something else is expected {place}"


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a number in JSON")


def _whole_number(token: str) -> int:
    if len(token) > _MOST_DIGITS:
        raise NotJson(f"a number of {len(token)} digits is too large")
    return int(token)


def _float_number(token: str) -> float:
    number = float(token)
    if math.isinf(number):
        raise NotJson(f"the number {token[:20]} is too large")
    return number


def is_exact(number: float) -> bool:
    """Whether the float is surely the number that was written, if that had no more than 15 digits."""
    written = repr(number)
    return len(written) <= 16 and "e" not in written


def _exact_number(token: str) -> float | Decimal:
    number = float(token)
    if math.isinf(number) and ("e" in token or "E" in token or len(token) > _MOST_DIGITS):
        return _float_number(token)
    if len(token) <= 16 and "e" not in token and "E" not in token and is_exact(number):
        return number
    return _decimal(token, number)


def _scaled_number(token: str) -> float | Decimal:
    number = float(token)
    if len(token) <= 16 and repr(number) == token and is_exact(number) and not number.is_integer():
        return number
    if math.isinf(number) and ("e" in token or "E" in token or len(token) > _MOST_DIGITS):
        return _float_number(token)
    return _decimal(token, number)


def _decimal(token: str, number: float) -> Decimal:
    try:
        exact = Decimal(token)
    except InvalidOperation:  # an exponent of twenty digits
        exact = Decimal(0) if re.match(r"-?[0.]+[eE]", token) else Decimal(1)
    if number == 0 and exact != 0:
        raise NotJson(f"the number {token[:20]} is too small")
    return exact


_decoder = msgspec.json.Decoder()
_exact_decoder = msgspec.json.Decoder(float_hook=_exact_number)
_scaled_decoder = msgspec.json.Decoder(float_hook=_scaled_number)
