"""Limits, error handling and undo policy: what a run may do and how it reacts, as values and pure functions."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from ._checks import misfit
from .budgets import Amount, Budget, check_amounts
from .errors import UnknownToolError, UserError, closest_names
from .messages import ToolCall, ToolMessage
from .tools._tool import Outcome, Parameters, ReturnBehavior, ToolExecution, ToolResult

__all__ = [
    "EarlyStart",
    "ErrorContext",
    "ErrorHandler",
    "ErrorPolicy",
    "Limits",
    "UndoPolicy",
    "UnknownNameHandler",
    "abort",
    "abort_on_unknown_name",
    "returns_immediately",
    "suggest_names",
    "tell_model",
    "tell_safely",
    "undo_on_any_error",
    "undo_on_real_failure",
]

EarlyStart: TypeAlias = Literal["safe", "all", "off"]
"""Which calls may start before the reply that asks for them is complete (spec 7.8.2)."""


class UndoPolicy(enum.Enum):
    """When what was done is undone (spec 11.1.6)."""

    OFF = "off"
    ON_TOOL_ERROR = "on_tool_error"  # a failed call rolls back what the run has done so far; the run goes on
    ON_GIVE_UP = "on_give_up"  # once, when the run ends without a result


class Limits(Struct, frozen=True, kw_only=True):
    """What one run may spend; ``None`` is no limit (spec 7.2, 9.6).

    ``rounds`` of tools, ``calls`` of tools, ``tokens`` (input plus output of all replies), ``seconds`` (checked
    between steps: a running tool is not interrupted), ``cost`` (money, in the unit of ``Agent(price=…)`` and
    ``@tool(cost=…)``) and ``consecutive_errors``: rounds in a row in which every call failed. A run that would exceed
    one is given up. ``depth``: how deep agents may call agents. What an agent spends that is called as a tool, its
    caller spends too; rounds and errors in a row are each one's own.

    ``soft``: what may be used up before the model is told to come to an end: a call beyond that does not run, its
    result says why, and the run goes on.
    """

    rounds: int | None = 100
    calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    consecutive_errors: int | None = 5
    cost: Amount | None = None
    depth: int | None = 8
    soft: Budget = Budget()

    def __post_init__(self) -> None:
        check_amounts(self, "Limits", tuple(name for name in self.__struct_fields__ if name != "soft"))
        if not isinstance(self.soft, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Limits(soft={self.soft!r}): expected a Budget(…)")


# ---------------------------------------------------------------- errors (spec 9)


class ErrorContext(Struct, frozen=True, eq=False):
    """What an error handler is told besides the error (spec 2.4.10). ``raw_error`` is what was raised, untouched."""

    call: ToolCall
    run_id: str
    memory_id: Any
    parameters: Parameters
    raw_error: BaseException


ErrorHandler: TypeAlias = Callable[[BaseException, ErrorContext], "str | ToolResult | Awaitable[str | ToolResult]"]
"""Gives the text (or error result) that the model reads, or raises to give the run up (spec 9.2)."""

UnknownNameHandler: TypeAlias = Callable[
    [ToolCall, Sequence[str]], "str | ToolResult | ToolMessage | Awaitable[str | ToolResult | ToolMessage]"
]
"""Gets a call of a tool that does not exist and the names that do; gives a result, or raises (spec 10.1)."""


def tell_model(error: BaseException, context: ErrorContext) -> str:
    """The error's own words; its type where it has none (spec 9.7). They may hold secrets: prefer ``tell_safely``."""
    words = str(error)
    return words if words.strip() else tell_safely(error, context)


def tell_safely(error: BaseException, context: ErrorContext) -> str:
    """A sentence with the tool's name and the type of the error, and none of the error's words (spec 9.8)."""
    return f"Tool {context.call.name!r} failed with {type(error).__name__}."


def abort(error: BaseException, context: ErrorContext) -> str:
    """Give the run up: raises the error itself."""
    raise error


def suggest_names(call: ToolCall, names: Sequence[str]) -> str:
    """Tell the model that there is no such tool, with the closest names, at most five (spec 10.1)."""
    close = closest_names(call.name, names)
    offer = f"Did you mean one of {close!r}?" if close else f"The tools are {list(names)[:5]!r}."
    return f"There is no tool named {call.name!r}. {offer}" if names else f"There is no tool named {call.name!r}."


def abort_on_unknown_name(call: ToolCall, names: Sequence[str]) -> str:
    """Give the run up: raises ``UnknownToolError``."""
    raise UnknownToolError(
        f"the model called {call.name!r}, but no such tool exists; known: {list(names)[:20]!r}. "
        "ErrorPolicy(unknown_name=…) decides what happens then"
    )


class ErrorPolicy(Struct, frozen=True, kw_only=True):
    """What happens when a call fails, the same in every mode (spec 9.6). Each row is one handler.

    ``arguments``: the arguments do not fit. ``tool_error``: the tool raised ``ToolError``. ``execution``:
    anything else; ``None`` takes the outcome rules: safe tools tell the model a safe sentence, others give the
    run up unless a probe or a timeout says otherwise. ``unknown_name``: no such tool.
    """

    arguments: ErrorHandler = tell_model
    tool_error: ErrorHandler = tell_model
    execution: ErrorHandler | None = None
    unknown_name: UnknownNameHandler = suggest_names

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            handler = getattr(self, name)
            arguments = ("call", "names") if name == "unknown_name" else ("error", "context")
            expected = misfit(handler, *arguments)
            if expected is not None and not (name == "execution" and handler is None):
                raise UserError(f"ErrorPolicy({name}={handler!r}): expected {expected}")


# ---------------------------------------------------------------- pure decisions


def returns_immediately(any_error: bool, behaviors: Sequence[ReturnBehavior]) -> bool:
    """Whether a round ends the run without asking the model again (spec 7.9)."""
    if any_error or not behaviors:
        return False
    if behaviors[-1] is ReturnBehavior.IMMEDIATE_IF_LAST:
        return True
    return all(behavior is not ReturnBehavior.TO_MODEL for behavior in behaviors)


def undo_on_any_error(execution: ToolExecution[Any]) -> bool:
    """Under ``ON_TOOL_ERROR``: any failed call undoes what was done (spec 11.3.3, "always")."""
    return True


def undo_on_real_failure(execution: ToolExecution[Any]) -> bool:
    """Under ``ON_TOOL_ERROR``: calls whose body was never entered undo nothing (spec 11.3.3, the default)."""
    return execution.outcome in (Outcome.DONE, Outcome.FAILED, Outcome.UNKNOWN)
