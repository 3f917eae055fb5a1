"""What a browser is told of a run: its events as server-sent ones, and its end as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.sse import ServerSentEvent

from surehand import AsyncStream, Event, JournalError, RunGivenUp, report_of
from surehand.events import ResponseReceived, RunFinished, RunSuspended, TextDelta, ToolFinished, ToolStarted

__all__ = ["account", "told"]


async def told(run: AsyncStream) -> AsyncIterator[ServerSentEvent]:
    """The run's events for a browser; the last one is `finished`, `failed`, `waiting` or `interrupted`.

    An id names what the event is about, `order-7:1` the first reply and `order-7:1.0` the first call in it: it is the
    same whenever the run is told again.
    """
    reply = 1
    try:
        async for event in run:
            if isinstance(event, ResponseReceived):
                reply = event.number + 1  # which one the text that comes next belongs to
            elif (known := _known(event)) is not None:
                name, step, data = known
                yield ServerSentEvent(event=name, id=f"{run.run_id}:{step or reply}", data=data)
    except JournalError as error:  # neither done nor given up: the service goes on with it when it starts again
        yield ServerSentEvent(event="interrupted", id=run.run_id, data={"because": str(error)})
    except Exception as error:
        yield ServerSentEvent(event="failed", id=run.run_id, data=account(error))


def _known(event: Event) -> tuple[str, str, dict[str, Any]] | None:
    """Its name, the step that it is about, and its data; nothing for the many that a browser has no use for."""
    match event:
        case TextDelta(text=text):
            return "text", "", {"text": text}
        case ToolStarted(key=key, call=call):
            return "tool_started", key, {"tool": call.name, "arguments": call.arguments}
        case ToolFinished(execution=done):
            return "tool_finished", done.key, {"tool": done.call.name, "outcome": done.outcome.value}
        case RunFinished(output=output):
            return "finished", "end", {"output": output}
        case RunSuspended(run_id=run_id, pending=pending):
            return "waiting", "end", {"for": [f"{run_id}:{waiting.key}" for waiting in pending]}
        case _:
            return None


def account(error: Exception) -> dict[str, Any]:
    """Why a run was given up, and what became of the calls that it had made."""
    because = error.because if isinstance(error, RunGivenUp) else f"{type(error).__name__}: {error}"
    report, names = report_of(error), ("done", "undone", "failed_to_undo", "unknown", "standing")
    return {"because": because} | {name: [done.call.name for done in getattr(report, name, ())] for name in names}
