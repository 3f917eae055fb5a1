"""Checked by pyright and mypy: decorators keep the signatures of what they stand before, and bodies fit the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, assert_type

import pytest

from surehand.errors import UserError
from surehand.tools._declare import tool, undoes
from surehand.tools._executor import ExecutorBody
from surehand.tools._function import FunctionBody
from surehand.tools._tool import Body, ToolContext, Undo
from surehand.tools._undo import FunctionUndo


@tool
def bare(a: int, *, b: str = "") -> float:
    return a


@tool(repeat="safe", timeout=3)
async def with_options(a: int) -> str:
    return str(a)


@undoes(bare, timeout=1)
def back(value: float) -> None: ...


class Desk:
    @tool(name="x")
    def method(self, a: int) -> bytes:
        return bytes(a)

    @classmethod
    @tool
    def outer(cls, a: int) -> int:
        return a

    @tool
    @staticmethod
    def still(a: int) -> int:
        return a


def test_signatures_are_kept() -> None:
    plain: Callable[[int], float] = bare
    awaitable: Callable[[int], Awaitable[str]] = with_options
    assert_type(bare(1, b="x"), float)
    assert_type(back(1.0), None)
    assert_type(Desk().method(1), bytes)
    assert_type(Desk.outer(1), int)
    assert_type(Desk.still(1), int)
    bare("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert (plain, awaitable) == (bare, with_options)


def bodies_fit(function: FunctionBody, executor: ExecutorBody, undo: FunctionUndo) -> tuple[Body, Body, Undo, Any]:
    return function, executor, undo, None


def steps_give_what_their_functions_give(context: ToolContext[Any], reserve: Callable[[], Awaitable[str]]) -> None:
    async def pay() -> int:
        return 1

    async def awaiting() -> None:
        assert_type(await context.step("pay", pay), int)
        assert_type(await context.step("reserve", reserve), str)

    assert_type(context.step("count", lambda: 1, type=int), int)
    asynchronous: Callable[[], Coroutine[Any, Any, None]] = awaiting
    assert asynchronous is awaiting


def test_what_becomes_of_an_unknown_call_is_one_of_three() -> None:
    tool(unknown="dead_letter")(bare)
    with pytest.raises(UserError):
        tool(unknown="wait")(bare)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
