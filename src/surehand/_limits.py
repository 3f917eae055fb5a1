"""What a run has spent, and whether it may go on: its own limits, and those of the runs that it is part of. No I/O.

Calls, tokens and seconds are one pool: what a nested run spends, each run above it has spent too (design 3). Rounds
and errors in a row are a run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._books import Round, Run
from .errors import (
    CallLimitError,
    ConsecutiveErrorsError,
    RoundLimitError,
    TimeLimitError,
    TokenLimitError,
)
from .messages import ChatResponse, TextContent
from .policies import Limits
from .tools._tool import ToolExecution

__all__ = [
    "check_before_tools",
    "check_consecutive",
    "check_going_on",
    "lineage",
    "may_start_early",
    "spend_calls",
    "spend_reply",
]


def lineage(run: Run) -> Sequence[Run]:
    """The run, the one that it is part of, and so on up to the first."""
    return (run,) if run.parent is None else (run, *lineage(run.parent))


def spend_reply(run: Run, response: ChatResponse) -> None:
    """A reply has been paid for."""
    if response.usage is not None:
        run.spend(usage=response.usage)


def spend_calls(run: Run, count: int) -> None:
    """A round of so many calls begins."""
    if not count:
        return  # of answers alone
    run.rounds_made += 1
    run.spend(calls=count)


def check_before_tools(run: Run, round_: Round) -> None:
    """Limits are looked at before anything runs, so a refused round has no effects (spec 7.2)."""
    limits, asked = run.settings.limits, len(round_.order) - len(round_.held)
    round_.why_not_run = "a limit of the run was reached"
    if asked and limits.rounds is not None and run.rounds_made >= limits.rounds:
        raise RoundLimitError(f"the model asked for tools after {limits.rounds} rounds, which Limits(rounds=…) forbids")
    _check_pool(run, limits, asked)
    round_.why_not_run = "the round ended before"
    check_going_on(run)


def _check_pool(run: Run, limits: Limits, asked: int) -> None:
    if limits.calls is not None and run.calls_made + asked > limits.calls:
        made = f"{run.calls_made} calls were made and {asked} more were asked for"
        raise CallLimitError(f"{made}; Limits(calls={limits.calls}) forbids that")
    if limits.tokens is not None and _tokens_used(run) > limits.tokens:
        raise TokenLimitError(
            f"the run used {_tokens_used(run)} tokens; Limits(tokens={limits.tokens}) forbids going on"
        )
    if run.parent is not None:
        _check_pool(run.parent, run.parent.settings.limits, asked)


def check_going_on(run: Run) -> None:
    """Raise if the run was cancelled or has taken too long."""
    run.check_cancelled()
    each: Run | None = run
    while each is not None:
        seconds = each.settings.limits.seconds
        if seconds is not None and each.now() - each.started_at > seconds:
            raise TimeLimitError(f"the run took longer than Limits(seconds={seconds!r}) allows")
        each = each.parent


def may_start_early(run: Run, round_: Round) -> bool:
    """Whether the limits leave room for one more call of a reply that is still going on."""
    rounds = run.settings.limits.rounds
    return (rounds is None or run.rounds_made < rounds) and _has_room(run, round_)


def _has_room(run: Run, round_: Round) -> bool:
    limits = run.settings.limits
    return (
        (limits.calls is None or run.calls_made + len(round_.calls) < limits.calls)
        and (limits.seconds is None or run.now() - run.started_at <= limits.seconds)
        and (limits.tokens is None or _tokens_used(run) <= limits.tokens)
        and (run.parent is None or _has_room(run.parent, round_))
    )


def check_consecutive(
    run: Run, round_: Round, executions: list[ToolExecution[Any]], failed: list[ToolExecution[Any]], *, may_end: bool
) -> None:
    """Count a round in which calls failed; raise if every call did so in too many rounds in a row."""
    run.errors_in_a_row = run.errors_in_a_row + 1 if len(failed) == len(executions) else 0
    limit = run.settings.limits.consecutive_errors
    if limit is not None and run.errors_in_a_row >= limit and may_end:
        names = sorted({execution.call.name for execution in failed})
        last = " ".join(part.text for part in failed[-1].result.contents if isinstance(part, TextContent))
        raise ConsecutiveErrorsError(
            f"every call failed in {limit} rounds in a row, last {names!r}: {last} "
            "(Limits(consecutive_errors=…) sets how many are allowed)"
        ) from next(reversed(round_.errors.values()), None)


def _tokens_used(run: Run) -> int:
    return 0 if run.usage is None else run.usage.total or 0
