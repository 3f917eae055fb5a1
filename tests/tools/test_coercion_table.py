"""The coercion table, every cell at every place: a parameter, an item, a field, a member of a union (spec 4.2, 4.3).

The table is written out by hand from the specification. ``E`` is an argument error.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import json
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from .decoding import decoder, decoder_with, refusal


class Colour(enum.Enum):
    RED = "red"
    ABC = "ABC"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Switch(enum.Enum):
    ON = True
    SEVEN = "7"


@dataclasses.dataclass
class Record:
    a: int


class Named(TypedDict):
    a: int


class Pair(NamedTuple):
    a: int


class Model(BaseModel):
    a: int


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclasses.dataclass
class Other:
    """Another member of a union, which takes none of the values of the table."""

    other: int


E: Any = object()
FLOAT_MAX = 3.4028234663852886e38
Char = Annotated[str, Field(min_length=1, max_length=1)]
Int8 = Annotated[int, Field(ge=-128, le=127)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Float32 = Annotated[float, Field(ge=-FLOAT_MAX, le=FLOAT_MAX)]
Animal = Annotated[Cat | Dog, Field(discriminator="kind")]

SENT = {
    "null": "null", "true": "true", "false": "false", "integer": "1", "whole": "2.0", "fraction": "1.5",
    "digits": '"7"', "spaced": '" 7 "', "text": '"abc"', "empty": '""', "array": "[1]", "object": '{"a": 1}',
}  # fmt: skip

WHOLE = {"integer": 1, "whole": 2, "digits": 7, "spaced": 7}
REAL = {"integer": 1.0, "whole": 2.0, "fraction": 1.5, "digits": 7.0, "spaced": 7.0}
EXACT = {
    "integer": Decimal(1), "whole": Decimal(2), "fraction": Decimal("1.5"), "digits": Decimal(7), "spaced": Decimal(7),
}  # fmt: skip
TEXT = {
    "true": "true", "false": "false", "integer": "1", "whole": "2.0", "fraction": "1.5", "digits": "7", "spaced": " 7 ",
    "text": "abc", "empty": "", "array": "[1]", "object": '{"a":1}',
}  # fmt: skip
ANYTHING = {
    "null": None, "true": True, "false": False, "integer": 1, "whole": 2.0, "fraction": 1.5, "digits": "7",
    "spaced": " 7 ", "text": "abc", "empty": "", "array": [1], "object": {"a": 1},
}  # fmt: skip

# What is not in a row is refused. "missing" is only a cell of its own where there is a name that can be left out.
TABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (str, TEXT),
    "character": (Char, {"digits": "7"}),
    "boolean": (bool, {"true": True, "false": False}),
    "int8": (Int8, WHOLE),
    "int64": (Int64, WHOLE),
    "int": (int, WHOLE),
    "float": (float, REAL),
    "float32": (Float32, REAL),
    "decimal": (Decimal, EXACT),
    "enum": (Colour, {"text": Colour.ABC}),
    "enum of integers": (Level, {"integer": Level.LOW}),
    "enum of a boolean and digits": (Switch, {"true": Switch.ON, "digits": Switch.SEVEN}),
    "uuid": (uuid.UUID, {}),
    "list": (list[int], {"array": [1]}),
    "tuple": (tuple[int, ...], {"array": (1,)}),
    "fixed tuple": (tuple[int], {"array": (1,)}),
    "set": (set[int], {"array": {1}}),
    "frozenset": (frozenset[int], {"array": frozenset({1})}),
    "map": (dict[str, int], {"object": {"a": 1}}),
    "map with integer keys": (dict[int, int], {}),
    "dataclass": (Record, {"object": Record(1)}),
    "typed dict": (Named, {"object": {"a": 1}}),
    "named tuple": (Pair, {"array": Pair(1), "object": Pair(1)}),  # an array is how the schema shows it
    "model": (Model, {"object": Model(a=1)}),
    "polymorphic": (Animal, {}),
    "optional integer": (int | None, {**WHOLE, "missing": None, "null": None}),
    "optional text": (str | None, {**TEXT, "missing": None, "null": None}),
    "date": (datetime.date, {}),
    "time": (datetime.time, {}),
    "datetime": (datetime.datetime, {}),
    "duration": (datetime.timedelta, {}),
    "anything": (Any, ANYTHING),
    "literal": (Literal["abc", 1], {"integer": 1, "text": "abc"}),
    "literal of a boolean and digits": (Literal[True, "7"], {"true": True, "digits": "7"}),
    "literal of an integer": (Literal[2], {}),
}  # fmt: skip


def holder(hint: Any) -> Any:
    return dataclasses.make_dataclass("Holder", [("f", hint)])


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the value stands: the parameter's type, the text around the value, and how to get at it."""

    hint: Any
    text: str
    get: Any
    path: str


