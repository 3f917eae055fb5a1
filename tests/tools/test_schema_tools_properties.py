"""For any JSON schema: what fits arrives as it is, what does not is refused or made to fit, as another judge says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from surehand import ToolArgumentsError, ToolSpec, UserError, programmatic_tool
from surehand.messages import ToolCall

from .helpers import context

EXAMPLES = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)

NAMES = ("a", "b", "c~/d", "é f", "properties", "$ref")
WORDS = ("", "a", "A", "red", "Red", "5", "-1", "1.50", "true", "null", "[1]", '{"a":1}', '"', "é")

# ---------------------------------------------------------------- schemas

numbers = st.integers(-5, 5) | st.sampled_from([2**53 + 1, -(10**30), 0.5, -1.25, 1e-7, 3.0])
scalars = st.none() | st.booleans() | numbers | st.sampled_from(WORDS)


@st.composite
def leaves(draw: Any) -> dict[str, Any]:
    """A schema of scalars."""
    kind = draw(st.sampled_from(["integer", "number", "string", "boolean", "null", "enum", "const", "any"]))
    match kind:
        case "integer" | "number":
            bound = draw(st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", None]))
            return {"type": kind, **({bound: draw(st.integers(-4, 4))} if bound else {})}
        case "string":
            rule = draw(st.sampled_from([{}, {"minLength": 2}, {"maxLength": 3}, {"pattern": "^[a-z5]"}]))
            return {"type": "string", **rule}
        case "enum":
            return {"enum": draw(st.lists(scalars, min_size=1, max_size=4, unique_by=repr))}
        case "const":
            return {"const": draw(scalars | st.lists(numbers, max_size=2))}
        case "any":
            return {}
        case _:
            return {"type": kind}


@st.composite
def objects(draw: Any, inner: Any) -> dict[str, Any]:
    """A schema of objects with those schemas for properties."""
    properties = draw(st.dictionaries(st.sampled_from(NAMES), inner, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if properties and draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(sorted(properties)), unique=True))
    match draw(st.sampled_from(["open", "closed", "typed"])):
        case "closed":
            schema["additionalProperties"] = False
        case "typed":
            schema["additionalProperties"] = draw(inner)
    return schema


@st.composite
def arrays(draw: Any, inner: Any) -> dict[str, Any]:
    """A schema of arrays with those schemas for items."""
    schema: dict[str, Any] = {"type": "array", "items": draw(inner)}
    if draw(st.booleans()):
        schema["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
    if draw(st.booleans()):
        schema["minItems"] = draw(st.integers(0, 2))
    return schema


def alternatives(inner: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of alternatives, of types, or of several parts."""
    several = st.lists(inner, min_size=1, max_size=3)
    types = st.lists(st.sampled_from(["integer", "string", "boolean", "null", "array"]), min_size=1, unique=True)
    return st.one_of(
        several.map(lambda schemas: {"anyOf": schemas}),
        several.map(lambda schemas: {"oneOf": schemas}),
        several.map(lambda schemas: {"allOf": schemas}),
        types.map(lambda names: {"type": names}),
    )


def negations(inner: Any) -> st.SearchStrategy[dict[str, Any]]:
    """A schema of what is not allowed, or only under a condition."""
    return inner.map(lambda schema: {"not": schema}) | st.tuples(inner, inner, inner).map(
        lambda three: {"if": three[0], "then": three[1], "else": three[2]}
    )


recursive = st.just({"$ref": "#/$defs/node"})
plain_parts = st.recursive(leaves() | recursive, lambda inner: arrays(inner) | objects(inner), max_leaves=6)
parts_with_choices = st.recursive(
    leaves() | recursive, lambda inner: arrays(inner) | objects(inner) | alternatives(inner), max_leaves=6
)
parts = st.recursive(
    leaves() | recursive,
    lambda inner: arrays(inner) | objects(inner) | alternatives(inner) | negations(inner),
    max_leaves=6,
)


@st.composite
def schemas(draw: Any, inner: Any) -> dict[str, Any]:
    """The parameters of a tool: an object, some of it in a definition that may contain itself."""
    return {**draw(objects(inner)), "$defs": {"node": draw(arrays(inner) | objects(inner))}}


# ---------------------------------------------------------------- values

values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)


