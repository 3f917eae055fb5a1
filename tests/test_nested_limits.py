"""What agents that call agents may spend: one pool, limits of their own, and how deep they go (design 3)."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    CallLimitError,
    ChatRequest,
    ChatResponse,
    ErrorPolicy,
    Limits,
    Outcome,
    RoundLimitError,
    TimeLimitError,
    TokenLimitError,
    ToolCall,
    Usage,
    abort,
    report_of,
    tool,
)
from surehand.testing import FakeClock, call, say

from .modes import Mode, ask
from .nested import requests, to, travel
from .shop import Shop, book, pay

# ---------------------------------------------------------------- limits


def test_calls_are_one_pool_and_each_run_has_its_own_limit_of_them(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(book("b")), say("ok"), tools=[shop])
    ended = mode.play(ask(to()), say("Done"), tools=[inner], limits=Limits(calls=2))
    assert shop.log == ["book a", "cancel booked a"]
    text = "The agent behind 'travel' gave up with CallLimitError. Nothing that it did stands."
    assert ended.results == [("travel", text, True)]


def test_an_agents_own_limit_of_calls_ends_the_agent_alone(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(book("b")), tools=[shop], limits=Limits(calls=1))
    ended = mode.play(ask(to()), ask(book("c")), say("Done"), tools=[inner, shop], limits=Limits(calls=3))
    assert ended.answer.output == "Done"
    assert shop.log == ["book a", "cancel booked a", "book c"]


def test_what_an_agent_has_called_its_caller_cannot_call_any_more(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), say("ok"), tools=[shop])
    ended = mode.play(ask(to()), ask(book("c")), tools=[inner, shop], limits=Limits(calls=2))
    assert isinstance(ended.error, CallLimitError)
    assert shop.log == ["book a", "cancel booked a"]


def test_tokens_are_one_pool_and_the_usage_of_a_result_includes_those_of_agents(mode: Mode) -> None:
    def used(tokens: int) -> Usage:
        return Usage(input=tokens, output=1)

    def script(limits: Limits) -> Any:
        inner = travel(ask(book("a")), say("ok", usage=used(20)), tools=[Shop()])
        replies = [ask(to()), say("Done", usage=used(3))]
        return mode.play(*replies, tools=[inner], limits=limits)

    assert script(Limits()).answer.usage == Usage(input=23, output=2)


def test_an_agent_that_has_used_up_the_tokens_of_its_caller_may_answer_and_then_no_call_runs(mode: Mode) -> None:
    shop = Shop()
    inner = travel(say("ok", usage=Usage(input=90, output=10)))
    ended = mode.play(ask(to()), ask(book("b")), tools=[inner, shop], limits=Limits(tokens=99))
    assert isinstance(ended.error, TokenLimitError)
    assert shop.log == []


def test_seconds_are_one_pool(mode: Mode) -> None:
    clock, shop = FakeClock(1000.0), Shop()

    @tool(repeat="safe")
    def wait() -> str:
        clock.advance(11)
        return "waited"

    inner = travel(ask(book("a")), ask(call("wait", id="w")), say("never"), tools=[shop, wait], clock=clock)
    ended = mode.play(ask(to()), say("never"), tools=[inner], limits=Limits(seconds=10), clock=clock)
    assert isinstance(ended.error, TimeLimitError)
    assert shop.log == ["book a", "cancel booked a"]
    if not mode.journal:
        assert "gave up with TimeLimitError. Nothing that it did stands." in ended.results[0][1]


def test_rounds_are_each_ones_own(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(book("b")), ask(book("c")), say("ok"), tools=[shop])
    ended = mode.play(ask(to()), say("Done"), tools=[inner], limits=Limits(rounds=1))
    assert (ended.answer.output, shop.log) == ("Done", ["book a", "book b", "book c"])


def test_an_agent_that_runs_out_of_rounds_gives_up_and_its_caller_goes_on(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(book("b")), tools=[shop], limits=Limits(rounds=1))
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert ended.answer.output == "Done"
    assert ended.results == [
        ("travel", "The agent behind 'travel' gave up with RoundLimitError. Nothing that it did stands.", True)
    ]
    assert shop.log == ["book a", "cancel booked a"]


def test_with_abort_the_error_of_an_agent_is_the_error_of_its_caller(mode: Mode) -> None:
    shop = Shop()
    inner = travel(ask(book("a")), ask(book("b")), tools=[shop], limits=Limits(rounds=1))
    ended = mode.play(ask(book("z")), ask(to()), tools=[inner, shop], on_error=ErrorPolicy(execution=abort))
    assert isinstance(ended.error, RoundLimitError)
    assert shop.log == ["book z", "book a", "cancel booked a", "cancel booked z"]
    report = report_of(ended.error)
    assert report is not None
    assert [e.key for e in report.undone] == ["1.0", "2.0/1.0"]


@pytest.mark.parametrize(("depth", "asked"), [(0, 0), (1, 1), (2, 2), (None, 3)])
def test_a_chain_of_agents_is_as_deep_as_its_first_one_allows(mode: Mode, depth: int | None, asked: int) -> None:
    last = travel(say("3"), name="third")
    second = travel(ask(to("third")), say("2"), name="second", tools=[last])
    first = travel(ask(to("second")), say("1"), name="first", tools=[second])
    ended = mode.play(ask(to("first")), say("Done"), tools=[first], limits=Limits(depth=depth))
    assert ended.answer.output == "Done"
    assert [min(1, requests(agent)) for agent in (first, second, last)] == [1] * asked + [0] * (3 - asked)
    refused = [e for e in ended.report.executions if e.outcome is Outcome.REJECTED]
    texts = [
        f"The call of {name!r} was not run: agents may call each other {depth} deep here, and this would be deeper."
        for name in ("first", "second", "third")[asked:][:1]
    ]
    assert [e.result.text for e in refused] == texts


def test_an_agent_that_asks_itself_is_bounded(mode: Mode) -> None:
    class Mirror:
        """Opens the run of an agent that is made later: the one in whose tools it is."""

        agent: Agent[Any, Any]

        def open(self, run: Any, key: str, prompt: str) -> Any:
            return self.agent._part(run, key, prompt)

    asked: list[int] = []

    def reply(request: Any) -> Any:
        asked.append(1)
        is_answered = any(isinstance(message, AssistantMessage) for message in request.messages)
        return say("enough") if is_answered else ask(to("self"))

    mirror = Mirror()
    endless = travel(*[reply] * 40, name="self")
    loop = endless.as_tool()
    recursive: ToolCall | Any = type(loop)(
        **{**{f: getattr(loop, f) for f in loop.__struct_fields__}, "nested": mirror}
    )
    mirror.agent = travel(*[reply] * 40, name="self", tools=[recursive])
    ended = mode.play(ask(to("self")), say("Done"), tools=[recursive], limits=Limits(depth=4))
    assert ended.answer.output == "Done"
    assert len(asked) == 8  # each of the four asks and answers
    assert [e.key for e in ended.report.executions] == ["/".join(["1.0"] * n) for n in range(1, 6)]
    assert ended.report.executions[-1].outcome is Outcome.REJECTED


def test_pay_is_refused_politely_in_an_agent_and_that_is_no_failure_of_the_agent(mode: Mode) -> None:
    inner = travel(ask(pay("politely")), say("No luck."), tools=[Shop()])
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert ended.results == [("travel", "No luck.", False)]
    assert [(e.key, e.outcome) for e in ended.report.executions] == [
        ("1.0", Outcome.DONE), ("1.0/1.0", Outcome.FAILED),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["run", "stream"])
def test_agents_side_by_side_on_threads_cannot_both_take_the_last_call_of_a_limit(way: str) -> None:
    shop, meeting, here = Shop(), threading.Barrier(2), threading.local()

    def clock() -> float:  # is asked in the middle of checking the limits, after the calls have been counted
        if getattr(here, "is_asked", False):
            here.is_asked = False
            with contextlib.suppress(threading.BrokenBarrierError):
                meeting.wait(0.3)
        return 1000.0

    def reply(request: ChatRequest) -> ChatResponse:
        here.is_asked = len(request.messages) == 1
        return ask(book("a")) if here.is_asked else say("ok")

    inner = travel(*[reply] * 4, tools=[shop])
    limits = Limits(calls=3, seconds=60)
    replies = [ask(to(), to(id="u")), say("Done")]
    ended = Mode(way, True).play(*replies, tools=[inner], limits=limits, clock=clock)
    assert shop.log == ["book a"]
    refused = "The agent behind 'travel' gave up with CallLimitError. Nothing that it did stands."
    assert sorted(text for _, text, _ in ended.results) == [refused, "ok"]
