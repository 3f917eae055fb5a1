"""What became of a run's effects, call by call: the report that everybody gets. A pure value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from ._reading import Unread, read
from .messages import Message
from .tools._tool import Outcome, Tool, ToolExecution

__all__ = ["Account", "PastRun", "UndoReport", "has_effect"]

Account: TypeAlias = tuple[ToolExecution[Any], Tool | None]
"""A call, and the tool that was called if there is one."""


class UndoReport:
    """What became of a run's effects, call by call (each a ``ToolExecution``), as known when it was asked for.

    ``done``: every call that did happen. ``undone``: of those, the ones taken back. ``failed_to_undo``: undoing
    was tried and failed. ``unknown``: nobody can tell whether they happened. ``no_undo``: they happened, are not
    safe to repeat, and have no undo. ``standing``: everything whose effect stands or may stand. The calls that an
    agent made which was called as a tool are among them, by keys such as ``"3.0/1.0"``.
    ``cost``: of the run until then, if its replies or tools have prices.
    Reports are equal when they say the same of the same calls, whatever the run's id.
    """

    __slots__ = (
        "_messages",
        "cost",
        "done",
        "executions",
        "failed_to_undo",
        "no_undo",
        "run_id",
        "standing",
        "undone",
        "unknown",
    )

    def __init__(
        self,
        run_id: str,
        accounts: Sequence[Account],
        messages: Sequence[Message | Unread],
        cost: float | None = None,
    ) -> None:
        self.run_id = run_id
        self.cost = cost
        executions = [execution for execution, _ in accounts]
        self.executions = tuple(executions)
        self._messages = tuple(messages)
        self.done = tuple(e for e in executions if e.outcome is Outcome.DONE)
        self.undone = tuple(e for e in executions if e.undo is not None and e.undo.is_undone)
        self.failed_to_undo = tuple(e for e in executions if e.undo is not None and not e.undo.is_undone)
        calls = [e for e, tool in accounts if tool is None or tool.nested is None]
        self.unknown = tuple(e for e in calls if e.outcome is Outcome.UNKNOWN and e.undo is None)
        effects = [(e, tool) for e, tool in accounts if tool is not None and has_effect(tool)]
        self.no_undo = tuple(e for e, tool in effects if e.outcome is Outcome.DONE and tool.undo is None)
        self.standing = tuple(
            e
            for e, _ in effects
            if e.outcome in (Outcome.DONE, Outcome.UNKNOWN) and (e.undo is None or not e.undo.is_undone)
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the run added to the conversation."""
        return read(self._messages)

    def _said(self) -> tuple[Any, ...]:
        return (self.done, self.undone, self.failed_to_undo, self.unknown, self.no_undo)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UndoReport) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(tuple(execution.key for execution in self.done))

    def __repr__(self) -> str:
        names = ("done", "undone", "failed_to_undo", "unknown", "no_undo")
        parts = [f"{name}={[e.call.name for e in getattr(self, name)]}" for name in names if getattr(self, name)]
        return f"UndoReport({', '.join(parts)})"


def has_effect(tool: Tool) -> bool:
    """Whether calling it changes something: reads are safe to repeat and have nothing to undo.

    Neither does an agent that is called: what its own calls change is accounted for call by call.
    """
    return tool.nested is None and (tool.repeat != "safe" or tool.undo is not None)


class PastRun(Struct, eq=False):
    """What is left of a run in another process, or in a copy: its report."""

    past: UndoReport | None

    def report(self) -> UndoReport | None:
        """What became of the run's effects, if that could come along."""
        return self.past
