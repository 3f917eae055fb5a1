"""Faults that users of other systems reported about schemas, each with the right behaviour here."""

from __future__ import annotations

import asyncio
import datetime
import enum
import functools
import inspect
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import jsonschema
import pytest
from pydantic import BaseModel, Field

from surehand.errors import ToolArgumentsError, UserError
from surehand.messages import ToolSpec
from surehand.models._portable import portable_schema
from surehand.tools._tool import ToolResult

from .tools.helpers import one, run


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Colour(str, enum.Enum):  # noqa: UP042  (the older spelling is what was reported)
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    label: str
    children: list[Node] = []


def schema_of(function: Any) -> dict[str, Any]:
    """The tool's whole schema, which has to be a valid one."""
    schema = dict(one(function).spec.parameters or {})
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


def refusal(function: Callable[..., Any], text: str) -> str:
    with pytest.raises(ToolArgumentsError) as caught:
        one(function).body.decode(text)
    return str(caught.value)


def test_sch_03_positional_only_parameters_are_in_the_schema_and_are_passed() -> None:
    def add(a: int, /, b: int) -> int:
        return a + b

    assert schema_of(add) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    }
    assert run(add, '{"a": 1, "b": 2}') == 3


def test_sch_04_a_positional_only_parameter_beside_a_default_gives_an_object_schema() -> None:
    def lookup(user_id: int, /, field: str = "name") -> tuple[int, str]:
        return user_id, field

    assert schema_of(lookup) == {
        "type": "object",
        "properties": {"user_id": {"type": "integer"}, "field": {"type": "string", "default": "name"}},
        "required": ["user_id"],
    }
    assert run(lookup, '{"user_id": 7}') == (7, "name")


def test_sch_07_double_starred_parameters_are_refused_at_registration() -> None:
    def act(**kw: int) -> None: ...

    with pytest.raises(UserError, match=r"'act'.*'\*\*kw' has no fixed names.*name each parameter"):
        one(act)


def test_sch_09_parameters_named_like_attributes_of_models_arrive_without_a_warning() -> None:
    def act(schema: str, json: str, copy: int, model_config: str) -> tuple[Any, ...]:
        return schema, json, copy, model_config

    assert list(schema_of(act)["properties"]) == ["schema", "json", "copy", "model_config"]
    assert run(act, '{"schema": "s", "json": "j", "copy": 1, "model_config": "m"}') == ("s", "j", 1, "m")


class Methods:
    factor = 2

    def bound(self, n: int) -> int:
        return n * self.factor

    @classmethod
    def of_class(cls, n: int) -> int:
        return n * cls.factor

    @staticmethod
    def static(n: int) -> int:
        return n * 2


@pytest.mark.parametrize("method", [Methods().bound, Methods.of_class, Methods().of_class, Methods.static])
def test_sch_10_methods_of_every_kind_run_and_show_neither_self_nor_cls(method: Callable[..., Any]) -> None:
    assert schema_of(method)["properties"] == {"n": {"type": "integer"}}
    assert run(method, '{"n": 3}') == 6


def test_sch_11_an_untyped_context_is_refused_and_any_other_untyped_parameter_takes_every_value() -> None:
    def with_context(q: str, ctx=None) -> None: ...  # type: ignore[no-untyped-def]

    def plain(q, extra=None) -> tuple[Any, Any]:  # type: ignore[no-untyped-def]
        return q, extra

    with pytest.raises(UserError, match="'ctx' has no type; annotate it as ToolContext"):
        one(with_context)
    assert schema_of(plain) == {
        "type": "object",
        "properties": {"q": {}, "extra": {"default": None}},
        "required": ["q"],
    }
    assert run(plain, '{"q": [1, {"a": null}]}') == ([1, {"a": None}], None)


def test_sch_13_an_object_with_an_async_call_is_async_and_named_after_its_type() -> None:
    class Search:
        async def __call__(self, q: str) -> str:
            return q

    made = one(Search())
    assert (made.name, made.body.is_async) == ("Search", True)
    assert asyncio.run(made.body.call({"q": "x"}, None)) == "x"


def test_sch_14_a_wrappers_own_signature_is_the_schema_and_the_call_works() -> None:
    def inner(session: str, n: int) -> tuple[str, int]:
        return session, n

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner("s", *args, **kwargs)

    parameters = list(inspect.signature(inner).parameters.values())
    wrapper.__signature__ = inspect.Signature(parameters[1:])  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert schema_of(wrapper)["properties"] == {"n": {"type": "integer"}}
    assert run(wrapper, '{"n": 3}') == ("s", 3)


