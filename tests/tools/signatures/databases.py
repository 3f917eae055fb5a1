"""Databases, stores and queues."""

import collections
import dataclasses
import enum
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Dict, Generic, List, Literal, NamedTuple, Optional, Tuple, TypeVar, Union

import attrs
import msgspec
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, Required, TypedDict, Unpack

from . import case

T = TypeVar("T")
Row = Dict[str, Any]


class Order(enum.Enum):
    ASC = "asc"
    DESC = "desc"


class Column(NamedTuple):
    name: str
    kind: str = "text"


Pair = collections.namedtuple("Pair", "key value")


@dataclasses.dataclass
class Index:
    columns: List[str]
    unique: bool = False
    name: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Key:
    table: str
    id: int


@dataclasses.dataclass(kw_only=True, slots=True)
class Table:
    name: str
    columns: List[Column] = dataclasses.field(default_factory=list)
    indexes: "list[Index]" = dataclasses.field(default_factory=list)
    created: "int" = dataclasses.field(default=0, init=False)


@dataclasses.dataclass
class Base:
    id: int


@dataclasses.dataclass
class Customer(Base):
    name: str
    born: Optional[date] = None


@dataclasses.dataclass
class Secret:
    shown: str
    seed: dataclasses.InitVar[int]
    mixed: int = dataclasses.field(init=False, default=0)

    def __post_init__(self, seed: int) -> None:
        self.mixed = seed * 2


class Page(BaseModel, Generic[T]):
    items: List[T]
    next: Optional[str] = None


class Item(BaseModel):
    sku: str
    qty: int = Field(1, ge=1)


class Document(msgspec.Struct):
    id: str
    body: Dict[str, Any] = {}
    tags: List[str] = []


class Event(msgspec.Struct, rename="camel", kw_only=True):
    event_name: str
    happened_at: datetime
    retry_count: Annotated[int, msgspec.Meta(ge=0, le=5)] = 0


class Put(msgspec.Struct, tag="put"):
    key: str
    value: int


class Drop(msgspec.Struct, tag="drop"):
    key: str


class Batch(msgspec.Struct, Generic[T]):
    rows: List[T]


class Tree(msgspec.Struct):
    name: str
    children: "List[Tree]" = []


class Patch(msgspec.Struct):
    title: Union[str, None, msgspec.UnsetType] = msgspec.UNSET


@attrs.define
class Lock:
    name: str
    _owner: str = "me"
    seconds: int = attrs.field(default=30, validator=attrs.validators.gt(0))
    holders: List[str] = attrs.field(factory=list)
    taken: bool = attrs.field(default=False, init=False)


@attrs.frozen(kw_only=True)
class Lease:
    lock: Lock
    until: date


def _lower(value: str) -> List[str]:
    return value.lower().split(",")


@attrs.define
class Projection:
    fields: List[str] = attrs.field(converter=_lower)


@case('{"sql": "select 1"}', sql="select 1", parameters=[])
def execute(sql: str, parameters: List[Any] = []) -> Any:
    return locals()


@case('{"sql": "select ?", "parameters": [1, "x", null]}', sql="select ?", parameters=(1, "x", None))
def execute_tuple(sql: str, parameters: Tuple[Any, ...] = ()) -> Any:
    return locals()


@case('{"table": "t", "row": {"a": 1}}', table="t", row={"a": 1})
def insert(table: str, row: Row) -> Any:
    return locals()


@case('{"rows": [{"a": 1}, {}]}', rows=[{"a": 1}, {}])
def insert_many(rows: List[Row]) -> Any:
    return locals()


@case('{"order_by": [["a", "asc"], ["b", "desc"]]}', order_by=[("a", Order.ASC), ("b", Order.DESC)])
def select(order_by: List[Tuple[str, Order]]) -> Any:
    return locals()


@case('{"columns": [{"name": "a"}, {"name": "b", "kind": "int"}]}', columns=[Column("a"), Column("b", "int")])
def create(columns: List[Column]) -> Any:
    return locals()


@case('{"pair": {"key": "k", "value": 3}}', pair=Pair("k", 3))
def put_pair(pair: Pair) -> Any:
    return locals()


@case('{"index": {"columns": ["a"]}}', index=Index(["a"]))
def create_index(index: Index) -> Any:
    return locals()


@case('{"index": {"columns": ["a"], "unique": true}, "old": null}', index=Index(["a"], True), old=None)
def replace_index(index: Index, old: Optional[Index] = None) -> Any:
    return locals()


@case('{"key": {"table": "t", "id": 4}}', key=Key("t", 4))
def get(key: Key) -> Any:
    return locals()


@case("{}", key=Key("t", 0))
def get_default(key: Key = Key("t", 0)) -> Any:
    return locals()


@case(
    '{"table": {"name": "t", "columns": [{"name": "a"}], "indexes": [{"columns": ["a"]}]}}',
    table=Table(name="t", columns=[Column("a")], indexes=[Index(["a"])]),
)
def create_table(table: Table) -> Any:
    return locals()


