"""``surehand recover`` and ``surehand resume``: go on with runs whose process is gone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from .._recovery import Recovered
from .._results import RunResult, report_of
from ..errors import JournalError, RunGivenUp
from ._agents import AgentName, DepsName, agent_of, deps_of
from ._text import call_line, counted, one_line

__all__ = ["has_failed", "recover", "resume", "what_became"]


def recover(agent: AgentName, deps: DepsName = None) -> None:
    """Go on with every unfinished run whose process is gone. Exit code 1 if one could not be gone on with.

    Runs that are at work, here or elsewhere, and runs that wait for somebody's word are left alone.
    """
    with agent_of(agent) as found:
        outcomes = found.recover(deps=deps_of(deps))
        waiting = 0 if outcomes else sum(unknown.waits for unknown in found.unknowns())
    for outcome in outcomes:
        typer.echo(what_became(outcome))
    if not outcomes:
        typer.echo(f"nothing to recover{_of_waiting(waiting)}")
    if any(map(has_failed, outcomes)):
        raise typer.Exit(1)


def resume(
    agent: AgentName,
    run_id: Annotated[str, typer.Argument(help="The run's id.", show_default=False)],
    deps: DepsName = None,
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Even if its process is alive: what that writes is refused from then on."),
    ] = False,
) -> None:
    """Go on with one run, and tell what became of it. Exit code 1 if it could not be gone on with."""
    with agent_of(agent) as found:
        try:
            outcome = Recovered(run_id, found.resume(run_id, deps=deps_of(deps), take_over=take_over))
        except Exception as error:
            if has_failed(Recovered(run_id, error=error)):
                raise
            outcome = Recovered(run_id, error=error)
    typer.echo(what_became(outcome))


def _of_waiting(count: int) -> str:
    return f"; {counted(count, 'call')} of which somebody has to tell: see `surehand unknowns`" if count else ""


def has_failed(outcome: Recovered) -> bool:
    """Whether the run is still unfinished, though nobody's word is missing."""
    error = outcome.error
    if error is None or isinstance(error, RunGivenUp):
        return False
    return isinstance(error, JournalError) or report_of(error) is None


def what_became(outcome: Recovered) -> str:
    """What became of a run that was gone on with, in a line."""
    name = one_line(outcome.run_id, None)
    if outcome.result is not None:
        return f"{name}: {_of_result(outcome.result)}"
    error = outcome.error
    assert error is not None
    if has_failed(outcome):
        return f"{name}: could not be gone on with: {one_line(f'{type(error).__name__}: {error}', None)}"
    why = str(error) if isinstance(error, RunGivenUp) else f"{type(error).__name__}: {error}"
    return f"{name}: given up: {one_line(why)}{_of_effects(outcome)}"


def _of_result(result: RunResult[Any]) -> str:
    if result.pending:
        waiting = "; ".join(f"{result.run_id}:{e.key} {call_line(e.call)}" for e in result.pending)
        return f"waits for somebody's word on {one_line(waiting, None)}"
    return f"succeeded: {one_line(str(result.output))}"


def _of_effects(outcome: Recovered) -> str:
    report = outcome.undone
    if report is None:
        return ""
    kinds = (("undone", report.undone), ("not undone", report.failed_to_undo), ("unknown", report.unknown))
    told = [f"{kind}: {', '.join(one_line(e.call.name) for e in calls)}" for kind, calls in kinds if calls]
    return "".join(f"; {part}" for part in told)
