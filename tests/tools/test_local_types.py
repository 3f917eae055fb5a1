"""Types that refer to what cannot be found from where they are: refused, with a remedy that works."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import msgspec
import pytest
import typing_extensions

from surehand.errors import UserError
from surehand.tools._collect import collect_tools

from .helpers import run


class Row(typing.TypedDict):
    size: int


@dataclasses.dataclass
class Table:
    rows: list[Row]


class Line(NamedTuple):
    row: Row


class Fixed(typing_extensions.TypedDict):
    size: int


@dataclasses.dataclass
class Repaired:
    rows: list[Fixed]


def tool_of(hint: Any) -> Callable[..., Any]:
    def store(order: Any) -> Any:
        return order

    store.__annotations__["order"] = hint
    return store


def local_types() -> list[Any]:
    class Inner(typing_extensions.TypedDict):
        size: int

    class Old(typing.TypedDict):
        inner: Inner

    class New(typing_extensions.TypedDict):
        inner: list[Inner]

    class Tuple(NamedTuple):
        inner: Inner

    @dataclasses.dataclass
    class Data:
        inner: Inner

    class Struct(msgspec.Struct):
        inner: Inner

    @attrs.define
    class Attrs:
        inner: Inner | None

    return [Old, New, Tuple, Data, Struct, Attrs]


@pytest.mark.parametrize("kind", local_types(), ids=lambda kind: kind.__name__)
def test_a_type_that_refers_to_one_in_a_function_is_refused_with_the_advice_to_move_that_one(kind: Any) -> None:
    with pytest.raises(UserError, match=r"'order' .*; define Inner at module level"):
        collect_tools([tool_of(kind)])


@pytest.mark.parametrize(("kind", "text"), [(Table, '{"rows": [{"size": 3}]}'), (Line, '{"row": {"size": 3}}')])
def test_a_typed_dict_of_typing_inside_of_another_type_works_or_the_right_import_is_told(kind: Any, text: str) -> None:
    if sys.version_info >= (3, 12):
        assert type(run(tool_of(kind), f'{{"order": {text}}}')) is kind
        return
    with pytest.raises(UserError, match=r"'order' .*; import TypedDict from typing_extensions"):
        collect_tools([tool_of(kind)])


def test_the_advice_works() -> None:
    assert run(tool_of(Repaired), '{"order": {"rows": [{"size": 3}]}}') == Repaired([{"size": 3}])
