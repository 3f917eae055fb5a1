"""What the loop may ask of the outside: effects. The loop awaits them; a driver answers them.

An effect says *what*, never *how*: whether a body runs here, on a thread or as a task is the driver's affair.
They are msgspec Structs because a round makes several, and those cost a third of a plain class.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from ._checks import is_awaitable
from .messages import ChatRequest, ChatResponse, ToolCall

if TYPE_CHECKING:
    from ._books import Round, Run
    from ._ledger import Entry
    from ._records import Draft
    from .tools._tool import Tool, ToolContext

__all__ = [
    "Ask",
    "Await",
    "CallModel",
    "Core",
    "Drain",
    "Effect",
    "Keep",
    "Offload",
    "Pause",
    "RunBody",
    "RunPart",
    "RunTools",
    "RunUndo",
    "Shielded",
    "Stop",
    "StreamBody",
    "Thrown",
    "Use",
    "told",
    "unwrapped",
]

T = TypeVar("T")


class Effect(Struct, Generic[T], eq=False):
    """Something to be done by the driver; awaiting it gives the outcome, exactly typed."""

    def __await__(self) -> Generator[Effect[T], T, T]:
        return (yield self)


Core: TypeAlias = Coroutine[Effect[Any], Any, T]
"""A coroutine that awaits effects and nothing else."""


class Thrown(BaseException):
    """What a core gets instead of an outcome when the error itself would not do.

    Either the effect was not begun at all (``begun`` is false), or performing it raised GeneratorExit: thrown into
    a core as it is, that would close the coroutines inside it one by one instead of being raised at the effect.
    """

    def __init__(self, original: BaseException, *, begun: bool) -> None:
        super().__init__(repr(original))
        self.original = original
        self.begun = begun


def unwrapped(error: BaseException) -> BaseException:
    """The error that was really raised."""
    return error.original if isinstance(error, Thrown) else error


class CallModel(Effect[ChatResponse], eq=False):
    """Send the request. ``start(index, call)`` gives a core for a call that may start before the reply is complete."""

    request: ChatRequest
    start: Callable[[int, ToolCall], Core[None] | None]


class RunTools(Effect[None], eq=False):
    """Run the calls of a round that have not started; ``execute(slot)`` gives the core of one.

    Returns when every started call has settled. What became of each is in the round's own book, so that an
    interrupted driver loses nothing.
    """

    round: Round
    execute: Callable[[int], Core[None]]


class RunBody(Effect[Any], eq=False):
    """Run a tool's body once. ``late`` makes the core that sees to a body which outlives its timeout."""

    tool: Tool
    arguments: dict[str, Any]
    context: ToolContext[Any] | None
    late: Callable[[Any, BaseException | None], Core[None]]


class StreamBody(RunBody, eq=False):
    """The same for a body that may report progress: whoever takes the events gets them while it runs."""


class RunUndo(Effect[None], eq=False):
    """Undo a finished call; one attempt takes at most the tool's own deadline, or else ``timeout`` seconds.

    If it fails it is tried again, ``retries`` times with growing pauses, each time with the same context and so with
    the same idempotency key. An attempt that took too long may still be running beside the next one.
    """

    entry: Entry
    timeout: float | None
    retries: int = 0


class RunPart(Effect[Any], eq=False):
    """Run a run that is part of this one to its end; gives its answer. ``model`` is what it asks."""

    run: Run
    model: Any


class Await(Effect[Any], eq=False):
    """The result of an awaitable that a function of the user's has returned."""

    awaitable: Any


class Offload(Effect[Any], eq=False):
    """The result of a function of the user's that may block, so an event loop must not run it in place."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


class Use(Effect[Any], eq=False):
    """Call an operation of a component of the user's, such as a memory, in the colour that the driver needs.

    The component may offer an awaitable twin (``a…``) and declare ``inline`` or ``offload``: see ``ChatMemory``.
    """

    component: Any
    operation: str
    args: tuple[Any, ...] = ()


class Ask(Use, eq=False):
    """The same for a question, which a cancellation may break off: nothing is half done then."""


class Pause(Effect[None], eq=False):
    """Wait, at most that many seconds: less if the run is cancelled."""

    seconds: float


class Keep(Effect[None], eq=False):
    """Write records of the run, all or none, and where it stands now; answered when they are safe."""

    drafts: tuple[Draft, ...]
    state: str | None = None


class Stop(Effect[None], eq=False):
    """Wait for whoever takes the run step by step, and says when it goes on. Other runs never come here.

    ``before``: ``"request"``, ``"calls"`` of a reply, or ``"settling"`` the round once they have run.
    """

    before: Literal["request", "calls", "settling"]


class Drain(Effect[None], eq=False):
    """Wait until running calls have settled, at most ``seconds``; then they are left to themselves."""

    seconds: float


class Shielded(Effect[T], eq=False):
    """Run a core to its end, whatever is cancelled or interrupted meanwhile."""

    core: Core[T]


async def told(function: Callable[..., Any], *args: Any) -> Any:
    """What a hook, handler or transformer answers; it runs in place, and is awaited if it is awaitable."""
    answer = function(*args)
    return await Await(answer) if is_awaitable(answer) else answer
