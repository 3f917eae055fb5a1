"""What the calls of one run have used up, tool by tool, and which of them were the same. Plain state, no decisions."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct, field

from ._codec import canonical
from .budgets import Amount, Budget, money
from .errors import ToolArgumentsError
from .tools._tool import Tool

__all__ = ["Seen", "Spent", "Tallies", "Tally", "used_up"]

_sorted = msgspec.json.Encoder(order="sorted").encode


class Spent(Struct, frozen=True):
    """How much of each kind of a ``Budget`` has been used."""

    calls: int
    seconds: float
    tokens: int
    cost: Decimal
    consecutive_errors: int


def used_up(budget: Budget, spent: Spent, next_cost: Amount = 0) -> Sequence[str]:
    """The kinds of which nothing is left for another call, which costs ``next_cost``."""
    kinds: list[str] = []
    for kind in budget.__struct_fields__:
        limit, used = getattr(budget, kind), getattr(spent, kind)
        if limit is None:
            continue
        if kind == "cost":
            limit = money(limit)
            if used + money(next_cost) > limit:
                kinds.append(kind)
                continue
        if used >= limit:
            kinds.append(kind)
    return kinds


class Tally(Struct, eq=False):
    """What one tool, or a whole run, has used up. Calls go by their keys, so that counting one twice does no harm."""

    keys: set[str] = set()  # of calls that ran, or are about to
    asked: set[str] = set()  # of these, and of calls that were refused or did not fit
    seconds: float = 0.0
    tokens: int = 0  # of runs inside its calls
    cost: Decimal = Decimal()  # of runs inside its calls
    errors: int = 0  # in a row
    told: set[str] = set()  # the soft limits that somebody has been told of

    def spent(self, tool: Tool) -> Spent:
        """What that tool has used up."""
        return Spent(len(self.keys), self.seconds, self.tokens, self.cost_of(tool), self.errors)

    def cost_of(self, tool: Tool, more: int = 0) -> Decimal:
        """What that tool has cost, with so many more calls."""
        return self.cost + (len(self.keys) + more) * money(tool.cost)


class Seen(Struct, eq=False):
    """The calls of one tool: how often each set of arguments was sent.

    The first calls are kept as they are, told again as their text: nothing is computed before there are enough of them
    that one could have come too often.
    """

    first: list[dict[str, Any] | str] | None = []
    times: dict[bytes | str, int] = {}

    def note(self, arguments: dict[str, Any], tool: Tool, free: int, counts_more: bool) -> int:
        """How often these arguments were sent before, 0 if it was less than ``free`` times; and count them.

        What was sent that often already is counted only if ``counts_more``.
        """
        first, times = self.first, self.times
        if first is not None:
            if len(first) < free:
                first.append(arguments)
                return 0
            self._compare(tool)
        form = _form(arguments)
        before = times.get(form, 0)
        if before < free:
            times[form] = before + 1
            return 0
        if counts_more:
            times[form] = before + 1
        return before

    def recall(self, text: str) -> None:
        """Count a call that a journal tells of."""
        self.first = [text] if self.first is None else [*self.first, text]

    def _compare(self, tool: Tool) -> None:
        for arguments in self.first or ():
            if isinstance(arguments, str):
                try:
                    arguments = tool.body.decode(arguments, "salvage")[0]
                except ToolArgumentsError:
                    continue  # its body was never entered
            form = _form(arguments)
            self.times[form] = self.times.get(form, 0) + 1
        self.first = None


def _form(arguments: dict[str, Any]) -> bytes | str:
    """One form for one meaning: that of ``canonical``, made quickly where nothing needs care."""
    try:
        return _sorted(arguments)
    except Exception:
        return canonical(arguments)


class Tallies(Struct, eq=False):
    """The tallies of one run. Whoever changes ``seen`` holds its lock; for the rest, that of the outermost run."""

    lock: threading.RLock = field(default_factory=threading.RLock)  # a call that is counted spends inside it
    tools: dict[str, Tally] = {}
    seen: dict[str, Seen] = {}

    def of(self, name: str = "") -> Tally:
        """The tally of the tool with that name, or of the run itself: its calls, and what was told of it."""
        tally = self.tools.get(name)
        if tally is None:
            tally = self.tools[name] = Tally()
        return tally
