"""Reading a call's arguments, against pydantic's own ``validate_json`` of the same type and text."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from surehand import tool
from surehand.tools._collect import collect_tools

from ._measure import compare

AS_IT_IS, WITH_FRACTIONS, REPAIRED = 1.2, 3.0, 5.0


class Two(TypedDict):
    """The arguments of most tools."""

    city: str
    days: int


class Six(TypedDict):
    """The arguments of a larger one."""

    city: str
    country: str
    days: int
    adults: int
    unit: str
    detailed: bool


@dataclass
class Item:
    """A line of an order."""

    sku: str
    quantity: int
    price: float


class Order(TypedDict):
    """Arguments with a list of dataclasses."""

    customer: str
    items: list[Item]


class Payment(TypedDict):
    """Arguments whose digits count."""

    amount: Decimal
    fee: Decimal
    rate: float
    discount: float
    memo: str


@tool
def forecast(city: str, days: int) -> None:
    """Two plain parameters."""


@tool
def trip(city: str, country: str, days: int, adults: int, unit: str, detailed: bool) -> None:
    """Six plain parameters."""


@tool
def order(customer: str, items: list[Item]) -> None:
    """A list of dataclasses."""


@tool
def pay(amount: Decimal, fee: Decimal, rate: float, discount: float, memo: str) -> None:
    """Decimals and floats."""


class Call(NamedTuple):
    """What is measured: ``sent`` by ours, ``valid`` (the same after the repairs) by pydantic's reader."""

    name: str
    tool: Any
    arguments: Any
    valid: Any
    bound: float
    sent: Any = None


def _items(price: float, as_text: int = 0) -> list[dict[str, Any]]:
    return [
        {"sku": f"A-{number}", "quantity": str(number) if number < as_text else number, "price": price}
        for number in range(20)
    ]


_TWO: dict[str, Any] = {"city": "Paris", "days": 7}
_SIX: dict[str, Any] = {
    "city": "Paris", "country": "France", "days": 7, "adults": 2, "unit": "metric", "detailed": True,
}  # fmt: skip
_WHOLE: dict[str, Any] = {"customer": "Ann", "items": _items(2)}
_FRACTIONS: dict[str, Any] = {"customer": "Ann", "items": _items(2.5)}
_ROUND: dict[str, Any] = {"amount": 120, "fee": 3, "rate": 1, "discount": 0, "memo": "thanks"}
_EXACT: dict[str, Any] = {"amount": 120.55, "fee": 3.1, "rate": 1.25, "discount": 0.5, "memo": "thanks"}

CALLS = (
    Call("two plain", forecast, Two, _TWO, AS_IT_IS),
    Call("six plain", trip, Six, _SIX, AS_IT_IS),
    Call("twenty dataclasses", order, Order, _WHOLE, AS_IT_IS),
    Call("decimals and floats", pay, Payment, _ROUND, AS_IT_IS),
    Call("twenty dataclasses, with fractions", order, Order, _FRACTIONS, WITH_FRACTIONS),
    Call("decimals and floats, with fractions", pay, Payment, _EXACT, WITH_FRACTIONS),
    Call("two plain, one repaired", forecast, Two, _TWO, REPAIRED, {**_TWO, "days": "7"}),
    Call(
        "six plain, three repaired", trip, Six, _SIX, math.inf, {**_SIX, "days": "7", "adults": "2", "detailed": "true"}
    ),
    Call("twenty dataclasses, two repaired", order, Order, _WHOLE, REPAIRED, {**_WHOLE, "items": _items(2, 2)}),
    Call("twenty dataclasses as JSON text", order, Order, _WHOLE, REPAIRED, {**_WHOLE, "items": json.dumps(_items(2))}),
    Call("twenty dataclasses, all repaired", order, Order, _WHOLE, math.inf, {**_WHOLE, "items": _items(2, 20)}),
    Call("six plain, one repaired", trip, Six, _SIX, REPAIRED, {**_SIX, "days": "7"}),
    Call("decimals and floats, one repaired", pay, Payment, _ROUND, REPAIRED, {**_ROUND, "rate": "1"}),
    Call("decimals and floats, a decimal repaired", pay, Payment, _ROUND, REPAIRED, {**_ROUND, "amount": "120"}),
)


def measured() -> Iterator[tuple[str, float, float, str]]:
    """For each call: its name, our time over pydantic's, the bound, and both times."""
    for entry in CALLS:
        (made,) = collect_tools([entry.tool])
        decode = made.body.decode
        read: Callable[[str], Any] = TypeAdapter(entry.arguments).validate_json
        valid, sent = json.dumps(entry.valid), json.dumps(entry.sent or entry.valid)
        assert decode(sent, "repair")[0] == read(valid)
        ours, theirs = compare(_many(decode, sent, "repair"), _many(read, valid))
        detail = f"{ours / _TIMES * 1e6:.1f} µs against {theirs / _TIMES * 1e6:.1f} µs"
        yield f"arguments of {entry.name}", ours / theirs, entry.bound, detail


_TIMES = 100


def _many(function: Callable[..., Any], *arguments: Any) -> Callable[[], None]:
    def many() -> None:
        for _ in range(_TIMES):
            function(*arguments)

    return many


def main() -> int:
    """Measure and print; gives the exit code."""
    over = 0
    for name, ratio, bound, detail in measured():
        over += ratio > bound
        print(f"{'ok  ' if ratio <= bound else 'OVER'} {ratio:8.3f} (at most {bound:g})  {name}  {detail}", flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
