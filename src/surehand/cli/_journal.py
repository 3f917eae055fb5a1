"""``surehand journal``: what a person does with a journal's file."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from .._records import OVER, State
from ..errors import JournalDamaged, UserError
from ._files import JournalFile, opened
from ._text import counted, one_line, shown

__all__ = ["journal_app"]

journal_app = typer.Typer(help="The journal of durable runs.", no_args_is_help=True)
_DAY = 86400.0


@journal_app.callback()
def _journal() -> None:  # pyright: ignore[reportUnusedFunction]  # typer calls it, and so keeps the commands' names
    pass


@journal_app.command("check")
def check(file: JournalFile) -> None:
    """Check every record against the digests that were written with it. Exit code 1 if something is wrong."""
    try:
        with opened(file) as journal:
            runs, damages = len(journal.rows()), journal.check()
    except JournalDamaged as error:
        typer.echo(shown(str(error)))
        raise typer.Exit(1) from error
    for damage in damages:
        of_run = f"run {one_line(damage.run_id, None)}: " if damage.run_id else ""
        typer.echo(f"{of_run}{shown(damage.problem)}")
    if damages:
        raise typer.Exit(1)
    typer.echo(f"{counted(runs, 'run')}, all as they were written")


@journal_app.command("prune")
def prune(
    file: JournalFile,
    older_than: Annotated[float, typer.Option("--older-than", metavar="DAYS", min=0, help="Days without a change.")],
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help=f"{', '.join(OVER)}; by default {State.SUCCEEDED} and {State.UNDONE}."),
    ] = None,
) -> None:
    """Forget runs that are over. A forgotten id is free: to run with it again is to begin anew."""
    states = state or [State.SUCCEEDED, State.UNDONE]
    for name in states:
        if name not in OVER:
            raise UserError(f"--state {name!r}: only runs that are over can be forgotten: {', '.join(OVER)}")
    with opened(file) as journal:
        forgotten = journal.prune(before=time.time() - older_than * _DAY, states=states)
    typer.echo(f"{counted(forgotten, 'run')} forgotten")
