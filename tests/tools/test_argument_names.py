"""Names of arguments: those that a tool does not have never reach it, and arguments inside of a schema's words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, AliasChoices, Field
from pydantic_core import PydanticOmit
from typing_extensions import TypedDict, Unpack

from surehand.tools._decode import make_decoder
from surehand.tools._function import function_tool
from surehand.tools._options import ToolOptions
from surehand.tools._parameter import MISSING, Parameter
from surehand.tools._schema import build_schema
from surehand.tools._tool import Repair

from .decoding import Decode, decoder, decoder_with, refusal


class Filters(TypedDict, total=False):
    """Keys that need not be passed."""

    limit: int
    tag: str


def call_api(path: str, *, admin: bool, **filters: Unpack[Filters]) -> str:
    """Calls it."""
    return f"{path} {admin} {filters}"


def _absent(**hints: Any) -> Decode:
    parameters = [Parameter(name, hint, MISSING, False, None, may_be_absent=True) for name, hint in hints.items()]
    return make_decoder(build_schema(parameters, {}, "tool 't'"), "t")


def _omitted(value: int) -> int:
    if value < 0:
        raise PydanticOmit
    return value


# ---------------------------------------------------------------- unknown names


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
@pytest.mark.parametrize("sent", ['{"path": "/a", "admin": true}', '{"path": "/a", "tag": "t", "admin": true}'])
def test_an_unknown_name_does_not_take_the_place_of_an_absent_one(decoding: Any, sent: str) -> None:
    body = function_tool(functools.partial(call_api, admin=False), ToolOptions(name="t")).body
    values, repairs = body.decode(sent, decoding)
    assert "admin" not in values
    assert repairs == (Repair("admin", True, None),)
    assert body.call(values, None).startswith("/a False")


def test_nor_when_another_value_was_repaired() -> None:
    decode = _absent(n=int, m=int)
    assert decode('{"n": "5", "admin": true}') == ({"n": 5}, (Repair("n", "5", 5), Repair("admin", True, None)))
    assert decode('{"n": 5.0, "admin": true}') == ({"n": 5}, (Repair("admin", True, None),))
    assert decode('{"n": "5", "m": "6"}') == ({"n": 5, "m": 6}, (Repair("n", "5", 5), Repair("m", "6", 6)))


def test_nor_where_a_type_leaves_its_value_out() -> None:
    decode = decoder(n=Annotated[int, AfterValidator(_omitted)], m=str)
    assert decode('{"n": 1, "m": "a"}') == ({"n": 1, "m": "a"}, ())
    assert decode('{"n": -1, "m": "a", "x": 1}') == ({"m": "a"}, (Repair("x", 1, None),))


@pytest.mark.parametrize("alias", ["file", AliasChoices("file", "document")])
def test_where_a_parameter_has_an_alias_unknown_names_are_reported_too(alias: Any) -> None:
    decode = decoder(path=Annotated[str, Field(validation_alias=alias)], n=int)
    assert decode('{"file": "a", "n": 1}') == ({"path": "a", "n": 1}, ())
    values, repairs = decode('{"file": "a", "n": "1", "path": "b", "x": 2}')
    assert values == {"path": "a", "n": 1}
    assert repairs == (Repair("n", "1", 1), Repair("path", "b", None), Repair("x", 2, None))


def test_nothing_else_is_taken_by_the_name_that_an_alias_hides() -> None:
    hint = Annotated[str, Field(validation_alias=AliasChoices("path", "file"))]
    assert decoder_with({"path": hint}, {"path": "x"})('{"file": "a"}') == ({"path": "a"}, ())
    hint = Annotated[str, Field(validation_alias="file")]
    assert decoder_with({"path": hint}, {"path": "x"})('{"path": []}') == ({"path": "x"}, (Repair("path", [], None),))


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", '[{"a": 1e999}]'])
@pytest.mark.parametrize("make", [decoder, _absent])
def test_what_is_no_number_in_json_is_refused_under_an_unknown_name_as_well(
    number: str, make: Callable[..., Decode]
) -> None:
    assert "are not a JSON object: " in refusal(make(n=int), f'{{"n": 1, "x": {number}}}')
    assert "are not a JSON object: " in refusal(make(), f'{{"x": {number}}}')


# ---------------------------------------------------------------- a schema's words around the arguments


@pytest.mark.parametrize("sent", ['{"path": "/etc/passwd"}', '{"mode": "w"}', '{"x": 5}'])
@pytest.mark.parametrize("defaults", [{"mode": "r"}, {"path": "/", "mode": "r"}])
def test_nothing_is_unwrapped_beside_an_argument_that_was_sent(sent: str, defaults: dict[str, Any]) -> None:
    decode = decoder_with({"path": str, "mode": str}, defaults)
    values, repairs = decode(f'{{"path": "/tmp/a", "properties": {sent}}}')
    assert values == {"path": "/tmp/a", "mode": "r"}
    assert [repair.path for repair in repairs] == ["properties"]


def test_nor_beside_one_whose_name_is_a_word_of_schemas() -> None:
    assert "n: missing" in refusal(decoder(type=str, n=int), '{"type": "object", "properties": {"n": 5}}')


def test_the_names_that_the_model_sees_decide() -> None:
    shown = Annotated[dict[str, int], Field(validation_alias="properties")]
    hidden = Annotated[int, Field(validation_alias="n")]
    defaults: dict[str, Any] = {"v": {}, "properties": 1}
    assert decoder_with({"v": shown}, defaults)('{"properties": {"v": 5}}') == ({"v": {"v": 5}}, ())
    echo = {"properties": {"n": 5}}
    repaired = ({"properties": 5}, (Repair("", echo, {"n": 5}),))
    assert decoder(properties=hidden)('{"properties": {"n": 5}}') == repaired
    assert decoder_with({"properties": hidden}, defaults)('{"properties": {"n": 5}}') == repaired


def test_numbers_are_as_written_also_where_all_parameters_have_defaults() -> None:
    decode = decoder_with({"v": str}, {"v": ""})
    assert decode('{"properties": {"v": 2.50}}')[0] == {"v": "2.50"}
    assert decode('"{\\"properties\\": {\\"v\\": 1E2}}"')[0] == {"v": "1E2"}
    assert decode('{"properties": {"properties": {"v": 1}}}')[0] == {"v": ""}  # once


# ---------------------------------------------------------------- found between other words


@pytest.mark.parametrize("sent", ['Use {"x": 1} there.', "Send {}.", '```json\n{"properties": {"x": 1}}\n```'])
def test_an_object_without_a_name_that_the_tool_has_is_not_salvaged(sent: str) -> None:
    for decode in (decoder(), decoder(city=str), decoder_with({"city": str}, {"city": "Rome"})):
        assert "are not a JSON object: " in refusal(decode, sent, "salvage")


@pytest.mark.parametrize("inner", ['{"city": "Oslo", "x": 1}', '{"properties": {"city": "Oslo"}}'])
def test_one_with_a_name_that_it_has_is(inner: str) -> None:
    assert decoder_with({"city": str}, {"city": "Rome"})(f"Here: {inner}.", "salvage")[0] == {"city": "Oslo"}


def test_nothing_in_a_fence_is_nothing() -> None:
    assert decoder_with({"city": str}, {"city": "Rome"})("```json\n{}\n```", "salvage")[0] == {"city": "Rome"}
    assert decoder()("```\n{}\n```", "salvage")[0] == {}


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_no_text_at_all_counts_as_blank(decoding: Any) -> None:
    nothing: Any = None
    for hint in (int, Decimal, str, Any):
        assert decoder_with({"v": hint}, {"v": None})(nothing, decoding) == ({"v": None}, ())
        assert "v: missing" in refusal(decoder(v=hint), nothing, decoding)
    assert decoder()(nothing, decoding) == ({}, ())
