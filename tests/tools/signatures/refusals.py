"""Functions that cannot be tools, and what their authors are told."""
# mypy: ignore-errors
# pyright: basic, reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportArgumentType=false, reportMissingImports=false

from __future__ import annotations

import abc
import asyncio
import dataclasses
import enum
import functools
import inspect
import io
import logging
import threading
from collections.abc import Callable, Iterator
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Never,
    NotRequired,
    ParamSpec,
    Protocol,
    Self,
    TypedDict,
)

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from surehand.tools._tool import Parameters, ToolContext

from . import refused

if TYPE_CHECKING:
    from somewhere import Customer

P = ParamSpec("P")


class Database:
    """A class without a schema."""


class Abstract(abc.ABC):
    @abc.abstractmethod
    def act(self) -> None: ...


class Named(Protocol):
    name: str


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    database: Database


@dataclasses.dataclass
class Job:
    name: str
    database: Database


class Loop(BaseModel):
    again: Loop


class StructLoop(msgspec.Struct):
    again: StructLoop


class Ping(BaseModel):
    pong: Pong


class Pong(BaseModel):
    pings: Annotated[list[Ping], Field(min_length=1)]


class Nothing(enum.Enum):
    pass


class Size(enum.Enum):
    SMALL = "s"


def lying(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(other: int) -> Any:
        return function(other)

    return wrapper


def claiming(function: Any) -> Any:
    parameter = inspect.Parameter("claimed", inspect.Parameter.KEYWORD_ONLY, annotation=int)
    function.__signature__ = inspect.Signature([parameter])
    return function


@refused("'*args'", "name each parameter")
def star_args(*args: int) -> None: ...


@refused("'**kwargs'", "name each parameter", "dict")
def star_kwargs(**kwargs: Any) -> None: ...


@refused("'*args'", "name each parameter")
def parameter_specification(*args: P.args, **kwargs: P.kwargs) -> None: ...


@refused("'ctx'", "no type", "ToolContext")
def untyped_context(q: str, ctx=None) -> None: ...


@refused("'customer'", "'Customer'", "import it at run time")
def only_for_checkers(customer: Customer) -> None: ...


@refused("'thing'", "'Unknown'", "define it before the tool")
def unknown_name(thing: list[Unknown]) -> None: ...


@refused("'database'", "Database", "ctx.deps")
def custom_class(database: Database) -> None: ...


@refused("'database'", "Database", "ctx.deps")
def optional_custom_class(q: str, database: Database | None = None) -> None: ...


@refused("'databases'", "Database", "ctx.deps")
def custom_classes(databases: list[Database]) -> None: ...


@refused("'holder'", "Database", "use plain types")
def model_with_custom_class(holder: Holder) -> None: ...


@refused("'job'", "Database", "use plain types")
def dataclass_with_custom_class(job: Job) -> None: ...


@refused("'thing'", "Abstract", "use plain types")
def abstract_class(thing: Abstract) -> None: ...


@refused("'thing'", "Named", "no JSON value is an instance", "ctx.deps")
def protocol(thing: Named) -> None: ...


@refused("'log'", "Logger", "ctx.deps")
def logger(log: logging.Logger) -> None: ...


@refused("'stream'", "StringIO", "ctx.deps")
def stream(stream: io.StringIO) -> None: ...


@refused("'lock'", "ctx.deps")
def lock(lock: asyncio.Lock) -> None: ...


@refused("'callback'", "function", "ctx.deps")
def callback(callback: Callable[[int], None]) -> None: ...


@refused("'key'", "function", "ctx.deps")
def optional_callback(rows: list[int], key: Callable[[int], int] | None = None) -> None: ...


@refused("'kind'", "instance of type", "use plain types")
def any_class(kind: type) -> None: ...


@refused("'kind'", "class", "use plain types")
def some_class(kind: type[int]) -> None: ...


@refused("'rows'", "Iterator", "use plain types")
def iterator(rows: Iterator[int]) -> None: ...


@refused("'value'", "'any'", "typing.Any")
def builtin_any(value: any) -> None: ...


@refused("'value'", "'callable'", "name a type")
def builtin_callable(value: dict[str, callable]) -> None: ...


@refused("'value'", "list[int]")
def list_as_type(value: [int]) -> None: ...


@refused("'value'", "is no type", "list[int]")
def number_as_type(value: 3) -> None: ...


def prose_as_type(value: Any) -> None: ...


prose_as_type.__annotations__["value"] = "a number"
refused("'value'", "not a type", "such as str")(prose_as_type)


@refused("'limit'", "not a type", "such as str")
def final(limit: Final[int]) -> None: ...


@refused("'limit'", "not a type", "such as str")
def class_variable(limit: ClassVar[int]) -> None: ...


@refused("'limit'", "NotRequired", "give it a default")
def not_required(limit: NotRequired[int]) -> None: ...


@refused("'other'", "Self", "name the class")
def self_outside(other: Self) -> None: ...


@refused("'value'", "never be called", "correct its type")
def never(value: Never) -> None: ...


@refused("'value'", "never be called", "correct its type")
def no_members(value: Nothing) -> None: ...


@refused("'value'", "never be called", "correct its type")
def no_literals(value: Literal[()]) -> None: ...


@refused("'value'", "never be called", "bounds")
def contradicting_bounds(value: Annotated[int, Field(gt=5, lt=3)]) -> None: ...


@refused("'value'", "never be called", "bounds")
def no_integer_between(value: Annotated[int, Field(gt=3, lt=4)]) -> None: ...


@refused("'value'", "never be called", "bounds")
def contradicting_lengths(value: Annotated[str, Field(min_length=5, max_length=3)]) -> None: ...


@refused("'value'", "never be called", "bounds")
def contradicting_sizes(value: Annotated[list[int], Field(min_length=2, max_length=1)]) -> None: ...


@refused("'value'", "never be called", "contains itself")
def endless_model(value: Loop) -> None: ...


@refused("'value'", "never be called", "contains itself")
def endless_struct(value: StructLoop) -> None: ...


@refused("'value'", "never be called", "contains itself")
def endless_pair(value: Ping) -> None: ...


@refused("'value'", "never be called")
def tuple_with_never(value: tuple[int, Never]) -> None: ...


@refused("'count'", "'five'", "correct the default")
def wrong_default(count: int = "five") -> None: ...


@refused("'name'", "5", "correct the default")
def number_for_text(name: str = 5) -> None: ...


@refused("'count'", "0", "greater than or equal to 1", "correct the default")
def default_below_its_bound(count: Annotated[int, Field(ge=1)] = 0) -> None: ...


@refused("'count'", "0", "correct the default")
def field_default_below_its_bound(count: int = Field(0, ge=1)) -> None: ...


@refused("'mode'", "'c'", "correct the default")
def default_that_is_no_member(mode: Literal["a", "b"] = "c") -> None: ...


@refused("'size'", "'XL'", "correct the default")
def default_that_is_no_enum(size: Size = "XL") -> None: ...


@refused("'ids'", "{}", "correct the default")
def dict_for_list(ids: list[int] = {}) -> None: ...


@refused("'options'", "cannot be copied", "use None")
def default_that_cannot_be_copied(options: dict[str, Any] = {"lock": threading.Lock()}) -> None: ...


@refused("'ctx'", "takes no default")
def context_with_default(ctx: ToolContext[Any] = 5) -> None: ...


@refused("'ctx'", "alone")
def context_or_text(ctx: ToolContext[Any] | str) -> None: ...


@refused("'bags'", "alone")
def list_of_parameters(bags: list[Parameters]) -> None: ...


@refused("'a' and 'b'", "same alias", "a name of its own")
def two_of_one_name(a: Annotated[int, Field(alias="b")], b: int) -> None: ...


@refused("lying_wrapper", "'other'", "*args and **kwargs")
@lying
def lying_wrapper(a: int, b: int) -> None: ...


@refused("(claimed)", "'real'", "__signature__")
@claiming
def claimed_signature(real: int) -> None: ...


@refused("'ids'", "no hash", "tuple")
@functools.lru_cache
def cached_list(ids: list[int]) -> None: ...


@refused("async", "cache what it gives")
@functools.cache
async def cached_coroutine(n: int) -> None: ...


class Owner:
    def method(self, a: int) -> None: ...


class Keys(TypedDict):
    a: int


refused("not bound", "Owner().method")(Owner.method)
refused("class", "Owner()")(Owner)
refused("built in", "function of your own")(len)
refused("built in", "function of your own")("abc".upper)
refused("built in", "function of your own")(max)
refused("no name", "name=")(lambda: None)
