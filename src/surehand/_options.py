"""The options of agents and runs: their names, types and defaults in one place, checked before any model is called."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import Struct

from ._cancel import CancelToken
from ._checks import is_count, is_whole, misfit
from ._codec import clean_text
from ._settings import Hooks, Settings
from .budgets import REPEATED_CALLS, Amount, Budget, RepeatedCalls
from .durable._journal import Journal
from .errors import UserError, closest_names
from .events import Listener, Listeners
from .memory._base import ChatMemory
from .messages import ChatParameters, ChatResponse, Message
from .policies import EarlyStart, ErrorHandler, ErrorPolicy, Limits, UndoPolicy, undo_on_real_failure
from .tools._options import DECODINGS
from .tools._providers import Source
from .tools._search import ToolSearch, is_search, search_tools, searchable_toolset
from .tools._tool import Decoding, OutputMode, Parameters, Tool, ToolExecution
from .tools._toolset import NO_TOOLS, toolset_of

__all__ = [
    "RUN_DEFAULTS",
    "AgentChoices",
    "AgentOptions",
    "CallOptions",
    "ResumeOptions",
    "RunChoices",
    "RunOptions",
    "ServiceChoices",
    "ServiceOptions",
    "checked",
    "is_memory",
    "parallel_of",
    "settings_of",
]


class ServiceOptions(TypedDict, total=False):
    """What ``ToolService(tools, …)`` takes by name, and ``Agent`` too; its docstring explains each."""

    limits: Limits
    parallel: bool | int | None
    early_start: EarlyStart
    authorise: Callable[..., Any] | None
    on_error: ErrorPolicy | ErrorHandler
    undo: UndoPolicy | None
    undo_when: Callable[[ToolExecution[Any]], bool]
    undo_timeout: float | None
    undo_retries: int | None
    drain_timeout: float
    on_abort: Literal["complete", "discard"]
    on_tool_error: Callable[..., Any] | None
    decoding: Decoding
    max_result: int | None
    tool_search: ToolSearch | None
    repeated_calls: RepeatedCalls
    repeats_allowed: int
    before_tool: Callable[..., Any] | None
    after_tool: Callable[..., Any] | None
    listeners: Listeners | Iterable[Listener]
    transform_request: Callable[..., Any] | None
    relax_tool_choice: bool
    stream_buffer: int
    journal: str | os.PathLike[str] | Journal | None
    clock: Callable[[], float]
    new_id: Callable[[], str]


class AgentOptions(ServiceOptions, total=False):
    """What ``Agent(model, …)`` takes by name; its docstring explains each."""

    tools: Iterable[Any]
    name: str | None
    description: str | None
    instructions: str | None
    memory: ChatMemory | Callable[[Any], ChatMemory] | None
    chat_parameters: ChatParameters
    output_mode: OutputMode
    output_retries: int
    beside_output: Literal["run", "skip"]
    price: Callable[[ChatResponse], Amount] | None


class ResumeOptions(TypedDict, total=False):
    """What ``resume`` and ``recover`` take by name: the rest is in the journal."""

    parallel: bool | int | None
    cancel: CancelToken | None
    before_tool: Callable[..., Any] | None
    after_tool: Callable[..., Any] | None
    listeners: Iterable[Listener]


class CallOptions(TypedDict, total=False):
    """What ``execute`` and ``aexecute`` take by name; ``ToolService.execute`` explains each."""

    memory_id: Any
    parameters: Parameters | Mapping[str, Any]
    cancel: CancelToken | None
    before_tool: Callable[..., Any] | None
    after_tool: Callable[..., Any] | None
    listeners: Iterable[Listener]


class RunOptions(ResumeOptions, total=False):
    """What ``run``, ``arun``, ``stream`` and ``astream`` take by name; ``Agent.run`` explains each."""

    run_id: str | None
    memory_id: Any
    history: Sequence[Message]
    parameters: Parameters | Mapping[str, Any]
    chat_parameters: ChatParameters | None


def new_id() -> str:
    """A fresh run id."""
    return os.urandom(16).hex()


class ServiceChoices(Struct, frozen=True, kw_only=True, eq=False):
    """The options of a tool service, all of them: the given ones and the defaults."""

    limits: Limits = Limits()
    parallel: bool | int | None = None
    early_start: EarlyStart = "safe"
    authorise: Callable[..., Any] | None = None
    on_error: ErrorPolicy | ErrorHandler = ErrorPolicy()
    undo: UndoPolicy | None = None
    undo_when: Callable[[ToolExecution[Any]], bool] = undo_on_real_failure
    undo_timeout: float | None = 60.0
    undo_retries: int | None = None
    drain_timeout: float = 30.0
    on_abort: str = "complete"
    on_tool_error: Callable[..., Any] | None = None
    decoding: Decoding = "repair"
    max_result: int | None = 200_000
    tool_search: ToolSearch | None = None
    repeated_calls: RepeatedCalls = "warn"
    repeats_allowed: int = 1
    before_tool: Callable[..., Any] | None = None
    after_tool: Callable[..., Any] | None = None
    listeners: Listeners | Iterable[Listener] = ()
    transform_request: Callable[..., Any] | None = None
    relax_tool_choice: bool = True
    stream_buffer: int = 64
    journal: str | os.PathLike[str] | Journal | None = None
    clock: Callable[[], float] = time.time
    new_id: Callable[[], str] = new_id


class AgentChoices(Struct, frozen=True, kw_only=True, eq=False):
    """The options that an agent has besides those of its tool service."""

    tools: Iterable[Any] = ()
    name: str | None = None
    description: str | None = None
    instructions: str | None = None
    memory: ChatMemory | Callable[[Any], ChatMemory] | None = None
    chat_parameters: ChatParameters = ChatParameters()
    output_mode: OutputMode = "auto"
    output_retries: int = 2
    beside_output: str = "run"
    price: Callable[[ChatResponse], Amount] | None = None


class RunChoices(Struct, frozen=True, kw_only=True, eq=False):
    """The options of a run, all of them: the given ones and the defaults."""

    run_id: str | None = None
    memory_id: Any = "default"
    history: Sequence[Message] = ()
    parameters: Parameters | Mapping[str, Any] = {}
    chat_parameters: ChatParameters | None = None
    parallel: bool | int | None = None
    cancel: CancelToken | None = None
    before_tool: Callable[..., Any] | None = None
    after_tool: Callable[..., Any] | None = None
    listeners: Iterable[Listener] = ()


RUN_DEFAULTS = RunChoices()


# What an option must be, where its type alone decides.
_TYPES: dict[str, tuple[type, ...]] = {
    "limits": (Limits,),
    "name": (str, type(None)),
    "description": (str, type(None)),
    "instructions": (str, type(None)),
    "undo": (UndoPolicy, type(None)),
    "chat_parameters": (ChatParameters, type(None)),
    "relax_tool_choice": (bool,),
    "cancel": (CancelToken, type(None)),
    "parameters": (Parameters, Mapping),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "early_start": ("safe", "all", "off"),
    "on_abort": ("complete", "discard"),
    "decoding": DECODINGS,
    "output_mode": ("auto", "schema", "tool", "text"),
    "beside_output": ("run", "skip"),
    "repeated_calls": REPEATED_CALLS,
}
_SECONDS = ("undo_timeout", "drain_timeout")
# The least number that an option may be, whether it may be None, and what it says.
_COUNTS: dict[str, tuple[int, bool, str]] = {
    "stream_buffer": (1, False, "how many events may wait for the consumer"),
    "undo_retries": (0, True, "how often a failed undo is tried again; None is 3 times with a journal, else never"),
    "output_retries": (0, False, "how often an answer that does not fit is sent back"),
    "repeats_allowed": (0, False, "how often a call may be made again with the same arguments before anything is done"),
    "max_result": (1, True, "how many characters of a result the model may read; None is all"),
}
# What a function is called with; those of the second table are asked in place, so they cannot be async.
_HOOKS: dict[str, tuple[str, ...]] = {
    "authorise": ("context", "arguments"),
    "on_tool_error": ("context",),
    "before_tool": ("context",),
    "after_tool": ("execution", "context"),
    "transform_request": ("request", "memory_id"),
}
_PLAIN: dict[str, tuple[str, ...]] = {"undo_when": ("execution",), "clock": (), "new_id": ()}


# What people write for what is called otherwise here, or is not there.
_WISHES: dict[str, str] = {
    "system": "the system message is instructions='…'",
    "system_prompt": "the system message is instructions='…'",
    "max_rounds": "write limits=Limits(rounds=…)",
    "max_turns": "write limits=Limits(rounds=…)",
    "max_iterations": "write limits=Limits(rounds=…)",
    "temperature": "write chat_parameters=ChatParameters(temperature=…)",
    "max_tokens": "write chat_parameters=ChatParameters(max_output_tokens=…)",
    "tool_choice": "write chat_parameters=ChatParameters(tool_choice=ToolChoice.REQUIRED)",
    "output": "the type of the answer is the agent's: Agent(…, output=…)",
    "output_type": "write Agent(…, output=…)",
    "result_type": "write Agent(…, output=…)",
    "response_model": "write Agent(…, output=…)",
    "sync": "write journal=SQLiteJournal('runs.db', sync='normal')",
}


def checked(options: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise ``UserError`` for the first option that is unknown or cannot work, naming it and what was expected."""
    for name, value in options.items():
        if name not in known:
            raise UserError(f"{where} has no option {name!r}; {_remedy(name, known)}")
        expected = _complaint(name, value)
        if expected is not None:
            raise UserError(f"{where}: {name}={value!r}; expected {expected}")


