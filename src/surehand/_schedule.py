"""Which calls of a round may start now: one rule for threads and tasks alike. Pure: starts nothing itself."""

from __future__ import annotations

from collections import deque
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
        self._busy: dict[Tool, int] = {}  # how many calls of a tool with a bound of its own run
        self._exclusive_runs = False
        # Whoever is passed over is set aside: a call that waits is looked at once, not whenever another one ends.
        self._waiting: deque[tuple[int, int]] = deque()  # place in the request and slot
        self._passed: dict[Tool, deque[tuple[int, int]]] = {}

    def started(self, slot: int) -> None:
        """The call in this slot runs without having been handed out: it was started early."""
        self._begin(slot, self._tool_of(slot))

    def settled(self, slot: int) -> None:
        """The call in this slot has ended."""
        tool = self._running.pop(slot, None)
        if tool is None:
            return
        if tool.exclusive:
            self._exclusive_runs = False
        if tool.max_parallel is not None:
            self._busy[tool] -= 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs."""
        return not self._running

    def admit(self, slots: Sequence[int]) -> None:
        """These calls of the complete reply want to start, in this order."""
        self._waiting = deque(enumerate(slots))

    def next_slots(self) -> list[int]:
        """Slots to start now, in request order; each is counted as started."""
        started: list[int] = []
        while not (self.round.stopped or self._exclusive_runs or self._is_full()):
            slot = self._next()
            if slot is None:
                break
            self._begin(slot, self._tool_of(slot))
            started.append(slot)
        return started

    def _next(self) -> int | None:
        """Take out the first call that may start; those that were passed over stand before all that wait."""
        free = [calls for tool, calls in self._passed.items() if calls and self._has_room(tool)]
        if free:
            return min(free, key=lambda calls: calls[0]).popleft()[1]
        while self._waiting:
            place, slot = self._waiting[0]
            tool = self._tool_of(slot)
            if tool is not None and tool.exclusive and self._running:
                return None
            self._waiting.popleft()
            if tool is None or self._has_room(tool):
                return slot
            self._passed.setdefault(tool, deque()).append((place, slot))
        return None

    def _tool_of(self, slot: int) -> Tool | None:
        return self._tools.get(self.round.calls[slot].name)

    def _begin(self, slot: int, tool: Tool | None) -> None:
        self._running[slot] = tool
        if tool is None:
            return
        self._exclusive_runs = tool.exclusive
        if tool.max_parallel is not None:
            self._busy[tool] = self._busy.get(tool, 0) + 1

    def _is_full(self) -> bool:
        return self._width is not None and len(self._running) >= self._width

    def _has_room(self, tool: Tool) -> bool:
        return tool.max_parallel is None or self._busy.get(tool, 0) < tool.max_parallel


def width_of(parallel: bool | int) -> int | None:
    """How many calls may run at once: ``None`` is no limit."""
    if parallel is True:
        return None
    return 1 if parallel is False else parallel
