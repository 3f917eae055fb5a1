"""The model's half that reads text: JSON as the recorded system reads it, and as we promise to (spec 4.1)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NoReturn

__all__ = ["ABSENT", "Number", "Refused", "as_decimal", "java_text", "json_text", "read_arguments", "read_inner"]

ABSENT = "no arguments"
_NOT_JSON = "not JSON"
_MOST_DIGITS = 4300


class Refused(Exception):
    """The arguments are refused; ``kind`` says for which of a few reasons."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Number(str):
    """A number of a JSON text, as it is written."""

    __slots__ = ()

    @property
    def is_whole(self) -> bool:
        return re.search(r"[.eE]", self) is None


def read_arguments(text: str | None, on: frozenset[str]) -> dict[str, Any]:
    """The arguments by name; numbers are ``Number``."""
    if text is None or not text.strip():
        return {}
    for attempt in (text, _mended(text, on)):
        try:
            found = _parsed(attempt, on)
        except ValueError:
            continue
        if isinstance(found, dict):
            if "D-9" in on:
                _refuse_huge(found)
            return found
        if found is None:
            if "D-8" in on:
                return {}
            raise Refused(ABSENT)
    raise Refused(_NOT_JSON)


def read_inner(text: str, on: frozenset[str]) -> Any:
    """What a text inside of the arguments says; raises ``ValueError`` if it is not JSON."""
    if "D-8" not in on:
        return _parsed(text, on)
    try:
        return _parsed(text, on)
    except ValueError:
        return _parsed(_mended(text, on), on)


def _parsed(text: str, on: frozenset[str]) -> Any:
    decoder = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_refuse)
    if "4.1.2" in on:
        return decoder.decode(text.removeprefix("\ufeff"))
    text = text.lstrip(" \t\r\n")
    value, end = decoder.raw_decode(text)
    # What comes behind the first value is not looked at, unless it could be a part of a number or a word.
    if not isinstance(value, dict | list) and text[end - 1] != '"' and text[end : end + 1].strip(" \t\r\n"):
        raise ValueError(text)
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _refuse_huge(node: Any) -> None:
    if isinstance(node, Number):
        if len(node) > _MOST_DIGITS or (not node.is_whole and float(node) in (float("inf"), float("-inf"))):
            raise Refused(_NOT_JSON)
    elif isinstance(node, dict | list):
        for inner in node.values() if isinstance(node, dict) else node:
            _refuse_huge(inner)


# ---------------------------------------------------------------- the one attempt to mend a text


def _mended(text: str, on: frozenset[str]) -> str:
    if "D-9" not in on:
        bare = re.sub(r"^\"|\"$", "", text).replace('\\"', '"')
        return re.sub(r",(?=\s*[}\]])", "", bare)
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            text = json.loads(text)
        except ValueError:
            text = text[1:-1].replace('\\"', '"')
    return "".join(_without_commas(text))


def _without_commas(text: str) -> Iterator[str]:
    """The letters, without commas in front of a bracket that closes, outside of quotes."""
    quoted, escaped = False, False
    for index, letter in enumerate(text):
        if quoted:
            quoted = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
        elif letter == '"':
            quoted = True
        elif letter == "," and text[index + 1 :].lstrip()[:1] in ("}", "]"):
            continue
        yield letter


# ---------------------------------------------------------------- numbers and texts


def as_decimal(number: Number, on: frozenset[str]) -> Decimal:
    """The value of the number: exact, or what is left of it in a binary float."""
    if number.is_whole or "D-9" in on:
        return Decimal(number)
    return Decimal(repr(float(number)))


def java_text(value: Any) -> str:
    """How the recorded system's language writes a value."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Number():
            return str(value) if value.is_whole else _java_double(float(value))
        case list():
            return f"[{', '.join(map(java_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{key}={java_text(inner)}" for key, inner in value.items()) + "}"
        case _:
            return str(value)


def _java_double(number: float) -> str:
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, exponent = f"{Decimal(repr(number)):e}".lower().split("e")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def json_text(value: Any) -> str:
    """Compact JSON, with numbers as a binary float would write them."""
    return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    match value:
        case Number():
            return int(value) if value.is_whole else float(value)
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case _:
            return value
