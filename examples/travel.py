"""An airline and a bank, as a file that they both write, and the tools that an agent has for them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from surehand import Absent, Happened, ToolContext, tool, undoes

__all__ = ["Ledger", "travel_tools"]

_TABLE = "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, key TEXT, what TEXT, detail TEXT)"


class Ledger:
    """What the airline and the bank have done, one line for each doing. It stands for services elsewhere."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._write(_TABLE)

    def add(self, what: str, key: str, detail: object = "") -> None:
        """Do it, as often as one is asked to."""
        self._write("INSERT INTO entries (key, what, detail) VALUES (?, ?, ?)", key, what, str(detail))

    def has(self, what: str, key: str) -> bool:
        """Whether that was done under this key."""
        return what in self.lines(key)

    def lines(self, key: str) -> list[str]:
        """What was done under keys that begin so, in order."""
        with closing(sqlite3.connect(self._path)) as database:
            asked = "SELECT what FROM entries WHERE substr(key, 1, ?) = ? ORDER BY number"
            return [what for (what,) in database.execute(asked, (len(key), key))]

    def _write(self, statement: str, *values: str) -> None:
        with closing(sqlite3.connect(self._path)) as database, database:
            database.execute(statement, values)


def travel_tools(ledger: Ledger) -> list[Any]:
    """Tools that book and pay: one for a service that knows keys, and one for a service that can only be asked."""

    @tool(repeat="with_key")
    def book_seat(city: str, ctx: ToolContext) -> str:
        """Book a seat on the next flight to a city.

        Args:
            city: Name of the city.
        """
        if not ledger.has("seat booked", ctx.idempotency_key):  # this airline books each key once
            ledger.add("seat booked", ctx.idempotency_key, city)
        return f"a seat to {city}"

    @undoes(book_seat)
    def cancel_seat(ctx: ToolContext) -> None:
        if not ledger.has("seat cancelled", ctx.idempotency_key):  # an undo may be called twice: it looks first
            ledger.add("seat cancelled", ctx.idempotency_key)

    def was_charged(ctx: ToolContext, arguments: dict[str, Any]) -> Happened[str] | Absent:
        is_there = ledger.has("card charged", ctx.idempotency_key)
        return Happened(f"{arguments['euros']} euros paid") if is_there else Absent()

    @tool(probe=was_charged)  # this bank charges each time, but it can be asked what it has charged
    def charge_card(euros: int, ctx: ToolContext) -> str:
        """Charge the customer's card.

        Args:
            euros: How much.
        """
        ledger.add("card charged", ctx.idempotency_key, euros)
        return f"{euros} euros paid"

    @undoes(charge_card)
    def refund_card(ctx: ToolContext) -> None:
        if not ledger.has("card refunded", ctx.idempotency_key):
            ledger.add("card refunded", ctx.idempotency_key)

    return [book_seat, charge_card]
