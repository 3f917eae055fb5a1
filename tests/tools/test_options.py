"""The options of a tool are listed in several places: they are the same ones, with the same defaults, everywhere."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_overloads

import pytest
from msgspec import structs

from surehand._checks import is_count
from surehand.budgets import Budget
from surehand.errors import UserError
from surehand.messages import ToolSpec
from surehand.tools._declare import tool
from surehand.tools._executor import programmatic_tool
from surehand.tools._options import ToolOptions
from surehand.tools._tool import ReturnBehavior, Tool, ToolContext

from .helpers import one


def probe(context: Any, arguments: Any) -> bool:
    return True


def authorise(context: Any, arguments: Any) -> None: ...


def undo(value: Any) -> None: ...


OPTIONS = {entry.name: entry.default for entry in structs.fields(ToolOptions)}
OPTIONS["metadata"] = None  # given as nothing, kept as an empty dict
# What a specification says itself.
OF_SPEC = {"name", "description", "metadata", "always_visible", "strict"}
OTHER: dict[str, Any] = {
    "name": "other",
    "description": "Another.",
    "repeat": "safe",
    "timeout": 3.0,
    "retries": 2,
    "exclusive": True,
    "inline": False,
    "max_parallel": 4,
    "returns": ReturnBehavior.IMMEDIATE,
    "decoding": "strict",
    "max_result": 5,
    "metadata": {"a": 1},
    "always_visible": True,
    "strict": True,
    "undo": undo,
    "undo_timeout": 6.0,
    "probe": probe,
    "authorise": authorise,
    "limits": Budget(calls=9),
    "soft_limits": Budget(calls=8),
    "cost": 0.5,
    "repeated_calls": "refuse",
    "unknown": "ask",  # nothing else goes with a tool that is repeated
}


def named(function: Any) -> dict[str, Any]:
    """The parameters that are passed by name, and their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {entry.name: entry.default for entry in parameters if entry.kind is entry.KEYWORD_ONLY}


def test_the_decorator_takes_each_option_with_its_default() -> None:
    _, with_options = get_overloads(tool)
    assert named(with_options) == OPTIONS


def test_a_programmatic_tool_takes_those_that_its_specification_does_not_say() -> None:
    assert named(programmatic_tool) == {name: value for name, value in OPTIONS.items() if name not in OF_SPEC}


def test_a_tool_has_them_with_the_same_defaults() -> None:
    no_options = {"spec", "body", "nested"}
    own = {entry.name: entry.default for entry in structs.fields(Tool) if entry.name not in no_options}
    kept_by_undo = {"undo_timeout"}
    assert own == {name: value for name, value in OPTIONS.items() if name not in OF_SPEC | kept_by_undo}


def test_the_documentation_names_each_option() -> None:
    assert [name for name in OPTIONS if f"``{name}``" not in (tool.__doc__ or "")] == []


def seen(made: Tool) -> Mapping[str, Any]:
    """The options as the tool has them."""
    assert made.undo is not None
    found = {name: getattr(made, name) for name in OPTIONS if hasattr(made, name)}
    metadata = dict(made.spec.metadata)
    is_visible = metadata.pop("searchBehavior", "SEARCHABLE") == "ALWAYS_VISIBLE"
    spec = {name: getattr(made.spec, name) for name in OF_SPEC - {"always_visible"}}
    spec |= {"metadata": metadata, "always_visible": is_visible}
    return {**found, **spec, "undo": getattr(made.undo, "function", None), "undo_timeout": made.undo.timeout}


def test_what_is_given_to_the_decorator_arrives_in_the_tool() -> None:
    @tool(**OTHER)
    def act(ctx: ToolContext[Any], size: int) -> int:
        return size

    assert seen(one(act)) == OTHER
    assert {name for name, value in OPTIONS.items() if OTHER[name] == value} == {"inline", "unknown"}

    @tool(inline=True, unknown="dead_letter")
    def small() -> int:
        return 1

    assert (one(small).inline, one(small).unknown) == (True, "dead_letter")


def test_what_is_given_with_a_specification_arrives_in_the_tool() -> None:
    spec = ToolSpec("other", "Another.", None, {"a": 1, "searchBehavior": "ALWAYS_VISIBLE"}, True)
    given = {name: value for name, value in OTHER.items() if name not in OF_SPEC}
    assert seen(programmatic_tool(spec, lambda call, context: "x", **given)) == OTHER
    small = programmatic_tool(spec, lambda call, context: "x", inline=True, unknown="dead_letter")
    assert (small.inline, small.unknown) == (True, "dead_letter")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, True), (10**30, True), (0, False), (-1, False), (True, False), (1.0, False), ("1", False), (None, False)],
)
def test_a_count_is_a_whole_number_of_at_least_one(value: Any, expected: bool) -> None:
    assert is_count(value) is expected


@pytest.mark.parametrize("option", ["max_parallel", "max_result"])
@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1"])
def test_an_option_that_is_a_count_takes_nothing_else(option: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{option}={value!r}; expected 1 or more"):
        tool(**{option: value})(lambda size: size)
