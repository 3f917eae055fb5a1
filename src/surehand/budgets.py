"""What may be used up, by a run or by one tool of it, and what is done about calls that repeat each other: values."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from .errors import UserError

__all__ = ["REPEATED_CALLS", "Amount", "Budget", "RepeatedCalls", "check_amounts", "is_amount", "money"]

RepeatedCalls: TypeAlias = Literal["warn", "refuse", "stop", "allow"]
"""What is done about a call that was made before in the same run, with the same arguments, too often.

``"warn"``: it runs, and its result tells the model. ``"refuse"``: it does not run, and the model reads why. ``"stop"``:
the run is given up with ``RepeatedCallError``. ``"allow"``: nothing, for tools that are polled.
"""

REPEATED_CALLS: tuple[RepeatedCalls, ...] = ("warn", "refuse", "stop", "allow")

Amount: TypeAlias = float | Decimal
"""Money, in whatever unit the prices are in."""

_FRACTIONS = ("seconds", "cost")


class Budget(Struct, frozen=True, kw_only=True):
    """What may be used up in one run; ``None`` is no limit.

    For one tool (``@tool(limits=…, soft_limits=…)``): its ``calls``; the ``seconds`` spent in it; the ``tokens`` that
    agents inside it used; its ``cost``; its ``consecutive_errors``, calls in a row whose result was an error. For a run
    (``Limits(soft=…)``) the same of all its calls and replies, and rounds in a row in which every call failed.
    """

    calls: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: Amount | None = None
    consecutive_errors: int | None = None

    def __post_init__(self) -> None:
        check_amounts(self, "Budget", self.__struct_fields__)


def check_amounts(limits: Any, label: str, names: tuple[str, ...]) -> None:
    """Raise ``UserError`` for the first of these fields that is no limit."""
    for name in names:
        value = getattr(limits, name)
        least = 1 if name == "consecutive_errors" else 0
        if value is None:
            continue
        if not is_amount(value) or value < least:
            raise UserError(f"{label}({name}={value!r}): expected a number of at least {least}, or None for no limit")
        if name not in _FRACTIONS and not isinstance(value, int):
            raise UserError(f"{label}({name}={value!r}): expected a whole number, or None for no limit")


def is_amount(value: Any) -> bool:
    """Whether it is a number that can be compared."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and not math.isnan(value)


def money(amount: Amount) -> Decimal:
    """The amount as it is written: sums of it are exact, in whatever order they are made."""
    return amount if isinstance(amount, Decimal) else Decimal(str(amount))
