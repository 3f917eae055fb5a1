"""Web APIs, messages and search."""

from __future__ import annotations

import enum
import ipaddress
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal, NotRequired, Optional, Union

from annotated_types import Ge, Interval, Le, MinLen
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl, RootModel
from typing_extensions import Doc, TypedDict

from . import case

Method = Literal["GET", "POST", "PUT", "DELETE"]


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Channel(str, enum.Enum):
    EMAIL = "email"
    SMS = "sms"


class Address(BaseModel):
    name: str
    email: str


class Attachment(BaseModel):
    model_config = ConfigDict(extra="forbid")
    file_name: str = Field(alias="fileName")
    content: bytes = b""


class Tags(RootModel[list[str]]):
    pass


class Filter(TypedDict):
    field: str
    op: Literal["=", "<", ">"]
    value: Union[str, int, float, bool]


class Paging(TypedDict, total=False):
    page: int
    per_page: int


class Query(BaseModel):
    text: str
    filters: list[Filter] = []
    paging: Paging = {}


@case('{"url": "https://example.org", "timeout": 5}', url="https://example.org", timeout=5.0)
def fetch(url: str, timeout: float = 30.0) -> Any:
    return locals()


@case('{"url": "https://example.org/a"}', url=HttpUrl("https://example.org/a"))
def fetch_checked(url: HttpUrl) -> Any:
    return locals()


@case('{"link": "ftp://a.b/c"}', link=AnyUrl("ftp://a.b/c"))
def open_link(link: AnyUrl) -> Any:
    return locals()


@case(
    '{"method": "POST", "url": "/x", "headers": {"A": "b"}, "body": {"k": [1, null]}}',
    method="POST", url="/x", headers={"A": "b"}, body={"k": [1, None]}, retries=3,
)  # fmt: skip
def request(
    method: Method,
    url: str,
    headers: dict[str, str] | None = None,
    body: dict[str, Any] | None = None,
    retries: int = 3,
) -> Any:
    return locals()


@case("{}", params=None)
def list_users(params: Optional[dict[str, Union[str, int]]] = None) -> Any:
    return locals()


@case('{"params": {"a": 1, "b": "x"}}', params={"a": 1, "b": "x"})
def list_groups(params: Optional[dict[str, Union[str, int]]] = None) -> Any:
    return locals()


@case('{"q": "cats"}', q="cats", limit=10, safe=True)
async def search(q: str, limit: Annotated[int, Field(ge=1, le=100)] = 10, safe: bool = True) -> Any:
    return locals()


@case('{"q": "cats", "limit": 3}', q="cats", limit=3)
async def image_search(q: Annotated[str, MinLen(1)], limit: Annotated[int, Ge(1), Le(50)]) -> Any:
    return locals()


@case('{"score": 0.5}', score=0.5)
def filter_by_score(score: Annotated[float, Interval(ge=0, le=1)]) -> Any:
    return locals()


@case('{"id": "12345678-1234-5678-1234-567812345678"}', id=uuid.UUID("12345678-1234-5678-1234-567812345678"))
def get_order(id: uuid.UUID) -> Any:
    return locals()


@case(
    '{"to": {"name": "Ann", "email": "a@b.c"}, "cc": [{"name": "Bob", "email": "b@b.c"}]}',
    to=Address(name="Ann", email="a@b.c"), cc=[Address(name="Bob", email="b@b.c")], subject="",
)  # fmt: skip
def send_mail(to: Address, cc: list[Address] = [], subject: str = "") -> Any:
    return locals()


@case('{"file": {"fileName": "a.txt"}}', file=Attachment(fileName="a.txt"))
def attach(file: Attachment) -> Any:
    return locals()


@case('{"tags": ["a", "b"]}', tags=Tags(["a", "b"]))
def label(tags: Tags) -> Any:
    return locals()


@case('{"channel": "sms", "priority": 2}', channel=Channel.SMS, priority=Priority.HIGH)
def notify(channel: Channel, priority: Priority = Priority.LOW) -> Any:
    return locals()


@case('{"channel": "email"}', channel=Channel.EMAIL, priority=Priority.LOW)
def notify_later(channel: Channel, priority: Priority = Priority.LOW) -> Any:
    return locals()


@case(
    '{"query": {"text": "x", "filters": [{"field": "n", "op": "<", "value": 3}], "paging": {"page": 2}}}',
    query=Query(text="x", filters=[{"field": "n", "op": "<", "value": 3}], paging={"page": 2}),
)
def run_query(query: Query) -> Any:
    return locals()