def test_sch_15_a_discriminated_union_keeps_its_members_and_gives_the_right_class() -> None:
    def act(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> Any:
        return pet

    members = schema_of(act)["properties"]["pet"]["anyOf"]
    assert [member["properties"]["kind"]["enum"] for member in members] == [["cat"], ["dog"]]
    assert run(act, '{"pet": {"kind": "dog"}}') == Dog(kind="dog")


def test_sch_16_an_optional_enum_shows_its_values_and_null_and_a_member_arrives() -> None:
    def act(colour: Optional[Colour] = None) -> Any:  # noqa: UP045
        return colour

    assert schema_of(act)["properties"] == {
        "colour": {"anyOf": [{"type": "string", "enum": ["red", "blue"]}, {"type": "null"}], "default": None}
    }
    assert run(act, '{"colour": "blue"}') is Colour.BLUE
    assert run(act, '{"colour": null}') is None


def test_sch_17_a_recursive_model_has_a_finite_schema_and_a_nested_value_arrives() -> None:
    def act(root: Node) -> Any:
        return root

    schema = schema_of(act)
    assert schema["properties"] == {"root": {"$ref": "#/$defs/Node"}}
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    value = run(act, '{"root": {"label": "a", "children": [{"label": "b"}]}}')
    assert value == Node(label="a", children=[Node(label="b")])


def test_sch_20_an_optional_argument_may_be_left_out_or_null() -> None:
    def act(a: int, b: int | None = None) -> tuple[int, int | None]:
        return a, b

    assert schema_of(act)["required"] == ["a"]
    assert [run(act, text) for text in ('{"a": 1}', '{"a": 1, "b": null}', '{"a": 1, "b": 2}')] == [
        (1, None),
        (1, None),
        (1, 2),
    ]


def test_sch_21_a_schema_without_properties_is_a_tool_without_parameters() -> None:
    made = one((ToolSpec("ping", None, {"type": "object"}), lambda call, context: ToolResult.of("pong")))
    assert made.name == "ping"
    assert made.body.decode("{}") == ({}, ())


def test_sch_22_a_tuple_of_fixed_length_arrives_and_has_a_form_for_every_provider() -> None:
    def act(p: tuple[int, str]) -> Any:
        return p

    schema = schema_of(act)
    assert schema["properties"]["p"]["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert "prefixItems" not in str(portable_schema(schema))
    assert run(act, '{"p": [1, "a"]}') == (1, "a")
    assert "p" in refusal(act, '{"p": [1, "a", 2]}')


def test_sch_23_dates_uuids_and_decimals_arrive_as_objects_and_bad_text_is_a_problem() -> None:
    def act(at: datetime.datetime, key: uuid.UUID, amount: Decimal) -> Any:
        return at, key, amount

    key = "12345678-1234-5678-1234-567812345678"
    text = f'{{"at": "2031-05-03T10:00:00", "key": "{key}", "amount": 1.10}}'
    assert run(act, text) == (datetime.datetime(2031, 5, 3, 10), uuid.UUID(key), Decimal("1.10"))
    told = refusal(act, '{"at": "soon", "key": "k", "amount": "much"}')
    assert all(f"{name}: " in told for name in ("at", "key", "amount"))


def test_sch_24_a_limit_is_in_the_schema_and_is_enforced() -> None:
    def act(n: Annotated[int, Field(ge=1, le=5)]) -> int:
        return n

    assert schema_of(act)["properties"] == {"n": {"type": "integer", "minimum": 1, "maximum": 5}}
    assert run(act, '{"n": 5}') == 5
    assert "n: " in refusal(act, '{"n": 9}')


def test_sch_26_a_leading_underscore_works() -> None:
    def act(_id: int) -> int:
        return _id

    assert schema_of(act)["properties"] == {"_id": {"type": "integer"}}
    assert run(act, '{"_id": 3}') == 3


SPHINX = """Find it.

Long text.

:param q: What to
    find.
:param int k: How many.
:returns: A list.
"""
NUMPY = """Find it.

Long text.

Parameters
----------
q : str
    What to
    find.
k : int
    How many.

Returns
-------
list
    A list.
"""
GOOGLE = """Find it.

Long text.

Args:
    q: What to
        find.
    k (int): How many.

Returns:
    A list.
"""


@pytest.mark.parametrize("docstring", [SPHINX, NUMPY, GOOGLE], ids=["sphinx", "numpy", "google"])
def test_sch_28_docstrings_of_every_style_describe_alike(docstring: str) -> None:
    def find(q: str, k: int = 3) -> None: ...

    find.__doc__ = docstring
    described = {name: entry["description"] for name, entry in schema_of(find)["properties"].items()}
    assert described == {"q": "What to\nfind.", "k": "How many."}
    assert one(find).spec.description == "Find it.\n\nLong text."


def test_sch_29_a_parameters_heading_with_a_colon_is_read() -> None:
    def find(q: str) -> None:
        """Find it.

        Parameters:
            q: What to find.
        """

    assert schema_of(find)["properties"]["q"]["description"] == "What to find."
    assert one(find).spec.description == "Find it."


def test_sch_30_starred_names_in_a_docstring_lose_nothing() -> None:
    def find(q: str, args: list[str]) -> None:
        """Find it.

        Parameters
        ----------
        q : str
            What to find.
        *args
            Where to look.
        """

    described = {name: entry["description"] for name, entry in schema_of(find)["properties"].items()}
    assert described == {"q": "What to find.", "args": "Where to look."}