PLACES = {
    "parameter": Place(lambda hint: hint, "%s", lambda value: value, "v"),
    "item": Place(lambda hint: list[hint], "[%s]", lambda value: value[0], "v[0]"),
    "entry": Place(lambda hint: dict[str, hint], '{"k": %s}', lambda value: value["k"], "v.k"),
    "field": Place(holder, '{"f": %s}', lambda value: value.f, "v.f"),
    "optional": Place(lambda hint: hint | None, "%s", lambda value: value, "v"),
    "union": Place(lambda hint: hint | Other, "%s", lambda value: value, "v"),
    "item of a union": Place(lambda hint: list[Other | hint], "[%s]", lambda value: value[0], "v[0]"),
}


def cell(row: str, sent: str, place: str) -> Any:
    values = TABLE[row][1]
    if place == "optional" and sent == "null":
        return None
    return values.get(sent, E)


# Which cells take a repair, by hand: everything else that is accepted is accepted as it is.
REPAIRED = {
    "text": {"true", "false", "integer", "whole", "fraction", "array", "object"},
    "int8": {"digits", "spaced"}, "int64": {"digits", "spaced"}, "int": {"digits", "spaced"},
    "float": {"digits", "spaced"}, "float32": {"digits", "spaced"}, "decimal": {"digits", "spaced"},
    "enum": {"text"}, "optional integer": {"digits", "spaced"},
    "optional text": {"true", "false", "integer", "whole", "fraction", "array", "object"},
}  # fmt: skip


@functools.cache
def decoder_of(row: str, place: str) -> Any:
    return decoder(v=PLACES[place].hint(TABLE[row][0]))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize("row", TABLE)
def test_each_cell_at_each_place(row: str, sent: str, place: str) -> None:
    at, decode, expected = PLACES[place], decoder_of(row, place), cell(row, sent, place)
    text = f'{{"v": {at.text % SENT[sent]}}}'
    if expected is E:
        assert at.path in refusal(decode, text)
        assert at.path in refusal(decode, text, "strict")
        return
    values, repairs = decode(text)
    value = at.get(values["v"])
    assert (type(value), value) == (type(expected), expected)
    if sent in REPAIRED.get(row, ()):
        assert [(repair.path, repair.before) for repair in repairs] == [(at.path, json.loads(SENT[sent]))]
        assert at.path in refusal(decode, text, "strict")
    else:
        assert repairs == ()
        assert decode(text, "strict") == (values, ())


# ---------------------------------------------------------------- rule M

