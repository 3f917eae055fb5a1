"""Functions such as people write them become tools that take a valid call, or are refused with a remedy."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest

from surehand.errors import UserError

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
    sent = json.loads(entry.text)
    jsonschema.validate({name: value for name, value in sent.items() if not _is_null(schema, name, value)}, schema)


def _is_null(schema: Mapping[str, Any], name: str, value: Any) -> bool:
    """Null for a parameter with a default counts as absent, whatever its type."""
    return value is None and name not in schema.get("required", ())


@pytest.mark.parametrize("entry", REFUSALS, ids=name_of)
def test_what_cannot_be_a_tool_is_refused_with_the_parameter_and_the_remedy(entry: Refusal) -> None:
    with pytest.raises(UserError) as caught:
        one(entry.function)
    assert [word for word in entry.words if word not in str(caught.value)] == [], caught.value


def test_there_are_at_least_two_hundred_signatures() -> None:
    assert len(CASES) >= 200
