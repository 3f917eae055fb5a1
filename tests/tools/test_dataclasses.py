"""Dataclasses that only their own constructor can make: it is called, and what it raises is an argument error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any, Generic, TypeVar

import pydantic
import pytest

from surehand.errors import ToolArgumentsError, UserError
from surehand.tools._collect import collect_tools

from .helpers import one, run

T = TypeVar("T")


@dataclass(init=False)
class Own:
    """A number with its double."""

    a: int
    double: int = field(init=False)

    def __init__(self, a: int) -> None:
        if a < 0:
            raise TypeError("negative")
        self.a, self.double = a, 2 * a


@dataclass
class Overridden:
    a: int
    note: str = ""

    def __init__(self, a: int, note: str = "none") -> None:
        if a < 0:
            raise KeyError("negative")
        self.a, self.note = a, f"note: {note}"


class Inherited(Own):
    """Without a decorator of its own."""


class Guarded:
    def __setattr__(self, name: str, value: Any) -> None:
        if value == -1:
            raise TypeError("negative")
        super().__setattr__(name, value)


@dataclass
class Set(Guarded):
    a: int


@dataclass
class New:
    a: int

    def __new__(cls, a: int) -> New:
        if a < 0:
            raise TypeError("negative")
        return super().__new__(cls)


@dataclass(frozen=True, slots=True)
class After:
    a: int
    more: InitVar[int] = 1
    sum: int = field(init=False)

    def __post_init__(self, more: int) -> None:
        if self.a < 0:
            raise TypeError("negative")
        object.__setattr__(self, "sum", self.a + more)


class Counting(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if kwargs["a"] < 0:
            raise TypeError("negative")
        return super().__call__(*args, **kwargs)


@dataclass
class Meta(metaclass=Counting):
    a: int


@dataclass
class Failure(Exception):
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise RuntimeError("negative")
        super().__init__(self.a)


KINDS: list[Any] = [Own, Overridden, Inherited, Set, New, After, Meta, Failure]


def tool_of(hint: Any) -> Callable[..., Any]:
    def store(order: Any) -> Any:
        return order

    store.__annotations__["order"] = hint
    return store


@pytest.mark.parametrize("kind", KINDS)
def test_the_constructor_makes_the_instance_wherever_it_stands(kind: Any) -> None:
    made = run(tool_of(kind), '{"order": {"a": "3"}}')
    assert (type(made), vars(made) if hasattr(made, "__dict__") else None) == (
        kind,
        vars(kind(a=3)) if hasattr(made, "__dict__") else None,
    )
    outer = dataclasses.make_dataclass("Outer", [("inner", list[kind])])
    (inner,) = run(tool_of(outer), '{"order": {"inner": [{"a": 3}]}}').inner
    assert (type(inner), inner.a) == (kind, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_constructor_raises_is_an_argument_error_with_the_path(kind: Any) -> None:
    for hint, text, path in (
        (kind, '{"order": {"a": -1}}', "order"),
        (list[kind], '{"order": [{"a": 1}, {"a": -1}]}', r"order\[1\]"),
        (dict[str, kind | None], '{"order": {"x": {"a": -1}}}', r"order\.x"),
    ):
        with pytest.raises(ToolArgumentsError, match=rf"do not fit: {path}: \w+Error: '?negative"):
            one(tool_of(hint)).body.decode(text)


def test_the_model_sees_the_fields_that_the_constructor_takes() -> None:
    properties = (one(tool_of(Own)).spec.parameters or {})["properties"]
    assert properties["order"] == {
        "type": "object",
        "description": "A number with its double.",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_what_is_left_out_the_constructor_fills_in_and_its_own_defaults_count() -> None:
    assert vars(run(tool_of(Overridden), '{"order": {"a": 1}}')) == {"a": 1, "note": "note: none"}
    assert vars(run(tool_of(Overridden), '{"order": {"a": 1, "note": null}}')) == {"a": 1, "note": "note: none"}
    made = run(tool_of(After), '{"order": {"a": 1, "more": 4}}')
    assert (made.a, made.sum) == (1, 5)


def test_a_field_that_is_no_name_is_refused_as_in_other_dataclasses() -> None:
    with pytest.raises(ToolArgumentsError, match=r"order\.double: there is no such property"):
        one(tool_of(Own)).body.decode('{"order": {"a": 1, "double": 4}}')


@pytest.mark.parametrize("kind", [Own, Overridden, Inherited, Set, New, Meta])
def test_inside_of_a_model_which_would_not_call_the_constructor_it_is_refused(kind: Any) -> None:
    make_model: Any = pydantic.create_model
    for hint in (kind, list[kind], kind | int):
        model = make_model("Model", x=(hint, ...))
        with pytest.raises(UserError, match=f"'order' contains {kind.__name__} inside of a pydantic model"):
            collect_tools([tool_of(model)])


def test_one_that_pydantic_can_make_is_taken_inside_of_a_model() -> None:
    model = pydantic.create_model("Model", x=(After, ...), y=(pydantic.dataclasses.dataclass(Plain), ...))
    made = run(tool_of(model), '{"order": {"x": {"a": 1}, "y": {"a": 2}}}')
    assert (made.x.sum, made.y.a) == (2, 2)


class Plain:
    a: int


@dataclass
class Tree(Generic[T]):
    value: T
    children: list[Tree[T]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.value == 0:
            raise TypeError("zero")


def test_one_that_contains_itself_is_made_all_the_way() -> None:
    tree = run(tool_of(Tree[int]), '{"order": {"value": 1, "children": [{"value": "2"}]}}')
    assert tree == Tree(1, [Tree(2)])
    with pytest.raises(ToolArgumentsError, match=r"order\.children\[0\]: TypeError: zero"):
        one(tool_of(Tree[int])).body.decode('{"order": {"value": 1, "children": [{"value": 0}]}}')


@dataclass(init=False)
class Parsed:
    x: int
    y: int

    def __init__(self, text: str) -> None:
        self.x, self.y = map(int, text.split(","))


@dataclass(init=False)
class Wider(Own):
    b: int = 0


@dataclass(init=False)
class Needy:
    x: int

    def __init__(self, x: int, scale: int) -> None:
        self.x = x * scale


@pytest.mark.parametrize(
    ("kind", "reason"), [(Parsed, "does not take 'x'"), (Wider, "does not take 'b'"), (Needy, "also needs 'scale'")]
)
def test_a_constructor_that_cannot_be_called_with_the_fields_is_refused(kind: Any, reason: str) -> None:
    with pytest.raises(UserError, match=f"'order' contains {kind.__name__}, whose constructor .* but {reason}"):
        collect_tools([tool_of(list[kind])])