DEFAULTS: dict[str, Any] = {
    "text": "", "character": "y", "boolean": True, "int8": 5, "int64": 5, "int": 5, "float": 5.5, "float32": 5.5,
    "decimal": Decimal("5.50"), "enum": Colour.RED, "enum of integers": Level.HIGH,
    "enum of a boolean and digits": Switch.ON, "uuid": uuid.UUID(int=5), "list": [5], "tuple": (5,),
    "fixed tuple": (5,), "set": {5}, "frozenset": frozenset({5}), "map": {"b": 5}, "map with integer keys": {5: 5},
    "dataclass": Record(5), "typed dict": {"a": 5}, "named tuple": Pair(5), "model": Model(a=5),
    "polymorphic": Dog(kind="dog"), "optional integer": 5, "optional text": "x", "date": datetime.date(2031, 5, 3),
    "time": datetime.time(5), "datetime": datetime.datetime(2031, 5, 3), "duration": datetime.timedelta(5),
    "anything": "x", "literal": "abc", "literal of a boolean and digits": "7", "literal of an integer": 2,
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE)
def test_a_required_parameter_that_is_missing_is_named_unless_it_is_optional(row: str) -> None:
    hint, values = TABLE[row]
    if "missing" in values:
        assert decoder(v=hint)("{}") == ({"v": None}, ())
    else:
        assert "'t'" in refusal(decoder(v=hint), "{}") and "v: missing" in refusal(decoder(v=hint), "{}")


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_a_default_stands_in_for_missing_and_for_null(row: str, decoding: Any) -> None:
    hint, values = TABLE[row]
    default = DEFAULTS[row]
    decode = decoder_with({"v": hint}, {"v": default})
    assert decode("{}", decoding) == ({"v": default}, ())
    null = None if "null" in values else default  # a null that the type takes is a value
    assert decode('{"v": null}', decoding) == ({"v": null}, ())


@pytest.mark.parametrize("row", TABLE)
@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_a_default_of_a_field_stands_in_for_missing_and_for_null(row: str, decoding: Any) -> None:
    hint, values = TABLE[row]
    default = DEFAULTS[row]
    kind = dataclasses.make_dataclass("Holder", [("f", hint, dataclasses.field(default_factory=lambda: default))])
    null = None if "null" in values else default
    for type_, text in [(kind, "%s"), (list[kind], "[%s]"), (kind | None, "%s"), (kind | Other, "%s")]:  # type: ignore[valid-type]
        for sent, expected in [("{}", default), ('{"f": null}', null)]:
            value, repairs = decoder(v=type_)(f'{{"v": {text % sent}}}', decoding)
            found = value["v"][0] if isinstance(value["v"], list) else value["v"]
            assert (found.f, repairs) == (expected, ())


@pytest.mark.parametrize("row", TABLE)
def test_a_field_without_default_must_be_there(row: str) -> None:
    hint, values = TABLE[row]
    assert "v.f: missing" in refusal(decoder(v=holder(hint)), '{"v": {}}')
    if "null" not in values:
        assert "v.f: " in refusal(decoder(v=holder(hint)), '{"v": {"f": null}}')


@pytest.mark.parametrize("row", TABLE)
def test_a_key_that_is_not_required_may_be_null(row: str) -> None:
    hint, values = TABLE[row]
    kind: Any = TypedDict("Loose", {"f": NotRequired[hint]})  # type: ignore[misc]
    assert decoder(v=kind)('{"v": {}}') == ({"v": {}}, ())
    expected = {"f": None} if "null" in values else {}
    assert decoder(v=kind)('{"v": {"f": null}}') == ({"v": expected}, ())


def test_an_entry_of_a_map_is_never_left_out() -> None:
    assert "v.y: " in refusal(decoder(v=dict[str, int]), '{"v": {"y": null}}')
    assert "v.y" in refusal(decoder(v=Other | dict[str, int]), '{"v": {"y": null}}')


