"""Writes JSON with all digits of its numbers, and keeps the text together with what it says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ._json_text import is_array, is_object

__all__ = ["Rewritten", "write_json"]


def write_json(value: Any) -> str:
    """Compact JSON of plain data; integers and decimals of any size keep their digits."""
    if is_object(value):
        return "{" + ",".join(f"{_text(key)}:{write_json(item)}" for key, item in value.items()) + "}"
    if is_array(value):
        return "[" + ",".join(map(write_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Rewritten(dict[str, Any]):
    """Arguments that are not what the model sent, and the JSON text of them for whoever wants text."""

    __slots__ = ("text",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.text = write_json(values)
