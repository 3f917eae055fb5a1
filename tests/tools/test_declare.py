"""What ``@tool`` makes of a function: what the model sees, what is injected, and what is refused."""

from __future__ import annotations

import dataclasses
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
from typing_extensions import Doc, TypedDict

from surehand.errors import UserError
from surehand.messages import ToolSpec
from surehand.tools._collect import collect_tools
from surehand.tools._declare import tool
from surehand.tools._signature import MemoryId
from surehand.tools._tool import Parameters, ReturnBehavior, ToolContext

from .helpers import context, one, run


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int = 0


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


@dataclasses.dataclass
class Node:
    label: str
    children: list[Node]


class Box(TypedDict):
    width: float


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return dict((one(function).spec.parameters or {})["properties"])


# ---------------------------------------------------------------- the decorator


def test_the_decorated_function_is_the_same_object_and_still_works() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    assert tool(add) is add
    assert tool(repeat="safe")(add) is add
    assert add(1, 2) == 3


def test_options_reach_the_tool() -> None:
    @tool(
        name="fetch",
        description="Fetches.",
        repeat="safe",
        timeout=2.5,
        retries=3,
        exclusive=True,
        max_parallel=2,
        returns=ReturnBehavior.IMMEDIATE,
        metadata={"team": "a"},
        strict=True,
    )
    def load(url: str) -> str:
        return url

    made = one(load)
    assert made.spec == ToolSpec(
        "fetch",
        "Fetches.",
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
        {"team": "a"},
        True,
    )
    assert (made.repeat, made.timeout, made.retries, made.exclusive, made.max_parallel, made.returns) == (
        "safe", 2.5, 3, True, 2, ReturnBehavior.IMMEDIATE,
    )  # fmt: skip


def test_defaults_are_the_careful_ones() -> None:
    @tool
    def act() -> None: ...

    made = one(act)
    assert (made.repeat, made.timeout, made.retries, made.exclusive, made.inline, made.returns, made.undo) == (
        "never", None, 0, False, False, ReturnBehavior.TO_MODEL, None,
    )  # fmt: skip


def test_a_blank_name_or_description_counts_as_unset() -> None:
    @tool(name="  ", description=" ")
    def act() -> None:
        """Acts."""

    assert one(act).spec == ToolSpec("act", "Acts.")


def test_a_tool_without_parameters_has_no_schema() -> None:
    @tool
    def act(ctx: ToolContext) -> None: ...

    assert one(act).spec == ToolSpec("act")


def test_metadata_may_be_json_text() -> None:
    @tool(metadata='{"searchBehavior": "ALWAYS_VISIBLE"}')
    def act() -> None: ...

    assert one(act).spec.metadata == {"searchBehavior": "ALWAYS_VISIBLE"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, ["timeout=0", "positive"]),
        ({"timeout": -1.5}, ["timeout=-1.5", "positive"]),
        ({"timeout": True}, ["timeout=True", "seconds"]),
        ({"timeout": float("nan")}, ["timeout=nan"]),
        ({"undo_timeout": 0}, ["undo_timeout=0"]),
        ({"retries": -1, "repeat": "safe"}, ["retries=-1", "0 or more"]),
        ({"retries": 1}, ["retries=1", "repeat='safe'"]),
        ({"repeat": "always"}, ["repeat='always'", "'with_key'"]),
        ({"repeat": "with_key"}, ["with_key", "ToolContext"]),
        ({"unknown": "retry"}, ["unknown='retry'", "'ask'", "'undo'", "'dead_letter'"]),
        ({"unknown": "undo", "repeat": "safe"}, ["unknown='undo'", "repeat='never'", "remove one"]),
        ({"unknown": "dead_letter", "repeat": "with_key"}, ["unknown='dead_letter'", "repeat='with_key'"]),
        ({"unknown": "undo"}, ["unknown='undo'", "has no undo", "@undoes", "unknown='ask'"]),
        ({"returns": "immediate"}, ["returns='immediate'", "ReturnBehavior.IMMEDIATE"]),
        ({"max_parallel": 0}, ["max_parallel=0", "1 or more"]),
        ({"metadata": "{"}, ["metadata", "JSON"]),
        ({"metadata": [1]}, ["metadata=[1]", "dict"]),
        ({"strict": "yes"}, ["strict='yes'", "True"]),
        ({"exclusive": 1}, ["exclusive=1", "True or False"]),
        ({"undo": 5}, ["undo=5", "function"]),
        ({"name": 5}, ["name=5", "text"]),
        ({"inline": True, "timeout": 1}, ["inline=True", "timeout=1"]),
    ],
)
def test_an_option_that_cannot_be_kept_is_refused_with_the_remedy(options: dict[str, Any], words: list[str]) -> None:
    def act() -> None: ...

    with pytest.raises(UserError) as caught:
        one(tool(**options)(act))
    assert all(word in str(caught.value) for word in [*words, "'act'"]), caught.value


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    untyped: Any = tool
    with pytest.raises(UserError, match=r"'retry'.*retries"):
        untyped(retry=1)