# ---------------------------------------------------------------- the cells with conditions


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("hint", "sent", "expected"),
    [
        (Char, '"x"', "x"), (Char, '"é"', "é"), (Char, '"ab"', E), (Char, '" 7"', E),
        (bool, '"TRUE"', True), (bool, '"False"', False), (bool, '" true "', E), (bool, '"1"', E), (bool, "0", E),
        (Int8, "127", 127), (Int8, "128", E), (Int8, "-129", E), (Int8, '"128"', E), (Int8, "127.0", 127),
        (Int8, "128.0", E), (Int8, '"7.0"', 7), (Int8, '"7.5"', E), (Int8, "-128", -128),
        (Int64, "9223372036854775807", 2**63 - 1), (Int64, "9223372036854775808", E),
        (Int64, '"9223372036854775808"', E), (Int64, "9223372036854775807.0", 2**63 - 1),
        (int, "9007199254740993", 2**53 + 1), (int, '"9007199254740993"', 2**53 + 1),
        (int, "9007199254740993.0", 2**53 + 1), (int, '"7.5"', E), (int, '"7.0"', 7), (int, '"-7"', -7),
        (int, "1e3", 1000), (int, '"1e3"', 1000), (int, "0.0", 0), (int, "-0.0", 0), (int, '"0x10"', E),
        (int, '"1_000"', E), (int, '"٧"', E), (int, '"1e1000000000"', E), (int, "1e1000000000", E),
        (float, '"1e3"', 1000.0), (float, '"NaN"', E), (float, '"Infinity"', E), (float, '"-inf"', E),
        (float, '"0x10"', E), (float, '"1e999"', E), (float, "1e400", E),
        (Float32, "1e38", 1e38), (Float32, "4e38", E), (Float32, '"4e38"', E), (Float32, '"-4e38"', E),
        (Decimal, "0.1234567890123456789012345", Decimal("0.1234567890123456789012345")),
        (Decimal, '" 0.10 "', Decimal("0.10")), (Decimal, '"NaN"', E), (Decimal, '"1e1000000000"', E),
        (Colour, '"red"', Colour.RED), (Colour, '"RED"', Colour.RED), (Colour, '"Red"', Colour.RED),
        (Colour, '"reds"', E), (Level, '"low"', Level.LOW), (Level, '"HIGH"', Level.HIGH), (Level, '"1"', E),
        (Level, "3", E), (Level, "true", E), (Level, "1.0", E),
        (uuid.UUID, '"123e4567-e89b-12d3-a456-426614174000"', uuid.UUID("123e4567-e89b-12d3-a456-426614174000")),
        (uuid.UUID, '"123e4567e89b12d3a456426614174000"', E),
        (uuid.UUID, '"{123e4567-e89b-12d3-a456-426614174000}"', E),
        (uuid.UUID, '"urn:uuid:123e4567-e89b-12d3-a456-426614174000"', E),
        (list[int], '"[1, 2]"', [1, 2]), (list[int], '" [1]"', [1]), (list[int], '"{}"', E), (list[int], '"[1"', E),
        (list[int], '"\\"[1]\\""', E), (list[int], '"[\\"1\\"]"', [1]), (list[int], '"[1,]"', E),
        (list[int], '[1, "2", 3.0]', [1, 2, 3]), (list[int], "[1, true]", E), (list[int], "[1.5]", E),
        (tuple[int, ...], '"[1]"', (1,)), (set[int], '"[1, 1]"', {1}), (set[int], "[1, 1.0]", {1}),
        (frozenset[int], '"[1]"', frozenset({1})), (tuple[int, str], '[1, "a"]', (1, "a")), (tuple[int, str], "[1]", E),
        (dict[str, int], '"{\\"a\\": 1}"', {"a": 1}), (dict[str, int], '"[1]"', E),
        (dict[int, int], '{"1": "2"}', {1: 2}), (dict[int, int], '{"x": 2}', E),
        (dict[datetime.date, int], '{"2031-05-03": 1}', {datetime.date(2031, 5, 3): 1}),
        (dict[datetime.date, int], '{"1700000000": 1}', E), (dict[float, int], '{"NaN": 1}', E),
        (Record, '"{\\"a\\": \\"1\\"}"', Record(1)), (Record, '{"a": 1, "b": 2}', E), (Record, "{}", E),
        (Record, '{"a": 1.5}', E), (Record, '{"a": "1"}', Record(1)), (Named, '"{\\"a\\": 1}"', {"a": 1}),
        (Named, '{"a": 1, "b": 2}', E), (Model, '"{\\"a\\": 1}"', Model(a=1)), (Pair, '"{\\"a\\": 1}"', Pair(1)),
        (Animal, '{"kind": "cat"}', Cat(kind="cat")), (Animal, '"{\\"kind\\": \\"dog\\"}"', Dog(kind="dog")),
        (Animal, '{"kind": "cow"}', E), (Animal, "{}", E),
        (datetime.date, '"2031-05-03"', datetime.date(2031, 5, 3)), (datetime.date, '"1700000000"', E),
        (datetime.date, '"-5"', E), (datetime.date, '"2031-13-03"', E), (datetime.date, '"20310503"', E),
        (datetime.time, '"10:30:00"', datetime.time(10, 30)), (datetime.time, "37800", E),
        (datetime.time, '"37800"', E),
        (datetime.datetime, '"2031-05-03T10:00:00Z"', datetime.datetime(2031, 5, 3, 10, tzinfo=datetime.UTC)),
        (datetime.datetime, "1700000000", E), (datetime.datetime, '"1700000000.5"', E),
        (datetime.timedelta, '"P1DT2H"', datetime.timedelta(days=1, hours=2)), (datetime.timedelta, '"60"', E),
        (datetime.timedelta, '"PT0.5S"', datetime.timedelta(seconds=0.5)), (datetime.timedelta, "60.5", E),
        (Literal["abc", 1], "1.0", E), (Literal["abc", 1], '"1"', E), (Literal["abc", 1], "true", E),
        (str, "-0", "-0"), (str, "2.50", "2.50"), (str, "1E5", "1E5"), (str, "[2.50, true]", "[2.5,true]"),
        (str, "123456789012345678901234567890", "123456789012345678901234567890"),
    ],
)  # fmt: skip
def test_each_condition_at_each_place(hint: Any, sent: str, expected: Any, place: str) -> None:
    at = PLACES[place]
    decode = decoder(v=at.hint(hint))
    text = f'{{"v": {at.text % sent}}}'
    if expected is E:
        refusal(decode, text)
        return
    value = at.get(decode(text)[0]["v"])
    assert (type(value), value) == (type(expected), expected)


