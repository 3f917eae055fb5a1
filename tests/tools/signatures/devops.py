"""Machine learning, deployments, and functions that decorators have changed."""

from __future__ import annotations

import functools
import inspect
import ipaddress
import typing
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping, MutableSequence
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, overload

import attrs
import msgspec
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, RootModel, field_validator
from pydantic_core import core_schema
from typing_extensions import TypeAliasType

from . import case

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | int | float | bool | None")
Port = TypeAliasType("Port", Annotated[int, Field(ge=1, le=65535)])
MaybeText = TypeAliasType("MaybeText", str | None)
Vector = list[float]
Matrix = list[Vector]


class Version:
    """A type of the user's own, with a schema."""

    def __init__(self, text: str) -> None:
        self.parts = tuple(int(part) for part in text.split("."))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and other.parts == self.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema())


class Image(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    name: str = Field(validation_alias=AliasChoices("image", "name"))
    tag: str = "latest"


class Env(RootModel[dict[str, str]]):
    pass


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    port: int = 80


class Http(msgspec.Struct, tag_field="kind", tag="http"):
    probe: Probe


class Tcp(msgspec.Struct, tag_field="kind", tag="tcp"):
    port: int


@attrs.define
class Node(Generic[T]):
    value: T
    nodes: list[Node[T]] = attrs.field(factory=list)


class Service(BaseModel):
    name: str
    ports: list[int] = []
    depends_on: list[Service] = []

    @field_validator("name")
    @classmethod
    def _short(cls, value: str) -> str:
        return value.strip()


def logged(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


def retried(times: int) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Awaitable[R]]]:
    def around(function: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        @functools.wraps(function)
        async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            return await function(*args, **kwargs)

        return wrapper

    return around


def by_position(function: Callable[..., R]) -> Callable[..., R]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> R:
        return function(*args)

    return wrapper


def with_session(function: Callable[..., R]) -> Callable[..., R]:
    """Fills the first parameter, and says so."""

    def wrapper(*args: Any, **kwargs: Any) -> R:
        return function("session", *args, **kwargs)

    shown = inspect.signature(function)
    wrapper.__signature__ = shown.replace(parameters=list(shown.parameters.values())[1:])  # type: ignore[attr-defined]
    wrapper.__name__ = function.__name__
    return wrapper


@case('{"vector": [1, 2.5]}', vector=[1.0, 2.5], k=10)
def nearest(vector: Vector, k: int = 10) -> Any:
    return locals()


@case('{"matrix": [[1, 0], [0, 1]]}', matrix=[[1.0, 0.0], [0.0, 1.0]])
def invert(matrix: Matrix) -> Any:
    return locals()


@case('{"payload": {"a": [1, null, {"b": true}]}}', payload={"a": [1, None, {"b": True}]})
def publish(payload: Json) -> Any:
    return locals()


@case('{"port": 80, "note": null}', port=80, note=None)
def expose(port: Port, note: MaybeText) -> Any:
    return locals()


@case('{"port": 80}', port=80, note=None)
def expose_quietly(port: Port, note: MaybeText) -> Any:
    return locals()


@case('{"version": "1.2"}', version=Version("1.2"))
def deploy(version: Version) -> Any:
    return locals()


@case('{"versions": {"a": "1.2"}}', versions={"a": Version("1.2")})
def deploy_all(versions: dict[str, Version]) -> Any:
    return locals()


@case('{"image": {"image": "web"}}', image=Image(name="web"))
def pull(image: Image) -> Any:
    return locals()


@case('{"env": {"A": "b"}}', env=Env({"A": "b"}))
def set_env(env: Env) -> Any:
    return locals()


@case('{"check": {"kind": "http", "probe": {"path": "/"}}}', check=Http(Probe("/")))
def watch(check: Http | Tcp) -> Any:
    return locals()


@case('{"checks": {"a": {"kind": "tcp", "port": 1}}}', checks={"a": Tcp(1)})
def watch_all(checks: dict[str, Http | Tcp]) -> Any:
    return locals()


@case("{}", check=None)
def watch_nothing(check: Http | Tcp | None = None) -> Any:
    return locals()


@case("{}", probe=Probe("/"))
def ping(probe: Probe = Probe("/")) -> Any:
    return locals()


@case('{"node": {"value": "a", "nodes": [{"value": "b"}]}}', node=Node("a", [Node("b")]))
def grow(node: Node[str]) -> Any:
    return locals()


@case(
    '{"service": {"name": " web ", "depends_on": [{"name": "db", "ports": [5432]}]}}',
    service=Service(name="web", depends_on=[Service(name="db", ports=[5432])]),
)
def up(service: Service) -> Any:
    return locals()


@case('{"hosts": ["10.0.0.1", "::1"]}', hosts=[ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("::1")])
def drain(hosts: list[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Any:
    return locals()


@case('{"items": [1, 2]}', items=[1, 2])
def append(items: MutableSequence[int]) -> Any:
    return locals()


@case('{"values": {"a": 1}}', values={"a": 1})
def merge(values: MutableMapping[str, int]) -> Any:
    return locals()


@case('{"level": "info"}', level="info")
def log(level: Literal["debug", "info"] | None = None) -> Any:
    return locals()


@case('{"level": 2}', level=2)
def log_number(level: Literal[1, 2, "off"]) -> Any:
    return locals()


@case('{"data": {"x": 1}}', data={"x": 1})
def train(data: dict) -> Any:  # type: ignore[type-arg]
    return locals()


@case('{"data": [1, "x"]}', data=[1, "x"])
def train_more(data: list) -> Any:  # type: ignore[type-arg]
    return locals()


@case('{"data": [1, "x"], "names": ["a"]}', data=(1, "x"), names={"a"})
def train_most(data: tuple, names: set) -> Any:  # type: ignore[type-arg]
    return locals()


@case('{"a": 1, "b": 2}', a=1, b=2)
@logged
def logged_tool(a: int, b: int = 3) -> Any:
    return locals()


@case('{"a": 1}', a=1)
@logged
@logged
def logged_twice(a: int) -> Any:
    return locals()


@case('{"a": 1}', a=1)
@retried(3)
async def retried_tool(a: int) -> Any:
    return locals()


@case('{"b": 2, "a": 1}', a=1, b=2)
@by_position
def positional_tool(a: int, b: int) -> Any:
    return locals()


@case('{"query": "q"}', query="q")
@with_session
def session_tool(session: str, query: str) -> Any:
    return {"query": query} if session == "session" else {}


@case('{"n": 3}', n=3)
@functools.lru_cache(maxsize=10)
def cached_tool(n: int) -> Any:
    return locals()


@case('{"n": 3}', n=3, tags=("a",))
@functools.cache
def cached_tags(n: int, tags: tuple[str, ...] = ("a",)) -> Any:
    return locals()


@case('{"value": 3}', value=3)
@functools.singledispatch
def dispatched(value: object) -> Any:
    return {}


@dispatched.register
def _(value: int) -> Any:
    return {"value": value}


@overload
def double(value: int) -> int: ...
@overload
def double(value: str) -> str: ...
@case('{"value": "a"}', value="a")
def double(value: int | str) -> Any:
    return locals()


def _scale(image: str, width: int, height: int = 10, secret: str = "s") -> Any:
    return {"image": image, "width": width, "height": height}


class Cluster(Generic[T]):
    """Methods that stand for something else."""

    def resize(self, count: int, force: bool = False) -> Any:
        return {"count": count}

    grow = functools.partialmethod(resize, force=True)

    def place(self, item: T, others: list[T]) -> Any:
        return {"item": item, "others": others}

    @logged
    def remove(self, name: str) -> Any:
        return {"name": name}

    @functools.singledispatchmethod
    def describe(self, what: object) -> Any:
        return {}

    @describe.register
    def _(self, what: str) -> Any:
        return {"what": what}


class Rack(Cluster[int]):
    pass


class AsyncTool:
    async def __call__(self, q: str, *, top: int = 3) -> Any:
        return {"q": q, "top": top}


class StaticTool:
    @staticmethod
    def __call__(q: str) -> Any:
        return {"q": q}


case('{"image": "a", "width": 2}', image="a", width=2, height=10)(functools.partial(_scale, secret="x"))
case('{"height": 3}', height=3)(functools.partial(_scale, "a", 1, secret="x"))
case('{"count": 2}', count=2)(Cluster[int]().grow)
case('{"count": 2}', count=2)(functools.partial(Cluster[int]().resize, force=True))
case('{"item": 3, "others": [4]}', item=3, others=[4])(Rack().place)
case('{"item": 3, "others": []}', item=3, others=[])(Cluster[int]().place)
case('{"name": "a"}', name="a")(Cluster[int]().remove)
case('{"what": "a"}', what="a")(Cluster[int]().describe)
case('{"q": "a"}', q="a", top=3)(AsyncTool())
case('{"q": "a"}', q="a")(StaticTool())


@case('{"rows": [[1, "a"], [2, "b"]]}', rows=[(1, "a"), (2, "b")])
def load_rows(rows: Iterable[tuple[int, str]]) -> Any:
    return {"rows": list(rows)}


@case('{"text": "a"}', text="a")
def typed_text(text: typing.Text) -> Generator[int, None, None] | Any:
    return locals()
