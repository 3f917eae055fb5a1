"""Runs a run to its end and gives its result: here, by blocking, or on the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ._aperform import Awaiting
from ._books import Run
from ._drive import drive, exhaust
from ._effects import Core
from ._loop import run_loop
from ._perform import Blocking, abandoned
from ._pieces import Model
from ._results import RunResult, delivered
from ._supervise import Supervisor

__all__ = ["core_here", "core_on_loop", "run_here", "run_on_loop"]

T = TypeVar("T")
U = TypeVar("U")


def run_here(run: Run, model: Model) -> RunResult[Any]:
    """The result of the run, blocking."""
    return core_here(run, model, run_loop(run), delivered)


async def run_on_loop(run: Run, model: Model) -> RunResult[Any]:
    """The awaitable form: when the caller is cancelled, everything is dealt with before that is raised."""
    return await core_on_loop(run, model, run_loop(run), delivered)


def core_here(run: Run, model: Model, core: Core[T], deliver: Callable[[Run, T], U]) -> U:
    """What is delivered of that which the core gives, blocking."""
    io = Blocking(run, model)
    try:
        return deliver(run, exhaust(drive(core, io)))
    except BaseException as failure:
        abandoned(run, io, failure)
        raise


async def core_on_loop(run: Run, model: Model, core: Core[T], deliver: Callable[[Run, T], U]) -> U:
    """The awaitable form of ``core_here``."""
    return deliver(run, await Supervisor(run, core, Awaiting(run, model)).result())
