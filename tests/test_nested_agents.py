"""Agents as tools of agents: what the model sees, what each side is told, and what the two share (design 3)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
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
    MessageWindow,
    Outcome,
    ReturnBehavior,
    RoundLimitError,
    SystemMessage,
    TimeLimitError,
    TokenLimitError,
    ToolCall,
    ToolContext,
    ToolResult,
    Usage,
    UserError,
    UserMessage,
    abort,
    report_of,
    tool,
)
from surehand.testing import FakeClock, ScriptedModel, call, say

from .modes import Mode, answer_of, ask
from .nested import requests, to, travel
from .shop import Shop, book, pay

# ---------------------------------------------------------------- what the model sees


@pytest.mark.parametrize(
    ("options", "missing"),
    [({}, "name"), ({"name": "a"}, "description"), ({"description": "b"}, "name"), ({"name": " "}, "name")],
)
def test_an_agent_without_a_name_or_a_description_cannot_be_a_tool(options: Any, missing: str) -> None:
    nameless = Agent(ScriptedModel([]), **options)
    remedy = rf"needs a {missing}.* give Agent\(…, {missing}='…'\) or agent\.as_tool\({missing}='…'\)"
    with pytest.raises(UserError, match=remedy):
        Agent(ScriptedModel([]), tools=[nameless])


def test_as_tool_may_name_an_agent_otherwise_and_leaves_the_agent_as_it_is() -> None:
    inner = travel()
    tools = [inner, inner.as_tool(name="rail", description="By train.")]
    specs = Agent(ScriptedModel([]), tools=tools).service.settings.toolset.specs
    assert [(spec.name, spec.description) for spec in specs] == [("travel", "Books trips."), ("rail", "By train.")]


def test_the_model_sees_one_parameter_the_prompt() -> None:
    model = ScriptedModel([say("Hello")])
    Agent(model, tools=[travel()]).run("Go")
    (spec,) = model.requests[0].parameters.tools
    assert (spec.name, spec.description) == ("travel", "Books trips.")
    assert spec.parameters["required"] == ["prompt"]
    described = "What the agent shall do or answer, with everything that it needs to know."
    assert spec.parameters["properties"] == {"prompt": {"type": "string", "description": described}}


def test_two_agents_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="travel"):
        Agent(ScriptedModel([]), tools=[travel(), travel()])


def test_options_that_an_agent_cannot_have_are_refused() -> None:
    with pytest.raises(UserError, match="colour"):
        travel().as_tool(colour="blue")  # type: ignore[call-arg]


def test_a_call_without_a_prompt_is_rejected_and_asks_nobody(mode: Mode) -> None:
    inner = travel(say("never"))
    wrong = call("travel", "{}", id="t")
    ended = mode.play(ask(wrong), say("Done"), tools=[inner])
    assert [e.outcome for e in ended.executions] == [Outcome.REJECTED]
    assert "prompt" in ended.results[0][1]
    assert requests(inner) == 0


# ---------------------------------------------------------------- the answer


def test_the_model_reads_what_the_agent_answers_and_both_keep_their_own_conversation(mode: Mode) -> None:
    shop, inner_memory = Shop(), MessageWindow(50)
    inner = travel(ask(book("a")), say("Booked a."), tools=[shop], instructions="Be brief.", memory=inner_memory)
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert ended.answer.output == "Done"
    asked = AssistantMessage(None, (to(),))
    assert ended.messages == (
        UserMessage.of("Go"), asked, answer_of(to(), "Booked a."), AssistantMessage("Done"),
    )  # fmt: skip
    assert inner_memory.messages() == [
        SystemMessage("Be brief."), UserMessage.of("Book"), AssistantMessage(None, (book("a"),)),
        answer_of(book("a"), "booked a"), AssistantMessage("Booked a."),
    ]  # fmt: skip
    assert [(e.key, e.call.name, e.value, e.outcome) for e in ended.report.executions] == [
        ("1.0", "travel", "Booked a.", Outcome.DONE), ("1.0/1.0", "book", "booked a", Outcome.DONE),
    ]  # fmt: skip
    assert [e.key for e in ended.answer.executions] == ["1.0"]
    assert [e.key for e in ended.report.standing] == ["1.0/1.0"]
    assert requests(inner) == 2


def test_an_agent_is_asked_anew_by_each_call_and_remembers_nothing_without_a_memory(mode: Mode) -> None:
    inner = travel(say("one"), say("two"))
    ended = mode.play(ask(to(prompt="first")), ask(to(prompt="second")), say("Done"), tools=[inner])
    assert [text for _, text, _ in ended.results] == ["one", "two"]
    asked = [request.messages for request in inner._model.requests]  # type: ignore[attr-defined]
    assert asked == [(UserMessage.of("first"),), (UserMessage.of("second"),)]


def test_as_tool_may_end_the_run_of_its_caller(mode: Mode) -> None:
    inner = travel(say("The answer"))
    ended = mode.play(ask(to()), tools=[inner.as_tool(returns=ReturnBehavior.IMMEDIATE)])
    assert (ended.answer.output, ended.answer.immediate) == (None, True)
    assert [e.value for e in ended.executions] == ["The answer"]


@dataclass(frozen=True)
class Seat:
    row: int


@pytest.mark.parametrize("count", [1, 2])
def test_an_agent_that_is_ended_by_a_tool_gives_what_that_gave(mode: Mode, count: int) -> None:
    @tool(returns=ReturnBehavior.IMMEDIATE, repeat="safe")
    def seat(row: int) -> Seat:
        return Seat(row)

    inner = travel(ask(book("a")), ask(*(call("seat", {"row": n}, id=str(n)) for n in range(count))), tools=[seat, Shop()])
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    seats = [Seat(n) for n in range(count)]
    if not mode.journal:
        assert ended.executions[0].value == (seats[0] if count == 1 else seats)
    assert ended.results == [("travel", '{"row":0}' if count == 1 else '[{"row":0},{"row":1}]', False)]


# ---------------------------------------------------------------- deps, parameters, memory ids


@dataclass
class Deps:
    seen: list[Any]


def test_an_agents_tools_get_the_deps_the_memory_id_the_run_id_and_the_parameters_of_the_run(mode: Mode) -> None:
    deps = Deps([])

    @tool(repeat="safe")
    def tell(ctx: ToolContext[Deps]) -> str:
        ctx.deps.seen.append((ctx.run_id, ctx.memory_id, ctx.parameters["user"], ctx.idempotency_key))
        return "told"

    inner = travel(ask(call("tell", id="x")), say("ok"), tools=[tell])
    middle = travel(ask(to()), ask(call("tell", id="y")), say("ok"), tools=[inner, tell], name="office")
    outer = {"deps": deps, "memory_id": "ann", "parameters": {"user": 7}}
    ended = mode.play(ask(to("office")), say("Done"), tools=[middle], run=outer)
    assert ended.answer.output == "Done"
    assert deps.seen == [
        ("run-1", "ann", 7, "run-1:1.0/1.0/1.0"), ("run-1", "ann", 7, "run-1:1.0/2.0"),
    ]  # fmt: skip


@pytest.mark.without_journal("a bag that a run may write to cannot be told again")
def test_what_an_agents_tool_writes_into_the_bag_the_callers_tools_read(mode: Mode) -> None:
    @tool
    def put(ctx: ToolContext[Any]) -> str:
        ctx.parameters["found"] = 3
        return "put"

    @tool
    def get(ctx: ToolContext[Any]) -> int:
        found: int = ctx.parameters["found"]
        return found

    inner = travel(ask(call("put", id="x")), say("ok"), tools=[put])
    ended = mode.play(ask(to()), ask(call("get", id="y")), say("Done"), tools=[inner, get])
    assert [text for _, text, _ in ended.results] == ["ok", "3"]


def test_an_agent_that_makes_a_memory_for_an_id_is_given_its_callers_id(mode: Mode) -> None:
    memories: dict[Any, MessageWindow] = {}

    def memory(id: Any) -> MessageWindow:
        return memories.setdefault(id, MessageWindow(50, id=id))

    inner = travel(say("one"), say("two"), memory=memory)
    ended = mode.play(
        ask(to(prompt="a")), ask(to(prompt="b")), say("Done"), tools=[inner], run={"memory_id": "ann"},
    )  # fmt: skip
    assert ended.answer.output == "Done"
    assert {id: kept.messages() for id, kept in memories.items()} == {"ann": [
        UserMessage.of("a"), AssistantMessage("one"), UserMessage.of("b"), AssistantMessage("two"),
    ]}  # fmt: skip


def test_calls_of_an_agent_that_remembers_take_turns_so_that_its_conversation_stays_in_order(concurrent: Mode) -> None:
    memory = MessageWindow(50)

    @tool(repeat="safe")
    async def look() -> str:
        await asyncio.sleep(0)
        return "there is"

    inner = travel(ask(call("look", id="x")), say("one"), ask(call("look", id="y")), say("two"), tools=[look], memory=memory)
    ended = concurrent.play(ask(to(prompt="a"), to(prompt="b")), say("Done"), tools=[inner])
    assert [text for _, text, _ in ended.results] == ["one", "two"]
    spoken = [m.text for m in memory.messages() if isinstance(m, UserMessage | AssistantMessage)]
    assert spoken == ["a", None, "one", "b", None, "two"]


# ---------------------------------------------------------------- who is asked before an agent is


def test_the_callers_hooks_and_authorise_are_asked_about_the_agent_and_not_about_its_calls(mode: Mode) -> None:
    heard: list[str] = []

    def allow(context: ToolContext[Any], arguments: dict[str, Any]) -> bool:
        heard.append(f"allow {context.call.name} {arguments}")
        return True

    inner = travel(ask(book("a")), say("ok"), tools=[Shop()])
    mode.play(
        ask(to()), say("Done"), tools=[inner], authorise=allow,
        before_tool=lambda context: heard.append(f"before {context.call.name}"),
        after_tool=lambda execution, context: heard.append(f"after {context.call.name} {execution.value}"),
    )  # fmt: skip
    assert heard == ["before travel", "allow travel {'prompt': 'Book'}", "after travel ok"]


def test_an_agents_own_hooks_and_authorise_are_asked_about_its_calls(mode: Mode) -> None:
    shop, heard = Shop(), list[str]()
    inner = travel(
        ask(book("a")), say("ok"), tools=[shop], authorise=lambda context, arguments: "Not today.",
        before_tool=lambda context: heard.append(context.call.name),
    )  # fmt: skip
    ended = mode.play(ask(to()), say("Done"), tools=[inner])
    assert heard == ["book"]
    assert [(e.key, e.outcome, e.result.text) for e in ended.report.executions] == [
        ("1.0", Outcome.DONE, "ok"), ("1.0/1.0", Outcome.DENIED, "Not today."),
    ]  # fmt: skip
    assert shop.log == []


@pytest.mark.parametrize("who", ["authorise of the caller", "authorise of the tool", "hook"])
def test_an_agent_that_is_not_allowed_is_not_asked(mode: Mode, who: str) -> None:
    def no(context: ToolContext[Any], arguments: dict[str, Any]) -> bool:
        return False

    inner = travel(say("never"))
    options: dict[str, Any] = {"authorise": no} if who == "authorise of the caller" else {}
    if who == "hook":
        options["before_tool"] = lambda context: ToolResult.error("The call of 'travel' was not allowed. It did not run.")
    asked = inner.as_tool(authorise=no) if who == "authorise of the tool" else inner
    ended = mode.play(ask(to()), say("Done"), tools=[asked], **options)
    assert [e.outcome for e in ended.executions] == [Outcome.DENIED]
    assert ended.results == [("travel", "The call of 'travel' was not allowed. It did not run.", True)]
    assert requests(inner) == 0


def test_a_hook_may_send_the_prompt_on_in_other_words(mode: Mode) -> None:
    inner = travel(say("ok"))
    mode.play(ask(to()), say("Done"), tools=[inner], before_tool=lambda context: to(prompt="In other words"))
    assert inner._model.requests[0].messages == (UserMessage.of("In other words"),)  # type: ignore[attr-defined]


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
    recursive: ToolCall | Any = type(loop)(**{**{f: getattr(loop, f) for f in loop.__struct_fields__}, "nested": mirror})
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
