"""What a body returned becomes what the model reads (spec 5)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import numpy
import pytest
from hypothesis import given, strategies
from pydantic import BaseModel, PlainSerializer, model_serializer

from surehand.errors import ToolExecutionError
from surehand.messages import ImageContent, TextContent, ToolCall
from surehand.tools._parameter import MISSING
from surehand.tools._results import make_encoder, returned_type
from surehand.tools._tool import ToolResult

from .helpers import one


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    ANN = "ann"


class Animal(BaseModel):
    name: str


class Dog(Animal):
    tricks: list[str]


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


class Record(msgspec.Struct):
    a: int
    b: Decimal


class Odd:
    def __repr__(self) -> str:
        return "SECRET"


IMAGE = ImageContent(url="https://x/y.png")
TEXT = TextContent("hi")


def text(value: Any, hint: Any = MISSING) -> str:
    """What the model reads for that value of a tool declared to return ``hint``."""
    return make_encoder("t", hint)(value).text


def refusal(value: Any) -> str:
    with pytest.raises(ToolExecutionError) as caught:
        make_encoder("t", MISSING)(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (None, "Success"),
        (type(None), "Success"),
        (MISSING, "Success"),
        (str, "null"),
        (int | None, "null"),
        (Any, "null"),
    ],
)
def test_nothing_reads_as_success_only_where_nothing_is_declared(hint: Any, expected: str) -> None:
    assert make_encoder("t", hint)(None) == ToolResult((TextContent(expected),), None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", ""),
        ("as it is\n", "as it is\n"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (10**30, str(10**30)),
        (1.5, "1.5"),
        (float("nan"), "null"),
        (float("inf"), "null"),
        ([], "[]"),
        ((), "[]"),
        ({}, "{}"),
        ([1, "a", None], '[1,"a",null]'),
        ({"a": {"b": 1.0}}, '{"a":{"b":1.0}}'),
        ({"s": set()}, '{"s":[]}'),
        ({1: "a", None: "b"}, '{"1":"a","null":"b"}'),
        (frozenset({1}), "[1]"),
        (Decimal("1.10"), '"1.10"'),
        (datetime.date(2031, 5, 3), '"2031-05-03"'),
        (datetime.datetime(2031, 5, 3, 10), '"2031-05-03T10:00:00"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (b"\xff\x00", '"/wA="'),
        (Colour.RED, "red"),
        (Name.ANN, "ann"),
        (Level.LOW, "1"),
        ([Colour.RED, Name.ANN], '["red","ann"]'),
        (Dog(name="Rex", tricks=["sit"]), '{"name":"Rex","tricks":["sit"]}'),
        (Point(1, datetime.date(2031, 5, 3)), '{"x":1,"at":"2031-05-03"}'),
        (Record(1, Decimal("2.5")), '{"a":1,"b":"2.5"}'),
        ([Record(1, Decimal(2))], '[{"a":1,"b":"2"}]'),
        (ToolCall("1", "n", "{}"), '{"id":"1","name":"n","arguments":"{}","executed_by_provider":false}'),
        (range(3), "[0,1,2]"),
        ((n for n in (1, 2)), "[1,2]"),
        (numpy.arange(3), "[0,1,2]"),
        (numpy.float64(1.5), "1.5"),
        ({"n": numpy.int64(3)}, '{"n":3}'),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_values_read_as_compact_json_and_text_as_itself(value: Any, expected: str) -> None:
    assert text(value) == expected


def test_the_object_itself_is_kept() -> None:
    value = Dog(name="Rex", tricks=[])
    assert make_encoder("t", MISSING)(value).value is value


def test_a_subtype_is_written_whole_under_its_declared_base() -> None:
    dog = Dog(name="Rex", tricks=["sit"])
    assert text(dog, Animal) == '{"name":"Rex","tricks":["sit"]}'
    assert text([dog], list[Animal]) == '[{"name":"Rex","tricks":["sit"]}]'


def test_a_serializer_in_the_declared_type_is_used() -> None:
    hint = list[Annotated[int, PlainSerializer(lambda value: f"#{value}")]]
    assert text([1, 2], hint) == '["#1","#2"]'
    assert text(["not an int"], hint) in ('["#not an int"]', '["not an int"]')


def test_a_result_is_used_as_it_is() -> None:
    result = ToolResult.of("x", IMAGE, value=3, attributes={"a": 1})
    assert make_encoder("t", str)(result) is result


def test_a_lazy_result_stays_lazy_and_its_text_is_checked_when_it_is_made() -> None:
    encode = make_encoder("t", str)
    assert not encode(ToolResult.lazy(lambda: pytest.fail("nobody asked"))).is_encoded
    assert encode(ToolResult.lazy(lambda: "\ud835", value=3)).text == "\ufffd"
    assert encode(ToolResult.lazy(lambda: None)).text == ""
    not_text: Any = lambda: 5  # noqa: E731
    with pytest.raises(ToolExecutionError, match="a lazy ToolResult whose text is int"):
        _ = encode(ToolResult.lazy(not_text)).text
    with pytest.raises(ToolExecutionError, match=r"whose text could not be made \(ZeroDivisionError\)"):
        _ = encode(ToolResult.lazy(lambda: str(1 / 0))).text


def test_a_lazy_result_that_was_read_is_like_one_made_of_its_text() -> None:
    result = ToolResult.lazy(lambda: "half \ud835", value=3)
    assert result.text == "half \ud835"
    assert make_encoder("t", str)(result) == ToolResult.of("half \ufffd", value=3)


def test_a_result_with_contents_that_are_none_is_refused() -> None:
    number: Any = 5
    assert "a ToolResult with int among its contents" in refusal(ToolResult.of("x", number))


def test_contents_are_sent_in_order() -> None:
    encode = make_encoder("t", MISSING)
    assert encode(IMAGE) == ToolResult((IMAGE,), IMAGE)
    assert encode([IMAGE, TEXT]) == ToolResult((IMAGE, TEXT), [IMAGE, TEXT])
    assert encode((TEXT,)) == ToolResult((TEXT,), (TEXT,))


@pytest.mark.parametrize("value", [[IMAGE, "text"], ["text", IMAGE], (TEXT, None)])
def test_contents_mixed_with_other_things_are_an_error(value: Any) -> None:
    assert "'t'" in refusal(value) and "index" in refusal(value)


def test_half_characters_are_replaced_everywhere() -> None:
    assert text("\ud835 text") == "\ufffd text"
    assert text({"\ud835": ["\ud835"]}) == '{"\ufffd":["\ufffd"]}'
    assert text(Animal(name="a").model_copy(update={"name": "\ud835"})) == '{"name":"\ufffd"}'
    assert text(Point(1, datetime.date(2031, 5, 3))) == '{"x":1,"at":"2031-05-03"}'


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (dict, "the class dict"),
        ([Odd()], "Odd"),
        (Odd(), "Odd"),
        (len, "builtin_function_or_method"),
        (object(), "object"),
        (circular(), "list"),
        ({"f": lambda: None}, "function"),
    ],
    ids=["class", "inside", "object", "builtin", "plain", "circular", "function"],
)
def test_what_has_no_json_form_is_an_error_that_names_tool_and_type_and_shows_no_repr(value: Any, kind: str) -> None:
    message = refusal(value)
    assert "'t'" in message and kind in message and "SECRET" not in message


def test_a_returned_exception_is_an_error() -> None:
    problem = ValueError("x")
    with pytest.raises(ToolExecutionError, match=r"'t' did run, but it returned an exception \(ValueError\)") as caught:
        make_encoder("t", MISSING)(problem)
    assert caught.value.__cause__ is problem


def test_the_declared_type_is_what_an_awaitable_or_a_stream_gives() -> None:
    assert returned_type(Awaitable[None]) is None
    assert returned_type(Coroutine[Any, Any, str]) is str
    assert returned_type(Iterator[int], is_generator=True) is int
    assert returned_type(AsyncIterator[int], is_generator=True) is int
    assert returned_type(Generator[int, None, str], is_generator=True) is str
    assert returned_type(Generator[int, None, None], is_generator=True) is int
    assert returned_type(int) is int


def returns_nothing() -> None: ...
def returns_awaitable_of_nothing() -> Awaitable[None]: ...  # type: ignore[empty-body]
def returns_text() -> str: ...  # type: ignore[empty-body]
def says_nothing():  # type: ignore[no-untyped-def]
    ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (returns_nothing, "Success"),
        (returns_awaitable_of_nothing, "Success"),
        (returns_text, "null"),
        (says_nothing, "Success"),
    ],
)
def test_a_functions_annotation_decides_what_none_reads_as(function: Callable[..., Any], expected: str) -> None:
    assert one(function).body.encode(None).text == expected


# ---------------------------------------------------------------- every row of table 5.1, as whole results

WHOLE = ToolResult.of("shown", IMAGE, value=7, is_error=True, attributes={"a": 1})
ANIMAL = Dog(name="Rex", tricks=[])
DATE = datetime.date(2031, 5, 3)


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        pytest.param(None, None, ToolResult((TextContent("Success"),)), id="declared to return nothing"),
        pytest.param(MISSING, None, ToolResult((TextContent("Success"),)), id="nothing declared, nothing returned"),
        pytest.param(None, 5, ToolResult((TextContent("5"),), 5), id="declared to return nothing, yet something"),
        pytest.param(ToolResult, WHOLE, WHOLE, id="whole result"),
        pytest.param(ImageContent, IMAGE, ToolResult((IMAGE,), IMAGE), id="image"),
        pytest.param(TextContent, TEXT, ToolResult((TEXT,), TEXT), id="one content"),
        pytest.param(list[Any], [TEXT, IMAGE], ToolResult((TEXT, IMAGE), [TEXT, IMAGE]), id="list of contents"),
        pytest.param(tuple[Any, ...], (IMAGE, TEXT), ToolResult((IMAGE, TEXT), (IMAGE, TEXT)), id="tuple of contents"),
        pytest.param(set[Any], {TEXT}, ToolResult((TEXT,), {TEXT}), id="set of contents"),
        pytest.param(list[Any], [], ToolResult((TextContent("[]"),), []), id="empty list"),
        pytest.param(tuple[Any, ...], (), ToolResult((TextContent("[]"),), ()), id="empty tuple"),
        pytest.param(set[Any], set(), ToolResult((TextContent("[]"),), set()), id="empty set"),
        pytest.param(dict[str, Any], {}, ToolResult((TextContent("{}"),), {}), id="empty dict"),
        pytest.param(str, None, ToolResult((TextContent("null"),)), id="declared text, null"),
        pytest.param(ImageContent, None, ToolResult((TextContent("null"),)), id="declared image, null"),
        pytest.param(Any, None, ToolResult((TextContent("null"),)), id="declared anything, null"),
        pytest.param(str, ' "q"\n', ToolResult((TextContent(' "q"\n'),), ' "q"\n'), id="text"),
        pytest.param(Any, "s", ToolResult((TextContent("s"),), "s"), id="text, declared anything"),
        pytest.param(str, "", ToolResult((TextContent(""),), ""), id="empty text"),
        pytest.param(int, 5, ToolResult((TextContent("5"),), 5), id="number"),
        pytest.param(float, 2.0, ToolResult((TextContent("2.0"),), 2.0), id="fraction"),
        pytest.param(bool, True, ToolResult((TextContent("true"),), True), id="boolean"),
        pytest.param(list[int], [1, 2], ToolResult((TextContent("[1,2]"),), [1, 2]), id="list"),
        pytest.param(dict[str, Any], {"a": None}, ToolResult((TextContent('{"a":null}'),), {"a": None}), id="dict"),
        pytest.param(datetime.date, DATE, ToolResult((TextContent('"2031-05-03"'),), DATE), id="date"),
        pytest.param(
            Animal, ANIMAL, ToolResult((TextContent('{"name":"Rex","tricks":[]}'),), ANIMAL), id="model of a subtype"
        ),
    ],
)
def test_table_5_1(hint: Any, value: Any, expected: ToolResult) -> None:
    assert make_encoder("t", hint)(value) == expected


def test_nothing_is_kept_as_nothing_and_everything_else_as_the_very_object() -> None:
    value = [{"a": {1}}]
    assert make_encoder("t", MISSING)(value).value is value
    assert make_encoder("t", None)(None).value is None


def test_a_lazy_result_is_made_at_the_first_look_and_then_kept() -> None:
    seen: list[str] = []

    class Seen(BaseModel):
        @model_serializer
        def shown(self) -> str:
            seen.append("made")
            return "x"

    value = Seen()
    result = make_encoder("t", MISSING, lazy=True)(value)
    assert (result.is_encoded, result.value is value, seen) == (False, True, [])
    assert (result.text, result.text) == ('"x"', '"x"')
    assert seen == ["made"]


def test_a_lazy_result_that_cannot_be_shown_says_so_when_somebody_looks() -> None:
    result = make_encoder("t", MISSING, lazy=True)([object()])
    with pytest.raises(ToolExecutionError, match=r"Tool 't' did run, but it returned list.*Do not repeat the call"):
        _ = result.text


def test_what_foreign_code_says_when_it_fails_stays_the_cause() -> None:
    class Broken(BaseModel):
        @model_serializer
        def shown(self) -> str:
            raise RuntimeError("password is hunter2")

    message = refusal(Broken())
    assert "hunter2" not in message and "Broken" in message


def test_an_error_names_the_first_thing_that_is_no_data_not_the_whole() -> None:
    assert "(object is not data)" in refusal({"a": [1, object()]})
    assert "(it contains itself)" in refusal(circular())
    assert "(two keys of a dict read '1')" in refusal({(1,): 1, "1": 2})


def test_a_set_in_a_declared_serializer_is_in_order_too() -> None:
    hint = dict[str, set[Annotated[str, PlainSerializer(lambda value: f"#{value}")]]]
    assert text({"s": {f"n{number}" for number in range(9)}}, hint) == (
        '{"s":["#n0","#n1","#n2","#n3","#n4","#n5","#n6","#n7","#n8"]}'
    )


plain_json = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | strategies.text(),
    lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
)


@given(plain_json)
def test_plain_data_reads_the_same_on_the_short_way_and_on_the_long_way(value: Any) -> None:
    # A set among good values takes the long way.
    short, long = text([value]), text([value, set()])
    assert json.loads(long, parse_constant=pytest.fail) == [*json.loads(short, parse_constant=pytest.fail), []]


@given(strategies.sets(strategies.none() | strategies.integers() | strategies.text() | strategies.floats()))
def test_a_set_reads_the_same_however_it_was_filled(values: set[Any]) -> None:
    backwards = set[Any]()
    backwards.update(sorted(values, key=repr, reverse=True))
    assert text({"s": values}) == text({"s": backwards})
    assert len(json.loads(text(values))) == len(values)
