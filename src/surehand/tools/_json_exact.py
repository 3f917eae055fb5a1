"""Reads and writes JSON with all digits of its numbers, and keeps the text together with what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ._json_text import NotJson, Token, is_array, is_object, may_be_deep, read_json, with_floats
from ._tool import Decoding, Repair

__all__ = ["Rewritten", "read_exact", "write_json"]


def read_exact(text: str, decoding: Decoding = "repair") -> tuple[Any, tuple[Repair, ...]]:
    """What ``read_json`` gives, with fractions as floats where those keep all digits, otherwise as ``Decimal``."""
    try:
        value = _decoder.decode(text)
    except (ValueError, RecursionError, NotJson):
        value = None
    if is_object(value) and not may_be_deep(text):
        return value, ()
    value, repairs = read_json(text, exact=True, decoding=decoding)
    return with_floats(value), repairs


def _number(token: str) -> float | Decimal:
    number = float(token)
    # Up to 15 digits survive in a float, unless it is so small or large that it has less room for them.
    if len(token) <= 16 and (1e-290 < abs(number) < 1e290 or token == "0.0"):
        return number
    exact: float | Decimal = with_floats(read_json(f"[{token}]", exact=True)[0][0])
    return exact


_decoder = msgspec.json.Decoder(float_hook=_number)


def write_json(value: Any) -> str:
    """Compact JSON of plain data; integers and decimals of any size keep their digits, tokens are left as they are."""
    if is_object(value):
        return "{" + ",".join(f"{_text(key)}:{write_json(item)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ",".join(map(write_json, value)) + "]"
    return str(value) if isinstance(value, (Decimal, Token)) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Rewritten(dict[str, Any]):
    """Arguments with a JSON text of their own for whoever wants text, instead of the one that the model sent."""

    __slots__ = ("text",)

    def __init__(self, values: Mapping[str, Any], text: str | None = None) -> None:
        super().__init__(values)
        self.text = write_json(values) if text is None else text
