"""The books of one run: what it was told, what it has done, what is open. Plain state, no decisions, no I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from ._cancel import CancelToken
from ._ledger import Ledger
from ._recorded import NOTHING_RECORDED, Recorded
from ._records import Draft
from ._report import Account, PastRun, UndoReport
from ._round import Round
from ._settings import Hooks, Settings
from ._tallies import Tallies
from .errors import RunCancelled, Suspended
from .events import Event, UndoReason
from .messages import (
    ChatParameters,
    ChatRequest,
    ChatResponse,
    Message,
    SystemMessage,
    ToolCall,
    Usage,
)
from .policies import ErrorContext
from .tools._steps import Steps
from .tools._tool import Outcome, Parameters, ToolContext, ToolExecution, ToolResult, UndoOutcome
from .tools._toolset import Toolset

if TYPE_CHECKING:  # it loads pydantic's machinery for schemas
    from .tools._output_type import OutputPlan

__all__ = ["POOLS", "Round", "Run", "RunLog"]


def _ignore(_: Any) -> None:
    return None


POOLS = threading.Lock()
"""Held while agents check what is left for them and take it: they may be on threads of their own. Of all runs."""


class Memory(Protocol):
    """The operations of a chat memory that the loop uses (spec 13.1)."""

    def add(self, message: Message, /) -> Any: ...

    def add_all(self, messages: Sequence[Message], /) -> Any: ...

    def messages(self) -> Any: ...

    def set(self, messages: Sequence[Message], /) -> Any: ...


class RunLog(Protocol):
    """Where this run's records go."""

    def append(self, drafts: Sequence[Draft], state: str | None = None) -> Future[None]:
        """Write records, all or none, and the run's new state; done when they are safe."""
        ...

    def release(self) -> None:
        """The run is not driven here any more."""
        ...

    def give_back(self) -> None:
        """The run has halted: whoever recovers runs may go on with it."""
        ...


