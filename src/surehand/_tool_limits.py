"""The limits of single tools in a run: looked at before anything of a round runs, and before each call. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ._books import Round, Run
from ._tallies import Tally
from .budgets import money
from .errors import CallLimitError, ConsecutiveErrorsError, CostLimitError, LimitError, TimeLimitError, TokenLimitError
from .messages import TextContent
from .tools._tool import Tool, ToolExecution

__all__ = ["asked_cost", "check_call", "check_errors", "check_tools", "has_room"]


def check_tools(run: Run, round_: Round) -> None:
    """Raise if a tool would be called more often, or has used up more, than its limits allow."""
    for tool, asked in _asked(run, round_).values():
        over = _over(run, tool, asked)
        if over is not None:
            raise over


def check_call(run: Run, tool: Tool, key: str) -> None:
    """The same for one call that is about to begin: a hook may have put it in the place of another."""
    over = _over(run, tool, {key})
    if over is not None:
        raise over


def check_errors(run: Run, round_: Round, failed: Sequence[ToolExecution[Any]]) -> None:
    """Raise if one of the tools whose calls failed in this round has done so too often in a row."""
    for execution in failed:
        tool = run.toolset.tools.get(execution.call.name)
        limit = None if tool is None or tool.limits is None else tool.limits.consecutive_errors
        if tool is None or limit is None or run.tallies.of(tool.name).errors < limit:
            continue
        last = " ".join(part.text for part in execution.result.contents if isinstance(part, TextContent))
        what = f"failed {limit} times in a row, last: {last}"
        error = ConsecutiveErrorsError(_said(tool, what, f"consecutive_errors={limit}"))
        raise error from round_.errors.get(int(execution.key.rpartition(".")[2]))


def has_room(run: Run, round_: Round, tool: Tool) -> bool:
    """Whether its limits leave room for one more call, of a reply that is still going on."""
    keys = {round_.key(slot) for slot, call in round_.calls.items() if call.name == tool.name}
    return _over(run, tool, {*keys, round_.key(-1)}) is None


def asked_cost(run: Run, round_: Round) -> Decimal:
    """What the calls of the round will cost that have not begun."""
    cost = Decimal()
    for tool, keys in _asked(run, round_).values():
        if tool.cost:
            cost += len(keys - run.tallies.of(tool.name).keys) * money(tool.cost)
    return cost


def _asked(run: Run, round_: Round) -> dict[str, tuple[Tool, set[str]]]:
    found: dict[str, tuple[Tool, set[str]]] = {}
    for slot in round_.order:
        tool = run.toolset.tools.get(round_.calls[slot].name)
        if tool is not None:
            found.setdefault(tool.name, (tool, set()))[1].add(round_.key(slot))
    return found


def _over(run: Run, tool: Tool, asked: set[str]) -> LimitError | None:
    """The error of the first limit of the tool that these calls would exceed."""
    limits, tally = tool.limits, run.tallies.of(tool.name)
    if limits is None:
        return None
    made = len(tally.asked - asked)
    if limits.calls is not None and made + len(asked) > limits.calls:
        what = f"was called {made} times in this run, and {len(asked)} more calls were asked for"
        return CallLimitError(_said(tool, what, f"calls={limits.calls}"))
    if limits.seconds is not None and tally.seconds > limits.seconds:
        return TimeLimitError(_said(tool, f"has taken {tally.seconds:.3g} s in this run", f"seconds={limits.seconds}"))
    if limits.tokens is not None and tally.tokens > limits.tokens:
        what = f"has used {tally.tokens} tokens in this run"
        return TokenLimitError(_said(tool, what, f"tokens={limits.tokens}"))
    if limits.cost is not None and _cost(tally, tool, asked) > money(limits.cost):
        what = f"would have cost {_cost(tally, tool, asked)} in this run"
        return CostLimitError(_said(tool, what, f"cost={limits.cost}"))
    return None


def _cost(tally: Tally, tool: Tool, asked: set[str]) -> Decimal:
    return tally.cost_of(tool, len(asked - tally.keys))


def _said(tool: Tool, what: str, limit: str) -> str:
    return f"tool {tool.name!r} {what}; @tool(limits=Budget({limit})) forbids that (soft_limits= would tell the model)"
