"""Type parameters and ``type`` statements, where Python has them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from surehand.tools._tool import ToolContext

from .helpers import context, one, run


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return dict((one(function).spec.parameters or {})["properties"])


NEWER = """
type Many[X] = list[X]
type Maybe = int | None
type Given = ToolContext[int]

def generic[X: int](it: X, many: Many[int], maybe: Maybe) -> object:
    return it, many, maybe

class Box[X]:
    def put(self, it: X) -> object:
        return it

class Numbers(Box[int]): ...

class Page[X](BaseModel):
    items: list[X]

def page(it: Page[int]) -> object:
    return it

def hidden(q: str, ctx: Given) -> object:
    return ctx

type Json = dict[str, Json] | list[Json] | str

def nested(it: Json) -> object:
    return it
"""

if sys.version_info >= (3, 12):

    @pytest.fixture
    def newer() -> dict[str, Any]:
        scope: dict[str, Any] = {"ToolContext": ToolContext, "BaseModel": BaseModel, "__name__": __name__}
        exec(compile(NEWER, "newer", "exec", dont_inherit=True), scope)
        return scope

    def test_functions_with_type_parameters_are_tools(newer: dict[str, Any]) -> None:
        assert properties(newer["generic"]) == {
            "it": {"type": "integer"},
            "many": {"type": "array", "items": {"type": "integer"}},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        }
        assert run(newer["generic"], '{"it": 1, "many": [2]}') == (1, [2], None)

    def test_classes_with_type_parameters_are_owners_and_types(newer: dict[str, Any]) -> None:
        assert properties(newer["Numbers"]().put) == {"it": {"type": "integer"}}
        assert properties(newer["Box"][str]().put) == {"it": {"type": "string"}}
        assert run(newer["page"], '{"it": {"items": [1]}}') == newer["Page"][int](items=[1])

    def test_type_statements_hide_contexts_and_may_be_recursive(newer: dict[str, Any]) -> None:
        given = context()
        assert list(properties(newer["hidden"])) == ["q"]
        assert run(newer["hidden"], '{"q": "x", "ctx": {}}', given) is given
        assert run(newer["nested"], '{"it": {"a": ["b"]}}') == {"a": ["b"]}
