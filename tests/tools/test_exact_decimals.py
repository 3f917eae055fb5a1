"""Decimals are exactly what was written, and what stands beside them is what it would be without them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from .decoding import Decode, decoder, refusal

WRITTEN = (
    "100000000000000001e-17", "11000000000000000001E-19", "15e-1", "1e2", "1E+2", "12e0", "1.10", "0.10", "0.0",
    "-0.50", "120.0", "1.0", "1.1", "12345678901234567890.10", "0.12345678901234567890", "7", "1.5e-3", "3e-300",
)  # fmt: skip


class Price(BaseModel):
    """A model of the user's own."""

    amount: Decimal
    rate: float = 0
    note: str = ""


def _shown(decode: Decode, text: str) -> str:
    return str(decode(text)[0]["v"])


def _assert_as_written(number: str) -> None:
    wanted = str(Decimal(number))
    for hint in (Decimal, Decimal | None, Decimal | str, Annotated[Decimal, Field(gt=-(10**30))]):
        assert _shown(decoder(v=hint), f'{{"v": {number}}}') == wanted
        assert _shown(decoder(v=hint, x=Any), f'{{"v": {number}, "x": 2.50}}') == wanted
    assert str(decoder(v=list[Decimal])(f'{{"v": "[{number}]"}}')[0]["v"][0]) == wanted  # in text
    assert str(decoder(v=list[Decimal])(f'{{"properties": {{"v": [{number}]}}}}')[0]["v"][0]) == wanted
    assert str(decoder(v=Price)(f'{{"v": {{"amount": {number}}}}}')[0]["v"].amount) == wanted


@pytest.mark.parametrize("number", WRITTEN)
def test_a_decimal_is_as_written(number: str) -> None:
    _assert_as_written(number)


@given(st.from_regex(r"-?[1-9][0-9]{0,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True))
def test_any_decimal_is_as_written(number: str) -> None:
    assert _shown(decoder(v=Decimal), f'{{"v": {number}}}') == str(Decimal(number))


@pytest.mark.parametrize("number", ["1e-400", "1E-400", "0.1e-999"])
def test_what_is_too_small_is_refused_and_not_zero(number: str) -> None:
    assert "too small" in refusal(decoder(v=Decimal), f'{{"v": {number}}}')


@pytest.mark.parametrize("number", ["1.10", "1e2", "1.0", "2.5", "1E-2"])
def test_what_stands_beside_a_decimal_is_the_same_as_without_it(number: str) -> None:
    hints: dict[str, Any] = {"f": float, "a": Any, "l": list, "d": dict, "o": float | int, "i": int | float, "m": Price}
    sent = f'"f": {number}, "a": [{number}], "l": [{number}], "d": {{"x": {number}}}, "o": {number}, "i": {number}'
    sent += f', "m": {{"amount": 1, "rate": {number}}}'
    values, repairs = decoder(v=Decimal, **hints)(f'{{"v": {number}, {sent}}}')
    value, price = float(number), Price(amount=Decimal(1), rate=float(number))
    wanted = {"f": value, "a": [value], "l": [value], "d": {"x": value}, "o": value, "i": value, "m": price}
    del values["v"]
    assert (repr(values), repairs) == (repr(wanted), ())