def _remedy(name: str, known: Collection[str]) -> str:
    names = sorted(known)
    close = closest_names(name, names, most=1, cutoff=0.7)
    meant = f"did you mean {close[0]!r}?" if close else f"the options are {names!r}"
    if name in AgentOptions.__annotations__:
        return f"the agent has: Agent(…, {name}=…)" + (f"; {meant}" if close else "")
    return _WISHES.get(name) or meant


def _complaint(name: str, value: Any) -> str | None:
    given: object = value
    kinds = _TYPES.get(name)
    if kinds is not None and not isinstance(value, kinds):
        return " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"one of {_CHOICES[name]!r}"
    if name in _SECONDS and not _is_seconds(value, may_be_none=name == "undo_timeout"):
        return "seconds, at least 0"
    if name in _HOOKS and value is not None:
        return misfit(value, *_HOOKS[name])
    if name == "price":
        return None if value is None else misfit(value, "response", may_be_async=False)
    if name in _PLAIN:
        return misfit(value, *_PLAIN[name], may_be_async=False)
    if name == "on_error" and not isinstance(value, ErrorPolicy):
        expected = misfit(value, "error", "context")
        return None if expected is None else f"an ErrorPolicy, or {expected}"
    if name == "journal" and value is not None and not _is_journal(value):
        return "a path, SQLiteJournal(…), MemoryJournal() or None"
    if name == "memory" and value is not None and not is_memory(value):
        expected = misfit(value, "memory_id", may_be_async=False)
        return None if expected is None else f"a ChatMemory, or {expected}"
    if name == "tool_search" and not (value is None or is_search(value)):
        return "a ToolSearch such as KeywordSearch(), or None"
    if name == "listeners" and (isinstance(value, str | bytes) or not isinstance(value, Listeners | Iterable | None)):
        return "a list of functions of one event"
    if name == "parallel" and not (value is None or isinstance(value, bool) or is_count(value)):
        return "True, False, None, or how many calls may run at once (at least 1)"
    if name in _COUNTS:
        return _miscount(value, *_COUNTS[name])
    if name == "run_id" and not (value is None or _is_run_id(given)):
        return "a text of 1 to 200 characters"
    return None


