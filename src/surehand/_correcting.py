"""What the model reads of calls that were undone: the truth (spec 11.5). No I/O of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._books import Run
from ._catching_up import catch_up
from ._effects import Use
from ._limits import lineage
from ._reading import read
from .messages import Message, TextContent, ToolMessage
from .tools._tool import ToolExecution

__all__ = ["correct"]


async def correct(run: Run, undone: Sequence[ToolExecution[Any]], why: str) -> None:
    """Rewrite what is read of these calls, and of the agents that made them, in messages and memories."""
    whole = lineage(run)[-1]
    for path, texts in _by_path(undone, why).items():
        owner = whole.owner(f"{path}/" if path else "")
        if owner is not None:
            await _correct(owner, texts, is_told=run.replays)


def _by_path(undone: Iterable[ToolExecution[Any]], why: str) -> dict[str, dict[str, str]]:
    """New texts by the key of the call, for each run by its path: that of the call, and of every agent above it."""
    texts: dict[str, dict[str, str]] = {}
    of_agents: dict[str, list[ToolExecution[Any]]] = {}
    for execution in undone:
        texts.setdefault(execution.key.rpartition("/")[0], {})[execution.key] = _truth(execution, why)
        for key in _callers(execution.key):
            of_agents.setdefault(key, []).append(execution)
    for key, executions in of_agents.items():
        texts.setdefault(key.rpartition("/")[0], {})[key] = _truth_of_agent(executions, why)
    return texts


def _callers(key: str) -> Iterator[str]:
    """The keys of the calls that this one is part of: of ``3.0/2.0/1.0`` they are ``3.0/2.0`` and ``3.0``."""
    while "/" in key:
        key = key.rpartition("/")[0]
        yield key


async def _correct(run: Run, texts: Mapping[str, str], *, is_told: bool) -> None:
    changes: list[tuple[Message, Message]] = []
    for key in sorted(texts, key=lambda key: run.places.get(key, -1)):
        place = run.places.get(key)
        if place is None:
            continue
        (old,) = read([run.messages[place]])
        assert isinstance(old, ToolMessage)
        new = ToolMessage(old.call_id, old.tool_name, (TextContent(texts[key]),), True, old.attributes)
        run.messages[place] = new
        if place < run.saved:
            changes.append((old, new))
    if changes and run.memory is not None and not is_told:
        if run.is_behind and not run.is_over:  # what an agent said that has answered is there, with others' words after
            await catch_up(run)
        view = await Use(run.memory, "messages")
        await Use(run.memory, "set", (_replaced_from_the_end(view, changes),))


def _truth(execution: ToolExecution[Any], why: str) -> str:
    name = execution.call.name
    if execution.undo is None or execution.undo.is_undone:
        return f"Tool {name!r} had succeeded, but it was undone because {why}."
    return f"Tool {name!r} had succeeded. Undoing it because {why} was attempted and failed: its effect may stand."


def _truth_of_agent(executions: Sequence[ToolExecution[Any]], why: str) -> str:
    undone = [each.call.name for each in executions if each.undo is None or each.undo.is_undone]
    standing = [each.call.name for each in executions if each.undo is not None and not each.undo.is_undone]
    parts = [f"What was done here was undone because {why}: {undone!r}."] if undone else []
    if standing:
        parts.append(f"Undoing {standing!r} because {why} was attempted and failed: that may stand.")
    return " ".join(parts)


def _replaced_from_the_end(view: Sequence[Message], changes: Sequence[tuple[Message, Message]]) -> list[Message]:
    """The view with each old message replaced by its new one, matched from the end (spec 11.5.3, 11.5.4).

    Messages of a run are the last ones of its conversation, and a window drops only from the front: so walking
    back through both finds the right one even where ids are missing or repeated. Evicted ones are not found.
    """
    result = list(view)
    end = len(result)
    for old, new in reversed(changes):
        for index in range(end - 1, -1, -1):
            if result[index] == old:
                result[index] = new
                end = index
                break
    return result
