"""What a tool returned comes back as itself after it was stored, or is not stored at all."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from decimal import Decimal
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from surehand.tools._declare import tool
from surehand.tools._parameter import MISSING
from surehand.tools._values import ValueCodec

from .helpers import one


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: list[str] = []


class Renamed(BaseModel):
    number: int = Field(validation_alias="roomNumber", serialization_alias="no")


class Priced(BaseModel):
    model_config = ConfigDict(extra="forbid")
    net: int

    @computed_field
    @property
    def gross(self) -> int:
        return self.net + 19


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


class Record(msgspec.Struct):
    a: int


class Opened(msgspec.Struct, tag=True):
    at: datetime.date


class Closed(msgspec.Struct, tag=True):
    at: datetime.date


class Room(TypedDict):  # not typing_extensions', which pydantic asks for before Python 3.12
    number: int


class Colour(enum.Enum):
    RED = "red"


class Handle:
    pass


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = object.__hash__


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(10_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (MISSING, None),
        (MISSING, {"a": [1, 2.5, "x", None, True]}),
        (None, None),
        (int, 10**30),
        (str | None, "x"),
        (Decimal, Decimal("1.10")),
        (bytes, b"\xff\x00"),
        (tuple[int, datetime.date], (1, datetime.date(2031, 5, 3))),
        (set[int], {1, 2}),
        (Colour, Colour.RED),
        (Animal, Animal(name="a")),
        (list[Animal | Point], [Animal(name="a"), Point(1, datetime.date(2031, 5, 3))]),
        (Point, Point(1, datetime.date(2031, 5, 3))),
        (Record, Record(1)),
        (Renamed, Renamed.model_validate({"roomNumber": 7})),
        (Priced, Priced(net=100)),
        (list[Record], [Record(1)]),
        (Opened | Closed, Closed(datetime.date(2031, 5, 3))),
        (Room, {"number": 7}),
    ],
    ids=repr,
)
def test_a_value_of_the_declared_type_comes_back_as_itself(hint: Any, value: Any) -> None:
    codec = ValueCodec(hint)
    data = codec.dump(value)
    assert data is not None
    restored = codec.load(data)
    assert (type(restored), restored) == (type(value), value)


def test_a_whole_number_where_a_float_is_declared_comes_back_as_that_float() -> None:
    codec = ValueCodec(float)
    data = codec.dump(95)
    assert data is not None
    restored = codec.load(data)
    assert (type(restored), restored) == (float, 95.0)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (MISSING, Animal(name="a")),
        (MISSING, (1, 2)),
        (MISSING, {1: "a"}),
        (Animal, Dog(name="a")),
        (int, "x"),
        (Handle, Handle()),
        (float, float("nan")),
        (Any, [datetime.date(2031, 5, 3)]),
        (MISSING, cyclic()),
        (MISSING, deep()),
        (list[Any], cyclic()),
        (list[Any], deep()),
        (Any, {"a": Hostile()}),
        (Hostile, Hostile()),
        (list[Hostile], [Hostile()]),
        (str, "\ud835"),
        (list[str], ["\ud835"]),
        (MISSING, {1, 2}),
        (MISSING, b"\xff"),
        (MISSING, float("inf")),
        (BaseException, ValueError("x")),
        (type, dict),
    ],
    ids=[
        *("model", "tuple", "int_key", "subclass", "wrong_type", "no_codec", "nan", "date_in_any", "cyclic", "deep"),
        *("cyclic_list", "deep_list", "hostile", "hostile_type", "hostile_list", "half_character", "half_inside"),
        *("set", "bytes", "infinite", "exception", "class"),
    ],
)
def test_what_would_come_back_as_something_else_is_opaque(hint: Any, value: Any) -> None:
    assert ValueCodec(hint).dump(value) is None


def test_a_tools_values_follow_its_return_annotation() -> None:
    @tool
    def act() -> Point: ...  # type: ignore[empty-body]

    body: Any = one(act).body
    point = Point(1, datetime.date(2031, 5, 3))
    assert body.values.load(body.values.dump(point)) == point
