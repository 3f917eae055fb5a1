"""Agents that are tools of other agents: what the tests of them have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from surehand import Agent, Event, ToolCall
from surehand.testing import ScriptedModel, call

from .modes import PIECES, scripted


def travel(*replies: Any, **options: Any) -> Agent[Any, Any]:
    """An agent that another one may ask, by the name ``travel``; its clock stands still."""
    named: dict[str, Any] = {"name": "travel", "description": "Books trips.", **options}
    return scripted(ScriptedModel(replies), **named)


def to(name: str = "travel", prompt: str = "Book", id: str | None = "t") -> ToolCall:
    """A call that asks that agent."""
    return call(name, {"prompt": prompt}, id=id)


def requests(agent: Agent[Any, Any]) -> int:
    """How often its model was asked."""
    return len(agent._model.requests)  # type: ignore[attr-defined]


def named(events: Iterable[Event]) -> list[str]:
    """The events by path and type, without the pieces that only streams have."""
    return [f"{event.path} {type(event).__name__}".strip() for event in events if not isinstance(event, PIECES)]
