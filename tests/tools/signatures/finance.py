"""Money, calendars and bookings."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Final, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID

from pydantic import (
    AwareDatetime, BaseModel, ConfigDict, Field, FutureDate, Json, NonNegativeInt, PastDate, PositiveInt, condecimal,
    conint, constr,
)  # fmt: skip

from surehand.tools._tool import Parameters, ToolContext

from . import case

N = TypeVar("N", int, Decimal)
B = TypeVar("B", bound="Money")
CENT: Final = Decimal("0.01")


class Currency(enum.Enum):
    EUR = "EUR"
    USD = "USD"


class Money(BaseModel):
    model_config = ConfigDict(frozen=True)
    amount: Decimal
    currency: Currency = Currency.EUR


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Transfer(BaseModel):
    kind: Literal["transfer"]
    iban: str


class Range(NamedTuple):
    start: date
    stop: date


class Guest(TypedDict):
    name: str
    age: int | None


@dataclass
class Line:
    sku: str
    qty: int = 1
    price: Decimal = Decimal("0")


@dataclass
class Invoice:
    customer: str
    lines: list[Line] = field(default_factory=list)
    due: date | None = None
    paid_with: Card | Transfer | None = None


@dataclass
class Slot(Generic[N]):
    at: datetime
    seats: N


@dataclass(order=True, frozen=True)
class Rate:
    per_cent: Annotated[float, Field(ge=0, le=100)]


@dataclass
class Leg:
    to: str
    following: Leg | None = None


Payment = Annotated[Card | Transfer, Field(discriminator="kind")]


@case('{"amount": 10.25}', amount=Decimal("10.25"))
def pay(amount: Decimal) -> Any:
    return locals()


@case('{"amount": 123456789012345678.01}', amount=Decimal("123456789012345678.01"))
def pay_exactly(amount: Decimal) -> Any:
    return locals()


@case('{"amount": 3}', amount=Decimal(3), fee=Decimal("0.5"))
def pay_with_fee(amount: Annotated[Decimal, Field(gt=0, max_digits=8)], fee: Decimal = Decimal("0.5")) -> Any:
    return locals()


@case('{"amount": 1.5}', amount=Decimal("1.5"))
def refund(amount: condecimal(gt=0, decimal_places=2)) -> Any:  # type: ignore[valid-type]
    return locals()


@case('{"money": {"amount": 2, "currency": "USD"}}', money=Money(amount=Decimal(2), currency=Currency.USD))
def convert(money: Money, to: Currency = Currency.EUR) -> Any:
    return {"money": money} if to is Currency.EUR else {}


@case('{"payment": {"kind": "transfer", "iban": "PT50"}}', payment=Transfer(kind="transfer", iban="PT50"))
def settle(payment: Payment) -> Any:
    return locals()


@case('{"payments": [{"kind": "card", "number": "4"}]}', payments=[Card(kind="card", number="4")])
def settle_all(payments: list[Payment]) -> Any:
    return locals()


@case('{"payment": {"kind": "card", "number": "4"}}', payment=Card(kind="card", number="4"))
def settle_plain(payment: Card | Transfer) -> Any:
    return locals()


@case(
    '{"invoice": {"customer": "c", "lines": [{"sku": "a", "price": 1.10}], "due": "2031-05-03",'
    ' "paid_with": {"kind": "card", "number": "4"}}}',
    invoice=Invoice("c", [Line("a", 1, Decimal("1.10"))], date(2031, 5, 3), Card(kind="card", number="4")),
)
def send_invoice(invoice: Invoice) -> Any:
    return locals()


@case('{"line": {"sku": "a", "qty": 2}}', line=Line("a", 2))
def add_line(line: Line) -> Any:
    return locals()


@case('{"day": "2031-05-03"}', day=date(2031, 5, 3))
def book(day: date) -> Any:
    return locals()


@case('{"day": "2031-05-03"}', day=dt.date(2031, 5, 3), at=None)
def book_table(day: dt.date, at: dt.time | None = None) -> Any:
    return locals()


@case('{"at": "10:30"}', at=time(10, 30))
def set_alarm(at: time) -> Any:
    return locals()


@case('{"at": "10:30:15"}', at=time(10, 30, 15), days=["mon", "fri"])
def repeat_alarm(at: time, days: Sequence[Literal["mon", "fri"]] = ("mon", "fri")) -> Any:
    return {"at": at, "days": list(days)}


@case('{"start": "2031-05-03T10:00:00", "length": "PT1H"}', start=datetime(2031, 5, 3, 10), length=timedelta(hours=1))
def create_event(start: datetime, length: timedelta = timedelta(minutes=30)) -> Any:
    return locals()


@case('{"start": "2031-05-03T10:00:00"}', start=datetime(2031, 5, 3, 10), length=timedelta(minutes=30))
def create_short_event(start: datetime, length: timedelta = timedelta(minutes=30)) -> Any:
    return locals()


@case('{"at": "2031-05-03T10:00:00+00:00"}', at=datetime(2031, 5, 3, 10, tzinfo=dt.UTC))
def remind(at: AwareDatetime) -> Any:
    return {"at": at.astimezone(dt.UTC)}


@case('{"day": "2931-05-03"}', day=date(2931, 5, 3))
def plan(day: FutureDate) -> Any:
    return locals()


@case('{"day": "1931-05-03"}', day=date(1931, 5, 3))
def look_back(day: PastDate) -> Any:
    return locals()


@case('{"zone": "Europe/Rome"}', zone=zoneinfo.ZoneInfo("Europe/Rome"))
def set_zone(zone: zoneinfo.ZoneInfo) -> Any:
    return locals()


@case('{"when": {"start": "2031-01-01", "stop": "2031-01-02"}}', when=Range(date(2031, 1, 1), date(2031, 1, 2)))
def free_rooms(when: Range) -> Any:
    return locals()


@case('{"guests": [{"name": "a", "age": null}]}', guests=[{"name": "a", "age": None}])
def check_in(guests: list[Guest]) -> Any:
    return locals()


@case('{"seats": 2, "wait": 0}', seats=2, wait=0)
def reserve(seats: PositiveInt, wait: NonNegativeInt = 0) -> Any:
    return locals()


@case('{"seats": 2, "code": "AB"}', seats=2, code="AB")
def reserve_old(seats: conint(ge=1, le=9), code: constr(min_length=2)) -> Any:  # type: ignore[valid-type]
    return locals()


@case('{"share": "1/3"}', share=Fraction(1, 3))
def split(share: Fraction) -> Any:
    return locals()


@case('{"rate": {"per_cent": 2.5}}', rate=Rate(2.5))
def set_rate(rate: Rate) -> Any:
    return locals()


@case('{"slot": {"at": "2031-05-03T10:00:00", "seats": 4}}', slot=Slot(datetime(2031, 5, 3, 10), 4))
def open_slot(slot: Slot[int]) -> Any:
    return locals()


@case('{"leg": {"to": "LIS", "following": {"to": "OPO"}}}', leg=Leg("LIS", Leg("OPO")))
def fly(leg: Leg) -> Any:
    return locals()


@case('{"rates": {"EUR": 1, "USD": 1.1}}', rates={Currency.EUR: Decimal(1), Currency.USD: Decimal("1.1")})
def set_rates(rates: Mapping[Currency, Decimal]) -> Any:
    return locals()


@case('{"kind": "EUR"}', kind=Currency.EUR, other=None)
def quote(kind: Currency, other: Currency | None = None) -> Any:
    return locals()


@case('{"account": "12345678-1234-5678-1234-567812345678"}', account=UUID("12345678-1234-5678-1234-567812345678"))
def balance(account: UUID, ctx: ToolContext[Any], limits: Parameters | None = None) -> Any:
    return {"account": account}


@case('{"count": 9007199254740993}', count=9007199254740993)
def count_atoms(count: int) -> Any:
    return locals()


@case('{"ratio": 2}', ratio=2.0)
def scale(ratio: float) -> Any:
    return locals()


@case('{"value": "x"}', value="x")
def either(value: int | str) -> Any:
    return locals()


@case('{"value": 7}', value=7)
def either_number(value: int | str) -> Any:
    return locals()


@case('{"payload": "[1, 2]"}', payload=[1, 2])
def parse(payload: Json[list[int]]) -> Any:
    return locals()


@case('{"flag": false}', flag=False, strict=None)
def toggle(flag: bool, strict: bool | None = None) -> Any:
    return locals()


_NOT_GIVEN: Any = object()


@case('{"name": "x"}', name="x", limit=_NOT_GIVEN)
def update(name: str, limit: int | None = _NOT_GIVEN) -> Any:
    return locals()


@case('{"name": "x", "limit": null}', name="x", limit=None)
def update_limit(name: str, limit: int | None = _NOT_GIVEN) -> Any:
    return locals()


class Unset(enum.Enum):
    UNSET = 0


@case("{}", note=Unset.UNSET)
def annotate(note: str | Literal[Unset.UNSET] = Unset.UNSET) -> Any:
    return locals()


@case('{"money": {"amount": 1}}', money=Money(amount=Decimal(1)))
def bound(money: B) -> B:
    return locals()  # type: ignore[return-value]


@case('{"number": 3}', number=3)
def constrained(number: N) -> N:
    return locals()  # type: ignore[return-value]


@dataclasses.dataclass
class Desk:
    """A dataclass with methods."""

    open: bool = True

    def sell(self, sku: str, qty: int = 1) -> Any:
        return {"sku": sku, "qty": qty}


case('{"sku": "a"}', sku="a", qty=1)(Desk().sell)
