"""How runs are to be made: what an agent or a tool service was told, as one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .budgets import Budget, RepeatedCalls
from .policies import EarlyStart, ErrorPolicy, Limits, UndoPolicy
from .tools._providers import Source
from .tools._tool import Decoding, Tool, ToolContext, ToolExecution
from .tools._toolset import Toolset

__all__ = ["Hooks", "Settings"]


class Hooks(Struct, frozen=True):
    """Functions around each call (spec 7.4): the agent's own come first, then the run's."""

    before: tuple[Callable[..., Any], ...] = ()
    after: tuple[Callable[..., Any], ...] = ()


class Settings(Struct, frozen=True, kw_only=True, eq=False):
    """How runs are to be made; frozen, shared by all runs of an agent."""

    toolset: Toolset  # what is there before any provider is asked
    providers: tuple[Source, ...]
    search: tuple[Tool, ...]  # the tools with which the model searches for others
    limits: Limits
    errors: ErrorPolicy
    undo: UndoPolicy
    undo_when: Callable[[ToolExecution[Any]], bool]
    undo_timeout: float | None
    undo_retries: int
    drain_timeout: float
    early_start: EarlyStart
    authorise: Callable[..., Any] | None
    hooks: Hooks
    transform_request: Callable[..., Any] | None
    relax_tool_choice: bool
    on_abort: str
    on_tool_error: Callable[[ToolContext[Any]], Any] | None
    decoding: Decoding
    max_result: int | None
    repeated_calls: RepeatedCalls
    repeats_allowed: int
    soft: Budget | None  # of the limits, if there is any
