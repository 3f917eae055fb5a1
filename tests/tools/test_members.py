"""Members in a ``Literal``, keys of a dict and encoded bytes: what is shown is what is taken, and the value arrives."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import jsonschema
import msgspec
import pydantic
import pytest
from pydantic import Base64Bytes, Base64Str, Base64UrlBytes, EncodedBytes, EncoderProtocol, RootModel
from typing_extensions import TypedDict

from surehand.errors import ToolArgumentsError, UserError
from surehand.tools._collect import collect_tools

from .decoding import read, refusal
from .helpers import one


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Text(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Grade(enum.Enum):
    ONE = 1
    TWO = 2
    OTHER = "x"


class Place(enum.Enum):
    HOME = (1, 2)


@dataclasses.dataclass(frozen=True)
class Point:
    x: int


class Pair(NamedTuple):
    x: int


class Frozen(pydantic.BaseModel, frozen=True):
    x: int


class Name(RootModel[str], frozen=True):
    pass


def tool_of(hint: Any) -> Callable[..., Any]:
    def store(v: Any) -> Any:
        return v

    store.__annotations__["v"] = hint
    return store


def shown(hint: Any) -> Any:
    return (one(tool_of(hint)).spec.parameters or {})["properties"]["v"]


def agreed(hint: Any, text: str) -> Any:
    """The value, if the schema takes the text as well."""
    value = read(hint, text, "strict")
    jsonschema.validate(msgspec.json.decode(text), shown(hint))
    return value


@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (Literal[Colour.RED], '"red"', Colour.RED),
        (Literal[Colour.RED, Colour.BLUE], '"blue"', Colour.BLUE),
        (Literal[Colour.RED, "x", 1], '"red"', Colour.RED),
        (Literal[Colour.RED, "x", 1], '"x"', "x"),
        (Literal[Colour.RED, "x", 1], "1", 1),
        (Literal[Grade.ONE], "1", Grade.ONE),
        (Literal[Text.RED], '"red"', Text.RED),
        (Literal[Level.LOW], "1", Level.LOW),
        (Literal[Place.HOME], '"HOME"', Place.HOME),
        (list[Literal[Colour.RED] | None], '["red", null]', [Colour.RED, None]),
        (dict[Literal[Colour.RED], int], '{"red": 2}', {Colour.RED: 2}),
        (Literal[Colour.RED] | int, '"red"', Colour.RED),
    ],
)
def test_a_literal_of_members_takes_their_values_and_gives_the_members(hint: Any, text: str, expected: Any) -> None:
    value = agreed(hint, text)
    assert (type(value), value) == (type(expected), expected)


def test_a_literal_of_members_is_taken_in_fields_and_as_a_default() -> None:
    order = dataclasses.make_dataclass("Order", [("c", Literal[Colour.RED])])
    row = TypedDict("row", {"c": Literal[Colour.RED]})  # type: ignore[misc]  # noqa: UP013
    struct = msgspec.defstruct("struct", [("c", Literal["red"])])
    assert agreed(order, '{"c": "red"}') == order(Colour.RED)
    assert agreed(row, '{"c": "red"}') == {"c": Colour.RED}
    assert agreed(struct, '{"c": "red"}') == struct("red")

    def paint(v: Literal[Colour.RED] = Colour.RED) -> None: ...

    assert shown_default(paint) == "red"
    assert one(paint).body.decode("{}") == ({"v": Colour.RED}, ())


def shown_default(function: Callable[..., Any]) -> Any:
    return (one(function).spec.parameters or {})["properties"]["v"]["default"]


@pytest.mark.parametrize(("hint", "text"), [(Literal[Colour.RED], '"blue"'), (Literal[Grade.ONE], "true")])
def test_other_values_are_refused_and_the_value_is_named(hint: Any, text: str) -> None:
    function = tool_of(hint)
    with pytest.raises(ToolArgumentsError, match=r"not a valid enum value: expected ('red'|1), received"):
        one(function).body.decode(f'{{"v": {text}}}')


def test_in_a_model_whose_own_rules_refuse_every_value_it_is_refused_at_registration() -> None:
    model = pydantic.create_model("Model", c=(Literal[Colour.RED], ...))
    with pytest.raises(UserError, match=r"'v' .*no JSON value is a member that a Literal names"):
        collect_tools([tool_of(model)])


# ---------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("keys", "text", "expected"),
    [
        (Literal[1, 2], '{"1": 0, "2": 0}', {1: 0, 2: 0}),
        (Literal["a", 1], '{"1": 0, "a": 0}', {1: 0, "a": 0}),
        (Literal["1", 1], '{"1": 0}', {"1": 0}),
        (Literal[True], '{"true": 0}', {True: 0}),
        (Literal[Level.LOW], '{"1": 0}', {Level.LOW: 0}),
        (Literal[1] | Literal[2], '{"2": 0}', {2: 0}),
        (Optional[Literal[1]], '{"1": 0}', {1: 0}),  # noqa: UP045
        (Level, '{"1": 0, "2": 0}', {Level.LOW: 0, Level.HIGH: 0}),
        (Grade, '{"1": 0, "x": 0}', {Grade.ONE: 0, Grade.OTHER: 0}),
        (Place, '{"HOME": 0}', {Place.HOME: 0}),
        (Colour, '{"red": 0}', {Colour.RED: 0}),
        (Level | str, '{"1": 0}', {"1": 0}),
        (Union[tuple[int, int], str], '{"1": 0}', {"1": 0}),  # noqa: UP007
        (Name, '{"a": 0}', {Name("a"): 0}),
        (int, '{"1": 0}', {1: 0}),
    ],
)
def test_constants_as_keys_are_taken_by_their_text(keys: Any, text: str, expected: Any) -> None:
    for kind in (dict[keys, int], Mapping[keys, int]):
        value = agreed(kind, text)
        assert [(type(key), key) for key in value] == [(type(key), key) for key in expected]


@pytest.mark.parametrize("text", ['{"3": 0}', '{"01": 0}', '{"1.0": 0}', '{"LOW": 0}'])
@pytest.mark.parametrize("keys", [Literal[1, 2], Level])
def test_other_keys_are_refused_by_schema_and_tool(keys: Any, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(msgspec.json.decode(text), shown(dict[keys, int]))
    with pytest.raises(ToolArgumentsError, match=r"expected '1' or '2' as its name"):
        one(tool_of(dict[keys, int])).body.decode(f'{{"v": {text}}}')


def test_an_enum_is_taken_as_a_key_also_where_it_is_a_value_too() -> None:
    hint = dataclasses.make_dataclass("Order", [("one", Level), ("many", dict[Level, int]), ("list", list[Level])])
    made = one(tool_of(hint))
    text = '{"one": 1, "many": {"2": 3}, "list": [2]}'
    assert made.body.decode(f'{{"v": {text}}}') == ({"v": hint(Level.LOW, {Level.HIGH: 3}, [Level.HIGH])}, ())
    jsonschema.validate({"v": msgspec.json.decode(text)}, made.spec.parameters or {})


def test_a_model_with_numbered_keys_shows_the_text_that_it_takes() -> None:
    model = pydantic.create_model("Model", d=(dict[Level, int], ...), e=(Level, ...), f=(dict[Level, int], ...))
    made = one(tool_of(model))
    text = '{"v": {"d": {"1": 2}, "e": 1, "f": {"2": 1}}}'
    jsonschema.validate(msgspec.json.decode(text), made.spec.parameters or {})
    assert made.body.decode(text)[0]["v"] == model(d={Level.LOW: 2}, e=Level.LOW, f={Level.HIGH: 1})


@pytest.mark.parametrize(
    "keys", [tuple[int, int], tuple[str, ...], frozenset[int], Point, Pair, Frozen, None, tuple[int, int] | None]
)
def test_keys_that_no_text_can_become_are_refused_at_registration(keys: Any) -> None:
    nested = dataclasses.make_dataclass("Order", [("x", list[dict[keys, int]])])
    make_model: Any = pydantic.create_model
    model = make_model("Model", x=(dict[keys, int], ...))
    for kind in (dict[keys, int], Mapping[keys, int], nested, model, dict[str, dict[keys, int] | None]):
        with pytest.raises(UserError, match="'v' contains a dict whose keys are objects, arrays or null"):
            collect_tools([tool_of(kind)])


# ---------------------------------------------------------------- Base64


@pytest.mark.parametrize("kind", [Base64Bytes, Base64UrlBytes, bytes])
def test_base64_is_decoded_once_and_what_is_none_is_refused(kind: Any) -> None:
    assert agreed(kind, '"aGk="') == b"hi"
    assert agreed(list[kind], '["aGk="]') == [b"hi"]
    assert agreed(dataclasses.make_dataclass("Order", [("x", kind)]), '{"x": "aGk="}').x == b"hi"
    assert agreed(pydantic.create_model("Model", x=(Base64Bytes, ...)), '{"x": "aGk="}').x == b"hi"
    assert "expected base64 text" in refusal(one(tool_of(kind)).body.decode, '{"v": "!"}')


def test_text_in_base64_is_decoded_once() -> None:
    assert agreed(Base64Str, '"aGk="') == "hi"


class Upper(EncoderProtocol):
    @classmethod
    def decode(cls, data: bytes) -> bytes:
        return data.lower()

    @classmethod
    def encode(cls, value: bytes) -> bytes:
        return value.upper()

    @classmethod
    def get_json_format(cls) -> str:
        return "upper"


def test_bytes_with_an_encoder_of_ones_own_are_decoded_by_that_alone() -> None:
    assert agreed(Annotated[bytes, EncodedBytes(encoder=Upper)], '"HI!"') == b"hi!"
