"""A resumed run's memory: what it has already is not added again (design 5). No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from ._books import Run
from ._effects import Use
from ._reading import read
from .messages import Message, ToolMessage

__all__ = ["catch_up"]


async def catch_up(run: Run) -> None:
    """Before the memory of a resumed run is used: add what it lacks of what this run has said, and correct the rest.

    A process may have died between adding messages and writing that down, or the memory may have died with it. The
    memory itself tells: what it ends with is the latest of this run's messages that it has.
    """
    run.is_behind = False
    if run.memory is None:
        return
    mine: Sequence[Message] = read(run.messages)
    view = list(await Use(run.memory, "messages"))
    have = _how_many([message for message in view if message != run.system], mine)
    run.saved = max(run.saved, have)  # a round that was given up may have been saved already
    corrected = _corrected(view, mine[:have])
    if corrected != view:
        await Use(run.memory, "set", (corrected,))
    if run.system is not None and run.system not in view:
        await Use(run.memory, "add", (run.system,))
    if have < run.saved:
        await Use(run.memory, "add_all", (mine[have : run.saved],))


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