# ---------------------------------------------------------------- unions whose members compete


@pytest.mark.parametrize("place", ["parameter", "item", "entry", "field", "optional"])
@pytest.mark.parametrize(
    ("hint", "sent", "expected"),
    [
        (str | int, '"7"', "7"), (str | int, "7", 7), (int | str, '"7"', "7"), (int | float, "1", 1),
        (int | float, "2.0", 2.0), (int | str, "2.0", 2), (str | int, "2.0", 2), (str | int, "2.5", "2.5"),
        (str | bool, '"true"', "true"), (int | bool, "true", True), (int | bool, '"true"', True),
        (str | list[str], '"[\\"a\\"]"', '["a"]'), (list[str] | str, '["a"]', ["a"]), (list[int] | str, '["7"]', [7]),
        (list[int] | str, "[2.0]", [2]), (list[int] | str, '["x"]', '["x"]'), (int | list[int], '"[1]"', [1]),
        (str | datetime.date, '"2031-05-03"', "2031-05-03"),
        (datetime.date | int, '"2031-05-03"', datetime.date(2031, 5, 3)),
        (Colour | str, '"RED"', "RED"), (Colour | int, '"RED"', Colour.RED),
        (Record | dict[str, int], '{"b": 1}', {"b": 1}),
        (Record | Other, '{"a": "1"}', Record(1)), (Record | Other, '{"other": "1"}', Other(1)),
        (Record | str, '{"a": "1"}', Record(1)), (Record | str, '{"b": 1}', '{"b":1}'),
        (dict[str, str] | dict[str, int], '{"int": 1}', {"int": 1}),
        (dict[str, int] | str, '{"str": "x"}', '{"str":"x"}'),
    ],
)  # fmt: skip
def test_what_a_member_takes_stays_as_it_is_and_else_the_one_that_fits_is_repaired(
    hint: Any, sent: str, expected: Any, place: str
) -> None:
    at = PLACES[place]
    value = at.get(decoder(v=at.hint(hint))(f'{{"v": {at.text % sent}}}')[0]["v"])
    assert (type(value), value) == (type(expected), expected)
