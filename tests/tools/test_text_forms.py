"""Dates, times, durations and UUIDs in unions: the member that plain pydantic chooses, but for numbers and digits."""

from __future__ import annotations

import datetime
import enum
import itertools
import typing
import uuid
from decimal import Decimal
from typing import Any, Literal, Union

import pytest
from pydantic import TypeAdapter

from .decoding import decoder, refusal


class Colour(enum.Enum):
    """Some text."""

    RED = "red"


FORMS = (datetime.date, datetime.time, datetime.datetime, datetime.timedelta, uuid.UUID)
TEXTS = (
    "2030-01-01", "2030-01-01T00:00:00Z", "2030-01-01T10:00:00", "2030-01-01 00:00", "PT30M", "P1D",
    "123e4567-e89b-12d3-a456-426614174000", "red", "other",
)  # fmt: skip
PAIRS = [pair for pair in itertools.permutations((*FORMS, str, Colour, Literal["red"]), 2) if {*pair} & {*FORMS}]


@pytest.fixture(autouse=True)
def _without_cached_unions() -> None:
    # typing takes str | date and date | str for one, and would give the order in which another test asked first.
    for clear in vars(typing)["_cleanups"]:
        clear()


def _plain(hint: Any, text: str) -> Any:
    try:
        return TypeAdapter(hint).validate_json(f'"{text}"')
    except ValueError:
        return "refused"


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("text", TEXTS)
def test_a_union_gives_what_pydantic_gives(pair: tuple[Any, Any], text: str) -> None:
    hint: Any = Union[pair]  # noqa: UP007  (of a tuple)
    wanted = _plain(hint, text)
    if wanted == "refused":
        assert "do not fit: v: " in refusal(decoder(v=hint), f'{{"v": "{text}"}}')
        return
    for others, sent in ({}, ""), ({"w": Decimal}, ', "w": 1e2'):  # with and without decimals, which are read before
        value = decoder(v=hint, **others)(f'{{"v": "{text}"{sent}}}')[0]["v"]
        assert (type(value), value) == (type(wanted), wanted)
        assert decoder(v=list[hint], **others)(f'{{"v": ["{text}"]{sent}}}')[0]["v"] == [wanted]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sent", ["1893456000", "1.5", '"1893456000"', '"1.5"', "true"])
def test_numbers_and_digits_are_no_date_in_a_union_either(form: Any, sent: str) -> None:
    assert "do not fit: v: " in refusal(decoder(v=form | list[str]), f'{{"v": {sent}}}')
    assert decoder(v=form | str)(f'{{"v": {sent}}}')[0]["v"] == sent.strip('"')
