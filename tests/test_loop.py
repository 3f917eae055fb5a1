"""The loop: rounds, limits on rounds, immediate return, requests, and what is sent to the model (spec 7)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from msgspec import UNSET

from surehand import (
    AssistantMessage,
    ChatParameters,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Limits,
    MessageWindow,
    ReturnBehavior,
    RoundLimitError,
    SystemMessage,
    TextContent,
    ToolChoice,
    ToolMessage,
    Usage,
    UserError,
    UserMessage,
    tool,
)
from surehand.policies import returns_immediately
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Mode, answer_of, ask, scripted


@tool(repeat="safe")
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


@tool(repeat="safe")
def greet() -> str:
    """Greet."""
    return "hello"


GREET = call("greet", id="g")


def test_an_answer_without_tools_is_the_result(mode: Mode) -> None:
    ended = mode.play(say("Hi there"), prompt="Hello")
    assert ended.answer.output == "Hi there"
    assert ended.answer.messages == (UserMessage.of("Hello"), AssistantMessage("Hi there"))
    assert (ended.answer.executions, ended.answer.intermediate, ended.answer.pending) == ((), (), ())
    assert (ended.answer.immediate, ended.answer.finish_reason) == (False, FinishReason.STOP)


def test_results_go_back_to_the_model_in_request_order(mode: Mode) -> None:
    first, second = call("add", '{"left": 1, "right": 2}', id="a"), GREET
    ended = mode.play(ask(first, second), say("Done"), tools=[add, greet])
    conversation = (
        UserMessage.of("Go"),
        AssistantMessage(None, (first, second)),
        answer_of(first, "3"),
        answer_of(second, "hello"),
    )
    assert [request.messages for request in ended.requests] == [conversation[:1], conversation]
    assert ended.answer.messages == (*conversation, AssistantMessage("Done"))
    assert [(e.key, e.call, e.value) for e in ended.executions] == [("1.0", first, 3), ("1.1", second, "hello")]
    assert [response.message for response in ended.answer.intermediate] == [AssistantMessage(None, (first, second))]


def test_an_answer_with_neither_text_nor_calls_is_an_answer(mode: Mode) -> None:
    ended = mode.play(ChatResponse(AssistantMessage(), None, FinishReason.STOP))
    assert ended.answer.output is None
    assert ended.answer.messages == (UserMessage.of("Go"), AssistantMessage())


def test_usage_is_summed_over_all_replies(mode: Mode) -> None:
    ended = mode.play(
        calls(call("greet"), usage=Usage(10, 2)),
        calls(call("greet")),  # a reply whose usage is not known
        say("Done", usage=Usage(20, 3, 40, {"cached": 5})),
        tools=[greet],
    )
    assert ended.answer.usage == Usage(30, 5, 52, {"cached": 5})


def test_history_and_instructions_come_first_and_are_not_changed(mode: Mode) -> None:
    history = [UserMessage.of("Before"), AssistantMessage("Yes")]
    ended = mode.play(say("Ok"), instructions="Be kind", run={"history": history})
    assert ended.requests[0].messages == (SystemMessage("Be kind"), *history, UserMessage.of("Go"))
    assert ended.answer.messages == (UserMessage.of("Go"), AssistantMessage("Ok"))
    assert len(history) == 2


def test_two_runs_with_one_memory_are_one_conversation(mode: Mode) -> None:
    model, memory = ScriptedModel([calls(call("greet")), say("One"), say("Two")]), MessageWindow(100)
    agent = scripted(model, memory=memory, instructions="Be kind", tools=[greet])
    mode.drive(agent, "First")
    ended = mode.drive(agent, "Second")
    asked = call("greet", id="c0")
    conversation = [
        SystemMessage("Be kind"),
        UserMessage.of("First"),
        AssistantMessage(None, (asked,)),
        answer_of(asked, "hello"),
        AssistantMessage("One"),
        UserMessage.of("Second"),
    ]
    assert list(model.requests[-1].messages) == conversation
    assert memory.messages() == [*conversation, AssistantMessage("Two")]
    assert ended.answer.messages == (UserMessage.of("Second"), AssistantMessage("Two"))


# ---------------------------------------------------------------- the limit of rounds (spec 7.2)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_as_many_rounds_as_the_limit_says_run_and_then_an_answer_is_fine(mode: Mode, limit: int) -> None:
    ended = mode.play(*[calls(call("greet"))] * limit, say("Done"), tools=[greet], limits=Limits(rounds=limit))
    assert (ended.answer.output, len(ended.executions)) == ("Done", limit)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_one_round_more_than_the_limit_fails_before_any_of_it_runs(mode: Mode, limit: int) -> None:
    ran: list[str] = []

    @tool(repeat="safe")
    def note(text: str) -> str:
        ran.append(text)
        return text

    rounds = [calls(call("note", f'{{"text": "{number}"}}')) for number in range(limit + 1)]
    ended = mode.play(*rounds, say("Never"), tools=[note], limits=Limits(rounds=limit))
    assert isinstance(ended.error, RoundLimitError)
    assert f"after {limit} rounds" in str(ended.error) and "Limits(rounds=" in str(ended.error)
    assert ran == [str(number) for number in range(limit)]
    assert len(ended.requests) == limit + 1
    last = ended.messages[-1]
    assert isinstance(last, ToolMessage) and last.is_error
    assert last.text == "This call of 'note' was not run: a limit of the run was reached."


@pytest.mark.parametrize("limit", [-1, True, float("nan"), "3"])
def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    with pytest.raises(UserError, match=r"Limits\(rounds=.*expected a number of at least 0, or None"):
        Limits(rounds=limit)


# ---------------------------------------------------------------- immediate return (spec 7.9)

MODEL, NOW, IF_LAST = ReturnBehavior.TO_MODEL, ReturnBehavior.IMMEDIATE, ReturnBehavior.IMMEDIATE_IF_LAST
RETURNING = {
    (NOW,), (IF_LAST,),
    (MODEL, IF_LAST), (NOW, NOW), (NOW, IF_LAST), (IF_LAST, NOW), (IF_LAST, IF_LAST),
    (MODEL, MODEL, IF_LAST), (MODEL, NOW, IF_LAST), (MODEL, IF_LAST, IF_LAST), (NOW, MODEL, IF_LAST),
    (NOW, NOW, NOW), (NOW, NOW, IF_LAST), (NOW, IF_LAST, NOW), (NOW, IF_LAST, IF_LAST),
    (IF_LAST, MODEL, IF_LAST), (IF_LAST, NOW, NOW), (IF_LAST, NOW, IF_LAST), (IF_LAST, IF_LAST, NOW),
    (IF_LAST, IF_LAST, IF_LAST),
}  # fmt: skip
ROWS = [row for length in (1, 2, 3) for row in product((MODEL, NOW, IF_LAST), repeat=length)]


def returning_tool(behavior: ReturnBehavior, fails: bool = False) -> Any:
    @tool(name=behavior.value, returns=behavior, repeat="safe")
    def act(fail: bool = False) -> str:
        if fail:
            raise ValueError("no")
        return behavior.value

    return act


TOOLS = [returning_tool(behavior) for behavior in ReturnBehavior]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(behavior.value for behavior in row))
def test_a_round_ends_the_run_exactly_where_the_table_says(mode: Mode, row: tuple[ReturnBehavior, ...]) -> None:
    asked = [call(behavior.value, id=f"c{n}") for n, behavior in enumerate(row)]
    ended = mode.play(ask(*asked), say("From the model"), tools=TOOLS, repeated_calls="allow")
    returns = row in RETURNING
    assert (ended.answer.immediate, len(ended.requests)) == (returns, 1 if returns else 2)
    assert ended.answer.output == (None if returns else "From the model")
    conversation = (
        UserMessage.of("Go"),
        AssistantMessage(None, tuple(asked)),
        *[answer_of(c, c.name) for c in asked],
    )
    assert ended.answer.messages == conversation + (() if returns else (AssistantMessage("From the model"),))
    if returns:
        assert ended.answer.finish_reason is FinishReason.TOOL_EXECUTION
        assert ended.answer.response.message.tool_calls == tuple(asked)
        assert ended.answer.intermediate == ()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(behavior.value for behavior in row))
def test_a_round_with_an_error_never_ends_the_run(row: tuple[ReturnBehavior, ...]) -> None:
    assert not returns_immediately(True, row)
    mode = Mode("run", False)
    asked = [call(b.value, '{"fail": true}' if n == 0 else "{}", id=f"c{n}") for n, b in enumerate(row)]
    ended = mode.play(ask(*asked), say("From the model"), tools=TOOLS)
    assert (ended.answer.immediate, ended.answer.output) == (False, "From the model")


def test_no_behaviors_at_all_go_on() -> None:
    assert not returns_immediately(False, ())


def test_an_error_next_to_an_immediate_tool_goes_back_to_the_model(mode: Mode) -> None:
    asked = [call("immediate", id="a"), call("immediate", '{"fail": true}', id="b")]
    ended = mode.play(ask(*asked), say("I see"), tools=TOOLS)
    assert (ended.answer.immediate, ended.answer.output) == (False, "I see")


def test_results_of_an_immediate_return_are_in_the_memory(mode: Mode) -> None:
    memory, asked = MessageWindow(10), call("immediate", id="a")
    mode.play(ask(asked), tools=TOOLS, memory=memory)
    assert memory.messages() == [
        UserMessage.of("Go"),
        AssistantMessage(None, (asked,)),
        answer_of(asked, "immediate"),
    ]


# ---------------------------------------------------------------- what is sent (spec 7.7)


def test_edits_of_the_transformer_do_not_pile_up(mode: Mode) -> None:
    seen: list[tuple[int, Any]] = []

    def add_note(request: ChatRequest, memory_id: Any) -> ChatRequest:
        seen.append((len(request.messages), memory_id))
        return ChatRequest((*request.messages, UserMessage.of("note")), request.parameters)

    ended = mode.play(
        ask(GREET), ask(GREET), say("Done"), tools=[greet], transform_request=add_note, memory=MessageWindow(50)
    )
    assert seen == [(1, "default"), (3, "default"), (5, "default")]
    assert [len(request.messages) for request in ended.requests] == [2, 4, 6]
    assert UserMessage.of("note") not in ended.answer.messages


@pytest.mark.parametrize(("relax", "later"), [(True, ToolChoice.AUTO), (False, ToolChoice.REQUIRED)])
def test_a_forced_tool_choice_is_relaxed_after_the_first_round(mode: Mode, relax: bool, later: ToolChoice) -> None:
    ended = mode.play(
        ask(GREET), ask(GREET), say("Done"),
        tools=[greet], chat_parameters=ChatParameters(tool_choice=ToolChoice.REQUIRED), relax_tool_choice=relax,
    )  # fmt: skip
    assert [request.parameters.tool_choice for request in ended.requests] == [ToolChoice.REQUIRED, later, later]


def test_a_choice_that_is_not_forced_is_left_alone(mode: Mode) -> None:
    ended = mode.play(ask(GREET), say("Done"), tools=[greet])
    assert [request.parameters.tool_choice for request in ended.requests] == [UNSET, UNSET]


def test_parameters_of_the_run_override_those_of_the_agent_and_tools_stay(mode: Mode) -> None:
    ended = mode.play(
        say("Done"),
        tools=[greet],
        chat_parameters=ChatParameters(temperature=0.1, model="small"),
        run={"chat_parameters": ChatParameters(model="large")},
    )
    parameters = ended.requests[0].parameters
    assert (parameters.temperature, parameters.model) == (0.1, "large")
    assert [spec.name for spec in ended.requests[0].tools] == ["greet"]


def test_a_prompt_may_be_contents_or_a_message(mode: Mode) -> None:
    parts = [TextContent("one"), TextContent("two")]
    assert mode.play(say("Ok"), prompt=parts).answer.messages[0] == UserMessage(tuple(parts))
    message = UserMessage.of("Hi")
    assert mode.play(say("Ok"), prompt=message).answer.messages[0] is message
