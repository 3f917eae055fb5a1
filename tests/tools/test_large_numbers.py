"""Integers that are too large are refused alike as numbers and as text; large ones keep their digits in unions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from .decoding import decoder, read, refusal

LARGE = ("1e999", "1E+309", "9" * 290 + "e999", "9" * 4400, "9" * 4900)


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("hint", [int, int | None, list[int]])
def test_a_number_that_is_too_large_is_refused_in_our_words(hint: Any, number: str) -> None:
    sent = f"[{number}]" if hint == list[int] else number
    assert "too large" in refusal(decoder(v=hint), f'{{"v": {sent}}}')
    quoted = f'["{number}"]' if hint == list[int] else f'"{number}"'
    assert "out of range: expected a smaller integer, received" in refusal(decoder(v=hint), f'{{"v": {quoted}}}')


@pytest.mark.parametrize("number", ["1e300", "9" * 4300, "5E+2"])
def test_one_that_is_not_is_exact_either_way(number: str) -> None:
    assert read(int, number) == read(int, f'"{number}"') == int(Decimal(number))


@pytest.mark.parametrize("hint", [float | int, int | float, float | Decimal])
@pytest.mark.parametrize("number", ["9007199254740993", "-123456789012345678901"])
def test_in_a_union_text_becomes_the_number_that_loses_no_digit(hint: Any, number: str) -> None:
    assert read(hint, f'"{number}"') == int(number)
    assert read(list[hint], f'["{number}"]') == [int(number)]


def test_but_else_the_first_that_fits() -> None:
    assert [type(read(float | int, text)) for text in ('"5"', '"0.1"', '"1e-7"')] == [float, float, float]
    assert type(read(float | Decimal, '"0.1"')) is float
