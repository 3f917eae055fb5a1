"""The values a tool is made of: what the model sees, what runs, what is known about repeating and undoing it.

Pure values and protocols: nothing here calls a user's function or looks at a signature.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from .._codec import clean_text
from ..budgets import Amount, Budget, RepeatedCalls
from ..errors import UserError
from ..messages import Content, TextContent, ToolCall, ToolMessage, ToolSpec, text_of
from ._context import Parameters, ToolContext
from ._probes import Absent, Happened, Probe, Unknown
from ._steps import Steps

__all__ = [
    "Absent",
    "AsyncToolExecutor",
    "Body",
    "Decoding",
    "Happened",
    "NestedAgent",
    "Outcome",
    "OutputMode",
    "Parameters",
    "Probe",
    "Repair",
    "Repeat",
    "ReturnBehavior",
    "Steps",
    "Tool",
    "ToolContext",
    "ToolExecution",
    "ToolExecutor",
    "ToolResult",
    "Undo",
    "UndoOutcome",
    "Unknown",
    "Values",
    "WhenUnknown",
]

T = TypeVar("T", default=Any)

Repeat: TypeAlias = Literal["safe", "with_key", "never"]
"""Whether a call may be repeated when nobody knows whether it happened."""

WhenUnknown: TypeAlias = Literal["ask", "undo", "dead_letter"]
"""What becomes of a call of a tool with ``repeat="never"`` that was running when its process died, if nobody can tell
whether it happened: the run waits for someone's word (``"ask"``); the call is undone with everything else that the run
did (``"undo"``); or the run is given up, the rest undone and this call named as what may stand (``"dead_letter"``)."""

Decoding: TypeAlias = Literal["strict", "repair", "salvage"]
"""What is done about arguments that do not fit (spec 4): nothing (``"strict"``); the conversions of the coercion
table and JSON that was encoded twice or has a stray comma (``"repair"``); besides, one JSON object in a Markdown fence
or in prose is taken for the arguments (``"salvage"``). In each of them, 2.0 is an integer, null for what has a default
is the default, and unknown names are left out. What is changed or left out is reported as ``ArgumentRepaired``."""


OutputMode: TypeAlias = Literal["auto", "schema", "tool", "text"]
"""How a model is made to answer in the type that is wanted: by its provider's JSON schema (``"schema"``), by calling a
tool whose arguments are the answer (``"tool"``), by instructions alone (``"text"``), or, of the first two, by what the
model supports (``"auto"``)."""


class ReturnBehavior(enum.Enum):
    """What happens after a round with this tool (spec 3.7, 7.9)."""

    TO_MODEL = "to_model"
    IMMEDIATE = "immediate"
    IMMEDIATE_IF_LAST = "immediate_if_last"


class Outcome(enum.Enum):
    """How a call ended. Every call that the model asked for ends in exactly one of these."""

    DONE = "done"  # the body returned
    FAILED = "failed"  # the tool says that nothing happened, or it is safe to repeat
    REJECTED = "rejected"  # the body was not entered: no such tool, or the arguments do not fit
    UNKNOWN = "unknown"  # may have happened: nobody can tell yet
    DENIED = "denied"  # refused before the body: by `authorise`, by a hook, or since an identical call is unknown
    NOT_RUN = "not_run"  # never started: the round ended before, or the reply was cut off


# ---------------------------------------------------------------- results and executions (spec 2.4)

_NO_ATTRIBUTES: Mapping[str, Any] = {}


class ToolResult(Struct, frozen=True):
    """What a call gives: contents for the model, the value for the application (spec 2.4.2 to 2.4.7).

    Make one with ``ToolResult.of("text")``, ``ToolResult.of(image, text)``, ``ToolResult.error("text")`` or
    ``ToolResult.lazy(supplier)``. ``attributes`` are stored with the message and never sent to a model.
    Printing, comparing and hashing never call a lazy supplier.
    """

    given: tuple[Content, ...] = ()
    value: Any = None
    is_error: bool = False
    attributes: Mapping[str, Any] = _NO_ATTRIBUTES
    supplier: Callable[[], str | None] | None = None

    def __post_init__(self) -> None:
        if bool(self.given) == (self.supplier is not None):
            raise UserError("ToolResult takes contents or a lazy supplier: exactly one of them; use ToolResult.of(…)")

    @classmethod
    def of(
        cls,
        *parts: str | Content,
        value: Any = None,
        is_error: bool = False,
        attributes: Mapping[str, Any] = _NO_ATTRIBUTES,
    ) -> ToolResult:
        """A result from texts and other contents, in order."""
        contents = tuple(TextContent(clean_text(part)) if isinstance(part, str) else part for part in parts)
        return cls(contents, value, is_error, dict(attributes))

    @classmethod
    def error(cls, text: str) -> ToolResult:
        """An error result with that text and no value (spec 5.5)."""
        return cls((TextContent(clean_text(text)),), None, True)

    @classmethod
    def lazy(cls, supplier: Callable[[], str | None], *, value: Any = None) -> ToolResult:
        """A result whose text is asked for at first use; a supplier that gives nothing counts as empty text."""
        return cls((), value, False, _NO_ATTRIBUTES, supplier)

    @property
    def contents(self) -> tuple[Content, ...]:
        """What the model reads; the first access calls a lazy supplier, outside any lock."""
        supplier = self.supplier
        if supplier is not None and not self.given:
            # Two threads may both ask; suppliers are pure, and whoever stores last stores the same (spec 2.4.4).
            msgspec.structs.force_setattr(self, "given", (TextContent(supplier() or ""),))
            # With both it could not be copied with a change any more. Last, as another thread may look meanwhile.
            msgspec.structs.force_setattr(self, "supplier", None)
        return self.given

    @property
    def is_encoded(self) -> bool:
        """Whether the contents are there, without a supplier being asked for them."""
        return bool(self.given) or self.supplier is None

    @property
    def text(self) -> str:
        """The single text; raises ``UserError`` unless the contents are exactly one text."""
        return text_of(self.contents)

    def to_message(self, call: ToolCall) -> ToolMessage:
        """The message that carries this result back to the model (spec 5.4)."""
        return ToolMessage(call.id, call.name, self.given or self.contents, self.is_error, self.attributes)


class UndoOutcome(Struct, frozen=True):
    """What became of undoing a call: ``error`` is absent when it was undone, otherwise says why it was not."""

    error: str | None = None
    finished_at: float | None = None

    @property
    def is_undone(self) -> bool:
        """Whether the effect is gone."""
        return self.error is None


class Unstored(enum.Enum):
    """Stands for what a tool returned in a process that is gone, and that no journal could keep."""

    UNSTORED = "unstored"


UNSTORED = Unstored.UNSTORED


class ToolExecution(Struct, Generic[T], frozen=True):
    """One call, what it gave, and how it ended (spec 2.4.8).

    ``key`` is ``"round.position"``, unique within the run. Times are seconds since the epoch; a call that never
    started has none. ``undo`` tells what became of undoing it, if that was tried.
    """

    call: ToolCall
    result: ToolResult
    key: str
    outcome: Outcome
    started_at: float | None = None
    finished_at: float | None = None
    undo: UndoOutcome | None = None

    @property
    def value(self) -> T:
        """What the tool returned."""
        value: T = self.result.value
        return value

    @property
    def has_failed(self) -> bool:
        """Whether the model reads an error."""
        return self.result.is_error

    @property
    def duration(self) -> float | None:
        """Seconds from start to finish; absent unless both times are known."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at


