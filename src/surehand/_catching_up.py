"""A resumed run's memory: what it has already is not added again (design 5). No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ._books import Run
from ._effects import UseMemory
from ._reading import read
from .messages import Message, ToolMessage

__all__ = ["bring_up_to_date"]


async def bring_up_to_date(run: Run) -> None:
    """Add what the memory does not have yet of what this run has said, and correct what it has said otherwise.

    A process may have died between adding messages and writing that down, or the memory may have died with it. The
    memory itself tells: what it ends with is the latest of this run's messages that it has.
    """
    mine: Sequence[Message] = read(run.messages[: run.saved])
    view = list(await UseMemory(run.memory, "messages"))
    have = _how_many([message for message in view if message != run.system], mine)
    corrected = _corrected(view, mine[:have])
    if corrected != view:
        await UseMemory(run.memory, "set", (corrected,))
    if run.system is not None and run.system not in view:
        await UseMemory(run.memory, "add", (run.system,))
    if have < len(mine):
        await UseMemory(run.memory, "add_all", (mine[have:],))


def _how_many(view: Sequence[Message], mine: Sequence[Message]) -> int:
    """How many of these messages the conversation has, whose older ones may have been evicted."""
    for have in range(len(mine), 0, -1):
        overlap = min(have, len(view))
        if overlap and all(map(_same, view[-overlap:], mine[have - overlap : have])):
            return have
    return 0


def _same(held: Message, mine: Message) -> bool:
    if isinstance(held, ToolMessage) and isinstance(mine, ToolMessage):
        return (held.call_id, held.tool_name) == (mine.call_id, mine.tool_name)  # it may have been corrected since
    return held == mine


def _corrected(view: Sequence[Message], mine: Sequence[Message]) -> list[Message]:
    result, place = list(view), len(view)
    for message in reversed(mine):
        place = next((i for i in range(place - 1, -1, -1) if _same(result[i], message)), -1)
        if place < 0:
            break
        result[place] = message
    return result
