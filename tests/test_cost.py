"""What a run costs: its replies by ``price=``, its calls by ``@tool(cost=…)``, and the limit of both."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from surehand import (
    Agent,
    Budget,
    ChatResponse,
    CostLimitError,
    Limits,
    LimitWarning,
    MemoryJournal,
    Outcome,
    ToolError,
    Usage,
    UserError,
    tool,
)
from surehand.prices import genai_price
from surehand.testing import FakeClock, ScriptedModel, call, calls, say

from .durable.remains import remains
from .modes import IN_SEQUENCE, Ended, Mode, ask, retold


def per_token(response: ChatResponse) -> float:
    return 0.1 * (response.usage.total or 0) if response.usage else 0.0


class Office:
    """A tool whose calls cost something, and that counts them."""

    def __init__(self, **options: Any) -> None:
        self.sent = 0
        self.undone = 0
        self.options = options

    @property
    def tools(self) -> list[Any]:
        def unsend() -> None:
            self.undone += 1

        @tool(undo=unsend, **self.options)
        def send(to: str, fail: bool = False) -> int:
            self.sent += 1
            if fail:
                raise ToolError("no such address")
            return self.sent

        return [send]


def send(to: str, **more: Any) -> Any:
    return call("send", {"to": to, **more})


def test_a_run_costs_what_its_replies_and_its_calls_cost(mode: Mode) -> None:
    office = Office(cost=0.2)
    ended = mode.play(
        calls(send("a"), send("b"), usage=Usage(1, 0)), calls(send("c", fail=True), usage=Usage(1, 1)),
        say("Sent", usage=Usage(3, 0)), tools=office.tools, price=per_token,
    )  # fmt: skip
    assert (ended.answer.cost, ended.report.cost) == (1.2, 1.2)


def test_calls_that_do_not_run_cost_nothing(mode: Mode) -> None:
    ended = mode.play(
        ask(call("send", "{}"), call("sned", {"to": "a"}), send("b")), say("Ok"),
        tools=Office(cost=0.3).tools, authorise=lambda context, arguments: arguments["to"] != "b",
    )  # fmt: skip
    assert (ended.answer.cost, [e.outcome for e in ended.executions]) == (
        None, [Outcome.REJECTED, Outcome.REJECTED, Outcome.DENIED]
    )  # fmt: skip


def test_a_run_without_prices_has_no_cost(mode: Mode) -> None:
    ended = mode.play(ask(send("a")), say("Ok"), tools=Office().tools)
    assert (ended.answer.cost, ended.report.cost) == (None, None)


def test_the_price_of_each_reply_is_asked_for_once() -> None:
    asked: list[Any] = []

    def price(response: ChatResponse) -> Decimal:
        asked.append(response.usage)
        return Decimal("0.001")

    replies = [calls(send("a"), usage=Usage(1, 2)), say("Ok", usage=Usage(3, 4))]
    result = Agent(ScriptedModel(replies), tools=Office().tools, price=price).run("Go")
    assert (result.cost, asked) == (0.002, [Usage(1, 2), Usage(3, 4)])


@pytest.mark.parametrize(("limit", "sent"), [(0.09, 0), (0.1, 1), (0.25, 1), (Decimal("0.3"), 2), (None, 2)])
def test_a_round_of_a_run_that_has_cost_too_much_does_not_begin(mode: Mode, limit: Any, sent: int) -> None:
    office = Office()
    replies = [calls(send("a"), usage=Usage(1, 0)), calls(send("b"), usage=Usage(1, 1)), say("Ok")]
    ended = mode.play(*replies, tools=office.tools, price=per_token, limits=Limits(cost=limit))
    assert (office.sent, office.undone) == (sent, 0 if sent == 2 else sent)
    if sent == 2:
        assert ended.answer.output == "Ok"
    else:
        assert isinstance(ended.error, CostLimitError)
        spent = 0.1 if sent == 0 else 0.3
        assert str(ended.error) == f"the run cost {spent}; Limits(cost={limit}) forbids going on"
        assert ended.report.cost == spent


def test_a_round_whose_calls_would_cost_too_much_does_not_begin(mode: Mode) -> None:
    office = Office(cost=0.2)
    ended = mode.play(ask(send("a")), ask(send("b"), send("c")), tools=office.tools, limits=Limits(cost=0.5))
    assert isinstance(ended.error, CostLimitError)
    assert str(ended.error) == (
        "the run cost 0.2, and the calls that were asked for cost 0.4; Limits(cost=0.5) forbids that"
    )
    assert (office.sent, office.undone) == (1, 1)


def test_a_hook_cannot_put_a_call_in_place_that_costs_too_much(mode: Mode) -> None:
    office = Office(cost=2)

    @tool
    def look(to: str) -> None: ...

    ended = mode.play(
        ask(call("look", {"to": "a"})), tools=[look, *office.tools], limits=Limits(cost=1),
        run={"before_tool": lambda context: send("b")},
    )  # fmt: skip
    assert (type(ended.error), office.sent) == (CostLimitError, 0)


def test_beyond_a_soft_limit_the_model_is_told_and_the_run_goes_on(mode: Mode) -> None:
    office = Office()
    replies = [
        calls(send("a"), usage=Usage(1, 0)), calls(send("b"), usage=Usage(1, 1)), say("That is all", usage=Usage(1, 0))
    ]  # fmt: skip
    ended = mode.play(*replies, tools=office.tools, price=per_token, limits=Limits(soft=Budget(cost=0.3)))
    refused = (
        "This call of 'send' was not run: the budget of 0.3 for this run does not allow another call. "
        "Answer with what you have."
    )
    assert ended.results == [("send", "1", False), ("send", refused, True)]
    assert [event.text for event in ended.of(LimitWarning)] == [
        "a soft limit is reached: the budget of 0.3 for this run does not allow another call"
    ]
    assert (ended.answer.output, ended.answer.cost, office.sent) == ("That is all", 0.4, 1)


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), "1", None, True])
def test_a_price_that_is_no_amount_gives_the_run_up(mode: Mode, given: Any) -> None:
    office = Office()

    def price(response: ChatResponse) -> Any:
        return 1 if response.message.text else given

    ended = mode.play(ask(send("a")), tools=office.tools, price=price)
    assert f"gave {given!r} for a reply of model None; expected what it costs" in str(ended.error)
    assert office.sent == 0


def test_a_price_that_fails_gives_the_run_up_and_undoes_what_was_done(mode: Mode) -> None:
    office = Office()
    error = LookupError("no such model")

    def price(response: ChatResponse) -> float:
        if response.usage is not None:
            raise error
        return 0

    ended = mode.play(ask(send("a")), say("Ok", usage=Usage(1, 1)), tools=office.tools, price=price)
    assert isinstance(ended.error, UserError)
    assert "failed on a reply of model None: LookupError: no such model" in str(ended.error)
    assert (ended.error.__cause__, office.sent, office.undone) == (error, 1, 1)


@pytest.mark.parametrize("price", [3, lambda: 1, "gpt"])
def test_what_is_no_price_function_is_refused(price: Any) -> None:
    with pytest.raises(UserError, match="price="):
        Agent(ScriptedModel([]), price=price)


def test_a_price_function_cannot_be_async() -> None:
    async def price(response: ChatResponse) -> float:
        return 1

    with pytest.raises(UserError, match="not async"):
        Agent(ScriptedModel([]), price=price)  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "1", None, True])
def test_what_a_call_costs_is_a_number(cost: Any) -> None:
    with pytest.raises(UserError, match=f"cost={cost!r}; expected what a call costs"):
        tool(cost=cost)(lambda to: None)


def test_what_an_agent_spends_that_is_called_as_a_tool_its_caller_spends() -> None:
    replies = [calls(send("a"), usage=Usage(2, 0)), say("Sent", usage=Usage(1, 0))]
    clerk = Agent(
        ScriptedModel(replies), tools=Office(cost=0.5).tools, price=per_token, name="clerk", description="Sends"
    )
    result = Agent(
        ScriptedModel([calls(call("clerk", {"prompt": "Send"}), usage=Usage(1, 0)), say("Ok", usage=Usage(1, 0))]),
        tools=[clerk],
        price=lambda response: 1,
    ).run("Go")
    assert result.cost == 2.8


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_a_run_that_is_resumed_anywhere_costs_the_same(mode: Mode) -> None:
    replies = [
        calls(send("a"), usage=Usage(1, 0)), calls(send("b"), usage=Usage(2, 0)), calls(send("c"), usage=Usage(1, 0)),
        say("Ok", usage=Usage(1, 1)),
    ]  # fmt: skip
    journal = MemoryJournal()

    def agent(model: ScriptedModel, journal: MemoryJournal) -> Agent[Any, Any]:
        @tool(repeat="safe", cost=0.1)
        def send(to: str) -> str:
            return f"to {to}"

        return Agent(
            model, tools=[send], journal=journal, clock=FakeClock(1.0), price=per_token, parallel=False,
            new_id=lambda: "run-1", limits=Limits(soft=Budget(cost=0.6)),
        )  # fmt: skip

    first = mode.drive(agent(ScriptedModel(replies), journal), parallel=False)
    assert (first.answer.cost, [e.outcome for e in first.executions]) == (
        0.8, [Outcome.DONE, Outcome.DONE, Outcome.DENIED]
    )  # fmt: skip
    for upto in range(1, len(journal.records("run-1"))):
        left = remains(journal, upto=upto)
        asked = sum(record.kind == "MODEL" for record in left.records("run-1"))
        again = agent(ScriptedModel(replies[asked:]), left).resume("run-1")
        assert retold(Ended(again, None, [])) == retold(first), f"resumed after {upto} records"


def test_a_run_that_went_on_is_told_again_whatever_the_limits_are_now() -> None:
    journal = MemoryJournal()
    replies = [calls(send("a"), usage=Usage(9, 0)), say("Ok")]
    then = Agent(ScriptedModel(replies), tools=Office(cost=5).tools, journal=journal, price=per_token)
    result = then.run("Go", run_id="r")
    less = Limits(cost=0.1)
    now = Agent(ScriptedModel([]), tools=Office(cost=5).tools, journal=journal, price=per_token, limits=less)
    assert now.resume("r") == result


# ---------------------------------------------------------------- ready-made prices


def replied(model: str | None, usage: Usage | None) -> ChatResponse:
    return ChatResponse(say("Hi").message, usage, None, None, model)


def test_the_tables_know_what_a_model_costs() -> None:
    plain = genai_price(replied("gpt-5-2025-08-07", Usage(1_000_000, 0)))
    cached = genai_price(replied("gpt-5-2025-08-07", Usage(1_000_000, 0, extras={"cached": 1_000_000})))
    both = genai_price(replied("gpt-5-2025-08-07", Usage(1_000_000, 1_000_000)))
    assert 0 < cached < plain < both
    assert isinstance(plain, Decimal)


def test_a_model_that_the_tables_do_not_have_is_named() -> None:
    with pytest.raises(LookupError, match="my-own-model"):
        genai_price(replied("my-own-model", Usage(1, 1)))


@pytest.mark.parametrize(("model", "usage"), [(None, Usage(1, 1)), ("gpt-5", None), ("gpt-5", Usage(None, 1))])
def test_a_reply_that_does_not_tell_enough_has_no_price(model: Any, usage: Any) -> None:
    with pytest.raises(UserError, match="does not tell its model and its tokens"):
        genai_price(replied(model, usage))