# ---------------------------------------------------------------- what runs


class Repair(Struct, frozen=True):
    """A change made to what the model sent so that it could be read: where, what it was, what it became.

    ``path`` is like ``items[2].qty``, empty for the whole; ``after`` is ``None`` for an unknown name that was left out.
    """

    path: str
    before: Any
    after: Any


@runtime_checkable
class ToolExecutor(Protocol):
    """What runs behind a programmatic tool: gets the call, sent or repaired, gives a result or its text (spec 6.2.1).

    It may also offer ``execute_async`` for the awaitable modes; without it, it runs on a worker thread there,
    unless it declares ``offload = False``, which makes it fail there (spec 6.2.2).
    """

    def execute(self, call: ToolCall, context: ToolContext[Any], /) -> ToolResult | str:
        """Run the call. A ``ToolArgumentsError`` is its word that nothing was done; other errors are as of any tool."""
        ...


@runtime_checkable
class AsyncToolExecutor(Protocol):
    """The awaitable form of ``ToolExecutor``; an executor offers one of the two, or both."""

    def execute_async(self, call: ToolCall, context: ToolContext[Any], /) -> Awaitable[ToolResult | str]:
        """The same, awaitable."""
        ...


class Values(Protocol):
    """How the values that one tool returns outlive the process."""

    def dump(self, value: Any, /) -> bytes | None:
        """The value as JSON, or ``None`` if it could not be had back as itself. Never raises."""
        ...

    def load(self, data: bytes, /) -> Any:
        """The value that was stored; raises what its type raises if that has changed since."""
        ...


