"""Everything that a first run loads and works out, done beforehand, so that forked children need not do it each."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

from ..agent import Agent
from ..durable import MemoryJournal
from ..tools._declare import tool, undoes
from ..tools._tool import ToolContext
from .scripted import ScriptedModel, call, calls, say

__all__ = ["warm_up"]


@tool(repeat="with_key")
def _note(text: str, times: int, context: ToolContext[Any]) -> str:
    """Note something.

    Args:
        text: What.
        times: How often.
    """
    return text * times


@undoes(_note)
def _forget(noted: str) -> None:
    pass


def warm_up() -> None:
    """Run an agent of our own; starts no thread, which a fork would not take along."""
    for module in ("asyncio.runners", "tenacity", "surehand.durable._sqlite"):
        import_module(module)
    asyncio.run(asyncio.sleep(0))
    script = [calls(call("_note", {"text": "a", "times": 2})), say("Noted.")]
    with Agent(ScriptedModel(script), tools=[_note], journal=MemoryJournal()) as agent:
        result = agent.run("Note.", run_id="warm")
        agent.resume(result.run_id)
