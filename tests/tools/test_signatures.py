"""Functions such as people write them become tools that take a valid call, or are refused with a remedy."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from surehand.errors import ToolArgumentsError, UserError
from surehand.tools._tool import Tool

from .helpers import context, one
from .signatures import CASES, REFUSALS, Case, Refusal
from .signatures import databases as databases
from .signatures import devops as devops
from .signatures import files as files
from .signatures import finance as finance
from .signatures import refusals as refusals
from .signatures import web as web


def name_of(entry: Case | Refusal) -> str:
    function = entry.function
    return str(getattr(function, "__qualname__", None) or type(function).__name__)


def called(entry: Case) -> dict[str, Any]:
    body = one(entry.function).body
    arguments, changes = body.decode(entry.text)
    assert changes == ()
    found = body.call(arguments, context())
    result: dict[str, Any] = asyncio.run(found) if inspect.iscoroutine(found) else found
    return {name: result[name] for name in entry.expected}


@pytest.mark.parametrize("entry", CASES, ids=name_of)
def test_a_valid_call_brings_exactly_these_values(entry: Case) -> None:
    values = called(entry)
    assert values == entry.expected
    assert {name: type(value) for name, value in values.items()} == {
        name: type(value) for name, value in entry.expected.items()
    }


@pytest.mark.parametrize("entry", CASES, ids=name_of)
def test_the_schema_is_valid_and_takes_the_valid_call(entry: Case) -> None:
    schema = one(entry.function).spec.parameters
    if schema is None:
        assert entry.text == "{}"
        return
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(_without_null(schema, json.loads(entry.text)), schema)


def _is_null(schema: Mapping[str, Any], name: str, value: Any) -> bool:
    """Null for a parameter with a default counts as absent, whatever its type."""
    return value is None and name not in schema.get("required", ())


@pytest.mark.parametrize("entry", REFUSALS, ids=name_of)
def test_what_cannot_be_a_tool_is_refused_with_the_parameter_and_the_remedy(entry: Refusal) -> None:
    with pytest.raises(UserError) as caught:
        one(entry.function)
    assert [word for word in entry.words if word not in str(caught.value)] == [], caught.value


# Where the schema cannot say what is accepted: a model or a type of the user's own reads values in its own way, keys
# have a format, and the items of a bare set must have a hash.
READS_IN_ITS_OWN_WAY = {
    "archive", "bound", "convert", "create", "cut", "drain", "make_folders", "pull", "regroup", "run_query", "scan",
    "send_invoice", "show", "store_amounts", "trace", "train_most", "truncate", "up", "whois",
}  # fmt: skip
OTHER_VALUES = (True, 7, 1.5, [], {}, {"invented": 1})


def variants(value: Any) -> Iterator[Any]:
    """The value with one thing changed: a part left out, one that nobody asked for, or one of another kind."""
    if isinstance(value, dict):
        yield {**value, "invented": 1}
        for key, part in value.items():
            yield {name: other for name, other in value.items() if name != key}
            yield from ({**value, key: other} for other in (*OTHER_VALUES, *variants(part)))
    if isinstance(value, list):
        yield from ([*value, item] for item in value[:1])
        for place, part in enumerate(value):
            yield from ([*value[:place], other, *value[place + 1 :]] for other in (*OTHER_VALUES, *variants(part)))


@pytest.mark.parametrize("entry", [entry for entry in CASES if name_of(entry) not in READS_IN_ITS_OWN_WAY], ids=name_of)
def test_the_schema_takes_exactly_what_is_accepted_unchanged(entry: Case) -> None:
    made = one(entry.function)
    validator = jsonschema.Draft202012Validator(made.spec.parameters or {"type": "object"})
    for variant in variants(json.loads(entry.text)):
        assert validator.is_valid(_without_null(made.spec.parameters or {}, variant)) is accepted(made, variant), (
            variant
        )


def accepted(made: Tool, arguments: dict[str, Any]) -> bool:
    try:
        made.body.decode(json.dumps(arguments), "strict")
    except ToolArgumentsError:
        return False
    return True


def _without_null(schema: Mapping[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sent.items() if not _is_null(schema, name, value)}


def test_there_are_at_least_two_hundred_signatures() -> None:
    assert len(CASES) >= 200
