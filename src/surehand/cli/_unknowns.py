"""``surehand unknowns`` and ``surehand resolve``: calls of which nobody knows whether they happened."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from pydantic import ValidationError

from .._codec import from_json
from ..agent import Agent
from ..durable._unknowns import unknown_calls
from ..errors import UserError
from ..tools._tool import Absent, Happened
from ._agents import AgentName, agent_of
from ._files import JournalFile, opened
from ._text import call_line, columns, one_line

__all__ = ["resolve", "unknowns"]


def unknowns(file: JournalFile) -> None:
    """List the calls of which nobody knows whether they happened, with the keys to ask their services for."""
    with opened(file) as journal:
        found = unknown_calls(journal)
    if not found:
        typer.echo("no unknown calls")
        return
    rows = [(one_line(u.key, None), u.state, "waits" if u.waits else "-", call_line(u.call)) for u in found]
    for line in columns([("KEY", "RUN IS", "FOR THIS", "CALL"), *rows]):
        typer.echo(line)


def resolve(
    agent: AgentName,
    key: Annotated[str, typer.Argument(help="The call's key, as `surehand unknowns` lists it.", show_default=False)],
    happened: Annotated[
        str | None,
        typer.Option("--happened", metavar="JSON", help="It happened, and the tool would have returned this."),
    ] = None,
    absent: Annotated[bool, typer.Option("--absent", help="It did not happen.")] = False,
) -> None:
    """Tell whether a call happened. Its run goes on when it is recovered or resumed next."""
    if (happened is None) != absent:
        raise UserError("give either --happened JSON or --absent")
    with agent_of(agent) as found:
        found.resolve(key, Absent() if happened is None else Happened(_value(found, key, happened)))
    typer.echo(f"noted; `surehand recover {agent}` goes on with the run")


def _value(agent: Agent[Any, Any], key: str, text: str) -> Any:
    """What the tool would have returned, of the type that it returns."""
    tool = agent.service.tool_called(key)
    try:
        return from_json(text.encode(), object) if tool is None else tool.body.values.load(text.encode())
    except Exception as error:
        what = "JSON" if tool is None else f"what {tool.name!r} returns, as JSON"
        quoted = """; text is written with its quotes: --happened '"…"'""" if _is_bare(text) else ""
        raise UserError(f"--happened {text!r} is not {what}: {_why(error)}{quoted}") from error


def _is_bare(text: str) -> bool:
    """Whether somebody has left out the quotes of a text."""
    return text[:1].isalpha()


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):  # whose own text has lines and a link
        return "; ".join(": ".join([*map(str, problem["loc"]), problem["msg"]]) for problem in error.errors())
    return str(error)
