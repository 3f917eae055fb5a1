"""Values that a tool may return and that are hard to show: what a model has to read of each, or that it cannot be."""

from __future__ import annotations

import atexit
import collections
import dataclasses
import datetime
import enum
import itertools
import os
import pathlib
import sys
import threading
import types
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict

import attrs
import msgspec
import numpy
import pydantic

from surehand import TextContent, ToolResult

LONE = "\ud835"  # half a character, as scraped text may hold it
HUGE = 10**5000


class Colour(enum.Enum):
    RED = "red"
    FIRST = 1
    PAIR = (1, 2)


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)
    inner: Any = pydantic.Field(alias="theInner")


class Names(pydantic.BaseModel):
    names: set[str]


class Record(msgspec.Struct, rename="camel", tag="record"):
    my_field: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Typed(TypedDict):
    x: Any


@attrs.define
class Attributes:
    x: Any


class Hostile:
    """Whatever is asked of it, it raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __str__(self) -> str:
        raise RuntimeError("no str")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no eq")

    __hash__ = object.__hash__


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no str")


class Loud(str):
    def __str__(self) -> str:
        return "<loud>"

    __repr__ = __str__


class LoudInt(int):
    def __repr__(self) -> str:
        return "<loud>"

    __str__ = __repr__


class OwnDict(dict[str, Any]):
    pass


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def cyclic_object() -> Model:
    value = Model(theInner=None)
    value.inner = [value]
    return value


def deep(levels: int = 10_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def deep_dict() -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(10_000):
        value = {"in": value}
    return value


async def counted() -> AsyncIterator[int]:
    yield 1


def broken_items() -> Iterator[int]:
    yield 1
    raise HostileError


# ---------------------------------------------------------------- what reads as JSON

READABLE: dict[str, tuple[Callable[[], Any], str]] = {
    # sets (RES-07)
    "set": (lambda: {"b", "a", "c"}, '["a","b","c"]'),
    "frozenset": (lambda: frozenset({3, 1, 2}), "[1,2,3]"),
    "empty set among good values": (lambda: {"s": set(), "n": 1}, '{"s":[],"n":1}'),
    "set in a list in a dict": (lambda: {"a": [{"y", "x"}]}, '{"a":[["x","y"]]}'),
    "set of tuples": (lambda: {(2, 1), (1, 2)}, "[[1,2],[2,1]]"),
    "set of sets": (lambda: {frozenset({2, 1}), frozenset()}, "[[],[1,2]]"),
    "set of kinds": (lambda: {1, "a", None, 2.5}, '["a",1,2.5,null]'),
    "set of enums": (lambda: {Colour.RED, Colour.FIRST}, '["red",1]'),
    "set of dataclasses": (lambda: {Point(2), Point(1)}, '[{"x":1},{"x":2}]'),
    "set of NaN": (lambda: {2.0, float("nan"), 1.0}, "[1.0,2.0,null]"),
    "set in a dataclass": (lambda: Point({"b", "a"}), '{"x":["a","b"]}'),
    "set in a model": (lambda: Names(names={"b", "a", "c"}), '{"names":["a","b","c"]}'),
    "set in a model of anything": (lambda: Model(theInner=[{"b", "a"}]), '{"theInner":[["a","b"]]}'),
    "set in a struct": (lambda: Record({"b", "a"}), '{"type":"record","myField":["a","b"]}'),
    "keys of a dict": (lambda: {"b": 1, "a": 2}.keys(), '["a","b"]'),
    # bytes (RES-08)
    "bytes": (lambda: b"\xff\x00", '"/wA="'),
    "bytearray": (lambda: bytearray(b"\xff\x00"), '"/wA="'),
    "memoryview": (lambda: memoryview(b"\xff\x00\xff")[::2], '"//8="'),
    "bytes in a list": (lambda: [b"\xff", bytearray(b"\xff"), memoryview(b"\xff")], '["/w==","/w==","/w=="]'),
    "bytes as a value of a dict": (lambda: {"a": {"b": b"\xff"}}, '{"a":{"b":"/w=="}}'),
    "bytes as a key": (lambda: {b"\xff": 1}, '{"/w==":1}'),
    "bytes in a model": (lambda: Model(theInner=b"\xff"), '{"theInner":"/w=="}'),
    "bytes in a dataclass": (lambda: Point([b"\xff"]), '{"x":["/w=="]}'),
    "bytes in a set": (lambda: {b"\xff"}, '["/w=="]'),
    # half characters (RES-09)
    "lone": (lambda: f"{LONE} text", "\ufffd text"),
    "lone in a subclass of str": (lambda: Loud(LONE), "\ufffd"),
    "lone in a list": (lambda: [[LONE]], '[["\ufffd"]]'),
    "lone as a key": (lambda: {LONE: {LONE: LONE}}, '{"\ufffd":{"\ufffd":"\ufffd"}}'),
    "lone in a set": (lambda: {LONE}, '["\ufffd"]'),
    "lone in a deque": (lambda: collections.deque([LONE]), '["\ufffd"]'),
    "lone in a proxy": (lambda: types.MappingProxyType({LONE: LONE}), '{"\ufffd":"\ufffd"}'),
    "lone in a dataclass": (lambda: Point(LONE), '{"x":"\ufffd"}'),
    "lone in a model": (lambda: Model(theInner=[LONE]), '{"theInner":["\ufffd"]}'),
    "lone in a struct": (lambda: [Record(LONE)], '[{"type":"record","myField":"\ufffd"}]'),
    "lone in an attrs class": (lambda: Attributes(LONE), '{"x":"\ufffd"}'),
    "lone in an enum": (lambda: [enum.Enum("Odd", {"A": LONE}).A], '["\ufffd"]'),  # type: ignore[misc]
    "lone in a path": (lambda: pathlib.PurePosixPath(LONE), '"\ufffd"'),
    "lone in an array": (lambda: numpy.array([LONE]), '["\ufffd"]'),
    "lone in an iterator": (lambda: {"i": iter([LONE])}, '{"i":["\ufffd"]}'),
    "lone next to NaN": (lambda: [LONE, float("nan")], '["\ufffd",null]'),
    # keys that are no text
    "keys": (lambda: {1: "a", None: "b", 2.5: "c", False: "d"}, '{"1":"a","null":"b","2.5":"c","false":"d"}'),
    "key of a tuple": (lambda: {(1, "a"): 1}, '{"1,a":1}'),
    "key of an enum": (lambda: {Colour.RED: 1, Colour.PAIR: 2}, '{"red":1,"1,2":2}'),
    "key of a date": (lambda: {datetime.date(2031, 5, 3): 1}, '{"2031-05-03":1}'),
    "key of a UUID": (lambda: {uuid.UUID(int=1): {b"a"}}, '{"00000000-0000-0000-0000-000000000001":["YQ=="]}'),
    "key of a decimal": (lambda: {Decimal("1.10"): 1}, '{"1.10":1}'),
    "key of numpy": (lambda: {numpy.int64(3): 1}, '{"3":1}'),
    "key of bool among others": (lambda: {False: {1}, (): 2}, '{"false":[1],"":2}'),
    "huge key": (lambda: {HUGE: 1}, f'{{"1{"0" * 5000}":1}}'),
    # numbers
    "NaN": (lambda: float("nan"), "null"),
    "NaN at any depth": (lambda: {"a": [float("inf"), (float("-inf"),)]}, '{"a":[null,[null]]}'),
    "NaN in a model": (lambda: Model(theInner=float("nan")), '{"theInner":null}'),
    "NaN in an array": (lambda: numpy.array([numpy.nan, 1]), "[null,1.0]"),
    "decimal": (lambda: [Decimal("1.10"), Decimal("NaN")], '["1.10","NaN"]'),
    "beyond 64 bits": (lambda: [2**64, -(10**30)], "[18446744073709551616,-1000000000000000000000000000000]"),
    "beyond 4300 digits": (lambda: HUGE, "1" + "0" * 5000),
    "beyond 4300 digits inside": (lambda: {"n": [HUGE]}, f'{{"n":[1{"0" * 5000}]}}'),
    "complex": (lambda: [1 + 2j], '["1+2j"]'),
    # moments and names (RES-02)
    "datetime": (lambda: datetime.datetime(2031, 5, 3, 10, tzinfo=datetime.UTC), '"2031-05-03T10:00:00Z"'),
    "date, time, timedelta": (
        lambda: [datetime.date(2031, 5, 3), datetime.time(1, 2), datetime.timedelta(days=1)],
        '["2031-05-03","01:02:00","P1D"]',
    ),
    "uuid, path": (lambda: (uuid.UUID(int=1), pathlib.PurePosixPath("/a")), f'["{uuid.UUID(int=1)}","/a"]'),
    "path of another system": (lambda: pathlib.PureWindowsPath("a\\b"), '"a\\\\b"'),
    "enum": (lambda: Colour.RED, "red"),
    "enums": (lambda: [Colour.RED, Colour.FIRST, Colour.PAIR], '["red",1,[1,2]]'),
    # objects
    "dataclass": (lambda: Point([Point(1)]), '{"x":[{"x":1}]}'),
    "model with an alias": (lambda: Model(theInner=Model(theInner=1)), '{"theInner":{"theInner":1}}'),
    "model with foreign things": (lambda: Model(theInner=numpy.arange(2)), '{"theInner":[0,1]}'),
    "struct with names and a tag": (
        lambda: Record(Record(1)),
        '{"type":"record","myField":{"type":"record","myField":1}}',
    ),
    "attrs": (lambda: [Attributes(Attributes(2))], '[{"x":{"x":2}}]'),
    "named tuple": (lambda: {"p": Pair(1, Pair(2, 3))}, '{"p":[1,[2,3]]}'),
    "typed dict": (lambda: Typed(x=1), '{"x":1}'),
    "deque": (lambda: collections.deque([1, 2]), "[1,2]"),
    "range": (lambda: [range(3)], "[[0,1,2]]"),
    "proxy": (lambda: types.MappingProxyType({"a": 1}), '{"a":1}'),
    "Counter": (lambda: collections.Counter("aab"), '{"a":2,"b":1}'),
    "defaultdict": (lambda: collections.defaultdict(list, {"a": [1]}), '{"a":[1]}'),
    "ChainMap": (lambda: collections.ChainMap({"a": 1}, {"b": 2}), '{"b":2,"a":1}'),
    "UserDict, UserList, UserString": (
        lambda: [collections.UserDict(a=1), collections.UserList([1]), collections.UserString("x")],
        '[{"a":1},[1],"x"]',
    ),
    "values of a dict": (lambda: {"a": 1}.values(), "[1]"),
    "numpy scalars": (lambda: [numpy.int64(3), numpy.float32(0.5), numpy.bool_(True)], "[3,0.5,true]"),
    "numpy text": (lambda: numpy.str_("x"), "x"),
    "numpy arrays": (lambda: {"m": numpy.array([[1, 2], [3, 4]])}, '{"m":[[1,2],[3,4]]}'),
    "subclasses of plain types": (lambda: [Loud("x"), LoudInt(3), OwnDict(a=1)], '["x",3,{"a":1}]'),
    "subclass of str": (lambda: Loud("x"), "x"),
    "subclass of int": (lambda: LoudInt(3), "3"),
    "iterators inside": (lambda: {"i": iter([1]), "z": zip([1], [2], strict=True)}, '{"i":[1],"z":[[1,2]]}'),
    "generator inside": (lambda: [(n for n in (1, 2))], "[[1,2]]"),
    "secret": (lambda: pydantic.SecretStr("hunter2"), '"**********"'),
    "one object twice": (lambda: [shared := {"a": 1}, shared], '[{"a":1},{"a":1}]'),
    "nested a hundred deep": (lambda: {1: deep(100)}, '{"1":' + "[" * 101 + "]" * 101 + "}"),
}


# ---------------------------------------------------------------- what cannot be shown (RES-03, RES-04)

# Opened once and held: files that tests leave to the garbage collector would warn in whichever test runs then.
OPEN_TEXT, OPEN_BINARY = open(os.devnull), open(os.devnull, "rb")  # noqa: SIM115
atexit.register(OPEN_TEXT.close)
atexit.register(OPEN_BINARY.close)

UNREADABLE: dict[str, Callable[[], Any]] = {
    "class": lambda: dict,
    "class inside": lambda: {"c": [Point]},
    "function": lambda: len,
    "lambda inside": lambda: [lambda: None],
    "method": lambda: "x".upper,
    "module": lambda: sys,
    "object": object,
    "object inside": lambda: {"o": object()},
    "hostile": Hostile,
    "hostile in a set": lambda: {Hostile()},
    "hostile in a model": lambda: Model(theInner=Hostile()),
    "hostile in an array": lambda: numpy.array([Hostile()], dtype=object),
    "exception": lambda: ValueError("x"),
    "exception that cannot be printed": HostileError,
    "exception inside": lambda: {"e": [KeyError("x")]},
    "exception in a dataclass": lambda: Point(ValueError("x")),
    "group of exceptions": lambda: ExceptionGroup("g", [ValueError("x")]),
    "file": lambda: OPEN_TEXT,
    "file inside": lambda: [OPEN_BINARY],
    "lock": threading.Lock,
    "lock inside": lambda: {"l": threading.Lock()},
    "thread": threading.current_thread,
    "cyclic": cyclic,
    "cyclic object": cyclic_object,
    "10,000 deep": deep,
    "10,000 deep in dicts": deep_dict,
    "endless inside": lambda: [itertools.count()],
    "endless range": lambda: [range(10**12)],
    "iterator that fails": lambda: {"i": broken_items()},
    "async generator inside": lambda: [counted()],
    "key of an object": lambda: {object(): 1},
    "key of a dataclass": lambda: {Point(1): 1},
    "key of a frozenset": lambda: {frozenset({1}): 1},
    "two keys that read the same": lambda: {(1,): 1, "1": {2}},
    "a whole result inside": lambda: [ToolResult.of("x")],
    "a whole result of a number": lambda: ToolResult((5,)),  # type: ignore[arg-type]
    "a lazy result of a number": lambda: ToolResult.lazy(lambda: 5),  # type: ignore[arg-type, return-value]
    "a lazy result that fails": lambda: ToolResult.lazy(lambda: str(1 / 0)),
    "ellipsis": lambda: ...,
    "namespace": lambda: types.SimpleNamespace(a=1),
    "contents mixed with text": lambda: ["text", TextContent("x")],
    "contents mixed with nothing": lambda: (TextContent("x"), None),
    "contents mixed with hostile things": lambda: [Hostile(), TextContent("x")],
    "contents mixed in a set": lambda: {TextContent("x"), 1},
}