def fitting(draw: Any, schema: Any, root: dict[str, Any], depth: int = 0) -> Any:
    """A value that was made to fit the schema, and mostly does."""
    if depth > 6 or not isinstance(schema, dict):
        return draw(scalars)
    if "$ref" in schema:
        return fitting(draw, root["$defs"]["node"], root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return fitting(draw, draw(st.sampled_from(schema[key])), root, depth + 1)
    if "if" in schema:
        return fitting(draw, schema[draw(st.sampled_from(["then", "else"]))], root, depth + 1)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    match draw(st.sampled_from(kind)) if isinstance(kind, list) else kind:
        case "integer":
            return draw(numbers.filter(lambda number: isinstance(number, int)))
        case "number":
            return draw(numbers)
        case "string":
            return draw(st.sampled_from(WORDS))
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case "array":
            heads = [fitting(draw, head, root, depth + 1) for head in schema.get("prefixItems", [])]
            more = draw(st.integers(0, 2))
            return heads + [fitting(draw, schema.get("items"), root, depth + 1) for _ in range(more)]
        case "object":
            properties = schema.get("properties", {})
            names = [name for name in properties if name in schema.get("required", ()) or draw(st.booleans())]
            return {name: fitting(draw, properties[name], root, depth + 1) for name in names}
        case _:
            return draw(values)


@st.composite
def calls(draw: Any, inner: Any = parts) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema, and arguments that were made to fit it."""
    schema = draw(schemas(inner))
    return schema, fitting(draw, schema, schema)


# ---------------------------------------------------------------- how a model gets a value wrong


class Written(str):
    """A number as it is written."""


def written(value: Any) -> str:
    """JSON with numbers as they are written."""
    match value:
        case Written():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)}: {written(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case _:
            return json.dumps(value)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in the value, except the whole."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield (*path, key)
        yield from places(item, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def put(value: Any, path: tuple[Any, ...], item: Any) -> Any:
    """A copy with another item at that place."""
    copy = deepcopy(value)
    at(copy, path[:-1])[path[-1]] = item
    return copy


def stringified(value: Any, loud: bool) -> Any:
    """The value in the wrong layer of JSON: as text or, if it is the text of a number or a word, as that."""
    if not isinstance(value, str):
        text = written(value)
        return text.upper() if loud and isinstance(value, bool) else text
    if value in ("5", "-1", "1.50"):
        return Written(value)
    return True if value == "true" else value


def judge(schema: dict[str, Any], value: Any) -> bool:
    """Whether another implementation says that it fits."""
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def judged(schema: dict[str, Any], text: str) -> bool:
    return judge(schema, json.loads(text))


def body_of(schema: dict[str, Any]) -> Any:
    return programmatic_tool(ToolSpec("t", None, schema), lambda call, context: call.arguments).body


def body_if_any(schema: dict[str, Any]) -> Any:
    """The body, unless the schema is refused as one that nothing fits."""
    try:
        return body_of(schema)
    except UserError as error:
        assert "would refuse every call" in str(error)
        reject()


def ran_with(body: Any, text: str) -> tuple[Any, tuple[Any, ...], str]:
    """What hooks see, what was repaired, and the text that the executor gets."""
    arguments, repairs = body.decode(text)
    return arguments, repairs, body.call(arguments, context(call=ToolCall("1", "t", text)))


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


# ---------------------------------------------------------------- the properties


@EXAMPLES
@given(calls())
def test_a_valid_call_arrives_exactly(call: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, value = call
    assume(judge(schema, value))
    text = json.dumps(value)
    arguments, repairs, given_text = ran_with(body_of(schema), text)
    assert (same(arguments, value), repairs, given_text) == (True, (), text)


@EXAMPLES
@given(schemas(parts), st.dictionaries(st.sampled_from(NAMES), values, max_size=4))
def test_an_invalid_call_is_refused_or_repaired_to_a_valid_one(schema: dict[str, Any], value: dict[str, Any]) -> None:
    assume(not judge(schema, value))
    body = body_if_any(schema)
    try:
        arguments, repairs, text = ran_with(body, json.dumps(value))
    except ToolArgumentsError as error:
        assert str(error).startswith("The arguments of 't' do not fit: ")
        assert "received" in str(error) or "missing" in str(error)
        assert len(str(error)) <= 1000
        return
    assert judge(schema, arguments)
    assert same(json.loads(text), arguments)
    dropped = [name for name in value if name not in arguments]
    assert repairs or (all(value[name] is None for name in dropped) and dropped)


@EXAMPLES
@given(schemas(parts), st.dictionaries(st.sampled_from(NAMES), values, max_size=4))
def test_nothing_is_repaired_in_strict_mode(schema: dict[str, Any], value: dict[str, Any]) -> None:
    body = body_if_any(schema)
    try:
        arguments, repairs = body.decode(json.dumps(value), "strict")
    except ToolArgumentsError:
        assert not judge(schema, value)
        return
    assert judge(schema, arguments)
    assert repairs == ()
    assert same(arguments, {name: value[name] for name in value if name in arguments})


@EXAMPLES
@given(calls(parts_with_choices), st.data())
def test_a_stringified_call_is_valid_as_it_is_or_made_valid(call: Any, data: Any) -> None:
    schema, value = call
    assume(judge(schema, value))
    found = list(places(value))
    assume(found)
    changed = value
    # The inner places first, so that text gets into text.
    for path in sorted(data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=3, unique=True)), key=len)[::-1]:
        changed = put(changed, path, stringified(at(changed, path), data.draw(st.booleans())))
    text = written(changed)
    arguments, repairs, given_text = ran_with(body_of(schema), text)
    assert judge(schema, arguments)
    assert same(json.loads(given_text), arguments)
    if judged(schema, text):
        assert (same(arguments, json.loads(text)), repairs, given_text) == (True, (), text)


@EXAMPLES
@given(calls(plain_parts), st.data())
def test_without_alternatives_exactly_the_stringified_places_are_repaired(call: Any, data: Any) -> None:
    schema, value = call
    assume(judge(schema, value))
    found = list(places(value))
    assume(found)
    sent, expected = value, value
    for path in data.draw(st.lists(st.sampled_from(found), min_size=1, max_size=3)):
        if any(path[: len(other)] == other or other[: len(path)] == path for other in found_before(sent, value)):
            continue
        changed = stringified(at(value, path), data.draw(st.booleans()))
        sent = put(sent, path, changed)
        if judged(schema, written(put(value, path, changed))):
            expected = put(expected, path, json.loads(written(changed)))
    arguments, _, _ = ran_with(body_of(schema), written(sent))
    assert same(arguments, expected)


def found_before(sent: Any, value: Any) -> list[tuple[Any, ...]]:
    """The places that differ already."""
    return [path for path in places(sent) if not _has(value, path) or type(at(value, path)) is not type(at(sent, path))]


def _has(value: Any, path: tuple[Any, ...]) -> bool:
    try:
        at(value, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True


@EXAMPLES
@given(calls(plain_parts))
def test_arguments_encoded_twice_are_read(call: Any) -> None:
    schema, value = call
    assume(judge(schema, value))
    arguments, repairs, _ = ran_with(body_of(schema), json.dumps(json.dumps(value)))
    assert same(arguments, value)
    assert len(repairs) == 1
