"""Tools that bring a JSON schema instead of a signature: what reaches the executor, and what the model reads if not."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from surehand import (
    Happened,
    Outcome,
    Repair,
    ToolArgumentsError,
    ToolContext,
    ToolSpec,
    ToolTimeout,
    UserError,
    programmatic_tool,
)
from surehand.events import ArgumentRepaired
from surehand.messages import ToolCall
from surehand.testing import call, say
from surehand.tools import _json_schema_check, _json_schema_decode, _json_schema_repair
from surehand.tools._json_schema_check import SchemaCheck
from surehand.tools._json_schema_possible import why_no_object_fits

from ..modes import ALL_MODES, IN_SEQUENCE, Mode, ask
from .helpers import context, execution

INTEGER: dict[str, Any] = {"type": "integer"}
TEXT: dict[str, Any] = {"type": "string"}


def made(schema: dict[str, Any]) -> Any:
    """A tool with those parameters, which gives back the text that its executor gets."""
    return programmatic_tool(ToolSpec("t", None, schema), lambda call, context: call.arguments)


def one(schema: Any, **more: Any) -> dict[str, Any]:
    """The schema of arguments with the one property ``x``."""
    return {"type": "object", "properties": {"x": schema}, **more}


def decoded(schema: dict[str, Any], sent: Any, *decoding: Any) -> Any:
    text = sent if isinstance(sent, str) else json.dumps(sent)
    return made(schema).body.decode(text, *decoding)


def received(schema: dict[str, Any], sent: Any, *decoding: Any) -> str:
    """The text that the executor gets; what hooks get must be the same."""
    text = sent if isinstance(sent, str) else json.dumps(sent)
    body = made(schema).body
    arguments, _ = body.decode(text, *decoding)
    given: str = body.call(arguments, context(call=ToolCall("1", "t", text)))
    assert json.loads(given, parse_float=Decimal) == _with_decimals(arguments)
    return given


def refusal(schema: dict[str, Any], sent: Any, *decoding: Any) -> str:
    with pytest.raises(ToolArgumentsError) as raised:
        decoded(schema, sent, *decoding)
    return str(raised.value)


def problems(schema: dict[str, Any], sent: Any) -> str:
    """What is said to be wrong, without the frame."""
    return (
        refusal(schema, sent).removeprefix("The arguments of 't' do not fit: ").partition(". Expected {")[0].rstrip(".")
    )


# ---------------------------------------------------------------- with and without the extra


def test_a_schema_without_jsonschema_rs_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(UserError, match=r"tool 't'.*pip install 'surehand\[schema\]'"):
        made(one(INTEGER))
    body = programmatic_tool(ToolSpec("t"), lambda call, context: call.arguments).body
    arguments, repairs = body.decode("no json")
    assert (body.call(arguments, context(call=ToolCall("1", "t", "no json"))), repairs) == ("no json", ())


def test_jsonschema_rs_is_loaded_for_a_schema_only() -> None:
    script = (
        "import sys; from surehand import ToolSpec, programmatic_tool;"
        "programmatic_tool(ToolSpec('t'), lambda call, context: ''); before = 'jsonschema_rs' in sys.modules;"
        "programmatic_tool(ToolSpec('t', None, {}), lambda call, context: '');"
        "print(before, 'jsonschema_rs' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert answer.split() == ["False", "True"]


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, {}])
@pytest.mark.parametrize("text", ["", "  ", "null", "{}"])
def test_a_schema_without_properties_makes_a_tool_without_parameters(schema: dict[str, Any], text: str) -> None:
    assert made(schema).name == "t"
    assert (decoded(schema, text), received(schema, text)) == (({}, ()), "{}")


# ---------------------------------------------------------------- schemas that are refused

BAD = {
    "an unknown type": (one({"type": "strin"}), "properties.x.type"),
    "a bound that is no number": (one({"minimum": "1"}), "properties.x.minimum"),
    "a pattern that is none": (one({"type": "string", "pattern": "("}), "properties.x.pattern"),
    "a huge pattern": (one({"type": "string", "pattern": "((a{1000}){1000}){1000}"}), "properties.x.pattern"),
    "a reference to nothing": (one({"$ref": "#/$defs/no"}), r"properties.x.\$ref.*/\$defs/no"),
    "a reference elsewhere": (one({"$ref": "other.json"}), r"properties.x.\$ref.*other.json"),
    "an unknown draft": ({"$schema": "urn:mine"}, r"\$schema.*urn:mine"),
    "draft 3": ({"$schema": "http://json-schema.org/draft-03/schema#"}, r"\$schema.*draft-03"),
    "no JSON": (one({"enum": {1, 2}}), "properties.x.enum"),
    "no number": (one({"const": float("nan")}), "properties.x.const"),
    "a key that is no text": (one({"properties": {1: {}}}), "properties.x.properties"),
}


@pytest.mark.parametrize(("schema", "where"), BAD.values(), ids=BAD)
def test_a_schema_that_cannot_be_used_is_refused_with_its_place(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError, match=rf"tool 't': its parameters .*{where}"):
        made(schema)


@pytest.mark.parametrize("schema", [True, [], '{"type": "object"}'])
def test_a_schema_that_is_no_mapping_is_refused(schema: Any) -> None:
    with pytest.raises(UserError, match=r"tool 't': its parameters are .* as a mapping"):
        made(schema)


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = one(schema)
    with pytest.raises(UserError, match=r"tool 't'.*nested more than 200 levels"):
        made(schema)


NO_OBJECT: dict[str, tuple[dict[str, Any], str]] = {
    "text": (TEXT, "no object fits them"),
    "an array": ({"type": "array"}, "no object fits them"),
    "several types": ({"type": ["string", "null"]}, "no object fits them"),
    "constants": ({"enum": ["a", 1]}, "no object fits them"),
    "no constants": ({"enum": []}, "no object fits them"),
    "a constant": ({"const": None}, "no object fits them"),
    "everything excluded": ({"not": {}}, "no object fits them"),
    "a reference": ({"$ref": "#/$defs/n", "$defs": {"n": INTEGER}}, "no object fits them"),
    "alternatives": ({"anyOf": [TEXT, {"oneOf": [INTEGER]}]}, "no object fits them"),
    "parts": ({"type": "object", "allOf": [{"type": ["array", "string"]}]}, "no object fits them"),
    "a property": (one(False, required=["x"]), "no value fits their required property 'x'"),
    "a property of two types": (one({"allOf": [INTEGER, TEXT]}, required=["x"]), "required property 'x'"),
    "a property inside": (one({"type": "object", **one({"enum": []}, required=["x"])}, required=["x"]), "property 'x'"),
}


@pytest.mark.parametrize(("schema", "reason"), NO_OBJECT.values(), ids=NO_OBJECT)
def test_a_schema_that_no_object_fits_is_refused(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(UserError, match=rf"tool 't': its parameters would refuse every call, as .*{reason}; a JSON"):
        made(schema)


SOME_OBJECT: dict[str, dict[str, Any]] = {
    "one of several types": {"type": ["object", "null"]},
    "an object as a constant": {"enum": [{}, "a"]},
    "an alternative": {"anyOf": [TEXT, {"minProperties": 0}]},
    "a schema that contains itself": {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {}]}}},
    "an optional property": one({"enum": []}),
    "a required property of another part": {"required": ["x"], "allOf": [one(INTEGER)]},
    "beside a reference where it hides": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{"$ref": "#/definitions/a", "type": "string"}],
        "definitions": {"a": {"type": "object"}},
    },
    "a draft without constants": {"$schema": "http://json-schema.org/draft-04/schema#", "const": 1},
    "a reference in a part of its own": {
        "allOf": [{"$id": "sub", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}],
        "$defs": {"a": TEXT},
    },
}


@pytest.mark.parametrize("schema", SOME_OBJECT.values(), ids=SOME_OBJECT)
def test_a_schema_that_some_object_fits_is_taken(schema: dict[str, Any]) -> None:
    sent = dict.fromkeys(schema.get("required", ()), 1)
    assert decoded(schema, sent) == (sent, ())


def test_a_schema_too_deep_for_looking_at_it_is_taken() -> None:
    schema: dict[str, Any] = {"type": "object"}
    definitions = {f"n{number}": {"$ref": f"#/$defs/n{number + 1}"} for number in range(3000)}
    schema |= {"allOf": [{"$ref": "#/$defs/n0"}], "$defs": definitions | {"n3000": {}}}
    assert why_no_object_fits(schema) is None


def test_nothing_is_fetched(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    there.write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for address in (f"http://127.0.0.1:{server.getsockname()[1]}/x.json", there.as_uri()):
            for schema in (one({"$ref": address}), {"$schema": address}, {"$id": address, **one({"$ref": "y.json"})}):
                with pytest.raises(UserError, match="tool 't'"):
                    made(schema)
        with pytest.raises(BlockingIOError):
            server.accept()


# ---------------------------------------------------------------- drafts

DRAFTS = {
    "draft 4": ("http://json-schema.org/draft-04/schema#", {"minimum": 1, "exclusiveMinimum": True}, "definitions"),
    "draft 6": ("http://json-schema.org/draft-06/schema#", {"exclusiveMinimum": 1}, "definitions"),
    "draft 7": ("http://json-schema.org/draft-07/schema#", {"if": {"maximum": 1}, "then": False}, "definitions"),
    "2019-09": ("https://json-schema.org/draft/2019-09/schema", {"exclusiveMinimum": 1}, "$defs"),
    "2020-12": ("https://json-schema.org/draft/2020-12/schema", {"exclusiveMinimum": 1}, "$defs"),
}


@pytest.mark.parametrize(("draft", "more_than_one", "place"), DRAFTS.values(), ids=DRAFTS)
def test_every_draft_is_known_with_local_references_and_recursion(draft: str, more_than_one: Any, place: str) -> None:
    node = {
        "type": "object",
        "properties": {"n": {"type": "number", **more_than_one}, "next": {"$ref": f"#/{place}/node"}},
    }
    schema = {"$schema": draft, **one({"$ref": f"#/{place}/node"}), place: {"node": node}}
    assert decoded(schema, {"x": {"n": 2, "next": {"n": "3"}}}) == (
        {"x": {"n": 2, "next": {"n": 3}}},
        (Repair("x.next.n", "3", 3),),
    )
    assert problems(schema, {"x": {"next": {"n": 1}}}).startswith("x.next.n: ")


REFERENCES: dict[str, dict[str, Any]] = {
    "a name of its own": {"$id": "https://ex.org/t", "properties": {"x": {"$ref": "https://ex.org/t#/$defs/n"}}},
    "an anchor": {"properties": {"x": {"$ref": "#here"}}},
    "a relative name": {"$id": "tool", "properties": {"x": {"$ref": "tool#/$defs/n"}}},
    "a name from the top": {"$id": "/tool", "properties": {"x": {"$ref": "#/$defs/n"}}},
    "a name in a folder": {"$id": "schemas/tool.json", "properties": {"x": {"$ref": "tool.json#/$defs/n"}}},
    "an embedded relative name": {
        "properties": {"x": {"$id": "sub", "anyOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}}}
    },
    "a name with a space": {"properties": {"x": {"$ref": "#/$defs/a b"}}},
    "an escaped name": {"properties": {"x": {"$ref": "#/$defs/c~1d~0%25"}}},
    "through another": {"properties": {"x": {"$ref": "#/$defs/other"}}},
    "for the whole": {"$ref": "#/$defs/whole"},
    "beside other rules": {"properties": {"x": {"$ref": "#/$defs/n", "maximum": 5}}},
    "a dynamic one": {"properties": {"x": {"$dynamicRef": "#here"}}},
    "an embedded schema": {
        "properties": {"x": {"$id": "urn:x", "anyOf": [{"$ref": "#/$defs/n"}], "$defs": {"n": {"type": "integer"}}}}
    },
}
DEFINITIONS = {
    "n": {"anyOf": [INTEGER, {"type": "null"}], "$anchor": "here"},
    "a b": INTEGER,
    "c/d~%": {"oneOf": [INTEGER]},
    "other": {"$ref": "#/$defs/n"},
    "whole": {"properties": {"x": {"$ref": "#/$defs/n"}}},
}


@pytest.mark.parametrize("schema", REFERENCES.values(), ids=REFERENCES)
def test_every_kind_of_local_reference_is_followed(schema: dict[str, Any]) -> None:
    whole = {**schema, "$defs": DEFINITIONS}
    assert received(whole, '{"x": 3}') == '{"x": 3}'
    assert decoded(whole, {"x": "3"}) == ({"x": 3}, (Repair("x", "3", 3),))
    assert problems(whole, {"x": "a"}).startswith("x: not convertible: expected an integer")


def test_without_a_draft_the_schema_is_of_2020_12() -> None:
    assert problems(one({"prefixItems": [INTEGER], "items": False}), {"x": [1, 2]}) == (
        "x[1]: no value is possible here, received the number 2"
    )


def test_an_integral_fraction_is_an_integer_and_becomes_one_where_the_draft_knows_none() -> None:
    assert received(one(INTEGER), '{"x": 2.0}') == '{"x": 2.0}'
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", **one(INTEGER)}
    assert decoded(schema, '{"x": 2.0}') == ({"x": 2}, (Repair("x", 2.0, 2),))


def test_a_format_is_an_annotation() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **one({"type": "string", "format": "email"})}
    assert received(schema, '{"x": "nobody"}') == '{"x": "nobody"}'


# ---------------------------------------------------------------- what is valid arrives exactly

EXACT = [
    '{"x":1}',
    ' { "x" :\t1.50,\n "y": "é\\u00e9" } ',
    '{"x": 123456789012345678901234567890}',
    '{"x": -0.12345678901234567890123456789}',
    '{"x": 1e23}',
    '{"x": 9007199254740993}',
    "{ }",
    '{"x": {"k": "[1]"}}',
]


@pytest.mark.parametrize("text", EXACT)
def test_a_valid_call_arrives_as_the_model_wrote_it(text: str) -> None:
    schema = {"properties": {"x": {"type": ["number", "object"]}}}
    body = made(schema).body
    for decoding in ("strict", "repair", "salvage"):
        arguments, repairs = body.decode(text, decoding)
        given = context(call=ToolCall("1", "t", text))
        assert (body.call(arguments, given), repairs) == (text, ())
        assert json.loads(text, parse_float=Decimal) == _with_decimals(arguments)


def _with_decimals(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_decimals(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_decimals(item) for item in value]
    return Decimal(repr(value)) if isinstance(value, float) else value


def test_fractions_are_floats_where_those_keep_all_digits() -> None:
    text = '{"a": 1e-07, "b": 0.30000000000000004, "c": [1.50], "d": 0.300000000000000040, "e": 0.30000000000000001}'
    arguments, _ = decoded({}, text)
    assert list(map(repr, arguments.values())) == [
        "1e-07",
        "0.30000000000000004",
        "[1.5]",
        "0.30000000000000004",
        "Decimal('0.30000000000000001')",
    ]


def test_numbers_are_compared_with_all_their_digits() -> None:
    schema = one({"type": "number", "maximum": 2**53})
    assert received(schema, '{"x": 9007199254740992.000}') == '{"x": 9007199254740992.000}'
    assert problems(schema, '{"x": 9007199254740993}') == (
        "x: out of range: expected at most 9007199254740992, received the number 9007199254740993"
    )
    assert problems(one({"const": 10**30}), {"x": 10**30 + 1}).startswith("x: not a valid enum value: ")
    assert problems(one({"type": "number", "maximum": 1}), '{"x": 1.00000000000000000000000001}').startswith(
        "x: out of"
    )


def test_a_byte_order_mark_is_left_out_and_the_rest_arrives_as_the_model_wrote_it() -> None:
    schema = one({"type": "number"})
    text = '{"x":  1.50, "y": "\\u00e9"}'
    for decoding in ("strict", "repair", "salvage"):
        assert received(schema, "\ufeff" + text, decoding) == text
        assert decoded(schema, "\ufeff" + text, decoding) == ({"x": 1.5, "y": "é"}, ())
        assert received(schema, "\ufeff", decoding) == "{}"


# ---------------------------------------------------------------- what a model reads

ORDER = one(
    {
        "type": "object",
        "properties": {
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"qty": {"type": "integer", "minimum": 1}},
                    "required": ["qty"],
                },
            }
        },
        "additionalProperties": False,
    },
    required=["x"],
)
LEAF = {"type": "object", "properties": {"kind": {"const": "leaf"}, "n": INTEGER}, "required": ["kind", "n"]}
TREE = {
    "type": "object",
    "properties": {"kind": {"const": "tree"}, "of": {"$ref": "#/$defs/any"}},
    "required": ["kind"],
}
TREES = {**one({"$ref": "#/$defs/any"}), "$defs": {"any": {"oneOf": [LEAF, TREE, {"type": "null"}]}}}

SAID: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a path": (
        ORDER,
        {"x": {"items": [{"qty": 1}, {"qty": "few"}]}},
        'x.items[1].qty: not convertible: expected an integer, received the text "few"',
    ),
    "out of range": (
        ORDER,
        {"x": {"items": [{"qty": 0}]}},
        "x.items[0].qty: out of range: expected at least 1, received the number 0",
    ),
    "missing inside": (ORDER, {"x": {"items": [{}]}}, "x.items[0].qty: missing"),
    "missing": (ORDER, {}, "x: missing"),
    "unknown inside": (ORDER, {"x": {"item": 1}}, "x.item: there is no such property, received the number 1"),
    "unknown": (
        one(INTEGER, additionalProperties=False),
        {"y": "1"},
        'y: there is no such property, received the text "1"',
    ),
    "null where it must be": (
        one(INTEGER, required=["x"]),
        {"x": None},
        "x: not convertible: expected an integer, received null",
    ),
    "a fraction": (one(INTEGER), {"x": 1.5}, "x: non-integer value: expected an integer, received the number 1.5"),
    "types": (
        one({"type": ["integer", "null"]}),
        {"x": "a"},
        'x: not convertible: expected an integer or null, received the text "a"',
    ),
    "a constant": (one({"const": 1}), {"x": 2}, "x: not a valid enum value: expected 1, received the number 2"),
    "an enum": (
        one({"enum": ["a", "b", 3]}),
        {"x": "c"},
        "x: not a valid enum value: expected 'a', 'b' or 3, received the text \"c\"",
    ),
    "labelled members": (
        one({"oneOf": [{"const": "a"}, {"const": "b"}]}),
        {"x": "c"},
        "x: not a valid enum value: expected 'a' or 'b', received the text \"c\"",
    ),
    "any type of several": (
        one({"anyOf": [INTEGER, {"type": "null"}]}),
        {"x": "a"},
        'x: not convertible: expected an integer or null, received the text "a"',
    ),
    "the nearest alternative": (
        one({"anyOf": [INTEGER, {"type": "string", "minLength": 2}]}),
        {"x": "a"},
        'x: out of range: expected a text of at least 2 characters, received the text "a"',
    ),
    "the alternative with the tag": (
        TREES,
        {"x": {"kind": "tree", "of": {"kind": "leaf", "n": "z"}}},
        'x.of.n: not convertible: expected an integer, received the text "z"',
    ),
    "a tag that no alternative has": (
        TREES,
        {"x": {"kind": "bush"}},
        "x.kind: not a valid enum value: expected 'leaf' or 'tree', received the text \"bush\"",
    ),
    "no type of the alternatives": (
        TREES,
        {"x": True},
        "x: not convertible: expected an object or null, received true",
    ),
    "several alternatives": (
        one({"oneOf": [INTEGER, {"type": "number"}]}),
        {"x": 1},
        "x: expected one alternative to fit, but several do, received the number 1",
    ),
    "a pattern": (
        one({"pattern": "^a+$"}),
        {"x": "b"},
        'x: expected a text that matches the pattern ^a+$, received the text "b"',
    ),
    "items that are equal": (
        one({"uniqueItems": True}),
        {"x": [1, 1]},
        "x: expected items that all differ, received an array of 2",
    ),
    "few items": (
        one({"minItems": 2}),
        {"x": [1]},
        "x: out of range: expected at least 2 items, received an array of 1",
    ),
    "few properties": (
        one({"minProperties": 2}),
        {"x": {}},
        "x: expected at least 2 properties, received an object with no properties",
    ),
    "what is excluded": (
        one({"not": {"anyOf": [INTEGER]}}),
        {"x": 1},
        'x: expected something else than what fits {"anyOf":[{"type":"integer"}]}, received the number 1',
    ),
    "the name of a property": (
        one({"propertyNames": {"anyOf": [{"maxLength": 1}, {"$ref": "#/$defs/no"}]}, "minProperties": 1})
        | {"$defs": {"no": {"enum": ["no"]}}},
        {"x": {"yes": 1}},
        'x: expected other property names than "yes", received an object with "yes"',
    ),
    "no name at all": (
        {"type": "object", "additionalProperties": False},
        {"x": 1, "y": "a"},
        'x: there is no such property, received the number 1; y: there is no such property, received the text "a"',
    ),
    "the whole": (
        {"minProperties": 2},
        {"x": 1},
        'the arguments: expected at least 2 properties, received an object with "x"',
    ),
    "no constants": (one({"enum": []}), {"x": 1}, "x: no value is possible here, received the number 1"),
    "no value": (one(False), {"x": 1}, "x: no value is possible here, received the number 1"),
    "everything excluded": (one({"not": {}}), {"x": 1}, "x: no value is possible here, received the number 1"),
    "an array that is no member": (
        one({"type": "string", "enum": ["asc", "desc"]}),
        {"x": ["asc"]},
        "x: not a valid enum value: expected 'asc' or 'desc', received an array of 1",
    ),
    "a number that is no member": (
        one({"type": "string", "enum": ["asc", "desc"]}),
        {"x": 5},
        "x: not a valid enum value: expected 'asc' or 'desc', received the number 5",
    ),
    "text that is out of range": (
        one({"type": "integer", "maximum": 3}),
        {"x": "7"},
        'x: out of range: expected at most 3, received the text "7"',
    ),
    "inside of text": (
        one(one(INTEGER)),
        {"x": '{"x": "a"}'},
        'x.x: not convertible: expected an integer, received the text "a"',
    ),
    "the alternative that declares more": (
        one({"anyOf": [one(INTEGER, required=["x"]), {"properties": {"x": INTEGER, "y": INTEGER}}]}),
        {"x": {"x": "a", "y": "b"}},
        'x.x: not convertible: expected an integer, received the text "a"; '
        'x.y: not convertible: expected an integer, received the text "b"',
    ),
    "the alternative of the same type": (
        one({"anyOf": [{"enum": ["a", "b"]}, INTEGER]}),
        {"x": 1.5},
        "x: non-integer value: expected an integer, received the number 1.5",
    ),
    "no alternative of the type": (
        one({"anyOf": [{"enum": ["a", "b"]}, INTEGER]}),
        {"x": []},
        "x: none of the possible types: expected 'a' or 'b' or an integer, received an array of 0",
    ),
    "an impossible alternative": (
        one({"anyOf": [False, INTEGER]}),
        {"x": []},
        "x: not convertible: expected an integer, received an array of 0",
    ),
    "dependent": (one(INTEGER, dependentRequired={"x": ["y"]}), {"x": 1}, "y: missing"),
    "under a condition": (
        {"if": {"required": ["y"]}, "then": one(INTEGER)},
        {"x": "a", "y": 1},
        'x: not convertible: expected an integer, received the text "a"',
    ),
    "what no part takes": (
        {"allOf": [one(INTEGER)], "unevaluatedProperties": False},
        {"x": 1, "y": 1},
        "y: there is no such property, received the number 1",
    ),
    "several at once": (
        {"properties": {"x": INTEGER, "y": TEXT}, "required": ["z"]},
        {"x": "a", "y": None, "w": 1},
        'x: not convertible: expected an integer, received the text "a"; z: missing',
    ),
}


@pytest.mark.parametrize(("schema", "sent", "said"), SAID.values(), ids=SAID)
def test_a_refusal_names_the_place_the_value_and_what_was_expected(schema: Any, sent: Any, said: str) -> None:
    assert sorted(problems(schema, sent).split("; ")) == sorted(said.split("; "))


def test_a_refusal_ends_with_what_is_expected() -> None:
    schema = {
        "properties": {"n": INTEGER, "unit": {"enum": ["C", 5, None]}, "to": {"type": ["string", "null"]}},
        "required": ["n"],
    }
    assert refusal(schema, {}) == (
        "The arguments of 't' do not fit: n: missing. "
        "Expected {n: integer, unit: one of 'C', 5, null (optional), to: string or null (optional)}."
    )


EXPECTED: dict[str, tuple[Any, str]] = {
    "a reference to an array": ({"$ref": "#/$defs/list"}, "array"),
    "a reference to a reference": ({"$ref": "#/$defs/again"}, "array"),
    "parts with a reference": ({"allOf": [{"$ref": "#/$defs/list"}], "default": []}, "array"),
    "parts with members": ({"type": "string", "allOf": [{"maxLength": 1}, {"enum": ["a", "b"]}]}, "one of 'a', 'b'"),
    "alternatives of a type": ({"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "object"),
    "a schema that contains itself": ({"$ref": "#/$defs/loop"}, "integer or array"),
    "a reference to itself": ({"$ref": "#/$defs/none"}, "any value"),
    "no value": (False, "no value"),
    "no members": ({"enum": []}, "no value"),
    "everything excluded": ({"type": "string", "not": {}}, "no value"),
    "an impossible alternative": ({"anyOf": [False, INTEGER]}, "integer"),
    "anything": ({}, "any value"),
}


@pytest.mark.parametrize("is_referenced", [False, True])
@pytest.mark.parametrize(("schema", "kind"), EXPECTED.values(), ids=EXPECTED)
def test_what_is_expected_is_said_also_of_what_is_declared_elsewhere(
    schema: Any, kind: str, is_referenced: bool
) -> None:
    whole = {"properties": {"y": INTEGER, "x": schema, "": TEXT}, "required": ["y", ""]}
    definitions = {
        "list": {"type": "array"},
        "again": {"$ref": "#/$defs/list"},
        "loop": {"anyOf": [INTEGER, {"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/list"}]},
        "none": {"$ref": "#/$defs/none"},
        "whole": whole,
    }
    said = refusal({**({"$ref": "#/$defs/whole"} if is_referenced else whole), "$defs": definitions}, {"": ""})
    assert said == (
        f"The arguments of 't' do not fit: y: missing. Expected {{y: integer, x: {kind} (optional), \"\": string}}."
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "expected a JSON object, received an array of 1"),
        ("5", "expected a JSON object, received the number 5"),
        ('{"x": 1', "it ends too early, as if cut off"),
        ('{"x": 1e999}', "the number 1e999 is too large"),
        ('{"x": NaN}', "NaN is not a number in JSON"),
    ],
)
def test_what_is_no_object_is_refused(text: str, reason: str) -> None:
    assert refusal(one(INTEGER), text) == (
        f"The arguments of 't' are not a JSON object: {reason}. Expected {{x: integer (optional)}}."
    )


def test_a_refusal_is_short_however_much_is_wrong() -> None:
    names = [f"name_{number}" for number in range(5000)]
    schema = {"properties": dict.fromkeys(names, INTEGER)}
    assert len(refusal(schema, dict.fromkeys(names, "x" * 1000))) == 1000


# ---------------------------------------------------------------- repairs

REPAIRED: dict[str, tuple[Any, Any, Any]] = {
    "an integer": (INTEGER, "7", 7),
    "an integer with spaces": (INTEGER, " 7 ", 7),
    "an integral fraction": (INTEGER, "7.0", 7),
    "an integer of any size": (INTEGER, "1" + "0" * 40, 10**40),
    "a power": (INTEGER, "1e23", 10**23),
    "a number": ({"type": "number"}, "-1.5", -1.5),
    "a number of many digits": ({"type": "number"}, "0.12345678901234567890123", Decimal("0.12345678901234567890123")),
    "true": ({"type": "boolean"}, "True", True),
    "false": ({"type": "boolean"}, "false", False),
    "null": ({"type": ["integer", "null"]}, "null", None),
    "an array": ({"type": "array"}, '[1, "a"]', [1, "a"]),
    "an object": ({"type": "object"}, '{"k": 1}', {"k": 1}),
    "a number as text": (TEXT, 7, "7"),
    "a word as text": (TEXT, True, "true"),
    "an array as text": (TEXT, [1, {"k": "é"}], '[1,{"k":"é"}]'),
    "a member in another case": ({"enum": ["Red", "Green"]}, "RED", "Red"),
    "a member as text": ({"enum": [1, 2]}, "2", 2),
    "a word as a member": ({"enum": [True, "x"]}, "TRUE", True),
    "a member that is text": ({"enum": ["1", "2"]}, 2, "2"),
    "a constant": ({"const": {"k": [1]}}, '{"k": ["1"]}', {"k": [1]}),
    "a labelled member": ({"oneOf": [{"const": "A", "title": "a"}, {"const": "B"}]}, "b", "B"),
    "an alternative": ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
    "the only alternative that fits": (
        {"anyOf": [{"type": "array", "items": INTEGER}, {"type": "object"}]},
        '["1"]',
        [1],
    ),
}


@pytest.mark.parametrize(("schema", "sent", "after"), REPAIRED.values(), ids=REPAIRED)
def test_what_only_stringification_separates_from_a_valid_value_is_repaired(schema: Any, sent: Any, after: Any) -> None:
    arguments, repairs = decoded(one(schema), {"x": sent})
    assert (arguments, repairs[0].path, repairs[0].before) == ({"x": after}, "x", sent)
    inside, more = decoded(one({"type": "array", "items": one(schema)}), {"x": [{"x": sent}]})
    assert (inside, more[0].path, more[0].before) == ({"x": [{"x": after}]}, "x[0].x", sent)
    assert refusal(one(schema), {"x": sent}, "strict").startswith("The arguments of 't' do not fit: x")


def test_fields_of_text_that_is_an_object_are_repaired_too() -> None:
    schema = one({"type": "object", "properties": {"k": {"type": "array", "items": INTEGER}, "s": TEXT}})
    assert decoded(schema, {"x": json.dumps({"k": json.dumps(["1"]), "s": 5})}) == (
        {"x": {"k": [1], "s": "5"}},
        (
            Repair("x", '{"k": "[\\"1\\"]", "s": 5}', {"k": '["1"]', "s": 5}),
            Repair("x.k", '["1"]', ["1"]),
            Repair("x.s", 5, "5"),
            Repair("x.k[0]", "1", 1),
        ),
    )


def test_a_number_becomes_the_text_that_it_was() -> None:
    schema = {"properties": {"x": TEXT, "y": one(TEXT)}}
    assert received(schema, '{"x": 1.500, "y": "{\\"x\\": 2.0e1}"}') == '{"x":"1.500","y":{"x":"2.0e1"}}'


def test_numbers_in_what_becomes_text_stay_as_they_were_written() -> None:
    text = '{"x": {"price": 1.50, "n": 1e2, "é": [1.0, "1.50", true, -0]}}'
    assert decoded(one(TEXT), text)[0] == {"x": '{"price":1.50,"n":1e2,"é":[1.0,"1.50",true,-0]}'}
    inside = one({"type": "array", "items": {"type": ["string", "null"]}})
    assert decoded(inside, '{"x": "[[1.50], {\\"k\\": 1E2}]"}')[0] == {"x": ["[1.50]", '{"k":1E2}']}
    option = one({"enum": ['{"price":1.50}', "none"]})
    assert decoded(option, '{"x": {"price": 1.50}}')[0] == {"x": '{"price":1.50}'}
    echo = '{"properties": {"x": [1.50], "y": 2.50}}'
    assert decoded({"properties": {"x": TEXT, "y": TEXT}, "required": ["x"]}, echo)[0] == {"x": "[1.50]", "y": "2.50"}


def test_what_becomes_text_after_repairs_in_it_is_the_text_of_the_repaired_value() -> None:
    inner = one({"properties": {"n": INTEGER}})
    schema = {"allOf": [inner], "if": one({"properties": {"n": INTEGER}, "required": ["n"]}), "then": one(TEXT)}
    assert decoded(schema, '{"x": {"n": "1", "price": 1.50}}')[0] == {"x": '{"n":1,"price":1.5}'}


def test_a_repair_inside_of_what_becomes_text_as_a_whole_is_none() -> None:
    inner = one({"type": ["object", "string"], "properties": {"n": INTEGER}})
    sent = {"n": "1"}
    assert decoded({"allOf": [inner, one(TEXT)]}, {"x": sent}) == (
        {"x": '{"n":"1"}'},
        (Repair("x", sent, '{"n":"1"}'),),
    )


def test_the_executor_gets_repaired_text_with_all_digits() -> None:
    schema = {"properties": {"n": INTEGER}}
    text = '{"n": "1", "big": 123456789012345678901234567890, "long": 0.10000000000000000000000001, "s": "é"}'
    assert received(schema, text) == (
        '{"n":1,"big":123456789012345678901234567890,"long":0.10000000000000000000000001,"s":"é"}'
    )


def test_the_context_of_a_repaired_call_carries_the_repaired_call() -> None:
    body = programmatic_tool(ToolSpec("t", None, one(INTEGER)), lambda call, context: (call, context.call)).body
    sent = ToolCall("1", "t", '{"x": "1"}')
    repaired = ToolCall("1", "t", '{"x":1}')
    assert body.call(body.decode(sent.arguments)[0], context(call=sent)) == (repaired, repaired)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "array"]},
        {"anyOf": [{"type": "array"}, TEXT]},
        {"oneOf": [INTEGER, {"type": "string", "pattern": "^."}]},
        {},
        {"enum": ["[1]", [1]]},
    ],
)
def test_a_valid_place_is_never_repaired(schema: Any) -> None:
    text = '{"x": "[1]", "n": "1"}'
    arguments, repairs = decoded({"properties": {"x": schema, "n": INTEGER}}, text)
    assert (arguments, repairs) == ({"x": "[1]", "n": 1}, (Repair("n", "1", 1),))


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        (INTEGER, "7.5"),
        (INTEGER, "seven"),
        (INTEGER, True),
        (INTEGER, ""),
        (INTEGER, "1_000"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "NaN"),
        ({"type": "boolean"}, 1),
        ({"type": "boolean"}, "yes"),
        ({"type": "array"}, "1, 2"),
        ({"type": "array"}, '{"k": 1}'),
        ({"type": "object"}, ""),
        ({"enum": ["ab", "AB"]}, "Ab"),
        ({"oneOf": [{"const": "ab"}, {"const": "AB"}]}, "Ab"),
        ({"type": "integer", "maximum": 5}, "7"),
        ({"anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}]}, "7"),
        ({"allOf": [INTEGER, TEXT]}, "7"),
    ],
)
def test_what_is_more_than_stringification_is_refused(schema: Any, sent: Any) -> None:
    assert problems(one(schema), {"x": sent}).startswith("x: ")


def test_of_several_alternatives_the_one_with_the_fewest_changes_is_taken() -> None:
    two = {"type": "object", "properties": {"a": INTEGER, "b": INTEGER}, "required": ["a"]}
    only = {"type": "object", "properties": {"a": TEXT, "b": INTEGER}, "required": ["a"]}
    assert decoded(one({"anyOf": [two, only]}), {"x": {"a": "1", "b": "2"}}) == (
        {"x": {"a": "1", "b": 2}},
        (Repair("x.b", "2", 2),),
    )


TEXTS = {"type": "array", "items": TEXT}


@pytest.mark.parametrize("way", ["anyOf", "oneOf"])
@pytest.mark.parametrize("is_text_first", [True, False])
@pytest.mark.parametrize(
    ("other", "sent", "after"),
    [
        (TEXTS, [12, "bug"], ["12", "bug"]),
        (one(INTEGER), {"x": "5"}, {"x": 5}),
        ({"$ref": "#/$defs/texts"}, [[1]], ["[1]"]),
    ],
)
def test_of_several_alternatives_one_of_the_type_that_was_sent_is_taken(
    way: str, is_text_first: bool, other: Any, sent: Any, after: Any
) -> None:
    schema = one({way: [TEXT, other] if is_text_first else [other, TEXT]}) | {"$defs": {"texts": TEXTS}}
    assert decoded(schema, {"x": sent})[0] == {"x": after}


PAIR = {"type": "object", "properties": {"l": INTEGER, "r": INTEGER}, "required": ["l", "r"]}
LEFT = {"type": "object", "properties": {"l": INTEGER}, "required": ["l"]}


@pytest.mark.parametrize("wrapped", [lambda schema: schema, lambda schema: one({"type": "array", "items": schema})])
@pytest.mark.parametrize("options", [[PAIR, LEFT], [LEFT, PAIR], [LEFT, {"allOf": [{"$ref": "#/$defs/pair"}]}]])
def test_of_several_alternatives_the_one_that_declares_more_of_what_was_sent_is_taken(
    wrapped: Any, options: list[Any]
) -> None:
    schema = one({"anyOf": [wrapped(option) for option in options]}) | {"$defs": {"pair": PAIR}}
    is_deep = wrapped(PAIR) is not PAIR
    sent, after = {"l": "1", "r": "2"}, {"l": 1, "r": 2}
    expected = {"x": {"x": [after]}} if is_deep else {"x": after}
    assert decoded(schema, {"x": {"x": [sent]}} if is_deep else {"x": sent})[0] == expected
    only_left = {"l": "1", "r": "two"}
    assert decoded(schema, {"x": {"x": [only_left]}} if is_deep else {"x": only_left})[0] == (
        {"x": {"x": [{"l": 1, "r": "two"}]}} if is_deep else {"x": {"l": 1, "r": "two"}}
    )


def test_of_one_of_several_only_a_repair_that_leaves_one_is_taken() -> None:
    schema = one({"oneOf": [{"type": "number"}, INTEGER, {"type": "null"}]})
    assert problems(schema, {"x": "7"}) == (
        'x: not convertible: expected a number or an integer or null, received the text "7"'
    )
    assert decoded(schema, {"x": "7.5"})[0] == {"x": 7.5}


def test_arguments_that_were_encoded_twice_are_repaired() -> None:
    twice = json.dumps(json.dumps({"x": "1"}))
    assert decoded(one(INTEGER), twice) == ({"x": 1}, (Repair("", twice, '{"x": "1"}'), Repair("x", "1", 1)))
    assert refusal(one(INTEGER), json.dumps(json.dumps({"x": 1})), "strict").startswith("The arguments of 't' are not")


def test_a_stray_comma_is_repaired() -> None:
    assert received(one(INTEGER), '{"x": 1,}') == '{"x":1}'


def test_an_echo_of_the_schema_is_unwrapped_unless_it_is_valid() -> None:
    sent = {"properties": {"x": "1"}, "type": "object"}
    assert decoded(one(INTEGER, required=["x"]), sent) == (
        {"x": 1},
        (Repair("", sent, {"x": "1"}), Repair("x", "1", 1)),
    )
    assert decoded(one(INTEGER), sent) == (sent, ())


def test_an_object_in_prose_is_read_in_salvage_mode_only() -> None:
    text = 'Here you are:\n```json\n{"x": "1"}\n```'
    assert decoded(one(INTEGER), text, "salvage") == ({"x": 1}, (Repair("", text, '{"x": "1"}'), Repair("x", "1", 1)))
    assert refusal(one(INTEGER), text).startswith("The arguments of 't' are not a JSON object: ")


# ---------------------------------------------------------------- null and unknown names


@pytest.mark.parametrize("decoding", ["strict", "repair"])
def test_a_null_for_what_may_be_left_out_counts_as_absent(decoding: Any) -> None:
    schema = {"properties": {"x": INTEGER, "y": {"$ref": "#/$defs/d"}, "z": {"type": "null"}}, "$defs": {"d": TEXT}}
    body = made(schema).body
    arguments, repairs = body.decode('{"x": null, "y": null, "z": null}', decoding)
    given = body.call(arguments, context(call=ToolCall("1", "t", '{"x": null, "y": null, "z": null}')))
    assert (arguments, repairs, given) == ({"z": None}, (), '{"z":null}')


@pytest.mark.parametrize(
    ("schema", "sent", "said"),
    [
        (one(INTEGER, required=["x"]), {"x": None}, "x: not convertible: expected an integer, received null"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": one(TEXT, required=["x"])}},
            {"x": None},
            "x: not convertible: expected text, received null",
        ),
        (one(one(INTEGER)), {"x": {"x": None}}, "x.x: not convertible: expected an integer, received null"),
        (one({}, additionalProperties=False), {"y": None}, "y: there is no such property, received null"),
        (one({}, additionalProperties=INTEGER), {"y": None}, "y: not convertible: expected an integer, received null"),
    ],
)
def test_no_other_null_counts_as_absent(schema: Any, sent: Any, said: str) -> None:
    assert problems(schema, sent) == said


FLAG = {"type": "boolean", "default": False}
FLAGS = one(FLAG)
DEFAULTED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "in an object": (one(FLAGS), {"x": {"x": None}}, {"x": {}}),
    "in an array": (
        one({"type": "array", "items": FLAGS}),
        {"x": [{"x": True}, {"x": None}]},
        {"x": [{"x": True}, {}]},
    ),
    "in an alternative": (one({"anyOf": [{"type": "null"}, FLAGS]}), {"x": {"x": None, "y": 1}}, {"x": {"y": 1}}),
    "several levels down": (one(one(one(FLAGS))), {"x": {"x": {"x": {"x": None}}}}, {"x": {"x": {"x": {}}}}),
    "a reference": (one(one({"$ref": "#/$defs/flag"})), {"x": {"x": None}}, {"x": {}}),
    "beside a reference": (one(one({"$ref": "#/$defs/n", "default": 1})), {"x": {"x": None}}, {"x": {}}),
    "around a reference": (one(one({"allOf": [{"$ref": "#/$defs/n"}], "default": 1})), {"x": {"x": None}}, {"x": {}}),
    "alternatives": (one(one({"anyOf": [INTEGER, TEXT], "default": 1})), {"x": {"x": None}}, {"x": {}}),
    "in a referenced object": (one({"$ref": "#/$defs/flags"}), {"x": {"x": None}}, {"x": {}}),
    "a part that calls itself something": (one({"$id": "sub", **FLAGS}), {"x": {"x": None}}, {"x": {}}),
}


@pytest.mark.parametrize("decoding", ["strict", "repair"])
@pytest.mark.parametrize(("schema", "sent", "after"), DEFAULTED.values(), ids=DEFAULTED)
def test_an_inner_null_for_what_has_a_default_counts_as_absent(
    schema: dict[str, Any], sent: Any, after: Any, decoding: Any
) -> None:
    schema = schema | {"$defs": {"flag": FLAG, "n": INTEGER, "flags": FLAGS}}
    assert decoded(schema, sent, decoding) == (after, ())
    assert json.loads(received(schema, sent, decoding)) == after


def test_beside_repairs_an_inner_null_for_what_has_a_default_counts_as_absent() -> None:
    schema = one({"type": "object", "properties": {"flag": FLAG, "n": INTEGER}})
    assert decoded(schema, {"x": {"flag": None, "n": "1"}}) == ({"x": {"n": 1}}, (Repair("x.n", "1", 1),))
    assert decoded(schema, {"x": '{"flag": null}'})[0] == {"x": {}}


@pytest.mark.parametrize("decoding", ["strict", "repair"])
def test_an_inner_null_for_what_must_be_there_or_may_be_null_stays(decoding: Any) -> None:
    schema = one(one(FLAG, required=["x"]))
    assert refusal(schema, {"x": {"x": None}}, decoding).startswith(
        "The arguments of 't' do not fit: x.x: not convertible: expected true or false, received null."
    )
    nullable = one({"type": "object", "properties": {"x": {"type": ["boolean", "null"], "default": True}, "y": FLAG}})
    assert decoded(nullable, {"x": {"x": None, "y": None}}, decoding) == ({"x": {"x": None}}, ())


def test_unknown_names_are_what_the_schema_says() -> None:
    assert received(one(INTEGER), '{"x": 1, "y": 2}') == '{"x": 1, "y": 2}'
    assert problems(one(INTEGER, additionalProperties=False), {"x": 1, "y": 2}) == (
        "y: there is no such property, received the number 2"
    )


# ---------------------------------------------------------------- names that are empty

UNNAMED = {"": INTEGER, "b": INTEGER}
EMPTY: dict[str, tuple[dict[str, Any], str, Any, tuple[Repair, ...]]] = {
    "at the top": ({"properties": UNNAMED}, '{"": "5"}', {"": 5}, (Repair('[""]', "5", 5),)),
    "a map": ({"additionalProperties": INTEGER}, '{"": "5"}', {"": 5}, (Repair('[""]', "5", 5),)),
    "text": ({"properties": {"": TEXT}}, '{"": 1.50}', {"": "1.50"}, (Repair('[""]', 1.5, "1.50"),)),
    "a null": ({"properties": UNNAMED}, '{"": null}', {}, ()),
    "an inner null": ({"properties": {"": {"properties": {"": FLAG}}}}, '{"": {"": null}}', {"": {}}, ()),
    "inside": (
        one({"properties": {"": {"properties": UNNAMED}}}),
        '{"x": {"": {"": "1", "b": "2"}}, "": 3}',
        {"x": {"": {"": 1, "b": 2}}, "": 3},
        (Repair('x[""][""]', "1", 1), Repair('x[""].b', "2", 2)),
    ),
    "below the same name": (
        {"properties": {"b": INTEGER, "": {"properties": UNNAMED}}},
        '{"b": "1", "": {"b": "1", "": "1"}}',
        {"b": 1, "": {"b": 1, "": 1}},
        (Repair("b", "1", 1), Repair('[""].b', "1", 1), Repair('[""][""]', "1", 1)),
    ),
    "a reference": (
        {"properties": {"": {"anyOf": [{"$ref": "#/$defs/"}]}}, "$defs": {"": INTEGER}},
        '{"": "5"}',
        {"": 5},
        (Repair('[""]', "5", 5),),
    ),
}


@pytest.mark.parametrize(("schema", "text", "after", "repairs"), EMPTY.values(), ids=EMPTY)
def test_a_property_without_a_name_is_repaired_as_others(schema: Any, text: str, after: Any, repairs: Any) -> None:
    arguments, made = decoded(schema, text)
    assert (arguments, sorted(made, key=repr)) == (after, sorted(repairs, key=repr))


def test_a_refusal_shows_names_that_are_empty() -> None:
    inside = one({"properties": {"": {"properties": UNNAMED, "required": ["c"]}}})
    assert set(problems(inside, {"x": {"": {"": "s", "b": "t", "c": 1}}}).split("; ")) == {
        'x[""][""]: not convertible: expected an integer, received the text "s"',
        'x[""].b: not convertible: expected an integer, received the text "t"',
    }
    assert problems(inside, {"x": {"": {}}}) == 'x[""].c: missing'
    assert problems({"required": [""]}, {}) == '[""]: missing'


# ---------------------------------------------------------------- bounds


def nested(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


ALTERNATIVES = {
    "type": "object",
    "anyOf": [{"properties": {"a": {"$ref": "#"}}, "minProperties": least} for least in (1, 0)],
}
PARTS = {"type": "object", "allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]}


@pytest.mark.parametrize("schema", [ALTERNATIVES, PARTS])
@pytest.mark.parametrize("depth", [15, 40, 190])
def test_schemas_that_contain_themselves_twice_take_no_exponential_time(schema: Any, depth: int) -> None:
    assert refusal(schema, nested(depth, 1)).startswith("The arguments of 't' ")
    assert decoded(schema, nested(depth, {})) == (nested(depth, {}), ())


def test_a_deep_place_is_still_repaired() -> None:
    schema = one({"$ref": "#/$defs/n"}) | {
        "$defs": {
            "n": {"anyOf": [INTEGER, {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "required": ["a"]}]}
        }
    }
    assert decoded(schema, {"x": nested(40, "7")})[0] == {"x": nested(40, 7)}


def test_a_pattern_that_takes_too_long_refuses_the_text() -> None:
    schema = one({"type": "string", "pattern": r"^(a|a)*\1$"})
    assert problems(schema, {"x": "a" * 60 + "b"}).startswith(
        "x: expected a text that can be checked against the pattern; this one takes too many steps, received the text"
    )
    assert refusal(one({"not": {"pattern": r"^(a|a)*\1$"}}), {"x": "a" * 60 + "b"}).startswith("The arguments of 't' ")


def test_many_broken_places_are_repaired_or_refused_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = one({"type": "array", "items": INTEGER})
    either = one({"type": "array", "items": {"anyOf": [INTEGER, {"type": "null"}]}})
    for schema in (plain, either):
        assert decoded(schema, {"x": [str(n) for n in range(800)]})[0] == {"x": list(range(800))}
        assert len(refusal(schema, {"x": ["a"] * 3000})) <= 1000
    monkeypatch.setattr(_json_schema_check, "_MOST", 500)
    assert refusal(plain, {"x": ["1"] * 800}).startswith(
        "The arguments of 't' were refused: too much is wrong at once, or they are nested too deeply"
    )


def test_what_takes_too_many_steps_to_repair_is_refused_with_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = one({"type": "array", "items": {"anyOf": [INTEGER, {"type": "null"}]}})
    assert decoded(schema, {"x": ["1"] * 20})[0] == {"x": [1] * 20}
    monkeypatch.setattr(_json_schema_repair, "_STEPS", 50)
    assert refusal(schema, {"x": ["1"] * 20}).startswith(
        "The arguments of 't' do not fit, and too much is wrong at once: x[0]: not convertible: "
    )


def test_a_tool_that_is_gone_leaves_nothing_behind() -> None:
    schema = one({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}) | {"$defs": {"n": INTEGER}}
    check = SchemaCheck(schema, "t")
    assert [failure.keyword for failure in check.failures({"x": "1"}, "")] == ["anyOf"]
    gone = weakref.ref(check)
    del check
    gc.collect()
    assert gone() is None


def test_calls_are_decoded_on_several_threads_at_once() -> None:
    decode = made(one({"anyOf": [INTEGER, {"type": "null"}]})).body.decode
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: decode(json.dumps({"x": str(n)}))[0], range(500)))
    assert found == [{"x": n} for n in range(500)]


def test_a_failing_validator_refuses_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        pass

    Panic.__name__ = "PanicException"

    def panic(value: Any) -> bool:
        raise Panic("inside")

    class Panicking(_json_schema_decode.SchemaCheck):
        def __init__(self, schema: Any, tool: str) -> None:
            super().__init__(schema, tool)
            self.is_valid = panic

    monkeypatch.setattr(_json_schema_decode, "SchemaCheck", Panicking)
    assert refusal(one(INTEGER), {"x": 1}) == (
        "The arguments of 't' were refused: "
        "checking them against the schema of the tool failed; they may be right nonetheless."
    )


# ---------------------------------------------------------------- in a run

SPEC = ToolSpec("book", "Books.", one({"type": "array", "items": INTEGER}, required=["x"], additionalProperties=False))


@pytest.mark.parametrize("mode", ALL_MODES, ids=str)
def test_a_run_repairs_refuses_and_undoes_calls_of_such_tools(mode: Mode) -> None:
    got: list[str] = []
    undone: list[Any] = []
    asked: list[Any] = []

    def execute(call: ToolCall, context: ToolContext[Any]) -> str:
        got.append(call.arguments)
        return "booked"

    def authorise(context: ToolContext[Any], arguments: dict[str, Any]) -> bool:
        asked.append(dict(arguments))
        return True

    def cancel(x: list[int]) -> None:
        undone.append(x)

    def fail(call: ToolCall, context: ToolContext[Any]) -> str:
        raise RuntimeError("no")

    ended = mode.play(
        ask(call("book", '{"x": ["1", 2]}')),
        ask(call("book", '{"y": 1}')),
        ask(call("book", '{"x":  [3]}')),
        ask(call("fail")),
        tools=[
            programmatic_tool(SPEC, execute, undo=cancel, authorise=authorise),
            programmatic_tool(ToolSpec("fail"), fail),
        ],
    )
    assert isinstance(ended.error, RuntimeError)
    assert got == ['{"x":[1,2]}', '{"x":  [3]}']
    assert asked == [{"x": [1, 2]}, {"x": [3]}]
    assert undone == [[3], [1, 2]]
    assert [event.repair for event in ended.of(ArgumentRepaired)] == [Repair("x[0]", "1", 1)]
    assert [execution.outcome for execution in ended.executions][:3] == [Outcome.DONE, Outcome.REJECTED, Outcome.DONE]


@pytest.mark.parametrize("mode", ALL_MODES, ids=str)
def test_the_model_reads_what_is_wrong_and_may_correct_itself(mode: Mode) -> None:
    async def execute(call: ToolCall, context: ToolContext[Any]) -> str:
        return context.call.arguments

    ended = mode.play(
        ask(call("book", '{"x": ["one"]}')), ask(call("book", '{"x": [1]}')), say("Done"), tools=[(SPEC, execute)]
    )
    said = 'x[0]: not convertible: expected an integer, received the text "one". Expected {x: array}.'
    assert ended.results == [
        ("book", f"The arguments of 'book' do not fit: {said}", True),
        ("book", '{"x": [1]}', False),
    ]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_the_decoding_of_a_tool_decides_what_is_repaired(mode: Mode) -> None:
    def execute(call: ToolCall, context: ToolContext[Any]) -> str:
        return call.arguments

    strict = programmatic_tool(ToolSpec("a", None, one(INTEGER)), execute, decoding="strict")
    lenient = programmatic_tool(ToolSpec("b", None, one(INTEGER)), execute, decoding="salvage")
    ended = mode.play(ask(call("a", '{"x": "1"}'), call("b", 'Sure: {"x": "1"}')), say("Done"), tools=[strict, lenient])
    assert [(name, is_error) for name, _, is_error in ended.results] == [("a", True), ("b", False)]
    assert ended.results[1][1] == '{"x":1}'


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_a_probe_gets_the_arguments_and_an_identical_call_is_recognised(mode: Mode) -> None:
    runs: list[str] = []
    probed: list[Any] = []

    def execute(call: ToolCall, context: ToolContext[Any]) -> str:
        runs.append(call.arguments)
        raise ToolTimeout("nobody knows")

    def probe(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        probed.append(dict(arguments))
        return Happened("booked")

    ended = mode.play(
        ask(call("book", '{"x": "[1]"}')), say("Done"), tools=[programmatic_tool(SPEC, execute, probe=probe)]
    )
    assert (runs, probed, ended.results) == (['{"x":[1]}'], [{"x": [1]}], [("book", "booked", False)])
    runs.clear()
    again = mode.play(
        ask(call("book", '{"x": [12345678901234567890123]}')),
        ask(call("book", '{"x": ["12345678901234567890123"]}')),
        say("Done"),
        tools=[(SPEC, execute)],
    )
    assert len(runs) == 1
    assert [execution.outcome for execution in again.executions] == [Outcome.UNKNOWN, Outcome.DENIED]


def test_an_undo_may_ask_for_the_properties_of_a_referenced_schema() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"properties": {"y": INTEGER, "x": INTEGER}}]}}}

    def cancel(x: int, y: int) -> Any:
        return x, y

    tool = programmatic_tool(ToolSpec("t", None, schema), lambda call, context: "", undo=cancel)
    assert tool.undo is not None
    assert tool.undo.call(execution("v"), tool.body.decode('{"x": "1", "y": 2}')[0], context()) == (1, 2)
    assert tool.spec.parameters is schema
