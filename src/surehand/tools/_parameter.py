"""One parameter of a function, as surehand sees it."""

from __future__ import annotations

import inspect
from typing import Any, Literal, TypeAlias

from msgspec import Struct

__all__ = ["MISSING", "Injected", "Parameter"]

MISSING: Any = inspect.Parameter.empty
Injected: TypeAlias = Literal["context", "parameters", "memory_id", "execution"]


class Parameter(Struct, frozen=True, eq=False):
    """One parameter: its resolved type, its default (or ``MISSING``), and what fills it if the model does not.

    ``may_be_absent``: it has no default and need not be passed, like a key of a TypedDict that is not required.
    """

    name: str
    hint: Any
    default: Any
    positional_only: bool
    injected: Injected | None
    may_be_absent: bool = False
    keyword_only: bool = False
