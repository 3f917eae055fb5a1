"""What is decided around one call besides its outcome: whether it comes too often, and whether its budget is used up.

``admit_call`` decides before the body is entered and counts the call; ``counted`` enters how it ended and adds to its
result what the model should know. Everything that the model reads is part of the call's result, and so of its record:
a run that is told again takes it from there, and only counts (``recount``). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ._books import Run
from ._job import Ended, Job
from ._limits import check_one, lineage, spend_cost, tokens_used
from ._money import cost_of
from ._tallies import Seen, Spent, Tallies, Tally, used_up
from .budgets import Amount, RepeatedCalls, money
from .errors import RepeatedCallError
from .events import LimitWarning
from .messages import ChatResponse, TextContent, ToolCall
from .tools._tool import Outcome, ReturnBehavior, Tool, ToolExecution, ToolResult
from .tools._toolset import has_budget

__all__ = ["admit_call", "counted", "pay", "recount", "warn_reached"]

_RAN = (Outcome.DONE, Outcome.FAILED, Outcome.UNKNOWN)


def admit_call(job: Job, is_new: bool) -> ToolResult | None:
    """Count the call, which is about to begin; gives what the model reads instead if it is refused.

    One that a dead process had begun (``is_new`` is false) is never refused. Raises the error of a hard limit.
    """
    run, tool = job.run, job.tool
    policy = tool.repeated_calls or run.settings.repeated_calls
    if policy != "allow":
        before = _repeats(job, policy == "warn" or not is_new)
        if before:
            refused = _repeated(job, policy, before, is_new)
            if refused is not None:
                return refused
    return _budgeted(job, is_new) if run.has_soft or run.toolset.has_budgets else None


# ---------------------------------------------------------------- repeated calls


def _repeats(job: Job, runs: bool) -> int:
    """How often the same call was made before, if that is too often; ``runs``: it counts even so."""
    run, name, tallies = job.run, job.tool.name, job.run.tallies
    free = run.settings.repeats_allowed + 1
    if run.parallel is False and not run.by_hand:  # of whoever goes by hand, calls may be on threads all the same
        seen = tallies.seen.get(name)
        if seen is None:
            seen = tallies.seen[name] = Seen([])
        return seen.note(job.arguments, job.tool, free, runs)
    with tallies.lock:
        seen = tallies.seen.setdefault(name, Seen([]))
        return seen.note(job.arguments, job.tool, free, runs)


def _repeated(job: Job, policy: RepeatedCalls, before: int, is_new: bool) -> ToolResult | None:
    run, name = job.run, job.tool.name
    again = f"{before + 1} times with the same arguments"
    _emit(run, f"the model has called {name!r} {again} ({policy})")
    if policy == "warn" or not is_new:
        job.notes += (
            f"Note: you have now called {name!r} {again}. The result will probably stay the same: use what you have, "
            "change the arguments, or do something else.",
        )
        return None
    if policy == "refuse":
        return ToolResult.error(
            f"This call of {name!r} was not run: you have called it {again}, and the result would probably stay the "
            "same. Use what you have, change the arguments, or do something else."
        )
    raise RepeatedCallError(
        f"the model called {name!r} {again}, {job.call.arguments[:200]}, and repeated_calls='stop' gives the run up "
        "then. repeats_allowed=… sets how often it may; @tool(repeated_calls='allow') is for tools that are polled"
    )


# ---------------------------------------------------------------- budgets

_OF_TOOL = {
    "calls": "its {} calls for this run are used up",
    "seconds": "its {} seconds for this run are used up",
    "tokens": "its {} tokens for this run are used up",
    "cost": "its budget of {} for this run does not allow another call",
    "consecutive_errors": "it has failed {} times in a row",
}
_OF_RUN = {
    "calls": "the {} calls of tools for this run are used up",
    "seconds": "the {} seconds for this run are used up",
    "tokens": "the {} tokens for this run are used up",
    "cost": "the budget of {} for this run does not allow another call",
    "consecutive_errors": "every call failed in {} rounds in a row",
}


class _Reached(Struct, frozen=True, eq=False):
    """A soft limit that was reached: of a tool, or of a run."""

    kind: str
    limit: Any
    tally: Tally
    tool: Tool | None

    @property
    def why(self) -> str:
        return (_OF_RUN if self.tool is None else _OF_TOOL)[self.kind].format(self.limit)

    def refusal(self, call: ToolCall) -> ToolResult:
        """What the model reads of a call that does not run."""
        rest = "Answer with what you have." if self.tool is None else "Use another tool, or answer with what you have."
        return ToolResult.error(f"This call of {call.name!r} was not run: {self.why}. {rest}")

    @property
    def note(self) -> str:
        """What the model reads of the last call that did run."""
        if self.tool is None:
            return f"Note: no tool will run any more: {self.why}. Answer with what you have."
        return f"Note: {self.tool.name!r} will not run any more: {self.why}."

    @property
    def warning(self) -> str:
        """What listeners are told."""
        return self.why if self.tool is None else f"{self.tool.name!r}: {self.why}"

    def is_news(self) -> bool:
        """Whether nobody has been told of it before; from now on somebody has."""
        is_news = self.kind not in self.tally.told
        self.tally.told.add(self.kind)
        return is_news


def _budgeted(job: Job, is_new: bool) -> ToolResult | None:
    run, tool = job.run, job.tool
    with _pool(run).lock:
        if is_new:
            check_one(run, tool, job.key)
        refused = next(_reached(run, tool, tool.cost), None) if is_new else None
        if refused is None:
            _reserve(run, tool, job.key)
            news = [each for each in _reached(run, tool) if each.is_news()]
        else:
            news = [refused] if refused.is_news() else []
    _warn(run, news)
    if refused is not None:
        return refused.refusal(job.call)
    job.notes += tuple(each.note for each in news)
    return None


def _pool(run: Run) -> Tallies:
    """Those with the lock: one for all runs that are part of the same one, since what they spend is one pool."""
    return lineage(run)[-1].tallies


def _reached(run: Run, tool: Tool | None, run_cost: Amount = 0) -> Iterator[_Reached]:
    """The soft limits of which nothing is left for another call, of that tool, or of any."""
    if tool is not None and tool.soft_limits is not None:
        tally = run.tallies.of(tool.name)
        for kind in used_up(tool.soft_limits, tally.spent(tool), tool.cost):
            yield _Reached(kind, getattr(tool.soft_limits, kind), tally, tool)
    for each in lineage(run):
        soft = each.settings.soft
        if soft is not None:
            for kind in used_up(soft, _spent(each), run_cost):
                yield _Reached(kind, getattr(soft, kind), each.tallies.of(), None)


def _spent(run: Run) -> Spent:
    seconds = run.now() - run.started_at
    return Spent(len(run.tallies.of().keys), seconds, tokens_used(run), run.cost or _NOTHING, run.errors_in_a_row)


_NOTHING = Decimal()


def _reserve(run: Run, tool: Tool, key: str) -> None:
    """The call runs: it counts, and costs, once."""
    if has_budget(tool):
        tally = run.tallies.of(tool.name)
        tally.asked.add(key)
        if key not in tally.keys:
            tally.keys.add(key)
            _spend(run, money(tool.cost) if tool.cost else _NOTHING)
    for each in lineage(run):
        if each.settings.soft is not None:
            each.tallies.of().keys.add(f"{run.run_id}:{key}")


def _release(run: Run, tool: Tool, key: str) -> None:
    """The call did not run after all."""
    if has_budget(tool):
        keys = run.tallies.of(tool.name).keys
        if key in keys:
            keys.discard(key)
            _spend(run, -money(tool.cost) if tool.cost else _NOTHING)
    for each in lineage(run):
        each.tallies.of().keys.discard(f"{run.run_id}:{key}")


def _spend(run: Run, cost: Decimal) -> None:
    if cost:
        spend_cost(run, cost)


def counted(run: Run, execution: ToolExecution[Any], ended: Ended) -> ToolExecution[Any]:
    """Count how the call ended; gives the execution with what the model should know besides the result."""
    notes, tool = ended.notes, run.toolset.tools.get(execution.call.name)
    if tool is not None and (run.has_soft or run.toolset.has_budgets):
        news = _settle(run, tool, execution)
        notes += tuple(each.note for each in news)
        try:
            _warn(run, news)
        except BaseException as failure:  # a listener that may stop the run: the call has ended all the same
            ended.failure = ended.failure or failure
    result = execution.result
    is_read = result.is_encoded and (tool is None or tool.returns is not ReturnBehavior.IMMEDIATE)
    if not notes or not is_read or execution.outcome is Outcome.NOT_RUN:
        return execution  # nobody may ever read it
    told = replace(result, given=(*result.contents, TextContent("\n".join(notes))))
    return replace(execution, result=told)


def _settle(run: Run, tool: Tool, execution: ToolExecution[Any]) -> Sequence[_Reached]:
    """Enter the end of a call; gives the soft limits that it has reached and of which nobody knows yet."""
    with _pool(run).lock:
        if execution.outcome in _RAN:
            _reserve(run, tool, execution.key)
        else:
            _release(run, tool, execution.key)
        if has_budget(tool):
            tally = run.tallies.of(tool.name)
            if execution.outcome in _RAN:
                tally.seconds += execution.duration or 0.0
            if execution.outcome is not Outcome.NOT_RUN:
                tally.asked.add(execution.key)
                tally.errors = tally.errors + 1 if execution.result.is_error else 0
        return [each for each in _reached(run, tool) if each.is_news()]


def recount(run: Run, execution: ToolExecution[Any]) -> None:
    """Count a call that the journal tells of, as it was counted then; whoever had to be told of it was told."""
    tool = run.toolset.tools.get(execution.call.name)
    if tool is None:
        return
    if execution.outcome in (*_RAN, Outcome.REJECTED):
        with run.tallies.lock:
            run.tallies.seen.setdefault(tool.name, Seen([])).recall(execution.call.arguments)
    if run.has_soft or run.toolset.has_budgets:
        _settle(run, tool, execution)


def pay(run: Run, response: ChatResponse) -> None:
    """What the reply cost, and whether a soft limit is reached now."""
    if run.price is not None:
        spend_cost(run, cost_of(run.price, response))
    warn_reached(run)


def warn_reached(run: Run) -> None:
    """Tell listeners of soft limits of the run that are reached now."""
    with _pool(run).lock:
        news = [each for each in _reached(run, None) if each.is_news()]
    if not run.replays:  # else they have heard
        _warn(run, news)


def _warn(run: Run, news: Sequence[_Reached]) -> None:
    for each in news:
        _emit(run, f"a soft limit is reached: {each.warning}")


def _emit(run: Run, text: str) -> None:
    if run.listening:
        run.emit(LimitWarning(run_id=run.run_id, path=run.path, text=text))
