"""What a model reads about arguments that do not fit: where, which sort of problem, what was sent (spec 4.2.3)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import re
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from annotated_types import MultipleOf
from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, PastDate, field_validator
from typing_extensions import TypedDict

from .decoding import decoder, refusal


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Twins(enum.Enum):
    RED = "one"
    red = "two"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    a: int


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]


class Item(TypedDict):
    qty: int


class Order(TypedDict):
    items: list[Item]
    by_day: dict[str, list[int]]


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check(cls, value: int) -> int:
        assert value % 2 == 0, "must be even"
        if value > 10:
            raise ValueError("at most ten of them")
        return value


def no_vowels(text: str) -> str:
    if set(text) & set("aeiou"):
        raise ValueError("no vowels, please")
    return text


SAID: list[tuple[Any, str, str]] = [
    (int, '"x"', 'v: not convertible: expected an integer, received the text "x"'),
    (int, "true", "v: not convertible: expected an integer, received true"),
    (int, "null", "v: not convertible: expected an integer, received null"),
    (int, "[1, 2]", "v: not convertible: expected an integer, received an array of 2"),
    (int, '{"a": 1}', 'v: not convertible: expected an integer, received an object with "a"'),
    (int, "1.5", "v: non-integer value: expected an integer, received the number 1.5"),
    (int, '"1.5"', 'v: non-integer value: expected an integer, received the text "1.5"'),
    (Annotated[int, Field(le=127)], "300", "v: out of range: expected at most 127, received the number 300"),
    (Annotated[int, Field(ge=-128)], '"-300"', "v: out of range: expected at least -128, received the number -300"),
    (Annotated[float, Field(gt=0)], "0", "v: out of range: expected more than 0, received the number 0"),
    (Annotated[float, Field(lt=1)], "1.5", "v: out of range: expected less than 1, received the number 1.5"),
    (Annotated[int, MultipleOf(5)], "7", "v: out of range: expected a multiple of 5, received the number 7"),
    (Annotated[Decimal, Field(max_digits=3)], "1234", "v: out of range: expected at most 3 digits, received"),
    (Annotated[Decimal, Field(decimal_places=1)], "1.25", "v: out of range: expected at most 1 digits after the point"),
    (float, '"NaN"', 'v: not convertible: expected a number, received the text "NaN"'),
    (Decimal, '"x"', 'v: not convertible: expected a number, received the text "x"'),
    (bool, "1", "v: not convertible: expected true or false, received the number 1"),
    (str, "null", "v: not convertible: expected text, received null"),
    (Annotated[str, Field(max_length=2)], '"abc"', "v: out of range: expected a text of at most 2 characters"),
    (Annotated[str, Field(min_length=2)], '"a"', "v: out of range: expected a text of at least 2 characters"),
    (Annotated[str, Field(pattern="^a+$")], '"b"', "v: expected a text that matches the pattern ^a+$, received"),
    (Annotated[str, Field(min_length=1, max_length=1)], '"ab"', "v: not convertible: expected a single character"),
    (Annotated[list[int], Field(max_length=1)], "[1, 2]", "v: out of range: expected at most 1 items"),
    (Annotated[list[int], Field(min_length=1)], "[]", "v: out of range: expected at least 1 items"),
    (Colour, '"green"', "v: not a valid enum value: expected 'red' or 'blue', received the text \"green\""),
    (Twins, '"Red"', "v: not a valid enum value: expected 'one' or 'two'"),
    (Literal["a", 1], "2", "v: not a valid enum value: expected 'a' or 1, received the number 2"),
    (uuid.UUID, '"x"', "v: expected a UUID, such as 123e4567"),
    (datetime.date, '"soon"', "v: expected a date as ISO 8601 text, such as 2031-05-03, received"),
    (datetime.date, "1700000000", "v: expected a date as ISO 8601 text, such as 2031-05-03, received the number"),
    (datetime.date, '"2031-13-03"', "v: expected a valid date"),
    (datetime.timedelta, '"5"', "v: expected a duration as ISO 8601 text, such as P1DT2H"),
    (AwareDatetime, '"2031-05-03T10:00:00"', "v: the value should have timezone info"),
    (PastDate, '"2999-05-03"', "v: Date should be in the past"),
    (bytes, '"!"', "v: not convertible: expected base64 text, received"),
    (Annotated[bytes, Field(max_length=1)], '"aGVsbG8="', "v: out of range: expected at most 1 bytes, received"),
    (Point, "{}", "v.x: missing"),
    (Point, '{"x": 1, "z": 1}', "v.z: there is no such property, received the number 1"),
    (Point, "[1]", "v: not convertible: expected an object, received an array of 1"),
    (Pair, "7", "v: not convertible: expected an array or an object, received the number 7"),
    (list[Point], '[{"x": 1}, {"x": "y"}]', "v[1].x: not convertible: expected an integer"),
    (dict[int, int], '{"a": 1}', 'v.a: not convertible: expected an integer as its name, received the text "a"'),
    (Animal, '{"kind": "cow"}', "expected an object with one of 'cat', 'dog'"),
    (Animal, "{}", "v: expected an object whose 'kind' says which kind it is"),
    (int | list[int], '"x"', 'v: not convertible: expected an integer or an array, received the text "x"'),
    (int | Colour, '"x"', "v: none of the possible types: expected an integer or 'red' or 'blue', received"),
    (Even, '{"n": 3}', "v.n: must be even"),
    (Even, '{"n": 12}', "v.n: at most ten of them, received the number 12"),
    (Annotated[str, AfterValidator(no_vowels)], '"a"', 'v: no vowels, please, received the text "a"'),
    (Order, '{"items": [{"qty": 1}, {"qty": 2}, {"qty": "x"}], "by_day": {}}', "v.items[2].qty: not convertible"),
    (Order, '{"items": [], "by_day": {"mon": [1, "x"]}}', "v.by_day.mon[1]: not convertible"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "sent", "words"), SAID)
@pytest.mark.parametrize("decoding", ["strict", "repair"])
def test_the_place_the_problem_the_expectation_and_the_value_are_said(
    hint: Any, sent: str, words: str, decoding: Any
) -> None:
    text = refusal(decoder(v=hint), f'{{"v": {sent}}}', decoding)
    if decoding == "strict" and words.startswith("v"):
        # What strict mode refuses besides has words of its own; the place is the same.
        words = f"The arguments of 't' do not fit: {words.partition(': ')[0]}: "
    assert words in text and "'t'" in text
    for foreign in (
        "Input should",
        "Value error",
        "Assertion failed",
        "pydantic",
        "function-",
        "constrained-",
        "<",
        "object at",
    ):
        assert foreign not in text.replace("'<'", "")


@pytest.mark.parametrize(
    "sent",
    [
        "x" * 1_000_000,
        ["x" * 1_000_000] * 30,
        {"k" * 100_000: "x" * 100_000},
        {f"{n}" * 50: [n] for n in range(1_000)},
        10**4000,
        [[[[["x"] * 100] * 10]]],
        '"' * 10_000,
    ],
    ids=["text", "texts", "a long name", "many names", "a number", "deep", "quotes"],
)
@pytest.mark.parametrize(
    "hint", [int, list[int], dict[str, int], Point, Colour, int | list[Point] | Mapping[str, bool]], ids=str
)
def test_the_text_is_short_however_much_was_sent(hint: Any, sent: Any) -> None:
    if isinstance(sent, int) and hint not in (list[int], dict[str, int], Point, Colour):
        return  # an integer it may be
    text = refusal(decoder(v=hint), json.dumps({"v": sent}))
    assert len(text) <= 1000 and text.startswith("The arguments of 't' do not fit: v")


def test_what_could_be_repaired_is_not_complained_about() -> None:
    text = refusal(decoder(a=int, b=int, c=list[int]), '{"a": "7", "b": "x", "c": "[1]"}')
    assert re.findall(r"\b[abc]: (?:not|out)", text) == ["b: not"]


def test_in_strict_mode_it_is() -> None:
    text = refusal(decoder(a=int, b=int, c=list[int]), '{"a": "7", "b": "x", "c": "[1]"}', "strict")
    assert re.findall(r"\b[abc]: (?:not|out)", text) == ["a: not", "b: not", "c: not"]


def test_a_property_named_like_a_member_of_a_union_is_not_taken_for_it() -> None:
    text = refusal(decoder(v=dict[str, int] | int), '{"v": {"int": "x"}}')
    assert "v.int: not convertible: expected an integer" in text
