"""What the steps of a run give: values (spec 2.9)."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from ._reading import read
from .messages import ChatParameters, ChatRequest, Message, ToolMessage, ToolSpec
from .tools._tool import ReturnBehavior, ToolExecution, ToolResult

__all__ = ["CombinedResults", "NextRequest", "RoundOutcome", "Undoable"]


class NextRequest(Struct, frozen=True, eq=False):
    """The latest request of a run, and what it was built from (spec 2.9.3).

    ``request``: what the model is to be sent. ``messages`` and ``parameters``: the same before ``transform_request``
    had its say; the next request is built from those. ``tools``: what the model is shown.
    """

    request: ChatRequest
    messages: tuple[Message, ...]
    parameters: ChatParameters
    tools: tuple[ToolSpec, ...]


class CombinedResults(Struct, frozen=True, eq=False):
    """What became of the calls of a round, once all have settled (spec 2.9.4).

    ``executions``: one for each call, by its position in the reply, so that equal calls stay apart. A call that failed
    is there with an error result. ``first_error``: what will give the run up, the first in the order of the reply.
    """

    executions: tuple[ToolExecution[Any], ...] = ()
    first_error: BaseException | None = None

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results alone, by position."""
        return tuple([execution.result for execution in self.executions])


class RoundOutcome(Struct, frozen=True, eq=False):
    """What a settled round comes to (spec 2.9.2); all by the calls' positions in the reply.

    ``any_errored``: whether a call failed. ``behaviors``: what each tool's calls do to the run. ``messages``: what the
    model will read. ``executions``: the records. ``undone``: calls of this round and of earlier ones that were undone
    because one failed. ``returns``: whether the run stops here, without another request.
    """

    any_errored: bool = False
    behaviors: tuple[ReturnBehavior, ...] = ()
    executions: tuple[ToolExecution[Any], ...] = ()
    undone: tuple[ToolExecution[Any], ...] = ()
    returns: bool = False
    unread: tuple[Any, ...] = ()  # the messages, encoded when somebody looks at them

    @property
    def messages(self) -> tuple[ToolMessage, ...]:
        """What the model will read, or would have."""
        return cast("tuple[ToolMessage, ...]", read(self.unread))


class Undoable(Struct, frozen=True, eq=False):
    """A finished call that can be undone, and what the model reads of it so far (spec 2.9.5)."""

    execution: ToolExecution[Any]
    unread: Any  # its message, encoded when somebody looks at it

    @property
    def message(self) -> ToolMessage:
        """What the model reads of it so far."""
        return cast("tuple[ToolMessage, ...]", read((self.unread,)))[0]
