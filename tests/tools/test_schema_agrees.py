"""What the schema allows is what strict decoding takes, judged by another package; and what is encoded can be decoded.

Types are drawn at random, values both fitting and spoilt. Where the two may differ is listed in ``EXCEPTIONS``.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import itertools
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NotRequired

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from msgspec import Struct
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from surehand.errors import ToolArgumentsError
from surehand.tools._declare import tool

from .decoding import Decode, decoder_with
from .helpers import one

# Where schema and decoder may differ, and why. Each is looked for in the value before the two are compared.
EXCEPTIONS = {
    "null for what has a default": "it counts as absent, though the schema does not offer it (spec 3.6.1)",
    "2.0 where 2 is a member": "equal in JSON schema; the table refuses it for enums and literals (spec 4.2)",
    "an array for a named tuple": "the schema shows an object, the form that models fill best; results are arrays",
    "a date for a moment": "ISO 8601 text of a day is taken for its start; its format is date, not date-time",
    "a moment for a date": "midnight is a date",
    "a number beyond the floats": "JSON schema knows no largest number",
    "text that is no base64": "a schema's contentEncoding is a note, not a rule",
    "a pydantic model": "it follows its own configuration, which converts unless it is strict (spec 4.1.6)",
}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Spot(NamedTuple):
    x: int
    label: str = "here"


class Piece(Struct):
    size: int
    tags: list[str] = []


class Cat(BaseModel):
    model_config = {"strict": True, "extra": "forbid"}
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    model_config = {"strict": True, "extra": "forbid"}
    kind: Literal["dog"]
    name: str


class Lenient(BaseModel):
    n: int


@dataclasses.dataclass(frozen=True)
class Kind:
    """A type, the JSON values that fit it, which sort of JSON value they are, and the types it is made of."""

    hint: Any
    values: st.SearchStrategy[Any]
    sorts: frozenset[str]
    made_of: frozenset[Any]


def kind(hint: Any, values: st.SearchStrategy[Any], *sorts: str, of: frozenset[Any] = frozenset()) -> Kind:
    return Kind(hint, values, frozenset(sorts), of or frozenset({hint}))


FORMATS: dict[str, list[str]] = {
    "uuid": ["123e4567-e89b-12d3-a456-426614174000"],
    "date": ["2031-05-03"],
    "time": ["10:30:00"],
    "date-time": ["2031-05-03T10:00:00", "2031-05-03T10:00:00Z"],
    "duration": ["P1DT2H", "PT30M"],
}
TEXTS = [
    "",
    "abc",
    "7",
    " 7 ",
    "7.5",
    "true",
    "null",
    "red",
    "RED",
    "[1]",
    '{"x": 1}',
    *itertools.chain(*FORMATS.values()),
]
CHECKER = FormatChecker(formats=[])
for name, fitting in FORMATS.items():
    CHECKER.checks(name)(lambda value, fitting=fitting: not isinstance(value, str) or value in fitting)

MIXED: Any = Literal["abc", 2, True]
small = st.integers(-3, 3)
texts = st.sampled_from(TEXTS)
LEAVES = [
    kind(int, st.integers(-(2**70), 2**70), "number"),
    kind(Annotated[int, Field(ge=-3, lt=3)], st.integers(-3, 2), "number"),
    kind(float, st.floats(allow_nan=False, allow_infinity=False), "number"),
    kind(Annotated[float, Field(gt=0)], st.floats(0.5, 100), "number"),
    kind(Decimal, st.decimals(-100, 100, places=2).map(float), "number"),
    kind(bool, st.booleans(), "boolean"),
    kind(str, st.text(), "string"),
    kind(Annotated[str, Field(min_length=1, max_length=3)], st.text("ab", min_size=1, max_size=3), "string"),
    kind(Annotated[str, Field(min_length=1, max_length=1)], st.text("ab", min_size=1, max_size=1), "string"),
    kind(Annotated[str, Field(pattern="^a+$")], st.text("a", min_size=1, max_size=3), "string"),
    kind(Colour, st.sampled_from(["red", "blue"]), "string"),
    kind(Level, st.sampled_from([1, 2]), "number"),
    kind(MIXED, st.sampled_from(["abc", 2, True]), "string", "number", "boolean"),
    kind(uuid.UUID, st.sampled_from(FORMATS["uuid"]), "string"),
    kind(datetime.date, st.sampled_from(FORMATS["date"]), "string"),
    kind(datetime.time, st.sampled_from(FORMATS["time"]), "string"),
    kind(datetime.datetime, st.sampled_from(FORMATS["date-time"]), "string"),
    kind(datetime.timedelta, st.sampled_from(FORMATS["duration"]), "string"),
    kind(Spot, st.fixed_dictionaries({"x": small}, optional={"label": texts}), "object"),
    kind(Piece, st.fixed_dictionaries({"size": small}, optional={"tags": st.lists(texts, max_size=2)}), "object"),
    kind(
        Annotated[Cat | Dog, Field(discriminator="kind")],
        st.fixed_dictionaries({"kind": st.just("cat"), "lives": small})
        | st.fixed_dictionaries({"kind": st.just("dog"), "name": texts}),
        "object",
    ),
    kind(set[int], st.lists(small, max_size=3, unique=True), "array"),
    kind(frozenset[str], st.lists(texts, max_size=3, unique=True), "array"),
    kind(dict[int, bool], st.dictionaries(small.map(str), st.booleans(), max_size=2), "object"),
]


@st.composite
def larger(draw: Any, inner: st.SearchStrategy[Kind]) -> Kind:
    first, second = draw(inner), draw(inner)
    shape = draw(st.sampled_from(["list", "bounded", "tuple", "pair", "map", "record", "dict", "optional", "union"]))
    one_value, lists = first.values, st.lists(first.values, max_size=3)
    of = first.made_of | second.made_of
    match shape:
        case "list":
            return kind(list[first.hint], lists, "array", of=of)
        case "bounded":
            hint = Annotated[list[first.hint], Field(min_length=1, max_length=2)]
            return kind(hint, st.lists(first.values, min_size=1, max_size=2), "array", of=of)
        case "tuple":
            return kind(tuple[first.hint, ...], lists, "array", of=of)
        case "pair":
            return kind(
                tuple[first.hint, second.hint], st.tuples(first.values, second.values).map(list), "array", of=of
            )
        case "map":
            return kind(dict[str, first.hint], st.dictionaries(texts, first.values, max_size=2), "object", of=of)
        case "record":
            optional = dataclasses.field(default=None)
            fields = [("first", first.hint), ("second", second.hint | None, optional)]
            made: Any = dataclasses.make_dataclass("Record", fields)
            given = st.fixed_dictionaries({"first": one_value}, optional={"second": second.values | st.none()})
            return kind(made, given, "object", of=of)
        case "dict":
            entries: Any = {"first": first.hint, "second": NotRequired[second.hint]}
            made = TypedDict("Loose", entries)  # type: ignore[misc]
            return kind(
                made, st.fixed_dictionaries({"first": one_value}, optional={"second": second.values}), "object", of=of
            )
        case "optional":
            return Kind(first.hint | None, first.values | st.none(), first.sorts | {"null"}, of)
        case _:
            assume(not first.sorts & second.sorts)
            return Kind(first.hint | second.hint, first.values | second.values, first.sorts | second.sorts, of)


kinds = st.recursive(st.sampled_from(LEAVES), larger, max_leaves=4)
scalars = st.none() | st.booleans() | small | st.sampled_from([1.0, 2.0, 1.5, -0.5]) | texts
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["x", "first", "size"]), inner, max_size=2)
    ),
)


@st.composite
def spoilt(draw: Any, value: Any) -> Any:
    """The value with one part of it replaced, left out or added."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(value)))
        rest = {name: item for name, item in value.items() if name != key}
        return draw(st.sampled_from([rest, {**value, "unheard of": 1}, {**rest, key: draw(spoilt(value[key]))}]))
    if isinstance(value, list) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        changed = [*value[:index], draw(spoilt(value[index])), *value[index + 1 :]]
        return draw(st.sampled_from([changed, value[1:], [*value, value[0]]]))
    return draw(anything)


