"""What the tests of tools share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from surehand.messages import ToolCall
from surehand.tools._collect import collect_tools
from surehand.tools._tool import Outcome, Parameters, Tool, ToolContext, ToolExecution, ToolResult


def one(entry: Any) -> Tool:
    """The only tool in that object."""
    (made,) = collect_tools([entry])
    return made


def context(**values: Any) -> ToolContext[Any]:
    """A context with plain values."""
    given: dict[str, Any] = {
        "deps": None,
        "call": ToolCall("c1", "t", "{}"),
        "run_id": "r1",
        "memory_id": "m1",
        "parameters": Parameters(),
        "idempotency_key": "k1",
    }
    return ToolContext(**{**given, **values})


def execution(value: Any, call: ToolCall | None = None) -> ToolExecution[Any]:
    """A finished call that gave that value."""
    return ToolExecution(call or ToolCall("c1", "t", "{}"), ToolResult.of("x", value=value), "0.0", Outcome.DONE)


def run(function: Callable[..., Any], text: str, given: ToolContext[Any] | None = None) -> Any:
    """What the function returns as a tool for that argument text."""
    body = one(function).body
    return body.call(body.decode(text)[0], given)
