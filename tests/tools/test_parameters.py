"""Parameters at their edges: defaults, injection, type variables, keyword arguments of a TypedDict, newer syntax."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import typing
from collections.abc import Callable
from typing import Annotated, Any, Generic, NotRequired, Required, TypedDict, TypeVar

import jsonschema
import msgspec
import pytest
import typing_extensions
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, Unpack

from surehand import tool
from surehand.errors import ToolArgumentsError, UserError
from surehand.tools._signature import MemoryId
from surehand.tools._tool import Parameters, ToolContext

from .helpers import context, one, run

T = TypeVar("T")
WithDefault = typing_extensions.TypeVar("WithDefault", default=int)
AnyContext = TypeVar("AnyContext", bound="ToolContext[Any]")
Context = TypeAliasType("Context", "ToolContext[int] | None")


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    schema = dict(one(function).spec.parameters or {"properties": {}})
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return dict(schema_of(function)["properties"])


# ---------------------------------------------------------------- defaults


class Settings(BaseModel):
    names: list[str] = []


@dataclasses.dataclass(eq=False)
class Mutable:
    """Has a hash, although it changes."""

    names: list[str] = dataclasses.field(default_factory=list)


class Changing(msgspec.Struct, eq=False):
    names: list[str] = []


@dataclasses.dataclass(frozen=True, eq=False)
class Shallow:
    """Cannot change itself, but what is in it can."""

    names: list[str] = dataclasses.field(default_factory=list)


class Fixed(msgspec.Struct, eq=False, frozen=True):
    names: list[str] = []


class FrozenModel(BaseModel, frozen=True):
    names: list[str] = []

    def __hash__(self) -> int:
        return 1


class HashedModel(Settings):
    def __hash__(self) -> int:
        return 1


class HashedList(list[str]):
    @property
    def names(self) -> list[str]:
        return self

    def __hash__(self) -> int:  # type: ignore[override]
        return 1


@pytest.mark.parametrize(
    "default",
    [Settings(), Mutable(), Changing(), Shallow(), Fixed(), FrozenModel(), HashedModel()],
    ids=lambda default: type(default).__name__,
)
def test_an_object_that_can_change_is_copied_for_each_call(default: Any) -> None:
    def act(it: Any = default) -> Any:
        it.names.append("x")
        return it.names

    act.__annotations__ = {"it": type(default)}
    assert [run(act, "{}") for _ in range(3)] == [["x"]] * 3
    assert default.names == []


@pytest.mark.parametrize(
    "default", [(Shallow(),), frozenset([Shallow()]), (HashedList(),)], ids=["tuple", "frozenset", "list"]
)
def test_so_is_one_inside_of_what_cannot_change(default: Any) -> None:
    def act(it: Any = default) -> Any:
        (inner,) = it
        inner.names.append("x")
        return inner.names

    assert [run(act, "{}") for _ in range(3)] == [["x"]] * 3


@dataclasses.dataclass(frozen=True)
class NotGiven:
    """Says that nothing was given."""


@pytest.mark.parametrize("default", [NotGiven(), object(), (object(),), NotGiven, len])
def test_what_cannot_change_is_the_same_object_in_each_call(default: Any) -> None:
    def act(it: Any = default) -> Any:
        return it

    assert run(act, "{}") is default


def test_containers_inside_of_containers_are_copied_too() -> None:
    def act(it: dict[str, list[int]] = {"a": []}, more: tuple[list[int], ...] = ([],)) -> Any:  # noqa: B006
        it["a"].append(1)
        more[0].append(1)
        return it, more

    body = one(act).body
    calls = [body.call(body.decode("{}")[0], None) for _ in range(2)]
    assert calls == [({"a": [1]}, ([1],))] * 2


def test_a_sentinel_arrives_as_itself_and_is_not_shown() -> None:
    nothing = object()

    class Unset(enum.Enum):
        UNSET = 0

    def act(a: int = nothing, b: str = Unset.UNSET, c: int = ...) -> Any:  # type: ignore[assignment]
        return a, b, c

    assert properties(act) == {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "integer"}}
    assert run(act, "{}") == (nothing, Unset.UNSET, ...)
    assert schema_of(act).get("required", []) == []


def test_none_makes_any_type_optional_and_keeps_what_is_said_about_it() -> None:
    def act(
        a: int = None,  # type: ignore[assignment]  # noqa: RUF013
        b: Annotated[str, Field(min_length=2, description="Text.")] = None,  # type: ignore[assignment]  # noqa: RUF013
    ) -> Any:
        return a, b

    null = {"type": "null"}
    assert properties(act) == {
        "a": {"anyOf": [{"type": "integer"}, null], "default": None},
        "b": {"anyOf": [{"type": "string", "minLength": 2}, null], "default": None, "description": "Text."},
    }
    assert run(act, "{}") == (None, None)
    assert run(act, '{"a": 1, "b": "xy"}') == (1, "xy")


def test_a_default_that_json_has_not_is_not_shown() -> None:
    def act(limit: float = float("inf"), flag: int = True, when: Any = object()) -> None: ...  # noqa: B008

    assert properties(act) == {"limit": {"type": "number"}, "flag": {"type": "integer"}, "when": {}}


def test_a_default_declared_in_the_annotation_counts() -> None:
    def act(
        a: Annotated[int, Field(default=5)],
        b: Annotated[list[int], Field(default_factory=lambda: [1])],
        c: Annotated[int, Field(default=None)],
    ) -> Any:
        return a, b, c

    assert schema_of(act).get("required", []) == []
    assert run(act, "{}") == (5, [1], None)


# ---------------------------------------------------------------- enums


class Size(enum.Enum):
    SMALL = (1, 2)
    LARGE = (3, 4)


class Mixed(enum.Enum):
    NUMBER = 1.5
    NOTHING = None
    TEXT = "text"


def test_an_enum_whose_values_json_has_not_is_sent_by_name() -> None:
    def act(a: Size, b: list[Size], c: Size = Size.LARGE) -> Any:
        return a, b, c

    names = {"type": "string", "enum": ["SMALL", "LARGE"]}
    assert properties(act) == {"a": names, "b": {"type": "array", "items": names}, "c": {**names, "default": "LARGE"}}
    assert run(act, '{"a": "SMALL", "b": ["LARGE"]}') == (Size.SMALL, [Size.LARGE], Size.LARGE)


def test_an_enum_of_json_values_is_sent_by_value() -> None:
    def act(a: Mixed) -> Any:
        return a

    assert properties(act) == {"a": {"enum": [1.5, None, "text"]}}
    assert [run(act, f'{{"a": {text}}}') for text in ("1.5", "null", '"text"')] == list(Mixed)


# ---------------------------------------------------------------- what the model cannot fill


@pytest.mark.parametrize("name", ["ctx", "bag", "who", "hidden", "alias"])
def test_no_name_that_a_model_sends_reaches_what_is_injected(name: str) -> None:
    def act(
        ctx: ToolContext[int],
        bag: Parameters | None,
        who: Annotated[str, MemoryId, Field(alias="alias")],
        hidden: Context = None,
        q: str = "q",
    ) -> Any:
        return ctx, bag, who, hidden, q

    given = context(memory_id="ann")
    assert list(properties(act)) == ["q"]
    expected = (given, given.parameters, "ann", given, "q")
    assert run(act, f'{{"{name}": "evil"}}', given) == expected
    assert run(act, f'{{"{name}": {{"deps": 1, "memory_id": "evil"}}, "q": "q"}}', given) == expected


def test_an_alias_of_the_same_name_as_an_injected_parameter_does_not_reach_it() -> None:
    def act(text: Annotated[str, Field(alias="ctx")], ctx: ToolContext[int]) -> Any:
        return text, ctx

    given = context()
    assert run(act, '{"ctx": "x"}', given) == ("x", given)


def test_a_context_is_recognised_behind_type_variables_and_aliases() -> None:
    def act(q: str, ctx: AnyContext) -> AnyContext:
        return ctx

    given = context()
    assert list(properties(act)) == ["q"]
    assert run(act, '{"q": "x", "ctx": {}}', given) is given


class WithContext(TypedDict):
    limit: int
    ctx: ToolContext[int]


def test_a_context_among_unpacked_keyword_arguments_is_injected() -> None:
    def act(**options: Unpack[WithContext]) -> Any:
        return options

    given = context()
    assert list(properties(act)) == ["limit"]
    assert run(act, '{"limit": 1, "ctx": {}}', given) == {"limit": 1, "ctx": given}


def test_what_a_partial_has_bound_is_neither_shown_nor_changed() -> None:
    def act(a: int, key: str, b: int = 2) -> Any:
        return a, key, b

    bound = functools.partial(act, key="secret")
    assert list(properties(bound)) == ["a", "b"]
    assert "secret" not in str(one(bound).spec)
    assert run(bound, '{"a": 1, "key": "x"}') == (1, "secret", 2)


# ---------------------------------------------------------------- keyword arguments of a TypedDict


class Options(TypedDict, total=False):
    limit: Required[int]
    order: str


class MoreOptions(Options):
    strict: bool
    note: NotRequired[str]


def test_the_keys_of_an_unpacked_typed_dict_are_parameters() -> None:
    def act(q: str, **options: Unpack[MoreOptions]) -> Any:
        return q, options

    schema = schema_of(act)
    assert {name: entry["type"] for name, entry in schema["properties"].items()} == {
        "q": "string", "limit": "integer", "order": "string", "strict": "boolean", "note": "string",
    }  # fmt: skip
    assert schema["required"] == ["q", "limit", "strict"]
    assert run(act, '{"q": "x", "limit": 1, "strict": true}') == ("x", {"limit": 1, "strict": True})
    assert run(act, '{"q": "x", "limit": 1, "strict": true, "order": "a"}')[1]["order"] == "a"


# ---------------------------------------------------------------- type variables


def test_a_type_variable_stands_for_what_the_object_was_made_with() -> None:
    class Store(Generic[T]):
        def put(self, item: T, more: dict[str, list[T]]) -> Any:
            return item, more

    class Numbers(Store[int]):
        pass

    text = '{"item": 1, "more": {"a": [2]}}'
    assert properties(Numbers().put)["item"] == {"type": "integer"}
    assert properties(Store[str]().put)["item"] == {"type": "string"}
    assert properties(Store().put)["item"] == {}
    assert run(Numbers().put, text) == (1, {"a": [2]})


def test_a_type_variable_alone_stands_for_its_constraints_its_bound_or_its_default() -> None:
    bound, constrained = TypeVar("bound", bound="Settings"), TypeVar("constrained", int, str)

    def act(a: Any, b: Any, c: Any) -> Any:
        return a, b, c

    act.__annotations__ = {"a": bound, "b": constrained, "c": WithDefault}
    assert run(act, '{"a": {"names": ["x"]}, "b": "y", "c": 3}') == (Settings(names=["x"]), "y", 3)
    assert properties(act)["b"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert properties(act)["c"] == {"type": "integer"}


def test_a_typed_dict_of_the_standard_library_may_contain_itself() -> None:
    Tree = typing.TypedDict("Tree", {"name": str, "trees": "list[Tree]", "note": NotRequired[str]})  # noqa: UP013

    def act(it: Any) -> Any:
        return it

    Tree.__annotations__["trees"] = list[Tree]
    act.__annotations__ = {"it": Tree}
    value = {"name": "a", "trees": [{"name": "b", "trees": []}]}
    assert run(act, '{"it": {"name": "a", "trees": [{"name": "b", "trees": []}]}}') == value


# ---------------------------------------------------------------- descriptions


def test_a_description_in_the_metadata_of_msgspec_is_used() -> None:
    def act(a: Annotated[int, msgspec.Meta(description="How many.", ge=1)]) -> None:
        """Act.

        Args:
            a: Not this.
        """

    assert properties(act) == {"a": {"type": "integer", "minimum": 1, "description": "How many."}}


def test_marks_of_other_libraries_are_passed_over() -> None:
    def helper() -> None: ...

    def act(a: Annotated[int, helper, 5, {"x": 1}]) -> int:
        return a

    act.__annotations__["a"] = Annotated[int, helper, 5, {"x": 1}]
    assert properties(act) == {"a": {"type": "integer"}}


def test_whole_numbers_as_keys_are_told_apart_in_the_schema() -> None:
    def act(a: dict[int, str]) -> Any:
        return a

    schema = schema_of(act)
    jsonschema.validate({"a": {"1": "x"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": {"one": "x"}}, schema)
    assert run(act, '{"a": {"1": "x"}}') == {1: "x"}


# ---------------------------------------------------------------- refusals that need a class or a decorator


def test_a_tool_that_cannot_be_called_with_what_it_shows_is_refused_before_any_call() -> None:
    def inner(a: int, b: int) -> None: ...

    @tool
    @functools.wraps(inner)
    def wrapper(only: int) -> None: ...

    with pytest.raises(UserError, match=r"shows the parameters \(a, b\).*'only'.*\*args and \*\*kwargs"):
        one(wrapper)


def test_a_decorated_method_that_is_not_bound_is_refused() -> None:
    with pytest.raises(UserError, match=r"Unbound\.method is not bound to an object"):
        one(Unbound.method)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Unbound:
    @_plain
    def method(self, n: int) -> int:
        return n


class Range(typing.NamedTuple):
    start: int
    stop: int = 5


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (collections.deque[int], "[1]", "[true]"),
        (collections.OrderedDict[str, int], '{"a": 1}', '{"a": true}'),
        (collections.Counter[str], '{"a": 1}', '{"a": true}'),
        (Range, '{"start": 1}', '{"start": true}'),
        (Range, '[1, 2]', '[1, true]'),
        (Range, '{"start": 1}', '{"start": 1, "step": 1}'),
    ],
)  # fmt: skip
def test_what_is_inside_of_rarer_containers_is_as_strict_as_elsewhere(hint: Any, good: str, bad: str) -> None:
    def act(it: Any) -> Any:
        return it

    act.__annotations__ = {"it": hint}
    kind = typing.get_origin(hint) or hint
    assert type(run(act, f'{{"it": {good}}}')) is kind
    with pytest.raises(ToolArgumentsError, match=r"it[.\[]"):
        one(act).body.decode(f'{{"it": {bad}}}')
