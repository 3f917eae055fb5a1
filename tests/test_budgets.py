"""What a run may use up of one tool, and what it may use up itself before the model is told to come to an end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from surehand import (
    Agent,
    Budget,
    CallLimitError,
    ConsecutiveErrorsError,
    CostLimitError,
    LimitError,
    Limits,
    LimitWarning,
    Listeners,
    MemoryJournal,
    Outcome,
    TextContent,
    TimeLimitError,
    TokenLimitError,
    ToolError,
    ToolMessage,
    Usage,
    UserError,
    tool,
)
from surehand.testing import FakeClock, ScriptedModel, call, calls, say

from .durable.remains import remains
from .modes import IN_SEQUENCE, Ended, Mode, ask, retold


class Shop:
    """``buy`` with limits, and ``look`` without; each notes what it is asked, and ``buy`` can be undone."""

    def __init__(self, clock: FakeClock | None = None, **options: Any) -> None:
        self.log: list[str] = []
        self.clock = clock
        self.options = options

    @property
    def tools(self) -> list[Any]:
        def give_back(what: str) -> None:
            self.log.append(f"give back {what}")

        @tool(undo=give_back, **self.options)
        def buy(what: str) -> str:
            if what.startswith("bad"):
                raise ToolError(f"no {what}")
            if self.clock is not None:
                self.clock.advance(2)
            self.log.append(what)
            return f"bought {what}"

        @tool(repeat="safe")
        def look(what: str) -> str:
            self.log.append(f"look at {what}")
            return f"saw {what}"

        return [buy, look]


def buy(*what: str) -> Any:
    return ask(*[call("buy", {"what": one}, id=f"b{one}") for one in what])


def look(*what: str) -> Any:
    return ask(*[call("look", {"what": one}, id=f"l{one}") for one in what])


def outcomes(ended: Ended) -> list[Outcome]:
    return [execution.outcome for execution in ended.executions]


def read(ended: Ended) -> list[list[str]]:
    """The texts that the model reads of each call."""
    messages = [message for message in ended.messages if isinstance(message, ToolMessage)]
    return [[part.text for part in message.contents if isinstance(part, TextContent)] for message in messages]


def warnings(ended: Ended) -> list[str]:
    return [event.text for event in ended.of(LimitWarning)]


DONE, DENIED, FAILED = Outcome.DONE, Outcome.DENIED, Outcome.FAILED


# ---------------------------------------------------------------- hard limits of a tool


@pytest.mark.parametrize(
    ("limit", "bought"), [(0, []), (1, ["a"]), (2, ["a"]), (3, ["a", "b", "c"]), (None, ["a", "b", "c"])]
)
def test_a_round_that_would_exceed_the_calls_of_a_tool_does_not_begin(
    mode: Mode, limit: int | None, bought: str
) -> None:
    shop = Shop(limits=Budget(calls=limit))
    ended = mode.play(look("x"), buy("a"), buy("b", "c"), say("Done"), tools=shop.tools, undo=None)
    done = [entry for entry in shop.log if not entry.startswith(("look", "give"))]
    assert sorted(done) == [*bought]
    if len(bought) == 3:
        assert ended.answer.output == "Done"
        return
    assert isinstance(ended.error, CallLimitError)
    made, more = len(bought), 2 if bought else 1
    assert str(ended.error) == (
        f"tool 'buy' was called {made} times in this run, and {more} more calls were asked for; "
        f"@tool(limits=Budget(calls={limit})) forbids that (soft_limits= would tell the model)"
    )
    assert shop.log[-1] == ("give back a" if bought else "look at x")


def test_calls_that_did_not_run_count_for_the_hard_limit(mode: Mode) -> None:
    shop = Shop(limits=Budget(calls=2))
    bad = ask(call("buy", "{}"))
    ended = mode.play(bad, bad, buy("a"), tools=shop.tools)
    assert (type(ended.error), shop.log) == (CallLimitError, [])


def test_a_tool_that_has_taken_too_long_is_called_no_more(mode: Mode) -> None:
    clock = FakeClock(1000.0)
    shop = Shop(clock, limits=Budget(seconds=3))
    ended = mode.play(look("x"), buy("a"), buy("b"), look("y"), buy("c"), tools=shop.tools, clock=clock)
    assert isinstance(ended.error, TimeLimitError)
    assert str(ended.error).startswith("tool 'buy' has taken 4 s in this run; @tool(limits=Budget(seconds=3)) forbids")
    assert shop.log == ["look at x", "a", "b", "look at y", "give back b", "give back a"]


def test_a_tool_that_would_cost_too_much_is_called_no_more(mode: Mode) -> None:
    shop = Shop(limits=Budget(cost=0.3), cost=0.1)
    ended = mode.play(buy("a"), buy("b", "c"), buy("d"), tools=shop.tools)
    assert isinstance(ended.error, CostLimitError)
    assert str(ended.error).startswith("tool 'buy' would have cost 0.4 in this run; @tool(limits=Budget(cost=0.3))")
    assert ended.report.cost == 0.3


def test_a_tool_that_fails_too_often_in_a_row_gives_the_run_up(mode: Mode) -> None:
    shop = Shop(limits=Budget(consecutive_errors=3))
    mixed = ask(call("buy", {"what": "bad 1"}), call("look", {"what": "x"}))
    others = [ask(call("buy", {"what": f"bad {n}"}), call("look", {"what": f"{n}"})) for n in range(2, 9)]
    ended = mode.play(mixed, others[0], buy("a"), *others[1:], tools=shop.tools)
    assert isinstance(ended.error, ConsecutiveErrorsError)
    assert str(ended.error).startswith(
        "tool 'buy' failed 3 times in a row, last: no bad 5; @tool(limits=Budget(consecutive_errors=3)) forbids that"
    )
    assert isinstance(ended.error.__cause__, ToolError)
    assert len(ended.executions) == 11


def test_a_hook_cannot_put_a_call_in_place_of_another_that_its_tool_has_no_room_for(mode: Mode) -> None:
    shop = Shop(limits=Budget(calls=1))

    def hook(context: Any) -> Any:
        return call("buy", {"what": "z"}, id=context.call.id)

    ended = mode.play(look("x"), look("y"), tools=shop.tools, run={"before_tool": hook})
    assert (type(ended.error), shop.log) == (CallLimitError, ["z", "give back z"])


@pytest.mark.parametrize("mode", [Mode("stream", True), Mode("astream", True)], ids=str)
def test_calls_that_start_early_keep_the_limit_of_their_tool(mode: Mode) -> None:
    shop = Shop(limits=Budget(calls=2))
    ended = mode.play(buy("a", "b", "c"), tools=shop.tools, early_start="all")
    assert type(ended.error) is CallLimitError
    assert {"a", "b"} >= {entry for entry in shop.log if not entry.startswith("give")}
    assert "c" not in shop.log


# ---------------------------------------------------------------- soft limits of a tool


def test_beyond_the_soft_calls_of_a_tool_the_model_is_told(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(calls=2))
    ended = mode.play(buy("a"), buy("b"), buy("c"), look("x"), buy("d"), say("Enough"), tools=shop.tools)
    refused = (
        "This call of 'buy' was not run: its 2 calls for this run are used up. Use another tool, or answer with what "
        "you have."
    )
    assert read(ended) == [
        ["bought a"],
        ["bought b", "Note: 'buy' will not run any more: its 2 calls for this run are used up."],
        [refused],
        ["saw x"],
        [refused],
    ]
    assert (outcomes(ended), shop.log) == ([DONE, DONE, DENIED, DONE, DENIED], ["a", "b", "look at x"])
    assert warnings(ended) == ["a soft limit is reached: 'buy': its 2 calls for this run are used up"]
    assert ended.executions[1].value == "bought b"
    assert ended.answer.output == "Enough"


def test_a_tool_may_have_no_calls_at_all(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(calls=0))
    ended = mode.play(buy("a"), say("Ok"), tools=shop.tools)
    assert (outcomes(ended), shop.log, len(warnings(ended))) == ([DENIED], [], 1)


@pytest.mark.parametrize("early", ["safe", "all", "off"])
def test_the_soft_calls_of_a_tool_hold_within_one_round(mode: Mode, early: Any) -> None:
    shop = Shop(soft_limits=Budget(calls=3))
    ended = mode.play(buy(*"abcdefgh"), say("Ok"), tools=shop.tools, early_start=early)
    assert len(shop.log) == 3
    assert sorted(outcomes(ended), key=str) == [*[DENIED] * 5, *[DONE] * 3]
    assert sum(len(texts) == 2 for texts in read(ended)) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_that_run_at_the_same_time_keep_the_limit(is_async: bool) -> None:
    running = threading.Semaphore(0)

    @tool(soft_limits=Budget(calls=2))
    def act(n: int) -> None:
        running.release()

    model = ScriptedModel([calls(*[call("act", {"n": n}) for n in range(50)]), say("Ok")])
    agent = Agent(model, tools=[act], parallel=True)
    result = asyncio.run(agent.arun("Go")) if is_async else agent.run("Go")
    assert [execution.outcome for execution in result.executions].count(DONE) == 2
    assert running.acquire(timeout=1) and running.acquire(timeout=1) and not running.acquire(blocking=False)


def test_calls_that_do_not_run_use_nothing_up(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(calls=1))
    ended = mode.play(ask(call("buy", "{}")), buy("no"), buy("a"), buy("b"), say("Ok"), tools=shop.tools,
        authorise=lambda context, arguments: arguments["what"] != "no",
    )  # fmt: skip
    assert (outcomes(ended), shop.log) == ([Outcome.REJECTED, DENIED, DONE, DENIED], ["a"])


def test_the_soft_seconds_of_a_tool(mode: Mode) -> None:
    clock = FakeClock(1000.0)
    shop = Shop(clock, soft_limits=Budget(seconds=3))
    ended = mode.play(buy("a"), buy("b"), buy("c"), say("Ok"), tools=shop.tools, clock=clock)
    why = "its 3 seconds for this run are used up"
    assert read(ended)[1] == ["bought b", f"Note: 'buy' will not run any more: {why}."]
    assert read(ended)[2] == [
        f"This call of 'buy' was not run: {why}. Use another tool, or answer with what you have."
    ]  # fmt: skip
    assert shop.log == ["a", "b"]


def test_the_soft_cost_of_a_tool(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(cost=0.5), cost=0.2)
    ended = mode.play(buy("a"), buy("b"), buy("c"), say("Ok"), tools=shop.tools)
    why = "its budget of 0.5 for this run does not allow another call"
    assert [len(texts) for texts in read(ended)] == [1, 2, 1]
    assert read(ended)[1][1] == f"Note: 'buy' will not run any more: {why}."
    assert (shop.log, ended.answer.cost) == (["a", "b"], 0.4)


def test_a_tool_that_has_failed_too_often_in_a_row_is_not_run_again(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(consecutive_errors=2))
    ended = mode.play(buy("bad 1"), buy("a"), buy("bad 2"), buy("bad 3"), buy("b"), say("Ok"), tools=shop.tools)
    assert outcomes(ended) == [FAILED, DONE, FAILED, FAILED, DENIED]
    assert read(ended)[3] == ["no bad 3", "Note: 'buy' will not run any more: it has failed 2 times in a row."]
    assert shop.log == ["a"]


def test_a_model_that_goes_on_asking_for_what_is_used_up_is_given_up_on(mode: Mode) -> None:
    shop = Shop(soft_limits=Budget(calls=1))
    ended = mode.play(*[buy(one) for one in "abcdefghijk"], tools=shop.tools)
    assert isinstance(ended.error, ConsecutiveErrorsError)
    assert (len(ended.executions), shop.log) == (6, ["a", "give back a"])


def test_a_listener_that_may_stop_runs_can_do_so_when_a_soft_limit_is_reached(mode: Mode) -> None:
    def stop(event: Any) -> None:
        if isinstance(event, LimitWarning):
            raise RuntimeError("enough")

    clock = FakeClock(1000.0)
    shop = Shop(clock, soft_limits=Budget(seconds=1))
    listeners = Listeners(stop, propagate=True)
    ended = mode.play(buy("a"), tools=shop.tools, clock=clock, listeners=listeners, run={"listeners": ()})
    assert (str(ended.error), shop.log) == ("enough", ["a", "give back a"])


# ---------------------------------------------------------------- soft limits of a run


def test_beyond_the_soft_calls_of_a_run_no_tool_runs(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(
        look("x"), buy("a"), look("y"), buy("b"), say("Enough"), tools=shop.tools, limits=Limits(soft=Budget(calls=2))
    )
    why = "the 2 calls of tools for this run are used up"
    assert read(ended) == [
        ["saw x"],
        ["bought a", f"Note: no tool will run any more: {why}. Answer with what you have."],
        [f"This call of 'look' was not run: {why}. Answer with what you have."],
        [f"This call of 'buy' was not run: {why}. Answer with what you have."],
    ]
    assert (warnings(ended), ended.answer.output) == ([f"a soft limit is reached: {why}"], "Enough")


def test_the_soft_calls_of_a_run_hold_within_one_round(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(buy(*"abcdef"), say("Ok"), tools=shop.tools, limits=Limits(soft=Budget(calls=4)))
    assert (len(shop.log), outcomes(ended).count(DENIED)) == (4, 2)


def test_the_soft_tokens_of_a_run(mode: Mode) -> None:
    shop = Shop()
    replies = [calls(call("buy", {"what": one}), usage=Usage(6, 4)) for one in "abc"]
    ended = mode.play(*replies, say("Ok"), tools=shop.tools, limits=Limits(soft=Budget(tokens=20)))
    why = "the 20 tokens for this run are used up"
    assert read(ended)[1] == [f"This call of 'buy' was not run: {why}. Answer with what you have."]
    assert (shop.log, warnings(ended)) == (["a"], [f"a soft limit is reached: {why}"])


def test_the_soft_seconds_of_a_run(mode: Mode) -> None:
    clock = FakeClock(1000.0)
    shop = Shop(clock)
    ended = mode.play(
        buy("a"), buy("b"), buy("c"), say("Ok"), tools=shop.tools, clock=clock, limits=Limits(soft=Budget(seconds=4))
    )
    why = "the 4 seconds for this run are used up"
    assert read(ended)[1] == ["bought b", f"Note: no tool will run any more: {why}. Answer with what you have."]
    assert (shop.log, outcomes(ended), warnings(ended)) == (
        ["a", "b"], [DONE, DONE, DENIED], [f"a soft limit is reached: {why}"]
    )  # fmt: skip


def test_the_soft_errors_in_a_row_of_a_run(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(
        buy("bad 1"), buy("bad 2"), buy("a"), say("Ok"), tools=shop.tools,
        limits=Limits(soft=Budget(consecutive_errors=2)),
    )  # fmt: skip
    why = "every call failed in 2 rounds in a row"
    assert read(ended)[2] == [f"This call of 'buy' was not run: {why}. Answer with what you have."]
    assert (shop.log, warnings(ended)) == ([], [f"a soft limit is reached: {why}"])


# ---------------------------------------------------------------- agents that are tools


def inner(*replies: Any, shop: Shop, **options: Any) -> Agent[Any, Any]:
    return Agent(ScriptedModel(replies), tools=shop.tools, name="clerk", description="Buys things", **options)


def clerk(n: int = 0) -> Any:
    return calls(call("clerk", {"prompt": f"Go {n}"}), usage=Usage(1, 0))


def test_an_agent_that_is_a_tool_has_a_budget_of_tokens() -> None:
    shop = Shop()
    agent = inner(*[say("Ok", usage=Usage(6, 4))] * 3, shop=shop).as_tool(soft_limits=Budget(tokens=15))
    outer = Agent(ScriptedModel([clerk(1), clerk(2), clerk(3), say("Done")]), tools=[agent])
    result = outer.run("Go")
    assert [execution.outcome for execution in result.executions] == [DONE, DONE, DENIED]
    agent = inner(*[say("Ok", usage=Usage(6, 4))] * 3, shop=shop).as_tool(limits=Budget(tokens=15))
    outer = Agent(ScriptedModel([clerk(1), clerk(2), clerk(3)]), tools=[agent])
    with pytest.raises(TokenLimitError, match="tool 'clerk' has used 20 tokens in this run"):
        outer.run("Go")


def test_an_agent_that_is_a_tool_has_a_budget_of_money() -> None:
    shop = Shop(cost=2)
    agent = inner(buy("a"), say("Ok"), buy("b"), say("Ok"), shop=shop).as_tool(soft_limits=Budget(cost=2))
    result = Agent(ScriptedModel([clerk(1), clerk(2), say("Done")]), tools=[agent]).run("Go")
    assert [execution.outcome for execution in result.executions if execution.call.name == "clerk"] == [DONE, DENIED]
    assert (result.cost, shop.log) == (2.0, ["a"])


def test_what_an_agent_does_that_is_a_tool_counts_for_the_soft_limits_of_its_caller() -> None:
    shop = Shop()
    agent = inner(buy("a"), buy("b"), say("Ok"), shop=shop).as_tool()
    outer = Agent(ScriptedModel([clerk(), clerk(2), say("Done")]), tools=[agent], limits=Limits(soft=Budget(calls=2)))
    result = outer.run("Go")
    assert shop.log == ["a"]
    assert [execution.outcome for execution in result.executions] == [DONE, DENIED]


# ---------------------------------------------------------------- resumed


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
@pytest.mark.parametrize("limits", [Limits(), Limits(soft=Budget(calls=3))], ids=["of the tool", "of the run"])
def test_a_run_that_is_resumed_anywhere_has_used_up_the_same(mode: Mode, limits: Limits) -> None:
    replies = [buy("a"), buy("bad 1", "b"), look("x"), buy("c", "d"), look("y"), say("Ok")]
    journal = MemoryJournal()

    def agent(model: ScriptedModel, journal: MemoryJournal) -> Agent[Any, Any]:
        soft = Budget(calls=4, consecutive_errors=3, seconds=100, cost=0.35)

        @tool(repeat="safe", soft_limits=soft, limits=Budget(calls=5, consecutive_errors=4), cost=0.1)
        def buy(what: str) -> str:
            if what.startswith("bad"):
                raise ToolError(f"no {what}")
            return f"bought {what}"

        return Agent(
            model, tools=[buy, *Shop().tools[1:]], journal=journal, clock=FakeClock(1.0), parallel=False,
            new_id=lambda: "run-1", limits=limits,
        )  # fmt: skip

    first = mode.drive(agent(ScriptedModel(replies), journal), parallel=False)
    assert DENIED in outcomes(first)
    for upto in range(1, len(journal.records("run-1"))):
        left = remains(journal, upto=upto)
        asked = sum(record.kind == "MODEL" for record in left.records("run-1"))
        again = agent(ScriptedModel(replies[asked:]), left).resume("run-1")
        assert retold(Ended(again, None, [])) == retold(first), f"resumed after {upto} records"


def test_a_run_that_went_on_is_told_again_whatever_the_limits_of_its_tools_are_now() -> None:
    journal = MemoryJournal()
    replies = [buy("a"), buy("bad"), buy("b"), say("Ok")]
    result = Agent(ScriptedModel(replies), tools=Shop().tools, journal=journal).run("Go", run_id="r")
    shop = Shop(limits=Budget(calls=1, consecutive_errors=1, cost=0), soft_limits=Budget(calls=0), cost=1)
    now = Agent(ScriptedModel([]), tools=shop.tools, journal=journal)
    again = now.resume("r")
    assert (again.messages, again.executions) == (result.messages, result.executions)


# ---------------------------------------------------------------- what can be said


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"calls": -1}, "Budget(calls=-1): expected a number of at least 0, or None for no limit"),
        ({"calls": 1.5}, "Budget(calls=1.5): expected a whole number, or None for no limit"),
        ({"tokens": True}, "Budget(tokens=True): expected a number of at least 0, or None for no limit"),
        ({"seconds": "1"}, "Budget(seconds='1'): expected a number of at least 0, or None for no limit"),
        ({"cost": float("nan")}, "Budget(cost=nan): expected a number of at least 0, or None for no limit"),
        (
            {"consecutive_errors": 0},
            "Budget(consecutive_errors=0): expected a number of at least 1, or None for no limit",
        ),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused(given: Any, text: str) -> None:
    with pytest.raises(UserError) as raised:
        Budget(**given)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"cost": -1}, "Limits(cost=-1): expected a number of at least 0, or None for no limit"),
        ({"soft": 3}, "Limits(soft=3): expected a Budget(…)"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(given: Any, text: str) -> None:
    with pytest.raises(UserError) as raised:
        Limits(**given)
    assert str(raised.value) == text


@pytest.mark.parametrize("option", ["limits", "soft_limits"])
def test_a_tool_takes_budgets_and_nothing_else(option: str) -> None:
    with pytest.raises(UserError, match=f"{option}=3; expected a Budget"):
        tool(**cast(Any, {option: 3}))(lambda what: what)


def test_each_of_these_errors_is_a_limit_error() -> None:
    kinds = (CallLimitError, ConsecutiveErrorsError, CostLimitError, TimeLimitError, TokenLimitError)
    assert all(issubclass(kind, LimitError) for kind in kinds)
