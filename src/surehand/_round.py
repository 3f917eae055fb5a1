"""One reply's calls, and what became of them. Plain state, no decisions, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from .messages import AssistantMessage, ToolCall
from .tools._tool import ToolExecution

__all__ = ["Round"]


class Round(Struct, eq=False):
    """One reply's calls and what became of them, by slot (never by id: ids may be missing or repeated).

    A call's slot is its position in the reply, except that a call which was started early and then does not
    stand in the final reply keeps its slot, as an orphan, and the call in its place gets a fresh one.
    """

    number: int
    prefix: str = ""  # of its calls' keys, in a run that is part of another
    message: AssistantMessage | None = None
    calls: dict[int, ToolCall] = {}
    order: list[int] = []
    started: set[int] = set()
    records: dict[int, ToolExecution[Any]] = {}
    errors: dict[int, BaseException] = {}  # what went wrong in a call, whatever was made of it
    failures: dict[int, BaseException] = {}  # what gives the run up
    stopped: bool = False
    why_not_run: str = "the round ended before"
    held: Sequence[int] = ()  # answers as calls, and what is not run beside one: settled when the others have ended
    answer: tuple[Any] | None = None  # the output, if a call has given it
    reclaimed: bool = False  # whether calls of it were begun by a process that died before the reply was complete

    def receive(self, message: AssistantMessage) -> None:
        """The reply is complete: fix the request order, joining calls that were started early (spec 7.8.2, D-17)."""
        wanted = [call for call in message.tool_calls if not call.executed_by_provider]
        if not self.calls:
            self.calls = dict(enumerate(wanted))
            self.order = list(self.calls)
            self.message = message  # last, here and below: an interrupt must not leave a reply without its calls
            return
        fresh = max(len(wanted), *(slot + 1 for slot in self.calls))
        early = dict(self.calls)
        for position, call in enumerate(wanted):
            # A call keeps its slot even if others before it are gone (a provider ran them itself, say): it has begun.
            found = position if self._joins(early.get(position), call) else None
            if found is None:
                found = next((slot for slot in early if self._joins(early[slot], call)), None)
            slot = (position if position not in self.calls else fresh + position) if found is None else found
            early.pop(slot, None)
            self.calls[slot] = call
            self.order.append(slot)
        self.message = message

    def _joins(self, early: ToolCall | None, call: ToolCall) -> bool:
        """Whether a call of the reply is one that was started before the reply was complete."""
        if early is None or not self.reclaimed:
            return early == call
        # The model was asked again, and a provider gives new ids then.
        return (early.name, early.arguments) == (call.name, call.arguments)

    def restore(self, message: AssistantMessage, slots: Sequence[int], begun: Mapping[int, ToolCall]) -> None:
        """The reply is a recorded one: give its calls the slots that they had; ``begun`` may hold orphans besides."""
        wanted = [call for call in message.tool_calls if not call.executed_by_provider]
        self.order = list(slots)
        self.calls = {**begun, **dict(zip(slots, wanted, strict=True))}
        self.message = message

    def key(self, slot: int) -> str:
        """The call's key within the run."""
        return f"{self.prefix}{self.number}.{slot}"

    @property
    def pending(self) -> list[int]:
        """Slots of calls that are to be run and have not started, in request order."""
        if not self.started and not self.held:
            return list(self.order)
        return [slot for slot in self.order if slot not in self.started and slot not in self.held]

    @property
    def orphans(self) -> list[int]:
        """Slots that were started early and do not stand in the reply."""
        return [slot for slot in self.calls if slot not in self.order]

    @property
    def first_failure(self) -> BaseException | None:
        """The failure that gives the run up: the first one in request order (spec 8.5)."""
        if not self.failures:
            return None
        for slot in (*self.order, *self.orphans):
            if slot in self.failures:
                return self.failures[slot]
        return None
