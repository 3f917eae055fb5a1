"""Steps within a tool's body: what one gave is recorded under the call and is given back when the body runs again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Raw, Struct

from .._checks import is_async_callable, is_awaitable
from ..errors import UserError

if TYPE_CHECKING:
    from ._values import ValueCodec  # loads pydantic's machinery

__all__ = ["CallSteps", "LoggedSteps", "Steps", "run_step"]


class Steps(Protocol):
    """Where the steps of one call are recorded. Shared by all attempts at the call, so it must be thread-safe."""

    def recall(self, name: str, /) -> bytes | None:
        """What was kept under that name, by this attempt or an earlier one; ``None`` if nothing was."""
        ...

    def keep(self, name: str, data: bytes, /) -> Future[None] | None:
        """Keep JSON under that name; a future that is done once it is recorded, ``None`` if it already is.

        From the moment that this returns the data must not get lost, whoever gives up waiting.
        """
        ...


class CallSteps:
    """The steps of one call, in memory: they survive retries, and end with the process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def recall(self, name: str) -> bytes | None:
        """What was kept under that name."""
        return self._kept.get(name)

    def keep(self, name: str, data: bytes) -> Future[None] | None:
        """Keep it. What was kept first stays: an attempt that timed out may still run beside its successor."""
        self._kept.setdefault(name, data)
        return None


class LoggedSteps(CallSteps):
    """The steps of one call that outlive the process: those ``kept`` by an earlier one, and what ``write`` records."""

    def __init__(self, kept: Mapping[str, bytes], write: Callable[[str, bytes], Future[None]]) -> None:
        super().__init__()
        self._kept.update(kept)
        self._write = write

    def keep(self, name: str, data: bytes) -> Future[None] | None:
        """Keep it, and record it; done when that is safe."""
        if self._kept.setdefault(name, data) is not data:  # one step, so that two attempts cannot both write
            return None
        return self._write(name, data)


class _Kept(Struct, frozen=True):
    """How a step is stored. ``awaited``: the function gave an awaitable, which a replayed body will await again."""

    awaited: bool
    value: Raw


_decoder = msgspec.json.Decoder(_Kept)


def run_step(steps: Steps, name: str, fn: Callable[[], Any], hint: Any) -> Any:
    """What was recorded under that name, or else what ``fn()`` gives, once it is recorded.

    An awaitable of it if ``fn`` is async or gives an awaitable, now or when it was recorded. ``hint`` is the type of
    the value, ``MISSING`` for plain data.
    """
    data = steps.recall(name)
    if data is not None:
        kept = _decoder.decode(data)
        value = _loaded(kept, name, hint)
        return _ready(value) if kept.awaited or is_async_callable(fn) else value
    given = fn()
    if is_awaitable(given):
        return _awaited(steps, name, given, hint)
    recorded = steps.keep(name, _dumped(name, given, hint, awaited=False))
    if recorded is not None:
        recorded.result()
    return given


async def _ready(value: Any) -> Any:
    return value


async def _awaited(steps: Steps, name: str, awaitable: Awaitable[Any], hint: Any) -> Any:
    value = await awaitable
    recorded = steps.keep(name, _dumped(name, value, hint, awaited=True))
    if recorded is not None:
        # Shielded: a cancellation would travel through `wrap_future` and cancel the record of what has happened.
        await asyncio.shield(asyncio.wrap_future(recorded))
    return value


def _dumped(name: str, value: Any, hint: Any, *, awaited: bool) -> bytes:
    data = _codec(hint).dump(value)
    if data is None:
        raise UserError(
            f"step {name!r} did run, but what it gave, {type(value).__name__}, could not be stored; give "
            "step(…, type=…) its exact type, or let the step give plain data: text, numbers, None, lists and dicts "
            "with text keys"
        )
    return msgspec.json.encode(_Kept(awaited, Raw(data)))


def _loaded(kept: _Kept, name: str, hint: Any) -> Any:
    try:
        return _codec(hint).load(bytes(kept.value))
    except Exception as error:
        raise UserError(
            f"step {name!r} was recorded, but its value cannot be read as {hint!r} any more ({error}); give step(…) "
            "the type that it had, with the fields that it had"
        ) from error


def _codec(hint: Any) -> ValueCodec:
    try:
        return _made(hint)
    except TypeError:  # a type that has no hash
        return _made.__wrapped__(hint)


@lru_cache(maxsize=256)
def _made(hint: Any) -> ValueCodec:
    from ._values import ValueCodec

    return ValueCodec(hint)
