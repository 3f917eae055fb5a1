"""Which calls of a round may start now: one rule for threads and tasks alike. Pure: starts nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ._books import Round
from .tools._tool import Tool

__all__ = ["Schedule", "width_of"]


class Schedule:
    """Hands out slots of a round in request order, within the limits (spec 8.2, 8.4).

    At most ``width`` calls run at once; a tool's ``max_parallel`` bounds its own calls; an exclusive tool waits
    until nothing runs, and nothing starts beside it or passes it.
    """

    def __init__(self, round_: Round, tools: Mapping[str, Tool], width: int | None) -> None:
        self.round = round_
        self._tools = tools
        self._width = width
        self._running: dict[int, Tool | None] = {}
        self._exclusive_runs = False
        self._waiting: list[int] = []

    def started(self, slot: int) -> None:
        """The call in this slot runs without having been handed out: it was started early."""
        self._running[slot] = self._tools.get(self.round.calls[slot].name)

    def settled(self, slot: int) -> None:
        """The call in this slot has ended."""
        tool = self._running.pop(slot, None)
        if tool is not None and tool.exclusive:
            self._exclusive_runs = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def admit(self, slots: Sequence[int]) -> None:
        """These calls of the complete reply want to start, in this order."""
        self._waiting = list(slots)

    def next_slots(self) -> list[int]:
        """Slots to start now, in request order; each is counted as started."""
        if self.round.stopped or not self._waiting:
            return []
        started: list[int] = []
        passed: list[int] = []
        for index, slot in enumerate(self._waiting):
            tool = self._tools.get(self.round.calls[slot].name)
            is_exclusive = tool is not None and tool.exclusive
            if self._is_full() or self._exclusive_runs or (is_exclusive and self._running):
                passed += self._waiting[index:]
                break
            if tool is None or self._has_room(tool):
                self._running[slot] = tool
                self._exclusive_runs = is_exclusive
                started.append(slot)
            else:
                passed.append(slot)
        self._waiting = passed
        return started

    def _is_full(self) -> bool:
        return self._width is not None and len(self._running) >= self._width

    def _has_room(self, tool: Tool) -> bool:
        if tool.max_parallel is None:
            return True
        return sum(running is tool for running in self._running.values()) < tool.max_parallel


def width_of(parallel: bool | int) -> int | None:
    """How many calls may run at once: ``None`` is no limit."""
    if parallel is True:
        return None
    return 1 if parallel is False else parallel