@case('{"page": {"page": 1}}', page={"page": 1})
def list_items(page: Paging | None = None) -> Any:
    return locals()


@case('{"ip": "10.0.0.1"}', ip=ipaddress.IPv4Address("10.0.0.1"))
def whois(ip: ipaddress.IPv4Address) -> Any:
    return locals()


@case('{"ip": "::1"}', ip=ipaddress.IPv6Address("::1"))
def trace(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Any:
    return locals()


@case('{"net": "10.0.0.0/8"}', net=ipaddress.IPv4Network("10.0.0.0/8"))
def scan(net: ipaddress.IPv4Network) -> Any:
    return locals()


@case('{"from_": "LIS", "to": "OPO"}', from_="LIS", to="OPO")
def find_route(from_: str, to: str) -> Any:
    return locals()


@case('{"from": "LIS"}', from_="LIS")
def find_departures(from_: Annotated[str, Field(alias="from")]) -> Any:
    return locals()


@case("{}", from_=None)
def find_arrivals(from_: Annotated[str, Field(alias="from", min_length=3)] = None) -> Any:  # type: ignore[assignment]
    return locals()


@case('{"city": "Rome"}', city="Rome", unit="c")
def get_weather(city: Annotated[str, Doc("Name of the city.")], unit: Literal["c", "f"] = "c") -> Any:
    return locals()


@case('{"lat": 41.9, "lon": 12}', lat=41.9, lon=12.0)
def get_forecast(*, lat: float, lon: float) -> Any:
    return locals()


@case('{"user_id": 7}', user_id=7, field="name")
def get_user(user_id: int, /, field: str = "name") -> Any:
    return locals()


@case('{"ids": [1, 2, 2]}', ids={1, 2})
def delete_users(ids: set[int]) -> Any:
    return locals()


@case('{"names": ["b", "a"]}', names=frozenset({"a", "b"}))
def block(names: frozenset[str]) -> Any:
    return locals()


@case('{"urls": ["a", "b"]}', urls=["a", "b"])
def crawl(urls: Sequence[str]) -> Any:
    return locals()


@case('{"urls": ["a", "b"]}', urls=["a", "b"])
def crawl_lazily(urls: Iterable[str]) -> Any:
    return locals()


@case('{"headers": {"a": "b"}}', headers={"a": "b"})
def set_headers(headers: Mapping[str, str]) -> Any:
    return locals()


@case('{"text": "hi", "meta": {"a": [1, {"b": null}]}}', text="hi", meta={"a": [1, {"b": None}]})
def post_message(text: str, meta: Any = None) -> Any:
    return locals()


@case('{"until": "2031-05-03T10:00:00Z"}', until=datetime(2031, 5, 3, 10, tzinfo=timezone.utc))
def mute(until: datetime) -> Any:
    return locals()


@case('{"duration": "PT90S"}', duration=timedelta(seconds=90))
def snooze(duration: timedelta) -> Any:
    return locals()


@case('{"channel": "#a", "thread": null}', channel="#a", thread=None)
def reply(channel: str, thread: str | None) -> Any:
    return locals()


@case('{"channel": "#a"}', channel="#a", thread=None)
def reply_all(channel: str, thread: Optional[str]) -> Any:
    return locals()


class Draft(TypedDict):
    title: str
    body: NotRequired[str]


@case(
    '{"draft": {"title": "t"}, "drafts": [{"title": "u", "body": "b"}]}',
    draft={"title": "t"}, drafts=[{"title": "u", "body": "b"}],
)  # fmt: skip
def publish(draft: Draft, drafts: list[Draft]) -> Any:
    return locals()


@case('{"a": 1}', a=1, b=None)
def legacy(a: int, b: int = None) -> Any:  # type: ignore[assignment]
    return locals()


@case('{"q": "x", "k": 3}', q="x", k=3)
def vector_search(q, k=5) -> Any:  # type: ignore[no-untyped-def]
    return locals()


@case('{"q": "x"}', q="x", k=5)
def hybrid_search(q, k=5) -> Any:  # type: ignore[no-untyped-def]
    return locals()


@case('{"größe": 3, "名前": "x"}', größe=3, 名前="x")
def create_label(größe: int, 名前: str) -> Any:
    return locals()


@case("{}")
def ping() -> Any:
    return locals()


@case('{"emoji": "thumbs_up", "count": 2}', emoji="thumbs_up", count=2)
async def react(emoji: str, /, *, count: int = 1) -> Any:
    return locals()
