"""What no model may or can fill, inside of other types: refused when the tool is registered, however deep."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, Optional, Union

import attrs
import msgspec
import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, ConfigDict, Field
from typing_extensions import TypedDict

from surehand.errors import ToolArgumentsError, UserError
from surehand.tools._collect import collect_tools
from surehand.tools._signature import MemoryId
from surehand.tools._tool import Parameters, ToolContext, ToolExecution

from .helpers import one, run


class Mine(Parameters):
    """Parameters of an application's own."""


@dataclasses.dataclass(eq=False)
class Record(Parameters):
    """The same with fields, which a model could fill."""

    user: str = "nobody"


INJECTED: list[Any] = [
    Annotated[str, MemoryId],
    Annotated[str, MemoryId()],
    Annotated[str, MemoryId] | None,  # pyright: ignore[reportOperatorIssue]
    Annotated[str, MemoryId] | int,
    list[Annotated[str, MemoryId]],
    ToolContext,
    ToolContext[int],
    Optional[ToolContext],  # noqa: UP045
    Union[ToolContext, str, int],  # noqa: UP007
    Parameters,
    Mine,
    Record,
    Union[Mine, str],  # noqa: UP007
    ToolExecution,
    dict[str, ToolExecution[Any]],
]
HOLDERS: dict[str, Callable[[Any], Any]] = {
    "dataclass": lambda hint: dataclasses.make_dataclass("Holder", [("x", hint)]),
    "typed dict": lambda hint: TypedDict("Holder", {"x": hint}),  # type: ignore[operator]
    "named tuple": lambda hint: NamedTuple("Holder", [("x", hint)]),
    "struct": lambda hint: msgspec.defstruct("Holder", [("x", hint)]),
    "attrs": lambda hint: attrs.make_class("Holder", {"x": attrs.field(type=hint)}),
    "model": lambda hint: pydantic.create_model(
        "Holder", x=(hint, ...), __config__=ConfigDict(arbitrary_types_allowed=True)
    ),
}


def tool_of(hint: Any) -> Callable[..., str]:
    def store(order: Any) -> str:
        return repr(order)

    store.__annotations__["order"] = hint
    return store


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("hint", INJECTED, ids=range(len(INJECTED)))
def test_what_surehand_fills_is_refused_inside_of_other_types(holder: str, hint: Any) -> None:
    held = HOLDERS[holder](hint)
    for kind in (held, list[held], dataclasses.make_dataclass("Outer", [("inner", held | None)])):
        with pytest.raises(UserError, match=r"'order' contains .*, which surehand fills and no model may"):
            collect_tools([tool_of(kind)])


def test_what_the_constructor_does_not_take_is_nobodys_to_fill() -> None:
    @dataclasses.dataclass
    class Order:
        size: int
        context: ToolContext[Any] | None = dataclasses.field(init=False, default=None)

    assert run(tool_of(Order), '{"order": {"size": 3}}').endswith("Order(size=3, context=None)")


def test_a_model_with_a_memory_id_is_still_a_model_elsewhere() -> None:
    kind = pydantic.create_model("Note", user=(Annotated[str, MemoryId], ...))
    assert kind(user="ann").model_dump_json() == '{"user":"ann"}'
    assert kind.model_json_schema()["properties"] == {"user": {"title": "User", "type": "string"}}


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float:
        """How large it is."""


@dataclasses.dataclass
class Plain(Shape):
    side: float


@attrs.define
class Attrs(Shape):
    side: float


class Model(pydantic.BaseModel, Shape):
    side: float


@pytest.mark.parametrize("kind", [Plain, Attrs, Model])
def test_an_abstract_class_of_which_none_can_be_made_is_refused(kind: Any) -> None:
    for hint in (kind, list[kind], kind | None):
        with pytest.raises(UserError, match=rf"'order' contains {kind.__name__}, which is abstract \(area\)"):
            collect_tools([tool_of(hint)])


PATHS = [AliasPath("x"), AliasPath("data", "x"), AliasChoices(AliasPath("data", "x"), AliasPath("rows", 0))]


@pytest.mark.parametrize("alias", PATHS, ids=repr)
def test_an_alias_that_is_a_path_is_refused_on_a_parameter_and_on_a_field(alias: Any) -> None:
    hint = Annotated[int, Field(validation_alias=alias)]
    for kind in (hint, *(HOLDERS[name](hint) for name in ("dataclass", "typed dict", "model"))):
        with pytest.raises(UserError, match="'order' has the validation alias"):
            collect_tools([tool_of(kind)])


def test_a_path_is_no_matter_where_the_model_can_use_the_name_of_the_field() -> None:
    class Order(pydantic.BaseModel):
        model_config = ConfigDict(validate_by_name=True)
        size: Annotated[int, Field(validation_alias=AliasPath("data", "x"))]

    assert run(tool_of(Order), '{"order": {"size": 3}}') == "Order(size=3)"


def test_of_several_aliases_the_first_plain_one_is_shown_and_taken() -> None:
    hint = Annotated[int, Field(validation_alias=AliasChoices(AliasPath("data", "x"), "a", "b"))]
    for kind, text in ((hint, '{"a": 3}'), (HOLDERS["model"](hint), '{"order": {"a": 3}}')):
        made = one(tool_of(kind))
        properties = (made.spec.parameters or {})["properties"]
        shown = properties if kind is hint else properties["order"]["properties"]
        assert list(shown) == ["a"]
        assert run(tool_of(kind), text) in ("3", "Holder(x=3)")


@dataclasses.dataclass
class Unhashed:
    a: int


@dataclasses.dataclass(frozen=True)
class Hashed:
    a: int


@pytest.mark.parametrize("item", [Unhashed, list[int], dict[str, int], set[int]])
def test_a_set_of_what_has_no_hash_is_refused(item: Any) -> None:
    for hint in (set[item], frozenset[item], list[set[item]]):  # type: ignore[valid-type]
        with pytest.raises(UserError, match="'order' contains a set of what has no hash; use a list"):
            collect_tools([tool_of(hint)])
    collect_tools([tool_of(set[Hashed])])


@pytest.mark.parametrize("hint", [str, list[int], bool | str])
@pytest.mark.parametrize("bound", ["ge", "gt", "le", "lt", "multiple_of"])
def test_a_bound_that_the_type_cannot_have_is_refused(hint: Any, bound: str) -> None:
    bounds: dict[str, Any] = {bound: 1}
    with pytest.raises(UserError, match=rf"'order' has the bound {bound}=1, which only numbers and dates can have"):
        collect_tools([tool_of(list[Annotated[hint, Field(**bounds)]])])  # type: ignore[valid-type]


def test_a_bound_on_a_choice_of_numbers_is_kept() -> None:
    made = tool_of(Annotated[int | float, Field(gt=0, multiple_of=1)])
    body = collect_tools([made])[0].body
    assert body.decode('{"order": 3}') == ({"order": 3}, ())
    with pytest.raises(ToolArgumentsError, match="order"):
        body.decode('{"order": -3}')
