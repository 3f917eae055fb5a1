"""Agents as tools of agents: what the model sees, what each side is told, and what the two share (design 3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    MessageWindow,
    Outcome,
    ResponseDone,
    ReturnBehavior,
    SystemMessage,
    ToolCallReady,
    ToolContext,
    ToolResult,
    UserError,
    UserMessage,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Mode, answer_of, ask
from .nested import requests, to, travel
from .shop import Shop, book

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
    (spec,) = model.requests[0].tools
    assert spec.parameters is not None
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

    inner = travel(
        ask(book("a")), ask(*(call("seat", {"row": n}, id=str(n)) for n in range(count))), tools=[seat, Shop()]
    )
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

    inner = travel(
        ask(call("look", id="x")), say("one"), ask(call("look", id="y")), say("two"), tools=[look], memory=memory
    )
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
        options["before_tool"] = lambda context: ToolResult.error(
            "The call of 'travel' was not allowed. It did not run."
        )
    asked = inner.as_tool(authorise=no) if who == "authorise of the tool" else inner
    ended = mode.play(ask(to()), say("Done"), tools=[asked], **options)
    assert [e.outcome for e in ended.executions] == [Outcome.DENIED]
    assert ended.results == [("travel", "The call of 'travel' was not allowed. It did not run.", True)]
    assert requests(inner) == 0


def test_a_hook_may_send_the_prompt_on_in_other_words(mode: Mode) -> None:
    inner = travel(say("ok"))
    mode.play(ask(to()), say("Done"), tools=[inner], before_tool=lambda context: to(prompt="In other words"))
    assert inner._model.requests[0].messages == (UserMessage.of("In other words"),)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_what_an_agent_that_tools_end_gives_is_of_the_calls_that_its_reply_has(way: str) -> None:
    @tool(repeat="safe", returns=ReturnBehavior.IMMEDIATE)
    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}"

    first, second = (call("look", {"number": number}, id=f"c{number}") for number in (1, 2))
    streamed = [ToolCallReady(0, first), ResponseDone(calls(second))]
    inner = travel(streamed, tools=[look], parallel=True, early_start="all")
    ended = Mode(way, True).play(ask(to()), say("Done"), tools=[inner], parallel=True)
    assert ended.results == [("travel", "found 2", False)]
