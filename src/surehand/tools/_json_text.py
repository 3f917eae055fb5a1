"""Reads JSON that a model wrote: exact numbers, bounded depth and size, one careful repair (spec 4.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from typing_extensions import TypeIs

from .._codec import clean_text
from ._tool import Repair

__all__ = ["NotJson", "Token", "is_array", "is_number_text", "is_object", "read_json", "tokens_of"]

_DEPTH = 200  # what pydantic's own reader takes
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)  # an open one too, or else quotes cost their square
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# "1_000" and "1e999999999" are numbers to Python, but hardly what a model means by text.
_NUMBER_TEXT = re.compile(r"\s*[+-]?\d+(\.\d+)?([eE][+-]?\d{1,3})?\s*")


def is_object(node: Any) -> TypeIs[dict[str, Any]]:
    """Whether it is a JSON object."""
    return isinstance(node, dict)


def is_array(node: Any) -> TypeIs[list[Any]]:
    """Whether it is a JSON array."""
    return isinstance(node, list)


def is_number_text(text: str) -> bool:
    """Whether the text is a number as a model would write one."""
    return _NUMBER_TEXT.fullmatch(text) is not None


class NotJson(Exception):
    """The text is not JSON that we take; the message says why, in words for the model."""


class Token(str):
    """A number as it was written."""

    __slots__ = ()


def read_json(text: str, *, exact: bool = False) -> tuple[Any, tuple[Repair, ...]]:
    """What the text says, and the repair it took; blank text is an empty object (spec 4.1.1). Raises ``NotJson``.

    With ``exact``, a fraction that a float cannot hold comes as a ``Decimal``. Lone surrogates are replaced.
    """
    if not text or text.isspace():
        return {}, ()
    text = clean_text(text)
    number = _exact_number if exact else _float_number
    try:
        value = _loads(text, number)
    except NotJson as first:
        return _repaired(text, number, first)
    if isinstance(value, str):
        return _repaired(text, number, NotJson("it is a piece of text"))
    return value, ()


def tokens_of(text: str) -> Any:
    """The same structure with numbers as ``Token``; ``None`` if the text is not JSON."""
    try:
        return _loads(text, Token, Token)
    except NotJson:
        return None


def _repaired(text: str, number: Callable[[str], Any], first: NotJson) -> tuple[Any, tuple[Repair, ...]]:
    repaired = _without_trailing_commas(_unwrapped(text.strip()))
    if repaired == text.strip():
        raise first
    try:
        value = _loads(repaired, number)
    except NotJson:
        raise first from None
    if isinstance(value, str):
        raise first
    return value, (Repair("", text, repaired),)


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
    parts: list[str] = []
    end = 0
    for found in _STRING.finditer(text):
        parts += [_TRAILING_COMMA.sub(r"\1", text[end : found.start()]), found.group()]
        end = found.end()
    return "".join([*parts, _TRAILING_COMMA.sub(r"\1", text[end:])])


def _loads(text: str, number: Callable[[str], Any], whole: Callable[[str], Any] | None = None) -> Any:
    try:
        value = json.loads(text, parse_float=number, parse_int=whole or _whole_number, parse_constant=_no_constant)
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error
    except ValueError as error:
        raise NotJson(str(error)) from error
    if "\\u" in text or text.count("[") + text.count("{") > _DEPTH:
        return _checked(value, 0)
    return value


def _checked(node: Any, depth: int) -> Any:
    if depth > _DEPTH:
        raise NotJson("it is nested too deeply")
    if is_object(node):
        return {clean_text(key): _checked(item, depth + 1) for key, item in node.items()}
    if is_array(node):
        return [_checked(item, depth + 1) for item in node]
    return clean_text(node) if type(node) is str else node


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a number in JSON")


def _whole_number(token: str) -> int:
    if len(token) > 4300:
        raise NotJson(f"a number of {len(token)} digits is too large")
    return int(token)


def _float_number(token: str) -> float:
    number = float(token)
    if number in (float("inf"), float("-inf")):
        raise NotJson(f"the number {token[:20]} is too large")
    return number


def _exact_number(token: str) -> float | Decimal:
    number = _float_number(token)
    exact = Decimal(token)
    if number == 0 and exact != 0:
        raise NotJson(f"the number {token[:20]} is too small")
    return number if Decimal(repr(number)) == exact else exact
