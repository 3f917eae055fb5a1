"""What a model sends becomes arguments, or an error that it can learn from; never anything in between (spec 4)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from surehand._codec import canonical
from surehand.tools._declare import tool
from surehand.tools._json_text import NotJson, read_json
from surehand.tools._tool import Repair

from .decoding import decoder, read, refusal
from .helpers import one


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TEXT = "text"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Spot(NamedTuple):
    x: int
    y: int = 0


class Box(TypedDict):
    width: int


class User(BaseModel):
    name: str
    age: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    day: datetime.date
    price: Decimal = Decimal(0)


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Item(TypedDict):
    qty: int


class Order(TypedDict):
    items: list[Item]


# ---------------------------------------------------------------- from text to object


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
@pytest.mark.parametrize("text", ["", "  \n\t", "null", "{}", " {} "])
def test_nothing_is_no_arguments(text: str, decoding: Any) -> None:
    assert decoder()(text, decoding) == ({}, ())
    assert "city: missing" in refusal(decoder(city=str), text, decoding)


@pytest.mark.parametrize(
    "text", ['{"path": "/tmp/a', "not-json", "{'a': 1}", '```json\n{"q":"a"}\n```', "{", '"', "}{"]
)
def test_text_that_is_not_json_never_becomes_empty_arguments(text: str) -> None:
    def wipe(path: str = "/tmp/x") -> None: ...

    message = refusal(one(wipe).body.decode, text)
    assert "'wipe'" in message and "JSON" in message and "path: string (optional)" in message


@pytest.mark.parametrize(
    ("text", "kind"), [("[1]", "an array"), ("5", "the number 5"), ("true", "true"), ('"x"', "text")]
)
def test_only_an_object_is_taken(text: str, kind: str) -> None:
    assert kind in refusal(decoder(), text)


def test_an_object_encoded_twice_is_unwrapped_and_reported() -> None:
    text = '"{\\"pattern\\":\\"*.md\\"}"'
    assert decoder(pattern=str)(text) == ({"pattern": "*.md"}, (Repair("", text, '{"pattern":"*.md"}'),))


def test_trailing_commas_are_removed_outside_of_text_only() -> None:
    text = '{"a": [1, 2,], "b": "x,]",}'
    values, repairs = decoder(a=list[int], b=str)(text)
    assert values == {"a": [1, 2], "b": "x,]"}
    assert repairs == (Repair("", text, '{"a": [1, 2], "b": "x,]"}'),)


def test_names_match_exactly() -> None:
    assert "a: missing" in refusal(decoder(a=int), '{"A": 1}')


def test_an_unknown_name_cannot_take_the_place_of_an_aliased_parameter() -> None:
    decode = decoder(raw=Annotated[int, Field(alias="count")])
    assert decode('{"count": 1, "raw": "evil"}')[0] == {"raw": 1}
    assert "count: missing" in refusal(decode, '{"raw": 1}')
    assert decode('{"count": 1, "other": 2}')[0] == {"raw": 1}


# ---------------------------------------------------------------- hostile text


def test_depth_and_size_are_bounded_whatever_reads_the_text() -> None:
    assert read_json("[" * 200 + "]" * 200)[0] != {}
    with pytest.raises(NotJson, match="nested too deeply"):
        read_json("[" * 300 + "]" * 300)
    with pytest.raises(NotJson, match="6000 digits is too large"):
        read_json("9" * 6000)


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (str, '"\\ud800"', "\ufffd"),
        (Any, '"\\ud800"', "\ufffd"),
        (list[str], '["\\ud800"]', ["\ufffd"]),
        (dict[str, str], '{"\\ud800": "\\ud800"}', {"\ufffd": "\ufffd"}),
        (User, '{"name": "\\ud800", "age": 1}', User(name="\ufffd", age=1)),
    ],
)
def test_half_characters_are_replaced(hint: Any, text: str, expected: Any) -> None:
    assert read(hint, text) == expected


def test_half_characters_in_the_text_itself_are_replaced() -> None:
    assert read(str, '"\ud800"') == "\ufffd"


def test_a_whole_character_of_two_escapes_survives() -> None:
    assert read(str, '"\\ud83d\\ude00"') == "😀"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_free_values_arrive_as_they_were_sent(value: Any) -> None:
    try:
        text = json.dumps({"v": value})
        text.encode()
    except UnicodeEncodeError:
        return
    assert json.dumps(FREE_DECODER(text)[0]["v"]) == json.dumps(value)


FREE_DECODER = decoder(v=Any)


# ---------------------------------------------------------------- numbers


def test_large_integers_keep_every_digit() -> None:
    assert read(int, "9007199254740993") == 9007199254740993
    assert read(int, "9007199254740993.0") == 9007199254740993
    assert read(int, '"9007199254740993.0"') == 9007199254740993
    assert read(int, "123456789012345678901234567890") == 123456789012345678901234567890


def test_decimals_keep_every_digit() -> None:
    assert read(Decimal, "0.1234567890123456789012345") == Decimal("0.1234567890123456789012345")
    assert read(Decimal, "9007199254740993.0") == Decimal("9007199254740993")
    assert read(list[Decimal], '[0.1, " 2.50 "]') == [Decimal("0.1"), Decimal("2.50")]
    assert read(Strict, '{"day": "2031-05-03", "price": 1.25}') == Strict(
        day=datetime.date(2031, 5, 3), price=Decimal("1.25")
    )


# ---------------------------------------------------------------- types (the table itself: test_coercion_table.py)


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (bool, '"true"', True),
        (bool, '"FALSE"', False),
        (Colour, '"red"', Colour.RED),
        (Colour, '"RED"', Colour.RED),
        (Colour, '"Blue"', Colour.BLUE),
        (list[Colour], '["RED"]', [Colour.RED]),
        (Level, '"HIGH"', Level.HIGH),
        (Level, '"low"', Level.LOW),
        (Mixed, '"ONE"', Mixed.ONE),
        (Mixed, '"TEXT"', Mixed.TEXT),
        (Colour | None, '"RED"', Colour.RED),
        (uuid.UUID, '"123e4567-e89b-12d3-a456-426614174000"', uuid.UUID("123e4567-e89b-12d3-a456-426614174000")),
        (list[int], '"[1, 2]"', [1, 2]),
        (set[int], "[1, 1]", {1}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (dict[int, int], '{"1": 2}', {1: 2}),
        (dict[str, int], '"{\\"a\\": 1}"', {"a": 1}),
        (User, '{"name": "Ann", "age": 3}', User(name="Ann", age=3)),
        (User, '"{\\"name\\":\\"Ann\\",\\"age\\":3}"', User(name="Ann", age=3)),
        (Point, '"{\\"x\\": 1}"', Point(1)),
        (Point, '"{\\"x\\": \\"1\\"}"', Point(1)),
        (Spot, '{"x": 1}', Spot(1)),
        (Spot, "[1, 2]", Spot(1, 2)),
        (Box, '{"width": 2}', {"width": 2}),
        (datetime.date, '"2031-05-03"', datetime.date(2031, 5, 3)),
        (datetime.time, '"10:30"', datetime.time(10, 30)),
        (datetime.datetime, '"2031-05-03T10:00:00"', datetime.datetime(2031, 5, 3, 10)),
        (Annotated[Cat | Dog, Field(discriminator="kind")], '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
        (Cat | Dog, '{"kind": "dog", "tricks": []}', Dog(kind="dog", tricks=[])),
        (Strict, '{"day": "2031-05-03"}', Strict(day=datetime.date(2031, 5, 3))),
        (dict[str, Any], '{"a": 1.5}', {"a": 1.5}),
        (Annotated[str, Field(max_length=1)], "7", "7"),
        (Sequence[int], '"[1]"', [1]),
        (Iterable[int], '["1"]', [1]),
        (Mapping[str, int], '{"a": "1"}', {"a": 1}),
        (Annotated[int, AfterValidator(lambda value: value * 2)], '"3"', 6),
    ],
)
def test_what_the_types_accept(hint: Any, text: str, expected: Any) -> None:
    assert read(hint, text) == expected


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (str, '"{\\"a\\":1}"', '{"a":1}'),
        (str | list[str], '"[\\"a\\"]"', '["a"]'),
        (str | int, '"7"', "7"),
        (str | int, "7", 7),
        (int | str, '"7"', "7"),
        (str | bool, '"true"', "true"),
        (Colour | str, '"RED"', "RED"),
        (Any, '"[1]"', "[1]"),
        (str | None, '"null"', "null"),
    ],
)
def test_what_is_valid_as_it_is_stays_as_it_is(hint: Any, text: str, expected: Any) -> None:
    value = read(hint, text)
    assert (type(value), value) == (type(expected), expected)


def test_a_union_is_repaired_for_the_member_that_fits() -> None:
    assert read(int | list[int], '"[1]"') == [1]
    assert read(int | bool, '"true"') is True


def test_names_are_not_mixed_up_where_two_enums_have_the_same_values() -> None:
    crossed = enum.Enum("Crossed", {"BLUE": "red", "RED": "blue"})
    assert "a: not a valid enum value" in refusal(decoder(a=Colour, b=crossed), '{"a": "RED", "b": "red"}')
    assert decoder(a=Colour, b=crossed)('{"a": "red", "b": "red"}')[0] == {"a": Colour.RED, "b": crossed["BLUE"]}
    assert decoder(a=Colour, b=list[Colour])('{"a": "RED", "b": ["BLUE"]}')[0]["b"] == [Colour.BLUE]


def test_every_repair_is_reported_with_its_path() -> None:
    decode = decoder(order=Order, tags=list[str], n=int)
    values, repairs = decode('{"order": {"items": [{"qty": 1}, {"qty": "2"}]}, "tags": "[\\"a\\"]", "n": "7"}')
    assert values == {"order": {"items": [{"qty": 1}, {"qty": 2}]}, "tags": ["a"], "n": 7}
    assert repairs == (Repair("order.items[1].qty", "2", 2), Repair("tags", '["a"]', ["a"]), Repair("n", "7", 7))


def test_a_repair_is_told_by_the_name_that_the_model_uses() -> None:
    decode = decoder(n=Annotated[int, Field(alias="days")])
    assert decode('{"days": "7"}') == ({"n": 7}, (Repair("days", "7", 7),))


def test_every_bad_place_is_named_with_its_path() -> None:
    message = refusal(
        decoder(order=Order, to=str, day=datetime.date),
        '{"order": {"items": [{"qty": 1}, {"qty": "x"}, {}]}, "day": "soon"}',
    )
    assert all(
        part in message for part in ("'t'", "order.items[1].qty", "order.items[2].qty: missing", "to: missing", "day:")
    )


def test_the_message_is_short_and_shows_what_is_expected() -> None:
    message = refusal(decoder(a=int, b=Colour), json.dumps({"a": "x" * 10_000, "b": 1}))
    assert len(message) < 400
    assert "Expected {a: integer, b: one of 'red', 'blue'}" in message


def test_a_hundred_problems_fit_into_a_thousand_characters() -> None:
    assert len(refusal(decoder(v=list[int]), json.dumps({"v": ["x"] * 100}))) <= 1000


def test_what_the_members_of_a_union_accept_is_said_at_once() -> None:
    message = refusal(decoder(v=int | list[int]), '{"v": "x"}')
    assert 'v: not convertible: expected an integer or an array, received the text "x".' in message


def test_ten_thousand_repairs_are_made_in_one_pass() -> None:
    texts = [str(number) for number in range(10_000)]
    values, repairs = decoder(v=list[int])(json.dumps({"v": texts}))
    assert values["v"] == list(range(10_000))
    assert repairs[-1] == Repair("v[9999]", "9999", 9999)


def test_repairing_leaves_equal_parts_of_the_text_alone() -> None:
    values, repairs = decoder(v=list[list[int]])('{"v": [["1", 2], ["1", 2]], "w": [["1"]]}')
    assert values == {"v": [[1, 2], [1, 2]]}
    assert repairs == (Repair("v[0][0]", "1", 1), Repair("v[1][0]", "1", 1), Repair("w", [["1"]], None))


def test_a_bad_item_of_an_iterable_is_refused_before_the_body() -> None:
    assert "v[1]: not convertible: expected an integer" in refusal(decoder(v=Iterable[int]), '{"v": [1, "x"]}')


def test_an_exception_of_a_users_validator_is_an_argument_error() -> None:
    class Picky(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            raise LookupError("no such thing")

    assert "LookupError: no such thing" in refusal(decoder(v=Picky), '{"v": {"n": 1}}')


# ---------------------------------------------------------------- absent values (spec 3.6, rule M)


def test_absent_and_null_give_the_default() -> None:
    def act(a: int = 3, b: int | None = 4, c: str | None = None, d: Colour = Colour.RED) -> None: ...

    decode = one(act).body.decode
    assert decode("{}") == ({"a": 3, "b": 4, "c": None, "d": Colour.RED}, ())
    assert decode('{"a": null, "b": null, "d": null}') == ({"a": 3, "b": None, "c": None, "d": Colour.RED}, ())


def test_an_optional_parameter_without_default_is_none_when_absent() -> None:
    assert decoder(v=int | None)("{}") == ({"v": None}, ())


def test_a_default_is_no_fallback_for_a_bad_value() -> None:
    def act(a: int = 3) -> None: ...

    assert "a: not convertible: expected an integer" in refusal(one(act).body.decode, '{"a": "x"}')


def test_a_default_is_not_validated() -> None:
    unset = object()

    def act(a: int = unset) -> None: ...  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]

    assert one(act).body.decode("{}")[0]["a"] is unset


# ---------------------------------------------------------------- sameness


def test_equal_meaning_gives_equal_canonical_arguments() -> None:
    @tool
    def act(a: int, b: int = 2, day: datetime.date = datetime.date(2031, 5, 3)) -> None: ...

    decode = one(act).body.decode
    texts = ['{"a":1,"b":2}', '{ "b": 2, "a": 1 }', '{"a": "1"}', '{"a": 1, "day": "2031-05-03"}']
    assert {canonical(decode(text)[0]) for text in texts} == {'{"a":1,"b":2,"day":"2031-05-03"}'}
    assert canonical(decode('{"a": 2}')[0]) != canonical(decode('{"a": 1}')[0])