@case('{"who": {"id": 1, "name": "Ann", "born": "1990-02-03"}}', who=Customer(1, "Ann", date(1990, 2, 3)))
def add_customer(who: Customer) -> Any:
    return locals()


@case('{"amounts": {"2031-01-02": 1.25}}', amounts={date(2031, 1, 2): Decimal("1.25")})
def store_amounts(amounts: Dict[date, Decimal]) -> Any:
    return locals()


@case('{"counts": {"1": "a"}}', counts={1: "a"})
def store_counts(counts: Dict[int, str]) -> Any:
    return locals()


@case('{"by": {"asc": 1}}', by={Order.ASC: 1})
def store_by_order(by: Dict[Order, int]) -> Any:
    return locals()


@case('{"page": {"items": [{"sku": "a"}]}}', page=Page[Item](items=[Item(sku="a", qty=1)]))
def save_page(page: Page[Item]) -> Any:
    return locals()


@case('{"doc": {"id": "x", "tags": ["a"]}}', doc=Document("x", {}, ["a"]))
def index_document(doc: Document) -> Any:
    return locals()


@case('{"docs": [{"id": "x"}]}', docs=[Document("x")])
def index_documents(docs: List[Document]) -> Any:
    return locals()


@case(
    '{"event": {"eventName": "e", "happenedAt": "2031-01-02T03:04:05", "retryCount": 2}}',
    event=Event(event_name="e", happened_at=datetime(2031, 1, 2, 3, 4, 5), retry_count=2),
)
def record(event: Event) -> Any:
    return locals()


@case('{"change": {"type": "put", "key": "k", "value": 1}}', change=Put("k", 1))
def apply(change: Union[Put, Drop]) -> Any:
    return locals()


@case('{"changes": [{"type": "drop", "key": "k"}]}', changes=[Drop("k")])
def apply_all(changes: List[Union[Put, Drop]]) -> Any:
    return locals()


@case('{"batch": {"rows": [1, 2]}}', batch=Batch([1, 2]))
def load(batch: Batch[int]) -> Any:
    return locals()


@case('{"batches": [{"rows": [{"id": "x"}]}]}', batches=[Batch([Document("x")])])
def load_documents(batches: List[Batch[Document]]) -> Any:
    return locals()


@case('{"tree": {"name": "a", "children": [{"name": "b"}]}}', tree=Tree("a", [Tree("b")]))
def store_tree(tree: Tree) -> Any:
    return locals()


@case('{"patch": {}, "clear": {"title": null}}', patch=Patch(), clear=Patch(None))
def patch(patch: Patch, clear: Patch) -> Any:
    return locals()


@case('{"lock": {"name": "l", "owner": "you"}}', lock=Lock("l", "you"))
def acquire(lock: Lock) -> Any:
    return locals()


@case('{"lease": {"lock": {"name": "l"}, "until": "2031-01-02"}}', lease=Lease(lock=Lock("l"), until=date(2031, 1, 2)))
def extend(lease: Lease) -> Any:
    return locals()


@case('{"projection": {"fields": "A,B"}}', projection=Projection("a,b"))
def project(projection: Projection) -> Any:
    return locals()


class Options(TypedDict, total=False):
    limit: Required[int]
    offset: int
    order: NotRequired[Literal["asc", "desc"]]


def _scan(table: str, options: Dict[str, Any]) -> Any:
    return {"table": table, **options}


@case('{"table": "t", "limit": 3, "order": "asc"}', table="t", limit=3, order="asc")
def scan(table: str, **options: Unpack[Options]) -> Any:
    return _scan(table, dict(options))


@case('{"queue": "q", "count": 2}', queue="q", count=2)
def receive(queue: str, count: int = Field(default=1, ge=1, le=10, description="How many.")) -> Any:
    return locals()


@case('{"queue": "q"}', queue="q", count=1)
def receive_one(queue: str, count: int = Field(default=1, ge=1, le=10)) -> Any:
    return locals()


@case("{}", names=[])
def purge(names: List[str] = Field(default_factory=list)) -> Any:
    return locals()


@case('{"entries": [1, 2]}', entries=collections.deque([1, 2]))
def push(entries: collections.deque[int]) -> Any:
    return locals()


@case('{"totals": {"a": 2}}', totals=collections.Counter({"a": 2}))
def tally(totals: collections.Counter[str]) -> Any:
    return locals()


@case('{"groups": {"a": [1]}}', groups=collections.defaultdict(list, {"a": [1]}))
def regroup(groups: collections.defaultdict[str, list[int]]) -> Any:
    return locals()


@case('{"steps": {"b": 1, "a": 2}}', steps=collections.OrderedDict(b=1, a=2))
def run_steps(steps: collections.OrderedDict[str, int]) -> Any:
    return locals()
