"""The tools of a run at one moment: what can be called, and what the model is shown of it (spec 6.4). Pure values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..messages import ToolSpec
from ._tool import ReturnBehavior, Tool

__all__ = ["NO_TOOLS", "Toolset", "has_budget", "toolset_of"]


class Toolset(Struct, frozen=True, kw_only=True, eq=False):
    """What can be called in a run now, and what the model sees. A change makes another one (spec 6.4.2).

    ``tools``: by name, everything that can be called, also what the model has not been shown. ``shown``: their names,
    in the order in which the model sees them. ``specs``: the specifications of those.
    """

    tools: Mapping[str, Tool]
    shown: Sequence[str]
    specs: tuple[ToolSpec, ...]
    may_end_early: bool  # whether any tool can end a run without the model
    has_budgets: bool  # whether anything is counted of any tool

    @property
    def hidden(self) -> tuple[ToolSpec, ...]:
        """The specifications of the tools that the model does not see, in the order of registration."""
        shown = set(self.shown)
        return tuple(tool.spec for name, tool in self.tools.items() if name not in shown)

    def returns(self, name: str) -> ReturnBehavior:
        """What happens after a round with that tool; a name that is unknown goes to the model (spec 3.7.1)."""
        tool = self.tools.get(name)
        return ReturnBehavior.TO_MODEL if tool is None else tool.returns

    def with_more(self, more: Iterable[Tool]) -> Toolset:
        """With these besides; the same object if there are none.

        Nothing is ever removed or replaced: a name that is known stays what it is (spec 6.5.3).
        """
        fresh = {tool.name: tool for tool in more if tool.name not in self.tools}
        if not fresh:
            return self
        return toolset_of({**self.tools, **fresh}, (*self.shown, *fresh))

    def showing(self, names: Iterable[str]) -> Toolset:
        """With these names shown besides, in that order; those that no tool has are left out."""
        fresh = [name for name in dict.fromkeys(names) if name in self.tools and name not in self.shown]
        return toolset_of(self.tools, (*self.shown, *fresh)) if fresh else self


def has_budget(tool: Tool) -> bool:
    """Whether anything is counted of that tool."""
    return tool.limits is not None or tool.soft_limits is not None or bool(tool.cost)


def toolset_of(tools: Mapping[str, Tool], shown: Iterable[str] | None = None) -> Toolset:
    """These tools, all of which the model sees, or those whose names are given."""
    names = tuple(tools if shown is None else shown)
    return Toolset(
        tools=tools,
        shown=names,
        specs=tuple(tools[name].spec for name in names),
        may_end_early=any(tool.returns is not ReturnBehavior.TO_MODEL for tool in tools.values()),
        has_budgets=any(map(has_budget, tools.values())),
    )


NO_TOOLS = toolset_of({})
"""For agents without tools: the shared empty one (spec 6.4.1)."""
