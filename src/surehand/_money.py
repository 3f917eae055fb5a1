"""What a reply costs, by the function that the application gives. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from .budgets import is_amount, money
from .errors import UserError
from .messages import ChatResponse

__all__ = ["cost_of"]


def cost_of(price: Callable[..., Any], response: ChatResponse) -> Decimal:
    """The price of that reply; raises ``UserError`` if the function cannot tell it."""
    try:
        cost = price(response)
    except Exception as error:
        raise UserError(
            f"price={price!r} failed on a reply of model {response.model!r}: {type(error).__name__}: {error}; it "
            "has to give a number for every reply, 0 for those that cost nothing"
        ) from error
    if not is_amount(cost) or not 0 <= cost < float("inf"):
        raise UserError(
            f"price={price!r} gave {cost!r} for a reply of model {response.model!r}; expected what it costs: a number "
            "of at least 0"
        )
    return money(cost)
