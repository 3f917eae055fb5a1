"""Calls that come again with the same arguments: the model is warned, the call is refused, or the run is given up."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pydantic
import pytest

from surehand import (
    Agent,
    Limits,
    LimitWarning,
    MemoryJournal,
    Outcome,
    RepeatedCallError,
    ReturnBehavior,
    TextContent,
    ToolArgumentsError,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserError,
    tool,
)
from surehand.testing import FakeClock, ScriptedModel, call, say
from surehand.tools._executor import programmatic_tool

from .durable.remains import remains
from .modes import IN_SEQUENCE, Ended, Mode, ask, retold, scripted


def note(name: str, times: int) -> str:
    return (
        f"Note: you have now called {name!r} {times} times with the same arguments. The result will probably stay the "
        "same: use what you have, change the arguments, or do something else."
    )


def read(ended: Ended) -> list[list[str]]:
    """The texts that the model reads of each call."""
    messages = [message for message in ended.messages if isinstance(message, ToolMessage)]
    return [[part.text for part in message.contents if isinstance(part, TextContent)] for message in messages]


class Desk:
    """A tool that counts what it is asked."""

    def __init__(self, **options: Any) -> None:
        self.asked: list[Any] = []
        self.options = options

    @property
    def tools(self) -> list[Any]:
        @tool(repeat="safe", **self.options)
        def status(order: int, deep: bool = False) -> str:
            self.asked.append((order, deep))
            return f"waiting {len(self.asked)}"

        return [status]


SAME = (
    '{"order": 1, "deep": true}',
    '{"deep":true,"order":1}',
    ' {"order":  "1", "deep": true}',
    '{"order":1,"deep":"true"}',
)


def test_from_the_third_identical_call_on_the_result_says_so(mode: Mode) -> None:
    desk = Desk()
    replies = [ask(call("status", text)) for text in SAME]
    ended = mode.play(*replies, say("Ok"), tools=desk.tools)
    assert read(ended) == [
        ["waiting 1"],
        ["waiting 2"],
        ["waiting 3", note("status", 3)],
        ["waiting 4", note("status", 4)],
    ]
    assert [execution.value for execution in ended.executions] == [f"waiting {n}" for n in (1, 2, 3, 4)]
    assert [event.text for event in ended.of(LimitWarning)] == [
        "the model has called 'status' 3 times with the same arguments (warn)",
        "the model has called 'status' 4 times with the same arguments (warn)",
    ]


def test_other_arguments_and_other_tools_are_other_calls(mode: Mode) -> None:
    @tool
    def look(order: int) -> str:
        return "seen"

    asked = [call(name, {"order": n}) for n in (1, 2) for name in ("status", "look")]
    ended = mode.play(ask(*asked), ask(*asked), say("Ok"), tools=[*Desk().tools, look])
    assert (len(ended.executions), ended.of(LimitWarning)) == (8, [])
    assert all(len(texts) == 1 for texts in read(ended))


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_how_often_calls_may_come_again_can_be_chosen(mode: Mode, allowed: int) -> None:
    replies = [ask(call("status", {"order": 1})) for _ in range(6)]
    ended = mode.play(*replies, say("Ok"), tools=Desk().tools, repeats_allowed=allowed)
    assert [len(texts) for texts in read(ended)] == [1] * (allowed + 1) + [2] * (5 - allowed)


def test_a_call_that_is_refused_does_not_run(mode: Mode) -> None:
    desk = Desk()
    replies = [ask(call("status", {"order": n})) for n in (1, 1, 1, 1, 2)]
    ended = mode.play(*replies, say("Ok"), tools=desk.tools, repeated_calls="refuse")
    assert desk.asked == [(1, False), (1, False), (2, False)]
    assert [execution.outcome for execution in ended.executions] == [
        *[Outcome.DONE] * 2, *[Outcome.DENIED] * 2, Outcome.DONE
    ]  # fmt: skip
    refused = (
        "This call of 'status' was not run: you have called it 3 times with the same arguments, and the result would "
        "probably stay the same. Use what you have, change the arguments, or do something else."
    )
    assert ended.results[2] == ("status", refused, True)
    assert ended.answer.output == "Ok"


def test_a_run_can_be_stopped(mode: Mode) -> None:
    log: list[str] = []

    @tool(undo=lambda: log.append("undo"))
    def pay() -> None:
        log.append("pay")

    desk = Desk()
    replies = [ask(call("pay")), *[ask(call("status", {"order": 1}))] * 3]
    ended = mode.play(*replies, tools=[pay, *desk.tools], repeated_calls="stop")
    assert isinstance(ended.error, RepeatedCallError)
    text = "the model called 'status' 3 times with the same arguments, {\"order\":1}, and repeated_calls='stop' gives"
    assert str(ended.error).startswith(text)
    assert (len(desk.asked), log) == (2, ["pay", "undo"])
    assert ended.executions[-1].outcome is Outcome.NOT_RUN


def test_polling_can_be_allowed(mode: Mode) -> None:
    replies = [ask(call("status", {"order": 1}))] * 5
    ended = mode.play(*replies, say("Ok"), tools=Desk().tools, repeated_calls="allow")
    assert (read(ended), ended.of(LimitWarning)) == ([[f"waiting {n}"] for n in range(1, 6)], [])


@pytest.mark.parametrize(
    ("agents", "tools", "runs"),
    [("allow", "refuse", 2), ("refuse", "allow", 4), ("stop", "warn", 4), ("refuse", None, 2)],
)
def test_what_a_tool_says_goes_before_what_its_agent_says(mode: Mode, agents: Any, tools: Any, runs: int) -> None:
    desk = Desk(repeated_calls=tools)
    replies = [ask(call("status", {"order": 1}))] * 4
    ended = mode.play(*replies, say("Ok"), tools=desk.tools, repeated_calls=agents)
    assert (len(desk.asked), ended.answer.output) == (runs, "Ok")


@pytest.mark.parametrize(("policy", "runs", "notes"), [("warn", 6, 4), ("refuse", 2, 0)])
def test_identical_calls_of_one_round_count_too(mode: Mode, policy: Any, runs: int, notes: int) -> None:
    desk = Desk()
    asked = [call("status", {"order": 1}, id=f"s{n}") for n in range(6)]
    ended = mode.play(ask(*asked), say("Ok"), tools=desk.tools, repeated_calls=policy)
    assert len(desk.asked) == runs
    done = [execution for execution in ended.executions if execution.outcome is Outcome.DONE]
    assert len(done) == runs
    assert [len(execution.result.contents) for execution in done].count(2) == notes
    assert len(ended.of(LimitWarning)) == 4


def test_calls_that_fail_count_and_those_whose_arguments_do_not_fit_do_not(mode: Mode) -> None:
    @tool(repeat="safe")
    def search(word: str) -> str:
        raise OSError("no network")

    replies = [ask(call("search", text)) for text in ("{}",) * 3 + ('{"word": "x"}',) * 3]
    ended = mode.play(*replies, say("Ok"), tools=[search], limits=Limits(consecutive_errors=None))
    assert [len(texts) for texts in read(ended)] == [1, 1, 1, 1, 1, 2]
    assert ended.executions[-1].outcome is Outcome.FAILED


def test_a_result_that_nobody_has_asked_for_stays_unread() -> None:
    asked: list[str] = []

    @tool(returns=ReturnBehavior.IMMEDIATE)
    def export() -> ToolResult:
        return ToolResult.lazy(lambda: asked.append("encoded") or "rows", value=1)

    agent = scripted(ScriptedModel([ask(*[call("export", id=f"e{n}") for n in range(4)])]), tools=[export])
    result = agent.run("Go")
    assert (result.immediate, asked) == (True, [])
    assert [execution.result.text for execution in result.executions] == ["rows"] * 4


def test_arguments_of_any_type_are_compared(mode: Mode) -> None:
    class Place(pydantic.BaseModel):
        name: str
        at: datetime.datetime

    @tool(repeat="safe")
    def weather(place: Place, days: set[int]) -> str:
        return "dry"

    texts = [
        '{"place": {"name": "Oslo", "at": "2026-01-01T00:00:00Z"}, "days": [1, 2, 3]}',
        '{"days": [3, 2, 1], "place": {"at": "2026-01-01T00:00:00Z", "name": "Oslo"}}',
        '{"days": [3, 2, 1], "place": {"at": "2026-01-01T00:00:01Z", "name": "Oslo"}}',
        '{"days": [2, 1, 3], "place": {"at": "2026-01-01T00:00:00Z", "name": "Oslo"}}',
    ]
    ended = mode.play(*[ask(call("weather", text)) for text in texts], say("Ok"), tools=[weather])
    assert [len(texts) for texts in read(ended)] == [1, 1, 1, 2]


def test_executors_are_guarded_alike(mode: Mode) -> None:
    def execute(call: Any, context: Any) -> str:
        if call.arguments == '{"x":"bad"}':
            raise ToolArgumentsError("bad")
        return call.arguments

    made = programmatic_tool(ToolSpec("echo"), execute, repeat="safe", repeated_calls="refuse")
    texts = ['{"x":1}', '{ "x": 1}', '{"x":1 }', "no JSON", "no JSON", "no JSON"]
    ended = mode.play(*[ask(call("echo", text)) for text in texts], say("Ok"), tools=[made])
    assert [execution.outcome is Outcome.DONE for execution in ended.executions] == [True, True, False] * 2


def test_what_a_hook_makes_of_a_call_is_what_counts(mode: Mode) -> None:
    numbers = itertools.count()

    def other(context: Any) -> Any:
        return call("status", {"order": next(numbers)}, id=context.call.id)

    replies = [ask(call("status", {"order": 1}))] * 4
    ended = mode.play(*replies, say("Ok"), tools=Desk().tools, run={"before_tool": other})
    assert [len(texts) for texts in read(ended)] == [1] * 4


@pytest.mark.parametrize("policy", ["warn", "refuse"])
@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_a_run_that_is_resumed_anywhere_counts_what_was_before(mode: Mode, policy: Any) -> None:
    replies = [*[ask(call("status", text), call("status", {"order": 2})) for text in SAME], say("Ok")]
    journal = MemoryJournal()

    def agent(model: Any, journal: Any) -> Agent[Any, Any]:
        # The same result for the same call, whoever asks: a safe one is made again.
        @tool(repeat="safe")
        def status(order: int, deep: bool = False) -> str:
            return f"waiting {order}"

        return Agent(
            model, tools=[status], journal=journal, clock=FakeClock(1.0), repeated_calls=policy, parallel=False,
            new_id=lambda: "run-1",
        )  # fmt: skip

    first = mode.drive(agent(ScriptedModel(replies), journal), parallel=False)
    for upto in range(1, len(journal.records("run-1"))):
        left = remains(journal, upto=upto)
        asked = sum(record.kind == "MODEL" for record in left.records("run-1"))
        again = agent(ScriptedModel(replies[asked:]), left).resume("run-1")
        assert retold(Ended(again, None, [])) == retold(first), f"resumed after {upto} records"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"repeated_calls": "never"}, "repeated_calls='never'; expected one of"),
        ({"repeated_calls": None}, "repeated_calls=None; expected one of"),
        ({"repeats_allowed": -1}, "repeats_allowed=-1; expected how often"),
        ({"repeats_allowed": True}, "repeats_allowed=True; expected how often"),
    ],
)
def test_options_that_cannot_be_kept_are_refused(options: Any, text: str) -> None:
    with pytest.raises(UserError) as raised:
        Agent(ScriptedModel([]), **options)
    assert text in str(raised.value)


def test_a_tool_says_one_of_the_four() -> None:
    with pytest.raises(UserError, match="repeated_calls='no'; expected one of"):
        tool(repeated_calls="no")(lambda: None)  # type: ignore[call-overload]