def test_a_class_cannot_be_decorated() -> None:
    untyped: Any = tool
    with pytest.raises(UserError, match="Person"):
        untyped(Person)


# ---------------------------------------------------------------- descriptions

GOOGLE = """Find flights.

    Cheap ones first.

    Args:
        to: Where to,
            as a code.
        day (str): When.

    Returns:
        A list.
    """
PARAMETERS = GOOGLE.replace("Args:", "Parameters:")
NUMPY = """Find flights.

    Cheap ones first.

    Parameters
    ----------
    to : str
        Where to,
        as a code.
    day : str
        When.

    Returns
    -------
    list
        A list.
    """
REST = """Find flights.

    Cheap ones first.

    :param to: Where to,
        as a code.
    :param str day: When.
    :returns: A list.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, PARAMETERS, NUMPY, REST], ids=["google", "parameters", "numpy", "rest"])
def test_every_docstring_style_gives_the_same_descriptions(docstring: str) -> None:
    def find(to: str, day: str) -> None: ...

    find.__doc__ = docstring
    assert one(find).spec.description == "Find flights.\n\nCheap ones first."
    assert properties(find) == {
        "to": {"type": "string", "description": "Where to,\nas a code."},
        "day": {"type": "string", "description": "When."},
    }


def test_a_plain_docstring_is_the_description_as_it_stands() -> None:
    def act() -> None:
        """Acts: now.

        Second: part.
        """

    assert one(act).spec.description == "Acts: now.\n\nSecond: part."


def test_a_description_in_the_annotation_wins() -> None:
    def act(
        a: Annotated[str, Field(description="field")],
        b: Annotated[str, Doc("doc")],
        c: Annotated[str, "text"],
        d: str,
    ) -> None:
        """Act.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
        """

    described = {name: entry["description"] for name, entry in properties(act).items()}
    assert described == {"a": "field", "b": "doc", "c": "text", "d": "docstring"}


# ---------------------------------------------------------------- schema


def test_types_map_to_json_schema() -> None:
    def act(
        text: str,
        whole: int,
        real: float,
        exact: Decimal,
        yes: bool,
        colour: Colour,
        mode: Literal["a", "b"],
        many: list[int],
        pair: dict[str, int],
        person: Person,
        box: Box,
        free: Any,
    ) -> None: ...

    number = {"type": "number"}
    assert properties(act) == {
        "text": {"type": "string"},
        "whole": {"type": "integer"},
        "real": number,
        "exact": number,
        "yes": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "many": {"type": "array", "items": {"type": "integer"}},
        "pair": {"type": "object", "additionalProperties": {"type": "integer"}},
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}},
            "required": ["name"],
        },
        "box": {
            "type": "object",
            "properties": {"width": number},
            "required": ["width"],
            "additionalProperties": False,
        },
        "free": {},
    }


def test_text_formats_are_named_and_a_uuid_is_explained() -> None:
    def act(day: datetime.date, at: datetime.datetime, key: uuid.UUID) -> None: ...

    assert properties(act) == {
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "key": {
            "type": "string",
            "format": "uuid",
            "description": "A UUID, such as 123e4567-e89b-12d3-a456-426614174000",
        },
    }


def test_a_parameter_is_required_unless_it_has_a_default_or_may_be_none() -> None:
    def act(z: int, b: int | None, y: int = 3, a: Optional[str] = None) -> None: ...  # noqa: UP045

    parameters = one(act).spec.parameters
    assert parameters is not None
    assert list(parameters["properties"]) == ["z", "b", "y", "a"]
    assert parameters["required"] == ["z"]
    assert parameters["properties"]["y"] == {"type": "integer", "default": 3}


def test_only_a_recursive_type_is_a_definition() -> None:
    def act(root: Node, person: Person) -> None: ...

    schema = one(act).spec.parameters
    assert schema is not None
    node = {
        "type": "object",
        "properties": {"label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["label", "children"],
        "additionalProperties": False,
    }
    assert schema["$defs"] == {"Node": node}
    assert schema["properties"]["person"]["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(
        {"root": {"label": "a", "children": [{"label": "b", "children": []}]}, "person": {"name": "x"}}, schema
    )


def test_tuples_keep_their_order_and_tagged_unions_are_described_in_words_that_every_provider_knows() -> None:
    def act(pair: tuple[int, str], pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    def pet(kind: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"kind": {"type": "string", "enum": [kind]}},
            "required": ["kind"],
        }

    whole, text = {"type": "integer"}, {"type": "string"}
    assert properties(act) == {
        "pair": {"type": "array", "prefixItems": [whole, text], "minItems": 2, "maxItems": 2},
        "pet": {"anyOf": [pet("cat"), pet("dog")]},
    }


def test_a_property_named_title_stays() -> None:
    def act(title: str, const: int, book: Titled) -> None: ...

    text = {"type": "string"}
    assert properties(act) == {
        "title": text,
        "const": {"type": "integer"},
        "book": {
            "type": "object",
            "properties": {"title": text, "oneOf": text},
            "required": ["title", "oneOf"],
            "additionalProperties": False,
        },
    }


class Titled(TypedDict):
    title: str
    oneOf: str


def test_a_field_alias_is_the_name_that_the_model_sees() -> None:
    def act(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    assert list(properties(act)) == ["from"]
    assert run(act, '{"from": "LIS"}') == "LIS"


def test_names_that_pydantic_models_reserve_are_fine() -> None:
    def act(schema: str, json: str, copy: int, model_config: str, _id: int) -> tuple[Any, ...]:
        return schema, json, copy, model_config, _id

    text = '{"schema": "a", "json": "b", "copy": 1, "model_config": "c", "_id": 2}'
    assert run(act, text) == ("a", "b", 1, "c", 2)


def test_a_field_as_default_gives_description_and_default() -> None:
    def act(n: int = Field(5, description="How many.", ge=1)) -> int:
        return n

    assert properties(act) == {"n": {"type": "integer", "default": 5, "description": "How many.", "minimum": 1}}
    assert run(act, "{}") == 5


# ---------------------------------------------------------------- calling


def test_positional_only_parameters_are_passed_by_position() -> None:
    def add(a: int, /, b: int = 2) -> int:
        return a + b

    assert run(add, '{"a": 1}') == 3


def test_a_mutable_default_is_fresh_in_every_call() -> None:
    def note(text: str, into: list[str] = []) -> list[str]:  # noqa: B006
        into.append(text)
        return into

    body = one(note).body
    assert [body.call(body.decode(text)[0], None) for text in ('{"text": "a"}', '{"text": "b"}')] == [["a"], ["b"]]


def test_injected_parameters_are_hidden_and_filled() -> None:
    class Mine(Parameters):
        pass

    @tool
    def act(
        q: str,
        ctx: ToolContext[int],
        maybe: ToolContext | None,
        bag: Parameters,
        mine: Mine,
        user: Annotated[str, MemoryId],
    ) -> tuple[Any, ...]:
        return q, ctx, maybe, bag, mine, user

    bag = Mine({"a": 1})
    given = context(parameters=bag, memory_id="ann")
    assert list(properties(act)) == ["q"]
    assert one(act).body.wants_context
    assert run(act, '{"q": "x"}', given) == ("x", given, given, bag, bag, "ann")


def test_a_model_cannot_supply_an_injected_parameter() -> None:
    def act(q: str, ctx: ToolContext) -> ToolContext:
        return ctx

    given = context()
    assert run(act, '{"q": "x", "ctx": {"deps": "evil"}}', given) is given


def test_an_injected_parameter_takes_no_default_but_none() -> None:
    def fine(ctx: ToolContext | None = None) -> None: ...

    def wrong(ctx: ToolContext = 5) -> None: ...  # type: ignore[assignment]

    assert one(fine).spec.parameters is None
    with pytest.raises(UserError, match=r"'wrong'.*'ctx'.*remove 5"):
        one(wrong)


def test_an_untyped_context_is_refused() -> None:
    def act(q: str, ctx=None) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(UserError, match=r"'act'.*'ctx' has no type.*ToolContext"):
        one(act)


@pytest.mark.parametrize("star", ["*args", "**kwargs"])
def test_starred_parameters_are_refused(star: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def act({star}): ...", scope)
    with pytest.raises(UserError) as caught:
        one(scope["act"])
    assert f"'{star}'" in str(caught.value)


def test_a_name_that_cannot_be_found_is_named() -> None:
    def act(thing: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(UserError, match=r"'act'.*'thing'.*'Missing'"):
        one(act)


def test_a_type_that_a_model_cannot_fill_is_named_with_the_remedy() -> None:
    class Client:
        pass

    @tool
    def act(q: str, client: Client) -> None: ...

    with pytest.raises(UserError, match=r"'act'.*'client'.*Client.*ctx\.deps"):
        one(act)


def test_a_type_defined_inside_a_function_is_found() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def act(it: Local) -> int:
        return it.n

    assert run(act, '{"it": {"n": 3}}') == 3


def test_options_may_be_kept_and_used_for_several_functions() -> None:
    safe = tool(repeat="safe")

    def inside() -> Callable[..., Any]:
        class Local(BaseModel):
            n: int

        @safe
        def act(it: Local) -> int:
            return it.n

        return act

    function = inside()
    assert one(function).repeat == "safe"
    assert run(function, '{"it": {"n": 3}}') == 3


# ---------------------------------------------------------------- callables of other kinds


def test_an_async_function_is_async_also_inside_a_partial_and_an_object() -> None:
    async def act(a: int, b: int) -> int:
        return a + b

    class Callable_:
        async def __call__(self, a: int) -> int:
            return a

    for entry in (act, functools.partial(act, b=1), Callable_()):
        body = one(entry).body
        assert (body.is_async, body.has_async_form, body.offload) == (True, True, True)


def test_a_callable_object_is_named_after_its_type() -> None:
    class Search:
        def __call__(self, q: str) -> str:
            """Searches."""
            return q

    made = one(Search())
    assert (made.name, made.spec.description) == ("Search", "Searches.")
    assert made.body.call({"q": "x"}, None) == "x"


def test_what_a_partial_has_bound_stays_hidden() -> None:
    def act(q: str, key: str) -> str:
        """Act."""
        return q + key

    bound = functools.partial(act, key="secret")
    assert one(bound).spec.name == "act"
    assert one(bound).spec.description == "Act."
    assert list(properties(bound)) == ["q"]
    assert run(bound, '{"q": "a", "key": "b"}') == "asecret"


def test_a_wrapper_is_called_and_shows_the_inner_signature() -> None:
    def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs) * 2

        return wrapper

    @doubled
    @tool(name="triple")
    def act(n: int) -> int:
        return n

    assert one(act).name == "triple"
    assert run(act, '{"n": 2}') == 4


def test_a_signature_of_its_own_decides() -> None:
    def act(**values: Any) -> dict[str, Any]:
        return values

    act.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
        [inspect.Parameter("n", inspect.Parameter.KEYWORD_ONLY, annotation=int)]
    )
    assert properties(act) == {"n": {"type": "integer"}}
    assert run(act, '{"n": 2}') == {"n": 2}


def test_a_generator_is_consumed_in_the_body_and_its_last_value_is_the_result() -> None:
    def count(n: int) -> Any:
        yield from range(n)

    assert run(count, '{"n": 3}') == 2


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(UserError, match="name="):
        one(lambda: None)
    assert one(tool(name="named")(lambda: None)).name == "named"


def test_equal_names_are_refused() -> None:
    def act() -> None: ...

    with pytest.raises(UserError, match="'act'"):
        collect_tools([act, act])