def _miscount(value: Any, least: int, may_be_none: bool, what: str) -> str | None:
    if (may_be_none and value is None) or (is_whole(value) and value >= least):
        return None
    return f"{what} (at least {least})"


def _is_run_id(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and clean_text(value) == value


def is_memory(value: object) -> bool:
    """Whether it is a conversation's memory, and not a class of them, which is a function that makes one."""
    return isinstance(value, ChatMemory) and not isinstance(value, type)


def _is_journal(value: object) -> bool:
    # By what it can do, looked up on its class: an instance would take its lock when it is asked for its owner.
    is_one = all(hasattr(type(value), name) for name in ("owner", "start", "claim", "append", "records"))
    return isinstance(value, str | os.PathLike) or is_one


def _is_seconds(value: Any, *, may_be_none: bool) -> bool:
    if value is None:
        return may_be_none
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def parallel_of(chosen: bool | int | None, *, is_async: bool) -> bool | int:
    """How many calls of a round may run at once; the one default in which modes differ (spec 8.2, 8.4)."""
    if chosen is None:
        return is_async
    return False if chosen == 1 and chosen is not True else chosen


def settings_of(chosen: ServiceChoices, tools: Sequence[Tool], providers: Sequence[Source] = ()) -> Settings:
    """The settings of a service from its checked options, collected tools and providers."""
    on_error = chosen.on_error
    undo = chosen.undo
    if undo is None:
        # As soon as a tool can be undone, giving a run up undoes it; a mere tool error does not (spec 11.1.6). What
        # providers will give nobody knows yet.
        can_undo = bool(providers) or any(map(_may_be_undone, tools))
        undo = UndoPolicy.ON_GIVE_UP if can_undo else UndoPolicy.OFF
    by_name = {tool.name: tool for tool in tools}
    search = () if chosen.tool_search is None else search_tools(chosen.tool_search)
    return Settings(
        toolset=searchable_toolset(by_name, search) if search else toolset_of(by_name) if tools else NO_TOOLS,
        providers=tuple(providers),
        search=search,
        limits=chosen.limits,
        errors=on_error if isinstance(on_error, ErrorPolicy) else ErrorPolicy(execution=on_error),
        undo=undo,
        undo_when=chosen.undo_when,
        undo_timeout=chosen.undo_timeout,
        undo_retries=_retries(chosen),
        drain_timeout=chosen.drain_timeout,
        early_start=chosen.early_start,
        authorise=chosen.authorise,
        hooks=hooks_of(chosen.before_tool, chosen.after_tool),
        transform_request=chosen.transform_request,
        relax_tool_choice=chosen.relax_tool_choice,
        on_abort=chosen.on_abort,
        on_tool_error=chosen.on_tool_error,
        decoding=chosen.decoding,
        max_result=chosen.max_result,
        repeated_calls=chosen.repeated_calls,
        repeats_allowed=chosen.repeats_allowed,
        soft=None if chosen.limits.soft == Budget() else chosen.limits.soft,
    )


def _may_be_undone(tool: Tool) -> bool:
    return tool.undo is not None or tool.nested is not None


def _retries(chosen: ServiceChoices) -> int:
    # Who has a journal has somewhere to tell how it went, and a key that makes trying again harmless.
    if chosen.undo_retries is None:
        return 0 if chosen.journal is None else 3
    return chosen.undo_retries


_NO_HOOKS = Hooks()


def hooks_of(before: Callable[..., Any] | None, after: Callable[..., Any] | None, first: Hooks = _NO_HOOKS) -> Hooks:
    """These hooks, behind the ones that come first."""
    if before is None and after is None:
        return first
    return Hooks(
        (*first.before, *(() if before is None else (before,))),
        (*first.after, *(() if after is None else (after,))),
    )
