"""A call of a round that was started before the others: what its caller holds (spec 7.4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from ._books import Round
from ._effects import Core
from ._giveup import not_finished
from .messages import ToolCall
from .tools._tool import ToolExecution

__all__ = ["AsyncStartedCall", "Started", "StartedCall", "noted"]


async def noted(core: Core[None], done: Future[None]) -> None:
    """Run the core, and note that it has ended."""
    try:
        await core
    finally:
        done.set_result(None)


class Started:
    """What both kinds have in common."""

    def __init__(self, round_: Round, slot: int) -> None:
        self._round, self._slot = round_, slot
        self.done: Future[None] = Future()
        self.done.set_running_or_notify_cancel()  # whoever stops waiting for it must not cancel it

    @property
    def call(self) -> ToolCall:
        """The call."""
        return self._round.calls[self._slot]

    @property
    def execution(self) -> ToolExecution[Any] | None:
        """What became of it, once it has settled."""
        return self._execution() if self.done.done() else None

    def _execution(self) -> ToolExecution[Any]:
        return self._round.records.get(self._slot) or not_finished(self._round, self._slot)


class StartedCall(Started):
    """A call that runs beside everything else."""

    def result(self) -> ToolExecution[Any]:
        """What became of it, once it has settled. A tool that fails gives an error result, and never raises here."""
        self.done.result()
        return self._execution()


class AsyncStartedCall(Started):
    """A call that runs beside everything else. Awaiting it gives its ``ToolExecution``, once it has settled."""

    def __await__(self) -> Generator[Any, Any, ToolExecution[Any]]:
        yield from asyncio.wrap_future(self.done).__await__()
        return self._execution()
