"""What a body gives bit by bit: each value of a generator is progress, the last one is the result (spec 5).

A generator is consumed where the body runs, so that what it does happens inside the call, and is closed in any case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from io import IOBase
from types import CoroutineType, GeneratorType
from typing import Any, TypeAlias, cast

from .._checks import WHOLE, is_awaitable
from ..errors import ToolExecutionError

__all__ = ["Report", "consumed", "consumed_later"]

Report: TypeAlias = Callable[[Any], object] | None
"""Takes what is reported; ``False`` says that nobody waits for the call any more, so its generator is to be closed."""

_NOTHING: Any = object()


def consumed(value: object, report: Report, as_list: bool = False) -> Any:
    """The value, or the last one of the generator that it is; an awaitable of that for an async generator.

    Every value before the last is reported as progress, when the next one is there: until then nobody knows that it
    was not the last. What a generator returns, if not ``None``, is the result, and then all it yielded is progress.
    Other iterators become lists, since they have no end of their own that could be closed; and with ``as_list``, of a
    function that says it gives a list, so do generators.
    """
    # By its type alone: a value may be a proxy whose attributes, and even whose class, cannot be looked at.
    kind = type(value)
    if kind in WHOLE:
        return value
    known: Any = value  # handed on instead of the value, whose type would be half-known
    if kind is CoroutineType:  # first, since the looks below cost more and each async tool comes through here
        return consumed_later(known, report, as_list)
    if issubclass(kind, GeneratorType):
        return _all_of(known) if as_list else _last_of(known, report)
    if issubclass(kind, AsyncIterator) and not is_awaitable(value):
        return _all_of_async(known) if as_list else consumed_later(_last_of_async(known, report), report)
    if issubclass(kind, Iterator) and not issubclass(kind, IOBase):
        return list(known)
    return consumed_later(known, report, as_list) if is_awaitable(value) else value


async def consumed_later(value: Any, report: Report, as_list: bool = False) -> Any:
    """The same of what an awaitable gives, however often it has to be awaited."""
    value = consumed(await value, report, as_list)
    return await value if is_awaitable(value) else value


def _all_of(items: Generator[Any, None, Any]) -> list[Any]:
    with closing(items):
        return list(items)


async def _all_of_async(items: AsyncIterator[Any]) -> list[Any]:
    async with _closing(items):
        return [item async for item in items]


def _last_of(items: Generator[Any, None, Any], report: Report) -> Any:
    last = _NOTHING
    with closing(items):
        while True:
            try:
                item = next(items)
            except StopIteration as stop:
                if stop.value is None:
                    break
                _tell(last, report)
                last = stop.value
                break
            _tell(last, report)
            last = item
    return None if last is _NOTHING else consumed(last, report)


async def _last_of_async(items: AsyncIterator[Any], report: Report) -> Any:
    last = _NOTHING
    async with _closing(items):
        async for item in items:
            _tell(last, report)
            last = item
    return None if last is _NOTHING else last


def _tell(value: Any, report: Report) -> None:
    if value is not _NOTHING and report is not None and report(value) is False:
        raise ToolExecutionError("nobody waits for this call any more, so its generator was closed")


def _closing(items: AsyncIterator[Any]) -> aclosing[Any]:
    return aclosing(cast(Any, items) if hasattr(items, "aclose") else _Closable())


class _Closable:
    async def aclose(self) -> None:
        """An iterator that is no generator has nothing to close."""