class Body(Protocol):
    """A tool's inside, as the engine sees it. Made from a function's signature, or around a ``ToolExecutor``."""

    @property
    def is_async(self) -> bool:
        """Whether ``call`` gives an awaitable."""
        ...

    @property
    def has_async_form(self) -> bool:
        """Whether ``call_async`` may be used in the awaitable modes, instead of ``call`` on a worker thread."""
        ...

    @property
    def offload(self) -> bool:
        """Whether ``call`` may run on another thread than the loop's; ``False`` makes it fail there (spec 6.2.2)."""
        ...

    @property
    def is_generator(self) -> bool:
        """Whether it is a generator, whose values are progress and whose last one is the result."""
        ...

    @property
    def may_change_arguments(self) -> bool:
        """Whether ``call`` is given anything that can be changed."""
        ...

    @property
    def wants_context(self) -> bool:
        """Whether ``call`` needs a ``ToolContext``."""
        ...

    @property
    def raises_argument_errors(self) -> bool:
        """Whether a ``ToolArgumentsError`` raised by ``call`` means that nothing was done (spec 9.3)."""
        ...

    @property
    def values(self) -> Values:
        """How what ``call`` returns is stored."""
        ...

    def decode(self, text: str, decoding: Decoding = "repair", /) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        """The arguments by parameter name, and what was repaired; raises ``ToolArgumentsError``."""
        ...

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """What the user's function returns: a value, or an awaitable of one."""
        ...

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Awaitable[Any]:
        """The awaitable form; only to be called when ``has_async_form``."""
        ...

    def encode(self, value: Any, /) -> ToolResult:
        """The value as a result; raises if it cannot be encoded."""
        ...


class Undo(Protocol):
    """How to undo a call, whatever form the user's function has (spec 11.1)."""

    @property
    def is_async(self) -> bool:
        """Whether ``call`` gives an awaitable."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds after which one attempt is given up on; ``None`` takes the run's default."""
        ...

    @property
    def needs_value(self) -> bool:
        """Whether it needs what the call returned, so that it cannot undo a call whose end nobody knows."""
        ...

    def call(self, execution: ToolExecution[Any], arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        """Undo it; gives nothing, or an awaitable of nothing."""
        ...


class NestedAgent(Protocol):
    """An agent that is called as a tool: its run is part of the run that calls it (design 3)."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Its own tools, by name."""
        ...

    def open(self, run: Any, key: str, prompt: str, /) -> tuple[Any, Any]:
        """The run that call ``key`` of that run is, not begun yet, and the model that it asks."""
        ...


class Tool(Struct, frozen=True, kw_only=True, eq=False):
    """A tool, ready to be offered and run (spec 3.1). ``@tool`` makes one from a function.

    ``repeat`` says whether a call may be repeated when nobody knows whether it happened. ``timeout`` is in
    seconds per attempt, ``retries`` counts further attempts. ``exclusive`` tools never overlap another tool of
    the run; ``inline`` bodies run where the loop runs; ``max_parallel`` bounds this tool's calls of one run.
    ``unknown`` says what becomes of a call after a crash when nobody can tell whether it happened.
    ``limits`` and ``soft_limits`` bound what one run may use of it, ``cost`` is what a call costs.
    ``decoding``, ``max_result`` and ``repeated_calls`` go before the agent's; ``None`` takes those.
    With ``nested``, calling it runs an agent, and nothing calls the body.
    """

    spec: ToolSpec
    body: Body
    repeat: Repeat = "never"
    timeout: float | None = None
    retries: int = 0
    exclusive: bool = False
    inline: bool = False
    max_parallel: int | None = None
    returns: ReturnBehavior = ReturnBehavior.TO_MODEL
    decoding: Decoding | None = None
    max_result: int | None = None
    undo: Undo | None = None
    probe: Callable[..., Any] | None = None
    authorise: Callable[..., Any] | None = None
    unknown: WhenUnknown = "ask"
    limits: Budget | None = None
    soft_limits: Budget | None = None
    cost: Amount = 0
    repeated_calls: RepeatedCalls | None = None
    nested: NestedAgent | None = None

    @property
    def name(self) -> str:
        """The name that the model uses."""
        return self.spec.name
