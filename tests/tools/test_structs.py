"""Classes of msgspec and attrs as types of parameters: what the model sees, what arrives, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Generic, TypedDict, TypeVar

import attrs
import jsonschema
import msgspec
import pytest
from pydantic import BaseModel, Field

from surehand.errors import ToolArgumentsError

from .helpers import one, run

T = TypeVar("T")


class Stop(msgspec.Struct, rename={"name": "stopName"}):
    """A place."""

    name: str
    nights: Annotated[int, msgspec.Meta(ge=1, description="How long.")] = 1
    notes: list[str] = []


class Trip(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    stops: list[Stop]
    after: Trip | None = None


class Strict(msgspec.Struct):
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise LookupError("low is above high")


class Inherited(Strict):
    label: str = ""


class Cat(msgspec.Struct, tag=True):
    name: str


class Dog(msgspec.Struct, tag=True):
    name: str


class Plain(msgspec.Struct):
    size: int


class Pair(msgspec.Struct, Generic[T]):
    left: T
    right: list[T]


@attrs.define
class Account:
    owner: str
    _secret: str = "s"
    limit: int = attrs.field(default=5, validator=attrs.validators.le(10))
    tags: list[str] = attrs.field(factory=list)
    opened: bool = attrs.field(default=False, init=False)
    shown: str = attrs.field(default="x", alias="display")


def _cents(value: float) -> int:
    return round(value * 100)


@attrs.define
class Price:
    cents: int = attrs.field(converter=_cents)


@attrs.frozen
class Tree:
    name: str
    trees: list[Tree] = attrs.field(factory=list)


@dataclasses.dataclass
class Order:
    trip: Trip
    account: Account | None = None


class Request(TypedDict):
    stop: Stop


def schema_of(function: Callable[..., Any]) -> Any:
    schema = one(function).spec.parameters or {}
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema["properties"]["it"]


def refusal(function: Callable[..., Any], text: str) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        one(function).body.decode(text)
    return str(caught.value)


def test_a_struct_is_an_object_of_its_encoded_fields_and_nothing_else() -> None:
    def act(it: Stop) -> Any:
        return it

    assert schema_of(act) == {
        "type": "object",
        "description": "A place.",
        "properties": {
            "stopName": {"type": "string"},
            "nights": {"type": "integer", "minimum": 1, "description": "How long.", "default": 1},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["stopName"],
        "additionalProperties": False,
    }
    assert run(act, '{"it": {"stopName": "Rome", "nights": 2}}') == Stop("Rome", 2)
    assert "it.nights" in refusal(act, '{"it": {"stopName": "Rome", "nights": 0}}')
    assert "it.name" in refusal(act, '{"it": {"stopName": "Rome", "name": "x"}}')
    assert "it.stopName: missing" in refusal(act, '{"it": {}}')


def test_a_mutable_default_of_a_field_is_fresh_in_every_call() -> None:
    def act(it: Stop) -> Any:
        it.notes.append("x")
        return it.notes

    assert [run(act, '{"it": {"stopName": "a"}}') for _ in range(2)] == [["x"], ["x"]]


def test_a_struct_may_contain_itself() -> None:
    def act(it: Trip) -> Any:
        return it

    assert schema_of(act) == {"$ref": "#/$defs/Trip"}
    value = run(act, '{"it": {"stops": [], "after": {"stops": [{"stopName": "a"}]}}}')
    assert value == Trip(stops=[], after=Trip(stops=[Stop("a")]))


def test_what_the_constructor_raises_is_a_problem_of_the_argument() -> None:
    def act(it: list[Inherited]) -> Any:
        return it

    assert run(act, '{"it": [{"low": 1, "high": 2, "label": "x"}]}') == [Inherited(1, 2, "x")]
    told = refusal(act, '{"it": [{"low": 1, "high": 2}, {"low": 3, "high": 2}]}')
    assert "it[1]" in told
    assert "LookupError: low is above high" in told


def test_tagged_structs_are_told_apart_by_their_tag() -> None:
    def act(it: Cat | Dog) -> Any:
        return it

    assert [member["properties"]["type"] for member in schema_of(act)["anyOf"]] == [
        {"type": "string", "enum": ["Cat"]},
        {"type": "string", "enum": ["Dog"]},
    ]
    assert [member["required"] for member in schema_of(act)["anyOf"]] == [["type", "name"], ["type", "name"]]
    assert run(act, '{"it": {"type": "Dog", "name": "x"}}') == Dog("x")
    assert "it" in refusal(act, '{"it": {"name": "x"}}')


def test_a_tagged_struct_beside_other_types_is_recognised_too() -> None:
    def act(it: Cat | Plain | str | None) -> Any:
        return it

    texts = ['{"type": "Cat", "name": "x"}', '{"size": 3}', '"x"', "null"]
    assert [run(act, f'{{"it": {text}}}') for text in texts] == [Cat("x"), Plain(3), "x", None]


def test_the_parameters_of_a_generic_struct_are_kept() -> None:
    def act(it: Pair[int], other: list[Pair[Stop]]) -> Any:
        return it, other

    text = '{"it": {"left": 1, "right": [2]}, "other": [{"left": {"stopName": "a"}, "right": []}]}'
    assert run(act, text) == (Pair(1, [2]), [Pair(Stop("a"), [])])
    assert schema_of(act)["properties"] == {
        "left": {"type": "integer"},
        "right": {"type": "array", "items": {"type": "integer"}},
    }
    assert "it.left" in refusal(act, '{"it": {"left": "x", "right": []}, "other": []}')


def test_an_attrs_class_is_an_object_of_what_its_constructor_takes() -> None:
    def act(it: Account) -> Any:
        return it

    assert schema_of(act) == {
        "type": "object",
        "properties": {
            "owner": {"type": "string"},
            "secret": {"type": "string", "default": "s"},
            "limit": {"type": "integer", "default": 5},
            "tags": {"type": "array", "items": {"type": "string"}},
            "display": {"type": "string", "default": "x"},
        },
        "required": ["owner"],
        "additionalProperties": False,
    }
    assert run(act, '{"it": {"owner": "o", "secret": "t", "display": "d"}}') == Account("o", "t", display="d")
    assert "'limit' must be <= 10" in refusal(act, '{"it": {"owner": "o", "limit": 11}}')
    assert "it.opened" in refusal(act, '{"it": {"owner": "o", "opened": true}}')


def test_what_a_converter_takes_is_what_the_model_sends() -> None:
    def act(it: Price) -> Any:
        return it

    assert schema_of(act)["properties"] == {"cents": {"type": "number"}}
    assert run(act, '{"it": {"cents": 1.25}}').cents == 125


def test_an_attrs_class_may_contain_itself() -> None:
    def act(it: Tree) -> Any:
        return it

    assert run(act, '{"it": {"name": "a", "trees": [{"name": "b"}]}}') == Tree("a", [Tree("b")])


def test_they_are_found_inside_dataclasses_typed_dicts_and_containers() -> None:
    def act(it: Order, request: Request, by_name: dict[str, Stop], pair: tuple[Cat, Account]) -> Any:
        return it, request, by_name, pair

    text = """{
        "it": {"trip": {"stops": [{"stopName": "a"}]}, "account": {"owner": "o"}},
        "request": {"stop": {"stopName": "b"}},
        "by_name": {"x": {"stopName": "c"}},
        "pair": [{"type": "Cat", "name": "d"}, {"owner": "p"}]
    }"""
    assert run(act, text) == (
        Order(Trip(stops=[Stop("a")]), Account("o")),
        {"stop": Stop("b")},
        {"x": Stop("c")},
        (Cat("d"), Account("p")),
    )


def test_classes_defined_inside_a_function_may_refer_to_themselves() -> None:
    class Local(msgspec.Struct):
        n: int
        more: list[Local] = []

    @attrs.define
    class Other:
        others: list[Other] = attrs.field(factory=list)

    def act(it: Local, other: Other) -> Any:
        return it, other

    act.__annotations__ = {"it": Local, "other": Other}
    value = run(act, '{"it": {"n": 1, "more": [{"n": 2}]}, "other": {"others": [{}]}}')
    assert value == (Local(1, [Local(2)]), Other([Other()]))


def test_a_struct_as_a_default_arrives_as_a_copy() -> None:
    start = Stop("Rome")

    def act(it: Stop = start) -> Any:
        return it

    first, second = run(act, "{}"), run(act, "{}")
    assert first == second == start
    assert first is not start


def test_fields_that_may_be_unset_stay_unset() -> None:
    class Patch(msgspec.Struct):
        title: str | msgspec.UnsetType | None = msgspec.UNSET

    def act(it: Any) -> Any:
        return it

    act.__annotations__ = {"it": Patch}
    assert schema_of(act)["properties"] == {"title": {"anyOf": [{"type": "string"}, {"type": "null"}]}}
    assert [run(act, f'{{"it": {text}}}').title for text in ("{}", '{"title": null}')] == [msgspec.UNSET, None]


def test_numbers_in_a_struct_are_as_strict_as_elsewhere() -> None:
    def act(it: Plain) -> Any:
        return it

    assert "it.size" in refusal(act, '{"it": {"size": true}}')
    assert run(act, '{"it": {"size": "7"}}') == Plain(7)


def test_a_union_with_a_model_picks_the_one_that_fits() -> None:
    class Model(BaseModel):
        title: str = Field(min_length=1)

    def act(it: Any) -> Any:
        return it

    act.__annotations__ = {"it": Model | Plain}
    assert run(act, '{"it": {"size": 1}}') == Plain(1)
    assert run(act, '{"it": {"title": "x"}}') == Model(title="x")
