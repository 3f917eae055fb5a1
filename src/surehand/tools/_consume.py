"""What a body gives bit by bit: each value of a generator is progress, the last one is the result (spec 5).

A generator is consumed where the body runs, so that what it does happens inside the call, and is closed in any case.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import aclosing, closing
from io import IOBase
from types import AsyncGeneratorType, GeneratorType
from typing import Any, cast

__all__ = ["consumed", "consumed_later"]

# What most bodies return: to see that it is no generator must cost nothing.
_WHOLE = frozenset((str, int, float, bool, type(None), dict, list, tuple))
_NOTHING: Any = object()


def consumed(value: Any, report: Callable[[Any], None] | None) -> Any:
    """The value, or the last one of the generator that it is; an awaitable of that for an async generator.

    Every value before the last is reported as progress, when the next one is there: until then nobody knows that it
    was not the last. What a generator returns, if not ``None``, is the result, and then all it yielded is progress.
    Other iterators become lists, since they have no end of their own that could be closed.
    """
    if value.__class__ in _WHOLE:
        return value
    known: Any = value  # handed on instead of the value, whose type would be half-known in the branches
    if isinstance(value, GeneratorType):
        return _last_of(known, report)
    if isinstance(value, AsyncGeneratorType) or (isinstance(value, AsyncIterator) and not hasattr(known, "__await__")):
        return _last_of_async(known, report)
    if isinstance(value, Iterator) and not isinstance(value, IOBase):
        return list(known)
    return known


async def consumed_later(value: Any, report: Callable[[Any], None] | None) -> Any:
    """The same of what an awaitable gives, however often it has to be awaited."""
    while hasattr(value, "__await__"):
        value = consumed(await value, report)
    return value


def _last_of(items: Generator[Any, None, Any], report: Callable[[Any], None] | None) -> Any:
    last = _NOTHING
    with closing(items):
        while True:
            try:
                item = next(items)
            except StopIteration as stop:
                if stop.value is None:
                    return None if last is _NOTHING else last
                _report(last, report)
                return stop.value
            _report(last, report)
            last = item


async def _last_of_async(items: AsyncIterator[Any], report: Callable[[Any], None] | None) -> Any:
    last = _NOTHING
    async with aclosing(cast(Any, items) if hasattr(items, "aclose") else _Closable()):
        async for item in items:
            _report(last, report)
            last = item
    return None if last is _NOTHING else last


def _report(value: Any, report: Callable[[Any], None] | None) -> None:
    if report is not None and value is not _NOTHING:
        report(value)


class _Closable:
    async def aclose(self) -> None:
        """An iterator that is no generator has nothing to close."""
