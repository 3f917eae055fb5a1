"""``surehand runs`` and ``surehand show``: what is in a journal."""

from __future__ import annotations

from typing import Annotated

import typer

from .._records import OVER, State
from ..durable._journal import RunRow
from ..durable._sqlite import SQLiteJournal
from ..errors import JournalDamaged, UnknownRun, UserError
from ._files import JournalFile, known_of, opened, process_of
from ._story import counts, story
from ._text import columns, one_line, shown, when

__all__ = ["STATES", "runs", "show"]

STATES = (State.RUNNING, State.SUSPENDED, State.DRAINING, State.UNDOING, *OVER)
_HEADINGS = ("RUN", "STATE", "BEGUN", "LAST CHANGE", "PROCESS", "CALLS")


def runs(
    file: JournalFile,
    state: Annotated[
        list[str] | None, typer.Option("--state", help="Only runs in this state; may be given more than once.")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=1, help="At most so many runs, the newest.")] = 50,
) -> None:
    """List the runs of a journal, oldest first. Nothing is changed; runs may be at work meanwhile."""
    with opened(file) as journal:
        rows = journal.rows(_checked(state))
        table = [_line(journal, row) for row in rows[-last:]]
    if not rows:
        typer.echo("no runs" if not state else f"no runs in {' or '.join(state)}")
        return
    for line in columns([_HEADINGS, *table]):
        typer.echo(line)
    if len(rows) > last:
        typer.echo(f"and {len(rows) - last} older ones; --last shows more")


def _checked(states: list[str] | None) -> list[str] | None:
    for state in states or ():
        if state not in STATES:
            raise UserError(f"--state {state!r}: expected one of {', '.join(STATES)}")
    return states or None


def _line(journal: SQLiteJournal, row: RunRow) -> tuple[str, ...]:
    try:
        calls = counts(known_of(journal, row))
    except JournalDamaged:
        calls = "damaged: see surehand journal check"
    except UnknownRun:
        calls = "-"  # pruned meanwhile
    begun, changed = when(row.started_at), when(row.changed_at)
    return one_line(row.run_id, None), row.state, begun, changed, process_of(journal, row), calls


def show(
    file: JournalFile,
    run_id: Annotated[str, typer.Argument(help="The run's id, as `surehand runs` lists it.", show_default=False)],
    records: Annotated[bool, typer.Option("--records", help="Also the records, one a line, as they are.")] = False,
) -> None:
    """Tell what happened in a run: what was asked, each reply, each call and what became of it."""
    with opened(file) as journal:
        row = journal.row(run_id)
        if row is None:
            raise UnknownRun(f"there is no run {run_id!r} in {file}; `surehand runs {file}` lists them")
        known, process = known_of(journal, row), process_of(journal, row)
        written = journal.records(run_id) if records else []
    typer.echo(f"run {one_line(run_id, None)}: {row.state}{_meaning(row, process)}")
    typer.echo(f"begun {when(row.started_at)}, last change {when(row.changed_at)}")
    if known.started is not None and known.started.code:
        typer.echo(f"begun by {one_line(known.started.code)}")
    for line in story(run_id, known, is_alive=process == "alive"):
        typer.echo(line)
    if written:
        typer.echo("")
    for record in written:
        body = shown(record.body.decode("utf-8", "replace"))
        typer.echo(f"{record.seq:>5}  claim {record.epoch}  {record.kind:<12} {one_line(record.step, None)}  {body}")


def _meaning(row: RunRow, process: str) -> str:
    match row.state:
        case State.SUCCEEDED:
            return ", it has its answer"
        case State.UNDONE:
            return ", it was given up, and all that has an undo is undone"
        case State.STUCK:
            return ", it was given up, and something stands or may stand"
        case State.SUSPENDED:
            return ", it waits for somebody's word on the unknown calls below"
        case _ if process == "alive":
            return f", its process {one_line(row.owner)} is alive"
        case _:
            return ", nobody is at work on it: `surehand recover module:agent` goes on with it"
