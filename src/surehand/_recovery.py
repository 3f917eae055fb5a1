"""What an agent needs to begin and recover runs in a journal, besides the run itself (design 5)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from msgspec import Struct

from ._codec import from_json, require_json, to_json
from ._colour import from_thread, pool
from ._options import RunChoices, RunOptions
from ._records import UNFINISHED, Started
from ._report import UndoReport
from ._results import RunResult, report_of
from .durable._journal import Journal
from .durable._opening import is_free
from .errors import RunInProgress, Suspended, UserError
from .messages import ChatParameters, UserMessage

__all__ = ["Recovered", "arecovered", "asked", "beginning", "off_loop", "opened", "orphaned", "recovered"]

T = TypeVar("T")


class Recovered(Struct, frozen=True, eq=False):
    """What became of a run that was gone on with: its ``result``, or the ``error`` that it raised.

    A run that had been given up and is now undone has a ``RunGivenUp`` as its error.
    """

    run_id: str
    result: RunResult[Any] | None = None
    error: Exception | Suspended | None = None

    @property
    def undone(self) -> UndoReport | None:
        """What became of its effects; absent if it could not even be opened."""
        if self.result is not None:
            return self.result.undone
        return None if self.error is None else report_of(self.error)


def opened(journal: str | os.PathLike[str] | Journal | None) -> Journal | None:
    """The journal; a path is a file of SQLite's."""
    if not isinstance(journal, str | os.PathLike):
        return journal
    from .durable._sqlite import SQLiteJournal  # loads SQLite, which nobody else needs

    return SQLiteJournal(journal)


async def off_loop(function: Callable[[], T]) -> T:
    """What a function that may block gives, without blocking the event loop."""
    return await from_thread(pool().submit(function))


def orphaned(journal: Journal) -> list[str]:
    """Unfinished runs that nobody is at work on, oldest first."""
    return [row.run_id for row in journal.rows(UNFINISHED) if is_free(journal, row)]


def recovered(run_id: str, resume: Callable[[str], RunResult[Any]]) -> Recovered | None:
    """What became of it; nothing if somebody else was quicker."""
    try:
        return Recovered(run_id, resume(run_id))
    except RunInProgress:
        return None
    except (Exception, Suspended) as error:
        return Recovered(run_id, error=error)


async def arecovered(run_id: str, resumed: Awaitable[RunResult[Any]]) -> Recovered | None:
    """The awaitable form of ``recovered``."""
    try:
        return Recovered(run_id, await resumed)
    except RunInProgress:
        return None
    except (Exception, Suspended) as error:
        return Recovered(run_id, error=error)


def beginning(prompt: UserMessage, given: RunChoices, *, has_deps: bool) -> Started:
    """What the journal keeps of what the caller asked for; raises ``UserError`` for what it cannot keep."""
    asked = (prompt, tuple(given.history), given.memory_id, dict(given.parameters), given.chat_parameters)
    started = Started(*asked, has_deps=has_deps, code=_code())
    for name in Started.__struct_fields__:
        _check(name, getattr(started, name))
    return from_json(to_json(started), Started)


@cache
def _code() -> str:
    try:
        return f"surehand {version('surehand')}"
    except PackageNotFoundError:
        return "surehand, from files that are not installed"


def asked(started: Started) -> RunOptions:
    """The options that the run's caller gave."""
    return {
        "memory_id": started.memory_id,
        "history": started.history,
        "parameters": started.parameters,
        "chat_parameters": started.chat_parameters,
    }


def _check(name: str, value: Any) -> None:
    remedy = f"{name}={value!r} cannot be kept in a journal, so the run could not be resumed"
    try:
        require_json(value)
    except UserError as error:
        raise UserError(f"{remedy}: {error}; give plain data, and live objects as deps=") from error
    if name in ("memory_id", "parameters") and from_json(to_json(value), Any) != value:
        raise UserError(f"{remedy}: it would come back as {from_json(to_json(value), Any)!r}; give plain data")
    if name == "chat_parameters" and value is not None and type(value) is not ChatParameters:
        raise UserError(f"{remedy}: give a provider's own parameters to Agent(chat_parameters=…)")