class Run(Struct, eq=False, kw_only=True):
    """Everything about one run in one place; belongs to the driver's thread or task, except where a lock is named."""

    settings: Settings
    toolset: Toolset
    toolbox: Any = None  # how far its providers were asked and its searches looked at, once one of them was
    run_id: str
    history: Sequence[Message]  # what was said before, for runs without a memory
    messages: list[Any]  # what this run adds to the conversation: messages, and ``Unread`` ones once it has ended
    system: SystemMessage | None  # goes to the memory; without one it heads the history
    request_parameters: ChatParameters
    parallel: bool | int
    deps: Any
    memory: Memory | None
    memory_id: Any
    parameters: Parameters
    hooks: Hooks
    token: CancelToken
    now: Callable[[], float]
    emit: Callable[[Event], None]
    listening: bool
    starts_early: bool  # whether calls may start while the reply that asks for them is still going on
    started_at: float
    is_async: bool = False
    path: str = ""  # the key of the call that it is, if it is part of another run
    parent: Run | None = None  # that run
    parts: dict[str, Run] = {}  # the runs that are part of this one, by their path
    output: OutputPlan | None = None  # what its answer has to be, if not any text
    refused_answers: int = 0  # how many were sent back
    inside: str = ""  # the name of the tool of that run whose call it is
    price: Callable[[ChatResponse], Any] | None = None  # what a reply costs
    has_soft: bool = False  # whether it, or one that it is part of, has soft limits
    opening: Callable[[Run], None] | None = None  # opens its journal, and finds out what is recorded of it
    log: RunLog | None = None  # where it is recorded, if it is
    recorded: Recorded = NOTHING_RECORDED  # what its journal said when it was opened here
    replays: bool = False  # whether what comes next may be recorded: nothing happens outside then
    log_size: int = 0  # how many records there were when it was last looked at, while it follows
    follows: bool = False  # whether somebody else is at work on it, whose records are told here as they come
    said: bytes = b""  # the digest of the messages so far
    told: int = 0  # how many of the messages that digest covers
    pending: list[ToolExecution[Any]] = []  # calls that wait for somebody's word
    halted: BaseException | None = None  # why it must not go on here: it is not given up, and nothing is undone
    streams: bool = False  # whether somebody takes the events as they come
    by_hand: bool = False  # whether somebody takes it step by step
    untransformed: ChatRequest | None = None  # the latest request, if a transformer has changed it
    is_behind: bool = False  # whether its memory may lack what a process that died has said
    is_closed: bool = False  # whether it was given up and its journal says that it is over
    has_listeners: bool = False  # who hear of what happens, not of what is only replayed
    saved: int = 0  # how many of the messages the memory has
    places: dict[str, int] = {}  # where in the messages the result of each call stands
    executions: list[ToolExecution[Any]] = []
    intermediate: list[ChatResponse] = []
    usage: Usage | None = None
    cost: Decimal | None = None  # of its replies and calls, as far as these have prices
    tallies: Tallies = field(default_factory=Tallies)
    ledger: Ledger = field(default_factory=Ledger)
    round: Round | None = None
    rounds_made: int = 0
    requests_made: int = 0
    calls_made: int = 0
    errors_in_a_row: int = 0
    cut_offs: int = 0
    empty_replies: int = 0
    unknown_calls: dict[tuple[str, str], str] = {}
    given_up: bool = False
    is_over: bool = False  # whether the caller has its answer or its error
    interrupt: BaseException | None = None
    undo_reason: UndoReason = UndoReason.RUN_GIVEN_UP
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _index: dict[str, int] = {}
    _late: dict[str, ToolResult] = {}

    @property
    def prefix(self) -> str:
        """What the keys of its calls begin with; a part's are ``"3.0/1.0"``, if it is call ``"3.0"``."""
        return f"{self.path}/" if self.path else ""

    def release(self) -> None:
        """It is not at work here any more: its answer is delivered, or there is none."""
        if self.log is not None and self.parent is None:
            self.log.release()

    def spend(self, *, calls: int = 0, usage: Usage | None = None, cost: Decimal | None = None) -> None:
        """Note what this run, or one that is part of it, has spent; so has each run above it. Thread-safe."""
        with self._lock:
            self.calls_made += calls
            if usage is not None:
                self.usage = usage if self.usage is None else self.usage + usage
            if cost is not None:
                self.cost = cost if self.cost is None else self.cost + cost
        if self.parent is not None:
            self.parent.spend(calls=calls, usage=usage, cost=cost)

    def check_cancelled(self) -> None:
        """A checkpoint (spec 12.2): raises ``RunCancelled`` once the token is cancelled.

        What is told again is told to its end: else only a part of what the run did would be in its books, and undone.
        """
        is_told = self.replays and not self.follows
        if self.token.is_cancelled and not is_told:
            raise RunCancelled(f"run {self.run_id!r} was cancelled")
        if self.parent is not None and not is_told:
            self.parent.check_part()

    def check_part(self) -> None:
        """The same for a run that is part of this one: once this one will be given up, or waits, that one stops."""
        is_given_up = self.given_up or self.recorded.given_up is not None
        if is_given_up or (self.round is not None and self.round.stopped):
            failures = [] if self.round is None else list(self.round.failures.values())
            if not is_given_up and any(isinstance(failure, Suspended) for failure in failures):
                raise Suspended(f"run {self.run_id!r}, which this one is part of, waits for somebody's word")
            raise RunCancelled(f"run {self.run_id!r}, which this one is part of, is given up")
        if self.parent is not None:  # which is as far from looking as this one, while it waits for its part
            self.parent.check_part()

    def record(self, execution: ToolExecution[Any], *, if_new: bool = False) -> tuple[ToolExecution[Any], bool]:
        """Enter an execution; gives it as entered, and whether it is late: its call was already given up on."""
        with self._lock:
            late = self._late.pop(execution.key, None) if self._late else None
            if late is not None and execution.outcome is not Outcome.DONE:
                execution = replace(execution, outcome=Outcome.DONE, result=late)
            index = self._index.setdefault(execution.key, len(self.executions))
            if index < len(self.executions):
                self.executions[index] = self.executions[index] if if_new else execution
                return self.executions[index], True
            self.executions.append(execution)
            return execution, False

    def arrange(self, keys: Sequence[str]) -> None:
        """Put the executions of a settled round, the last ones entered, into request order. Thread-safe."""
        with self._lock:
            ordered = [self.executions[self._index[key]] for key in keys]
            # Records of calls that do not stand in the reply may lie between these: they stay where they are.
            places = sorted(self._index[key] for key in keys)
            for place, key, execution in zip(places, keys, ordered, strict=True):
                self.executions[place] = execution
                self._index[key] = place

    def finish_late(
        self, key: str, result: ToolResult, outcome: Outcome = Outcome.DONE, *, at: float | None = None
    ) -> ToolExecution[Any] | None:
        """An unknown call turns out to have ended so, now or ``at``; gives it, unless somebody else sees to it.

        Thread-safe.
        """
        with self._lock:
            index = self._index.get(key)
            if index is None:
                self._late[key] = result  # its record is about to be made, and will take this along
                return None
            execution = self.executions[index]
            if execution.outcome is Outcome.DONE:
                return None  # another attempt of the same call has been entered
            done = replace(execution, outcome=outcome, result=result, finished_at=self.now() if at is None else at)
            self.executions[index] = done
            return done

    def mark_undo(self, keys: Sequence[str], undo: UndoOutcome) -> list[ToolExecution[Any]]:
        """Note what became of undoing these calls; gives those that had no note yet, updated. Thread-safe."""
        marked: list[ToolExecution[Any]] = []
        with self._lock:
            for index in [self._index[key] for key in keys if key in self._index]:
                if self.executions[index].undo is None:
                    self.executions[index] = replace(self.executions[index], undo=undo)
                    marked.append(self.executions[index])
        return marked

    def forget_unknown(self, effect: str) -> None:
        """The effect has been undone: an identical call is a new one, with a key of its own."""
        for call in [call for call, key in list(self.unknown_calls.items()) if effect.endswith(f":{key}")]:
            self.unknown_calls.pop(call, None)

    def context(
        self,
        call: ToolCall,
        key: str,
        *,
        attempt: int = 1,
        deadline: float | None = None,
        report: Callable[[Any], object] = _ignore,
        steps: Steps | None = None,
    ) -> ToolContext[Any]:
        """What hooks and tools are told about a call."""
        return ToolContext(
            deps=self.deps,
            call=call,
            run_id=self.run_id,
            memory_id=self.memory_id,
            parameters=self.parameters,
            idempotency_key=f"{self.run_id}:{key}",
            attempt=attempt,
            deadline=deadline,
            report=report,
            steps=steps,
            toolset=self.toolset,
        )

    def error_context(self, call: ToolCall, error: BaseException) -> ErrorContext:
        """What an error handler is told."""
        return ErrorContext(call, self.run_id, self.memory_id, self.parameters, error)

    def report(self) -> UndoReport:
        """What became of the run's effects, as known now: late finishers may still change it."""
        cost = None if self.cost is None else float(self.cost)
        return UndoReport(self.run_id, self._accounts(), self.messages, cost)

    def _accounts(self) -> list[Account]:
        """Each call with its tool; those of a run that is part of this one come after the call that it was."""
        with self._lock:
            executions = list(self.executions)
        accounts: list[Account] = []
        for execution in executions:
            accounts.append((execution, self.toolset.tools.get(execution.call.name)))
            part = self.parts.get(execution.key)
            accounts += [] if part is None else part._accounts()
        return accounts

    def owner(self, key: str) -> Run | None:
        """The run, this one or one that is part of it, whose call has that key."""
        path = key.rpartition("/")[0]
        if path == self.path:
            return self
        # A copy: agents that are asked side by side become parts while others are looked for.
        parts = [part for outer, part in list(self.parts.items()) if path == outer or path.startswith(f"{outer}/")]
        return parts[0].owner(key) if parts else None

    def __reduce__(self) -> Any:
        # An exception takes its run along to another process, and must arrive even if a value in its report cannot.
        import pickle  # whoever comes here has loaded it

        report: UndoReport | None = self.report()
        try:
            pickle.dumps(report)
        except Exception:
            report = None
        return PastRun, (report,)
