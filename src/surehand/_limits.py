"""What a run has spent, and whether it may go on: its own limits, and those of the runs that it is part of. No I/O.

Calls, tokens, seconds and money are one pool: what a nested run spends, each run above it has spent too (design 3).
Rounds and errors in a row are a run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

from ._books import POOLS, Run
from ._round import Round
from ._tool_limits import asked_cost, check_call, check_errors, check_tools, has_room
from .budgets import money
from .errors import (
    CallLimitError,
    ConsecutiveErrorsError,
    CostLimitError,
    RoundLimitError,
    TimeLimitError,
    TokenLimitError,
)
from .messages import ChatResponse, TextContent
from .policies import Limits
from .tools._tool import Tool, ToolExecution

__all__ = [
    "REFUSED",
    "UNDOING_EVERY",
    "admit_round",
    "check_before_tools",
    "check_consecutive",
    "check_going_on",
    "check_one",
    "is_undoing",
    "lineage",
    "may_start_early",
    "spend_calls",
    "spend_cost",
    "spend_reply",
    "tokens_used",
    "was_refused",
]


_NOTHING = Decimal()

REFUSED = "a limit of the run was reached"
"""Why no call of a round was run that was asked for beyond a limit."""

UNDOING_EVERY = 0.02
"""Seconds between two looks at an agent that is given up, once its caller need not wait for anything else."""


def lineage(run: Run) -> Sequence[Run]:
    """The run, the one that it is part of, and so on up to the first."""
    return (run,) if run.parent is None else (run, *lineage(run.parent))


def is_undoing(run: Run) -> bool:
    """Whether an agent that was called is given up just now: each undo has its own deadline, so that ends."""
    at_work = [part for part in list(run.parts.values()) if not part.is_over]
    return any(part.given_up or is_undoing(part) for part in at_work)


def spend_reply(run: Run, response: ChatResponse) -> None:
    """A reply has been paid for."""
    if response.usage is not None:
        run.spend(usage=response.usage)
        if run.parent is not None:
            _spend_inside(run, tokens=response.usage.total or 0)


def spend_cost(run: Run, cost: Decimal) -> None:
    """A reply, or a call, has cost so much."""
    run.spend(cost=cost)
    if run.parent is not None:
        _spend_inside(run, cost=cost)


def _spend_inside(run: Run, tokens: int = 0, cost: Decimal = _NOTHING) -> None:
    """Note it for the tools of the runs above as well, inside of which it was spent."""
    with lineage(run)[-1].tallies.lock:
        while run.parent is not None:
            tally = run.parent.tallies.of(run.inside)
            tally.tokens, tally.cost = tally.tokens + tokens, tally.cost + cost
            run = run.parent


def spend_calls(run: Run, round_: Round) -> None:
    """A round of calls begins."""
    count = len(round_.order) - len(round_.held)
    if not count:
        return  # of answers alone
    run.rounds_made += 1
    run.spend(calls=count)


_NO_LOCK = nullcontext()


def admit_round(run: Run, round_: Round) -> None:
    """A round may begin, and what it spends is spent; raises the error of the limit that forbids it.

    Both in one, since agents side by side may be on threads of their own: they must not all take what is left for one.
    """
    with POOLS if run.parent is not None or run.parts else _NO_LOCK:
        check_before_tools(run, round_)
        spend_calls(run, round_)


def check_before_tools(run: Run, round_: Round) -> None:
    """Limits are looked at before anything runs, so a refused round has no effects (spec 7.2)."""
    limits, asked = run.settings.limits, len(round_.order) - len(round_.held)
    round_.why_not_run = REFUSED
    if asked and limits.rounds is not None and run.rounds_made >= limits.rounds:
        raise RoundLimitError(f"the model asked for tools after {limits.rounds} rounds, which Limits(rounds=…) forbids")
    _check_pool(run, limits, asked)
    if run.toolset.has_budgets:
        check_tools(run, round_)
        _check_cost(run, asked_cost(run, round_))
    round_.why_not_run = "the round ended before"
    check_going_on(run)


def _check_pool(run: Run, limits: Limits, asked: int) -> None:
    if limits.calls is not None and run.calls_made + asked > limits.calls:
        made = f"{run.calls_made} calls were made and {asked} more were asked for"
        raise CallLimitError(f"{made}; Limits(calls={limits.calls}) forbids that")
    if limits.tokens is not None and tokens_used(run) > limits.tokens:
        raise TokenLimitError(
            f"the run used {tokens_used(run)} tokens; Limits(tokens={limits.tokens}) forbids going on"
        )
    if limits.cost is not None and run.cost is not None and run.cost > money(limits.cost):
        raise CostLimitError(f"the run cost {run.cost}; Limits(cost={limits.cost}) forbids going on")
    if run.parent is not None:
        _check_pool(run.parent, run.parent.settings.limits, asked)


def _check_cost(run: Run, more: Decimal) -> None:
    for each in lineage(run):
        limit, cost = each.settings.limits.cost, each.cost or _NOTHING
        if more and limit is not None and cost + more > money(limit):
            raise CostLimitError(
                f"the run cost {cost}, and the calls that were asked for cost {more}; Limits(cost={limit}) forbids that"
            )


def check_one(run: Run, tool: Tool, key: str) -> None:
    """Raise if this call, which is about to begin, would exceed a limit of its tool, or what the run may cost."""
    check_call(run, tool, key)
    if tool.cost and key not in run.tallies.of(tool.name).keys:
        _check_cost(run, money(tool.cost))


def check_going_on(run: Run) -> None:
    """Raise if the run was cancelled or has taken too long."""
    run.check_cancelled()
    each: Run | None = run
    while each is not None:
        seconds = each.settings.limits.seconds
        if seconds is not None and each.now() - each.started_at > seconds:
            raise TimeLimitError(f"the run took longer than Limits(seconds={seconds!r}) allows")
        each = each.parent


def may_start_early(run: Run, round_: Round, tool: Tool | None) -> bool:
    """Whether the limits leave room for one more call, of that tool, of a reply that is still going on."""
    rounds = run.settings.limits.rounds
    return (
        (rounds is None or run.rounds_made < rounds)
        and _has_room(run, round_)
        and (tool is None or tool.limits is None or has_room(run, round_, tool))
    )


def _has_room(run: Run, round_: Round) -> bool:
    limits = run.settings.limits
    return (
        (limits.calls is None or run.calls_made + len(round_.calls) < limits.calls)
        and (limits.seconds is None or run.now() - run.started_at <= limits.seconds)
        and (limits.tokens is None or tokens_used(run) <= limits.tokens)
        and (limits.cost is None or run.cost is None or run.cost <= money(limits.cost))
        and (run.parent is None or _has_room(run.parent, round_))
    )


def was_refused(given_up: str) -> bool:
    """Whether a run that was given up for this reason, as records spell it, was refused its last round by a limit.

    That cannot be found out again: what others had spent by then, which share a pool with it, is not recorded.
    """
    refusals = (RoundLimitError, CallLimitError, TokenLimitError, CostLimitError)
    return given_up.startswith(tuple(error.__name__ for error in refusals))


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
    if may_end and run.toolset.has_budgets:
        check_errors(run, round_, failed)


def tokens_used(run: Run) -> int:
    """Input and output of all replies so far."""
    return 0 if run.usage is None else run.usage.total or 0
