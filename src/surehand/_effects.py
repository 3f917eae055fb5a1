"""What the loop may ask of the outside: effects. The loop awaits them; a driver answers them.

An effect says *what*, never *how*: whether a body runs here, on a thread or as a task is the driver's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from .messages import ChatRequest, ChatResponse, ToolCall

if TYPE_CHECKING:
    from ._books import Round
    from ._ledger import Entry
    from .tools._tool import Tool, ToolContext

__all__ = ["Ask", "CallModel", "Core", "Drain", "Effect", "RunBody", "RunTools", "RunUndo", "Shielded", "UseMemory"]

T = TypeVar("T")


class Effect(Generic[T]):
    """Something to be done by the driver; awaiting it gives the outcome, exactly typed."""

    __slots__ = ()

    def __await__(self) -> Generator[Effect[T], T, T]:
        return (yield self)


Core: TypeAlias = Coroutine[Effect[Any], Any, T]
"""A coroutine that awaits effects and nothing else."""


class CallModel(Effect[ChatResponse]):
    """Send the request. ``start(index, call)`` gives a core for a call that may start before the reply is complete."""

    __slots__ = ("request", "start")

    def __init__(self, request: ChatRequest, start: Callable[[int, ToolCall], Core[None] | None]) -> None:
        self.request = request
        self.start = start


class RunTools(Effect[None]):
    """Run the calls of a round that have not started; ``execute(position)`` gives the core of one.

    Returns when every started call has settled. What became of each is in the round's own book, so that an
    interrupted driver loses nothing.
    """

    __slots__ = ("execute", "round")

    def __init__(self, round: Round, execute: Callable[[int], Core[None]]) -> None:
        self.round = round
        self.execute = execute


class RunBody(Effect[Any]):
    """Run a tool's body once. ``late`` is called with a core's maker if the body outlives its timeout."""

    __slots__ = ("arguments", "context", "late", "tool")

    def __init__(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        context: ToolContext[Any] | None,
        late: Callable[[Any, BaseException | None], Core[None]],
    ) -> None:
        self.tool = tool
        self.arguments = arguments
        self.context = context
        self.late = late


class RunUndo(Effect[None]):
    """Undo a finished call; one attempt takes at most the tool's own deadline, or else ``timeout`` seconds."""

    __slots__ = ("entry", "timeout")

    def __init__(self, entry: Entry, timeout: float | None) -> None:
        self.entry = entry
        self.timeout = timeout


class Ask(Effect[Any]):
    """Call a function of the user's: a hook, handler, transformer, authorisation or probe; awaited if need be.

    ``offload`` says that it may block, so an event loop must not run it in place.
    """

    __slots__ = ("args", "function", "offload")

    def __init__(self, function: Callable[..., Any], *args: Any, offload: bool = False) -> None:
        self.function = function
        self.args = args
        self.offload = offload


class UseMemory(Effect[Any]):
    """Call an operation of the run's memory, in the colour that the driver needs."""

    __slots__ = ("args", "memory", "operation")

    def __init__(self, memory: Any, operation: str, *args: Any) -> None:
        self.memory = memory
        self.operation = operation
        self.args = args


class Drain(Effect[None]):
    """Wait until running calls have settled, at most ``seconds``; then they are left to themselves."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Shielded(Effect[T]):
    """Run a core to its end, whatever is cancelled or interrupted meanwhile."""

    __slots__ = ("core",)

    def __init__(self, core: Core[T]) -> None:
        self.core = core
