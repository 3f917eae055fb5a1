"""Agents that have other agents among their tools, for crash tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surehand import Agent, MessageWindow, ToolCall, UndoPolicy, tool_provider
from surehand.testing import call, calls, say

from .agents import booking, fail, pay, refuse, slow, slow_once
from .office import FileStore, book, look, replies


def ask(name: str = "travel") -> ToolCall:
    return call(name, {"prompt": "go"})


def _travel(*script: Any, tools: Any = (book, look, fail), **options: Any) -> Agent[Any, Any]:
    return Agent(replies(*script), tools=tools, name="travel", description="Books things.", **options)


def _in_files(folder: Path) -> Any:
    return lambda id: MessageWindow(50, id=id, store=FileStore(folder))


def delegating(folder: Path, **options: Any) -> Agent[Any, Any]:
    """Books something, has an agent book two things, and then again while it books something itself."""
    inner = _travel(booking("b", "c"), calls(call("look", {"what": "d"})), say("Booked."))
    script = replies(booking("a"), calls(ask()), calls(call("book", {"what": "e"}), ask(), ask()), say("Done."))
    return Agent(script, tools=[book, inner], **options)


def side_by_side(folder: Path) -> Agent[Any, Any]:
    return delegating(folder, parallel=True)


def eager(folder: Path) -> Agent[Any, Any]:
    return delegating(folder, parallel=True, early_start="all")


def in_vain(folder: Path) -> Agent[Any, Any]:
    """The agent that it asks books something and gives up, which is undone; it goes on by itself."""
    inner = _travel(booking("b"), calls(call("look", {"what": "d"}), call("fail")))
    return Agent(replies(booking("a"), calls(ask()), booking("c"), say("Done.")), tools=[book, inner])


def provided(folder: Path) -> Agent[Any, Any]:
    """The agent that it asks comes from a provider, and so does what that agent books with; all of it is undone."""
    given = tool_provider(lambda request: [book])
    inner = _travel(booking("b"), calls(call("look", {"what": "d"})), say("Booked."), tools=(look, given))
    script = replies(calls(ask()), calls(call("look", {"what": "a"})), calls(call("fail")))
    return Agent(script, tools=[look, fail, tool_provider(lambda request: [inner], dynamic=True)])


def unlucky(folder: Path) -> Agent[Any, Any]:
    """The agent that it asks has another one book something; then it fails, and all of that is undone."""
    inner = Agent(
        replies(booking("b"), calls(ask()), say("Booked.")),
        tools=[book, _travel(booking("c"), say("Booked."))],
        name="office",
        description="Has things booked.",
        memory=_in_files(folder),
    )
    script = replies(calls(call("book", {"what": "a"}), ask("office")), calls(call("fail")))
    return Agent(script, tools=[book, inner, fail], parallel=True)


def twice(folder: Path) -> Agent[Any, Any]:
    """The agent that it asks twice, at the same time, remembers; then it fails, and all of that is undone."""
    inner = _travel(booking("b"), say("One."), booking("c"), say("Two."), memory=_in_files(folder))
    return Agent(replies(calls(ask(), ask()), calls(call("fail"))), tools=[inner, fail], parallel=True)


def cautious(folder: Path) -> Agent[Any, Any]:
    """What the agent did that it asked is undone because a tool fails; then it has that done again."""
    inner = _travel(booking("b"), say("One."), booking("c"), say("Two."), memory=_in_files(folder))
    script = replies(calls(ask()), calls(call("refuse")), calls(ask()), say("Done."))
    return Agent(script, tools=[inner, refuse], undo=UndoPolicy.ON_TOOL_ERROR)


def patient(folder: Path) -> Agent[Any, Any]:
    """Calls of the agent that it asks time out, once or always."""
    inner = _travel(calls(call("slow_once"), call("slow")), booking("b"), say("Done."), tools=(slow_once, slow, book))
    return Agent(replies(calls(ask()), say("Done.")), tools=[inner])


def paying(folder: Path) -> Agent[Any, Any]:
    """The agent that it asks pays, and if the process dies then, somebody has to tell."""
    inner = _travel(booking("a"), calls(call("pay", {"amount": 1})), say("Paid."), tools=(book, pay))
    return Agent(replies(calls(ask()), say("Done.")), tools=[inner])
