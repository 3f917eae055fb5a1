"""``surehand journal``: what a person does with a journal's file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ..errors import JournalDamaged, UserError

__all__ = ["journal_app"]

journal_app = typer.Typer(help="The journal of durable runs.", no_args_is_help=True)


@journal_app.callback()
def _journal() -> None:  # pyright: ignore[reportUnusedFunction]  # typer calls it, and so keeps the commands' names
    pass


@journal_app.command("check")
def check(file: Annotated[Path, typer.Argument(help="The journal's file.")]) -> None:
    """Check every record against the digests that were written with it. Exit code 1 if something is wrong."""
    from ..durable._sqlite import SQLiteJournal

    if not file.is_file():
        raise UserError(f"there is no file {str(file)!r}")
    try:
        with closing(SQLiteJournal(file)) as journal:
            runs, damages = len(journal.rows()), journal.check()
    except JournalDamaged as error:
        typer.echo(str(error))
        raise typer.Exit(1) from error
    for damage in damages:
        typer.echo(f"{f'run {damage.run_id}: ' if damage.run_id else ''}{damage.problem}")
    if damages:
        raise typer.Exit(1)
    typer.echo(f"{runs} runs, all as they were written")
