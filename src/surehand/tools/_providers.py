"""Where tools come from while runs go on: providers, and the tools made of what they give (spec 6.3)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, cast, overload, runtime_checkable

from msgspec import Struct
from typing_extensions import TypeVar

from .._checks import misfit
from ..errors import UserError
from ..messages import Message, UserMessage
from ._context import Parameters
from ._tool import Tool

__all__ = ["ProviderRequest", "Source", "ToolProvider", "is_provider", "source_of", "tool_provider"]

_log = logging.getLogger("surehand")

DepsT = TypeVar("DepsT", default=Any)


class ProviderRequest(Struct, Generic[DepsT], frozen=True, kw_only=True, eq=False):
    """What a provider is told of the run that asks it (spec 6.3.1).

    ``user_message`` is what the run was asked. ``messages`` are those that the model is about to read; while a resumed
    run looks up a tool that its journal names, those that this run has said so far.
    """

    run_id: str
    memory_id: Any
    user_message: UserMessage
    messages: tuple[Message, ...]
    parameters: Parameters
    deps: DepsT


Provided: TypeAlias = Iterable[Any] | Awaitable[Iterable[Any] | None] | None
"""What a provider gives: tools, in whatever form ``tools=`` takes them, or nothing."""


@runtime_checkable
class ToolProvider(Protocol):
    """Gives tools to runs; stands in ``tools=[…]`` like a tool (spec 6.3).

    It is asked once per run, before the first request, or with ``dynamic = True`` before every request. Whatever it
    has given stays for the rest of the run.

    A provider may also offer the awaitable twin ``aprovide``, which the awaitable modes prefer; without it a blocking
    ``provide`` is called on a worker thread there. ``offload = False`` forbids that, ``inline = True`` says that
    nothing in it blocks. What it raises gives the run up.
    """

    def provide(self, request: ProviderRequest[Any], /) -> Provided:
        """The tools for that run: anything that ``tools=`` takes, except providers. ``None`` is none; may be async."""
        ...


Providing: TypeAlias = Callable[[ProviderRequest[Any]], Provided]
"""A function that gives tools."""


class _Function:
    """A function as a provider."""

    def __init__(self, function: Providing, dynamic: bool) -> None:
        self.provide = function
        self.dynamic = dynamic
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __repr__(self) -> str:
        return f"tool_provider({self.__name__})"


@overload
def tool_provider(function: Providing, /, *, dynamic: bool = False) -> ToolProvider: ...


@overload
def tool_provider(function: None = None, /, *, dynamic: bool = False) -> Callable[[Providing], ToolProvider]: ...


def tool_provider(function: Providing | None = None, /, *, dynamic: bool = False) -> Any:
    """A provider from a function of one ``ProviderRequest``, plain or async; also as a decorator::

        @tool_provider(dynamic=True)
        def tools_of_the_day(request: ProviderRequest) -> list[Any]: ...

    ``dynamic``: asked before every request, instead of once per run. Raises ``UserError`` for what is no such function.
    """
    if function is None:
        return partial(tool_provider, dynamic=dynamic)
    made = _Function(function, dynamic)
    _check(made)
    return made


# ---------------------------------------------------------------- recognised and checked


def is_provider(entry: object) -> bool:
    """Whether it is meant as a provider: by what is really there, since some objects answer to every name."""
    return any(_has(entry, name) for name in ("provide", "aprovide")) and not isinstance(entry, type)


def _has(entry: object, name: str) -> bool:
    return inspect.getattr_static(entry, name, None) is not None and callable(getattr(entry, name))


def source_of(provider: Any) -> Source:
    """The provider, checked; raises ``UserError`` for one that cannot be asked."""
    _check(provider)
    return Source(provider)


def _check(provider: Any) -> None:
    name = name_of(provider)
    if not _has(provider, "provide"):
        raise UserError(f"tool provider {name} has aprovide and no provide; `async def provide` works in every mode")
    for operation in ("provide", "aprovide"):
        form = getattr(provider, operation, None)
        expected = None if form is None else misfit(form, "request")
        if expected is not None:
            raise UserError(f"tool provider {name}: {operation}={form!r}; expected {expected}")
        if inspect.isasyncgenfunction(form):
            raise UserError(f"tool provider {name}: {operation} is an async generator; give a list of tools instead")
    dynamic: object = getattr(provider, "dynamic", False)
    if not isinstance(dynamic, bool):
        raise UserError(
            f"tool provider {name}: dynamic={dynamic!r}; expected True (asked before every request) or False"
        )


def name_of(provider: Any) -> str:
    """What the provider is called in messages."""
    return repr(getattr(provider, "__name__", None) or type(provider).__name__)


# ---------------------------------------------------------------- what it gives


class Source:
    """A provider, and the tools made of what it gave last: making them anew for every request would cost too much."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider
        self.name = name_of(provider)
        self.dynamic: bool = getattr(provider, "dynamic", False)
        self._last: tuple[tuple[Any, ...], Sequence[Tool]] = ((), ())

    def made_before(self, given: Any) -> Sequence[Tool] | None:
        """The tools of exactly these objects, if they are those of last time."""
        if not isinstance(given, list | tuple):
            return None
        objects: Sequence[Any] = cast("Sequence[Any]", given)
        last, tools = self._last  # read once: other runs write it
        return tools if len(objects) == len(last) and all(map(_same, objects, last)) else None

    def made(self, given: Any) -> Sequence[Tool]:
        """The tools of what the provider gave; raises ``UserError`` for what is none, naming the provider."""
        if not _is_list(given):
            raise UserError(f"tool provider {self.name} gave {given!r}; expected a list of tools, or None")
        objects = tuple(given)
        try:
            tools = self.tools_of(objects)
        except UserError as error:
            raise UserError(f"tool provider {self.name}: {error}") from error
        self._last = (objects, tools)
        return tools

    def tools_of(self, objects: tuple[Any, ...]) -> Sequence[Tool]:
        """The tools in these objects."""
        from ._collect import collect_tools  # which knows providers

        return collect_tools(objects)

    def added_to(self, known: Mapping[str, Tool], tools: Iterable[Tool]) -> Mapping[str, Tool]:
        """What it gives besides the tools that are known (spec 6.3.4).

        A name that is known stays what it is if the provider is dynamic; otherwise it is a ``UserError``.
        """
        fresh: dict[str, Tool] = {}
        for tool in tools:
            if tool.name not in known:
                fresh[tool.name] = tool
            elif not self.dynamic:
                raise UserError(
                    f"tool provider {self.name} gives a tool named {tool.name!r}, and there is one of that name "
                    "already; give one of them another name"
                )
            elif known[tool.name] is not tool:
                _log.debug("tool provider %s gives %r, which is there already: the first stays", self.name, tool.name)
        return fresh


def _is_list(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)


def _same(one: Any, other: Any) -> bool:
    # A bound method is made anew each time that it is looked up.
    return one is other or (inspect.ismethod(one) and inspect.ismethod(other) and _parts(one) == _parts(other))


def _parts(method: Any) -> tuple[int, int]:
    return id(method.__func__), id(method.__self__)
