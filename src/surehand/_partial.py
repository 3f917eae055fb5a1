"""The output of a run while it is being written: made of the events that somebody takes, if somebody does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._books import Run
from .events import Event, RequestIssued, RunFinished, TextDelta, ToolCallComplete, ToolCallDelta

__all__ = ["PartialOutput"]

_NOTHING: Any = object()


class PartialOutput:
    """Follows the events of one run; ``take`` gives the output so far, where an event has changed it.

    It is plain data, and text where the run has no other type; the last one is the run's output itself.
    """

    def __init__(self, run: Run) -> None:
        self._path, self._plan = run.path, run.output
        self._tool = None if run.output is None or run.output.tool is None else run.output.tool.name
        self._last: Any = _NOTHING
        self._texts: dict[int, str] = {}
        self._names: dict[int, str] = {}

    def take(self, event: Event) -> Iterator[Any]:
        """The output so far, if the event has changed it."""
        if event.path != self._path:
            return  # of a run inside of this one
        match event:
            case RequestIssued():
                self._texts, self._names = {}, {}
            case TextDelta(text=text) if self._tool is None:
                yield from self._grown(-1, text)
            case ToolCallDelta(index=index, name=name, arguments=piece):
                self._names[index] = name or self._names.get(index, "")
                if self._names[index] == self._tool:
                    yield from self._grown(index, piece)
            case ToolCallComplete(index=index, call=call) if call.name == self._tool:
                self._texts[index] = ""
                yield from self._grown(index, call.arguments)
            case RunFinished(output=output) if output is not None:
                yield output
            case _:
                return

    def _grown(self, index: int, piece: str) -> Iterator[Any]:
        text = self._texts[index] = self._texts.get(index, "") + piece
        plan = self._plan
        value = text if plan is None or plan.type is None else plan.type.partial(text)
        if value is not None and value != self._last:
            self._last = value
            yield value
