"""Tools that the model finds when it needs them, instead of being shown all of them (spec 14). No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .._checks import is_async_callable
from .._codec import clean_text
from ..errors import UserError
from ..messages import TextContent, ToolCall, ToolMessage, ToolSpec, require_unique_names
from ._options import ALWAYS_VISIBLE, SEARCH_BEHAVIOR, ToolOptions
from ._tool import Tool, ToolContext, ToolResult
from ._toolset import Toolset, toolset_of

__all__ = [
    "FOUND",
    "SearchResult",
    "ToolSearch",
    "found_in",
    "is_search",
    "search_tools",
    "searchable_toolset",
]

FOUND = "found_tools"
"""The attribute of a search's result that names what was found. Stored with conversations, so it never changes."""

_SEARCHABLE = "SEARCHABLE"


class SearchResult(Struct, frozen=True):
    """What a search found: names of tools, the best first, and what the model reads of it (spec 14.1.1)."""

    names: tuple[str, ...]
    text: str

    def __post_init__(self) -> None:
        names: Any = self.names
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
            raise UserError(f"SearchResult(names={names!r}): expected a list of tools' names")
        force_setattr(self, "names", tuple(cast("list[str]", names)))
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"SearchResult(text={self.text!r}): expected the text that the model reads")


@runtime_checkable
class ToolSearch(Protocol):
    """A way to search for tools, given as ``Agent(tool_search=…)`` (spec 14.1). ``KeywordSearch`` is one.

    It may also offer the awaitable twin ``asearch``, or be ``async`` itself; otherwise it runs on a worker thread in
    the awaitable modes. ``offload = False`` forbids that, ``inline = True`` says that nothing in it blocks.
    """

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The search tools that the model sees: at least one. They must not change while runs go on."""
        ...

    def search(
        self, call: ToolCall, searchable: Sequence[ToolSpec], context: ToolContext[Any], /
    ) -> SearchResult | Awaitable[SearchResult]:
        """What that call finds among these tools, a ``SearchResult``; its arguments are as the model sent them.

        What it raises is treated like an error of any other tool that is safe to repeat: ``ToolError`` and
        ``ToolArgumentsError`` are read by the model.
        """
        ...


def is_search(value: Any) -> bool:
    """Whether it can be searched with."""
    return hasattr(value, "specs") and callable(getattr(value, "search", None)) and not isinstance(value, type)


# ---------------------------------------------------------------- search tools


class _Executor:
    """A search as an executor. Its awaitable form is there only if the search has one."""

    def __init__(self, search: Any) -> None:
        self._search = search
        self.offload = getattr(search, "offload", True)
        self._awaitable: Any = getattr(search, "asearch", search.search if is_async_callable(search.search) else None)
        if self._awaitable is not None:
            self.execute_async = self._execute_async

    def execute(self, call: ToolCall, context: ToolContext[Any]) -> Any:
        return self._search.search(call, _hidden(context), context)

    async def _execute_async(self, call: ToolCall, context: ToolContext[Any]) -> Any:
        return await self._awaitable(call, _hidden(context), context)


def _hidden(context: ToolContext[Any]) -> tuple[ToolSpec, ...]:
    # Asked for each search anew, so that what has been found since is not found again (spec 14.3.2, D-12).
    return () if context.toolset is None else context.toolset.hidden


def search_tools(search: Any) -> tuple[Tool, ...]:
    """The tools with which a model searches; raises ``UserError`` for a search that has none, or two of one name."""
    specs: tuple[Any, ...] = tuple(search.specs)
    if not specs or not all(isinstance(spec, ToolSpec) for spec in specs):
        raise UserError(f"tool_search={search!r}: specs={specs!r}; expected at least one ToolSpec")
    require_unique_names(specs)
    return tuple(_search_tool(search, spec) for spec in specs)


def _search_tool(search: Any, spec: ToolSpec) -> Tool:
    from ._executor import ExecutorBody
    from ._function import build_tool  # loads pydantic
    from ._values import ValueCodec

    # The search reads its arguments itself: what is wrong with them is its own affair (spec 14.5.2).
    body = ExecutorBody(_Executor(search), replace(spec, parameters=None))
    body.encode, body.values = _encoded, ValueCodec(SearchResult)
    return build_tool(spec, body, ToolOptions(repeat="safe", inline=bool(getattr(search, "inline", False))))


def _encoded(found: Any) -> ToolResult:
    if not isinstance(found, SearchResult):
        raise UserError(f"a tool search gave {found!r}; expected a SearchResult")
    return ToolResult((TextContent(clean_text(found.text)),), found, False, {FOUND: list(found.names)})


# ---------------------------------------------------------------- what is shown


def searchable_toolset(tools: Mapping[str, Tool], search: Sequence[Tool]) -> Toolset:
    """These tools, of which the model sees those that are always visible, and the search tools (spec 14.2.1).

    Raises ``UserError`` if a tool has the name of a search tool (spec 14.2.3, D-12).
    """
    clash = next((tool.name for tool in search if tool.name in tools), None)
    if clash is not None:
        raise UserError(f"two tools are named {clash!r}: one of yours and the search tool; give one another name")
    visible = [name for name, tool in tools.items() if _is_always_visible(tool.spec)]
    return toolset_of({**tools, **{tool.name: tool for tool in search}}, (*visible, *(tool.name for tool in search)))


def _is_always_visible(spec: ToolSpec) -> bool:
    behavior = spec.metadata.get(SEARCH_BEHAVIOR, _SEARCHABLE)
    if behavior not in (_SEARCHABLE, ALWAYS_VISIBLE):
        raise UserError(
            f"tool {spec.name!r}: metadata {SEARCH_BEHAVIOR!r} is {behavior!r}; expected {ALWAYS_VISIBLE!r} or "
            f"{_SEARCHABLE!r}"
        )
    return bool(behavior == ALWAYS_VISIBLE)


def found_in(messages: Iterable[object], search: Sequence[Tool]) -> list[str]:
    """The names that searches have found whose results are among these messages, in that order (spec 14.2.1, 14.4.1).

    Only results of search tools count: another tool could otherwise expose hidden ones (spec 14.4.3, D-12).
    """
    own = {tool.name for tool in search}
    results = [message for message in messages if isinstance(message, ToolMessage) and message.tool_name in own]
    return [name for message in results if not message.is_error for name in _names_in(message.attributes)]


def _names_in(attributes: Mapping[str, Any]) -> list[str]:
    names: object = attributes.get(FOUND)
    if not isinstance(names, list | tuple):
        return []
    return [name for name in cast("list[Any]", names) if isinstance(name, str)]
