"""An agent named on the command line: ``module:name``, imported from the current folder."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from typing import Annotated, Any

import typer

from .._checks import is_awaitable
from ..agent import Agent
from ..errors import UserError

__all__ = ["AgentName", "DepsName", "agent_of", "deps_of"]

AgentName = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:AGENT", help="Where the agent is: `shop:agent` for `agent` in shop.py.", show_default=False
    ),
]
DepsName = Annotated[
    str | None,
    typer.Option(
        "--deps", metavar="MODULE:FUNCTION", help="A function without parameters that gives the deps of resumed runs."
    ),
]


def agent_of(name: str) -> Agent[Any, Any]:
    """The agent of that name, or what a function of that name gives; raises ``UserError`` if there is none."""
    found = _named(name)
    if callable(found) and not isinstance(found, Agent):
        found = _called(name, found)
    if not isinstance(found, Agent):
        raise UserError(f"{name!r} is {found!r}; expected an Agent, or a function that makes one")
    return found  # pyright: ignore[reportUnknownVariableType]


def deps_of(name: str | None) -> Any:
    """What the function of that name gives; nothing without a name."""
    if name is None:
        return None
    function = _named(name)
    if not callable(function):
        raise UserError(f"--deps {name!r} is {function!r}; expected a function without parameters that gives the deps")
    made = _called(name, function)
    if is_awaitable(made):
        with contextlib.suppress(AttributeError):
            made.close()  # a coroutine that nobody awaits warns
        raise UserError(
            f"--deps {name!r} gave {made!r}, which has to be awaited; expected a function that gives the deps"
        )
    return made


def _named(name: str) -> Any:
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise UserError(f"{name!r}: expected MODULE:NAME, such as 'shop:agent' for `agent` in shop.py")
    if module_name.endswith(".py"):
        raise UserError(f"{name!r}: expected the name of a module and not of a file, such as 'shop:agent' for shop.py")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a command's own folder stands first otherwise, and not the current one
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        why = f"{_described(error)}{_where(error, module_name)}"
        raise UserError(f"{name!r}: the module {module_name!r} cannot be imported: {why}") from error
    for part in path.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise UserError(f"{name!r}: {module_name!r} has no {path!r}") from error
    return found


def _called(name: str, function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        raise UserError(f"{name!r} was called and raised {_described(error)}") from error


def _where(error: Exception, module_name: str) -> str:
    if isinstance(error, ModuleNotFoundError) and module_name.startswith(str(error.name)):
        return f"; it is looked for in the current folder, {os.getcwd()!r}, first"
    return ""


def _described(error: Exception) -> str:
    """The error with the line that raised it: a sentence has no traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return f"{type(error).__name__}: {error}{place}"