def parts(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from parts(item)


def is_excepted(drawn: Kind, value: Any) -> bool:
    """Whether one of the exceptions may be at work."""
    found = list(parts(value))
    has_day = any(isinstance(part, str) and part[:4] == "2031" for part in found)
    return (
        any(isinstance(part, dict) and None in (part.get("label", ""), part.get("tags", "")) for part in found)
        or (any(type(part) is float for part in found) and bool({Level, MIXED} & drawn.made_of))
        or (any(isinstance(part, list) for part in found) and Spot in drawn.made_of)
        or (has_day and bool({datetime.date, datetime.datetime} & drawn.made_of))
    )


def takes(decode: Decode, text: str, decoding: Any = "strict") -> bool:
    try:
        decode(text, decoding)
    except ToolArgumentsError:
        return False
    return True


def tool_of(hint: Any) -> Any:
    def act(v: Any) -> None: ...

    act.__annotations__ = {"v": hint, "return": None}
    return one(tool(act))


def checked(hint: Any, data: Any) -> tuple[bool, bool]:
    """Whether the schema allows the arguments, and whether strict decoding takes them."""
    made = tool_of(hint)
    Draft202012Validator.check_schema(made.spec.parameters)
    judge = Draft202012Validator(made.spec.parameters, format_checker=CHECKER)
    return judge.is_valid(data), takes(made.body.decode, json.dumps(data))


LOOSE = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@given(kinds, st.data())
@LOOSE
def test_what_fits_the_type_fits_the_schema_and_is_taken(drawn: Kind, data: st.DataObject) -> None:
    value = data.draw(drawn.values)
    assert checked(drawn.hint, {"v": value}) == (True, True)


@given(kinds, st.data())
@LOOSE
def test_what_the_schema_refuses_is_refused_and_what_it_allows_is_taken(drawn: Kind, data: st.DataObject) -> None:
    value = data.draw(spoilt(data.draw(drawn.values)) | anything)
    assume(not is_excepted(drawn, value))
    allowed, taken = checked(drawn.hint, {"v": value})
    assert allowed == taken


@given(kinds, st.data())
@LOOSE
def test_what_is_taken_as_it_is_gives_the_same_in_every_mode(drawn: Kind, data: st.DataObject) -> None:
    value = data.draw(drawn.values | spoilt(data.draw(drawn.values)))
    decode, text = decoder_with({"v": drawn.hint}), json.dumps({"v": value})
    assume(takes(decode, text))
    strict = decode(text, "strict")
    assert repr(decode(text, "repair")) == repr(decode(text, "salvage")) == repr(strict)


@given(kinds, st.data())
@LOOSE
def test_what_a_tool_returns_can_be_sent_to_another(drawn: Kind, data: st.DataObject) -> None:
    def give() -> Any: ...

    give.__annotations__ = {"return": drawn.hint}
    decode = decoder_with({"v": drawn.hint})
    value = decode(json.dumps({"v": data.draw(drawn.values)}), "strict")[0]["v"]
    text = one(tool(give)).body.encode(value).text
    is_bare = isinstance(value.value if isinstance(value, enum.Enum) else value, str)  # text is read as it is
    again = decode(f'{{"v": {json.dumps(text) if is_bare else text}}}')[0]["v"]
    assert (again, type(again)) == (value, type(value))


def test_unknown_names_are_ignored_and_a_default_stands_in_for_null_whatever_the_schema_says() -> None:
    decode = decoder_with({"v": int}, {"v": 3})
    assert decode('{"v": null, "w": 1}', "strict")[0] == {"v": 3}


def test_each_exception_is_one() -> None:
    assert checked(Level, {"v": 1.0}) == (True, False)
    assert checked(Spot, {"v": [1]}) == (False, True)
    assert checked(datetime.datetime, {"v": "2031-05-03"}) == (False, True)
    assert checked(datetime.date, {"v": "2031-05-03T00:00:00"}) == (False, True)
    made: Any = dataclasses.make_dataclass("Defaulted", [("a", int, 1)])
    assert checked(made, {"v": {"a": None}}) == (False, True)
    assert checked(float, {"v": 10**400}) == (True, False)
    assert checked(bytes, {"v": "no base64!"}) == (True, False)
    assert checked(Lenient, {"v": {"n": "3"}}) == (False, True)
    assert len(EXCEPTIONS) == 8
