"""An agent as a tool of another: what the other one's model is told of it, and how its run is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec.structs import replace

from .budgets import Amount, Budget, RepeatedCalls
from .errors import UserError
from .tools._tool import ReturnBehavior, Tool

if TYPE_CHECKING:
    from ._books import Run
    from .agent import Agent
    from .models import ChatModel

__all__ = ["AgentToolOptions", "Nested", "agent_tool"]


class AgentToolOptions(TypedDict, total=False):
    """What ``Agent.as_tool`` takes besides name and description: options of ``@tool``."""

    metadata: dict[str, Any]
    returns: ReturnBehavior
    exclusive: bool
    max_parallel: int | None
    max_result: int | None
    authorise: Any
    limits: Budget | None
    soft_limits: Budget | None
    cost: Amount
    repeated_calls: RepeatedCalls | None


class Nested:
    """Opens the run of an agent that another one calls."""

    def __init__(self, agent: Agent[Any, Any]) -> None:
        self.agent = agent

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Its own tools, by name."""
        return self.agent.service.settings.toolset.tools

    def open(self, run: Run, key: str, prompt: str) -> tuple[Run, ChatModel]:
        """The run that call ``key`` of that run is, and the model that it asks."""
        return self.agent._part(run, key, prompt)  # pyright: ignore[reportPrivateUsage]  # nobody else may


def agent_tool(
    agent: Agent[Any, Any],
    name: str | None,
    description: str | None,
    options: AgentToolOptions,
    *,
    remembers: bool,
) -> Tool:
    """The tool that runs this agent; raises ``UserError`` without a name and a description, or for an unfit option.

    ``remembers``: whether the agent has a memory. Its calls take turns then, unless they are told to do otherwise: two
    that speak in one conversation at the same time would mix it up.
    """
    known = AgentToolOptions.__annotations__
    for option in options:
        if option not in known:
            raise UserError(f"agent {name!r} as a tool has no option {option!r}; the options are {sorted(known)!r}")
    for what, given in (("name", name), ("description", description)):
        if not (given or "").strip():
            raise UserError(
                f"an agent that is a tool needs a {what}, which is what the other agent's model goes by: give "
                f"Agent(…, {what}='…') or agent.as_tool({what}='…')"
            )
    from .tools._function import function_tool  # loads pydantic
    from .tools._options import check_options

    turns: dict[str, Any] = {"max_parallel": 1} if remembers else {}
    given_options = check_options({"name": name, "description": description, **turns, **options}, f"agent {name!r}")
    return replace(function_tool(_asking(agent.output_type), given_options), nested=Nested(agent))


def _asking(output: Any) -> Callable[[str], Any]:
    """The function that tells what the model fills in and what it gets; the engine runs the agent instead of it."""

    def ask(prompt: str) -> Any:
        """Ask the agent.

        Args:
            prompt: What the agent shall do or answer, with everything that it needs to know.
        """
        raise AssertionError(prompt)

    ask.__annotations__["return"] = output  # so that what it answers is stored, and had back, as what it is
    return ask
