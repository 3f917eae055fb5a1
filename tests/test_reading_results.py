"""What the model reads of a result: at most so much, and encoded only if somebody reads it (spec 5.2)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from surehand import (
    Agent,
    ErrorPolicy,
    Event,
    MessageWindow,
    Outcome,
    ReturnBehavior,
    TextContent,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolFinished,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserError,
    tool,
)
from surehand.messages import ImageContent
from surehand.testing import ScriptedModel, call, say

from .modes import IN_SEQUENCE, Mode, ask

IMMEDIATE, IF_LAST = ReturnBehavior.IMMEDIATE, ReturnBehavior.IMMEDIATE_IF_LAST
NOTE = "\n[Cut here: these are the first 10 of {} characters. Ask for less, or for a smaller part.]"


# ---------------------------------------------------------------- at most so much


def test_the_model_reads_the_head_and_the_application_has_the_whole(mode: Mode) -> None:
    @tool
    def read() -> str:
        return "0123456789" * 3

    @tool
    def rows() -> list[int]:
        return list(range(10))

    calls = ask(call("read", id="a"), call("rows", id="b"))
    ended = mode.play(calls, say("done"), tools=[read, rows], max_result=10)
    assert ended.results == [
        ("read", "0123456789" + NOTE.format(30), False),
        ("rows", "[0,1,2,3,4" + NOTE.format(21), False),
    ]
    assert [execution.value for execution in ended.executions] == ["0123456789" * 3, list(range(10))]


def test_a_tool_can_have_a_bound_of_its_own(mode: Mode) -> None:
    @tool(max_result=30)
    def read() -> str:
        return "0123456789" * 3

    ended = mode.play(ask(call("read")), say("done"), tools=[read], max_result=10)
    assert ended.results == [("read", "0123456789" * 3, False)]


def test_errors_are_bounded_too(mode: Mode) -> None:
    @tool
    def read() -> str:
        raise ToolError("0123456789" * 3)

    ended = mode.play(ask(call("read"), call("missing")), say("done"), tools=[read], max_result=10)
    assert [(name, text[10:30], is_error) for name, text, is_error in ended.results] == [
        ("read", NOTE[:20], True),
        ("missing", NOTE[:20], True),
    ]


def test_the_bound_counts_all_texts_of_a_result_and_leaves_other_contents_alone() -> None:
    image = ImageContent(url="https://example.org/a.png")

    def look(_: Any, __: ToolContext) -> ToolResult:
        return ToolResult.of("01234", image, "56789abc", "later")

    agent = Agent(ScriptedModel([ask(call("look")), say("done")]), tools=[(ToolSpec("look"), look)], max_result=10)
    (execution,) = agent.run("Go").executions
    assert execution.result.contents == (
        TextContent("01234"),
        image,
        TextContent("56789" + NOTE.format(18)),
    )
    assert execution.value == (TextContent("01234"), image, TextContent("56789abc"), TextContent("later"))


def test_a_text_without_a_value_of_its_own_is_kept_as_the_value() -> None:
    def look(_: Any, __: ToolContext) -> str:
        return "0123456789abc"

    agent = Agent(ScriptedModel([ask(call("look")), say("done")]), tools=[(ToolSpec("look"), look)], max_result=10)
    (execution,) = agent.run("Go").executions
    assert (execution.result.text, execution.value) == ("0123456789" + NOTE.format(13), "0123456789abc")


def test_no_bound_is_a_choice_and_a_bound_is_at_least_one() -> None:
    @tool
    def read() -> str:
        return "x" * 300_000

    def length(**options: Any) -> int:
        agent = Agent(ScriptedModel([ask(call("read")), say("done")]), tools=[read], **options)
        return len(agent.run("Go").executions[0].result.text)

    assert length(max_result=None) == 300_000
    assert 200_000 < length() < 200_200
    with pytest.raises(UserError, match="max_result=0; expected how many characters"):
        Agent(ScriptedModel([]), max_result=0)
    with pytest.raises(UserError, match="max_result=0; expected 1 or more"):
        tool(max_result=0)(lambda: None)


# ---------------------------------------------------------------- encoded only if read


class Counted:
    """A value that tells how often it has been encoded, or refuses."""

    def __init__(self, fails: bool = False) -> None:
        self.encoded = 0
        self.fails = fails

    def tolist(self) -> list[int]:
        self.encoded += 1
        if self.fails:
            raise ValueError("no")
        return [self.encoded]


def play(mode: Mode, value: Any, *others: Any, returns: ReturnBehavior = IMMEDIATE, **options: Any) -> Any:
    @tool(returns=returns)
    def fetch():  # type: ignore[no-untyped-def]
        return value

    @tool
    def other() -> str:
        return "seen"

    calls = [call("fetch", id="a"), *(call("other", id="b") for _ in others)]
    return mode.play(ask(*calls), say("done"), tools=[fetch, other], **options)


@pytest.mark.without_journal("what is recorded is encoded")
def test_a_tool_that_ends_the_run_is_encoded_when_somebody_asks_and_once(mode: Mode) -> None:
    value = Counted()
    ended = play(mode, value)
    assert (ended.answer.immediate, value.encoded) == (True, 0)
    assert repr(ended.answer)
    assert ended.answer.executions[0].value is value
    assert value.encoded == 0
    assert [ended.answer.executions[0].result.text for _ in range(3)] == ["[1]"] * 3
    assert ended.results == [("fetch", "[1]", False)]
    assert value.encoded == 1


@pytest.mark.parametrize("returns", [ReturnBehavior.TO_MODEL, IF_LAST])
def test_any_other_tool_is_encoded_within_its_call(mode: Mode, returns: ReturnBehavior) -> None:
    value = Counted()
    ended = play(mode, value, returns=returns)
    assert value.encoded == 1
    assert ended.results == [("fetch", "[1]", False)]


def test_it_is_encoded_when_the_run_goes_on_since_the_model_reads_it(mode: Mode) -> None:
    value = Counted()
    ended = play(mode, value, "other")
    assert (ended.answer.output, value.encoded) == ("done", 1)
    assert ended.results == [("fetch", "[1]", False), ("other", "seen", False)]
    assert [message.text for message in ended.requests[1].messages if isinstance(message, ToolMessage)] == [
        "[1]",
        "seen",
    ]


def test_it_is_encoded_when_a_memory_keeps_it(mode: Mode) -> None:
    value, memory = Counted(), MessageWindow(10)
    ended = play(mode, value, memory=memory)
    assert (ended.answer.immediate, value.encoded) == (True, 1)
    (message,) = [message for message in memory.messages() if isinstance(message, ToolMessage)]
    assert message.text == "[1]"


SENTENCE = "Tool 'fetch' did run, but its result cannot be shown: Counted cannot be encoded. Do not repeat the call."


@pytest.mark.parametrize("options", [{"memory": MessageWindow}, {}], ids=["memory", "other call"])
def test_a_value_that_turns_out_not_to_be_encodable_is_the_handlers_affair(mode: Mode, options: Any) -> None:
    given = {name: make(10) for name, make in options.items()}
    others = () if given else ("other",)
    told: list[str] = []

    def handler(error: BaseException, context: Any) -> str:
        told.append(f"{type(error).__name__} of {context.call.name}")
        return "handled"

    value = Counted(fails=True)
    ended = play(mode, value, *others, on_error=handler, **given)
    assert told == ["ToolExecutionError of fetch"]
    assert ended.results[0] == ("fetch", "handled", True)
    execution: ToolExecution[Any] = ended.executions[0]
    assert (execution.outcome, execution.value, execution.has_failed) == (Outcome.DONE, value, True)

    unhandled = play(mode, Counted(fails=True), *others, **{name: make(10) for name, make in options.items()})
    assert unhandled.results[0] == ("fetch", SENTENCE, True)
    assert unhandled.answer.output == "done"

    def gives_up(error: BaseException, context: Any) -> str:
        raise error

    policy = ErrorPolicy(execution=gives_up)
    given_up = play(mode, Counted(fails=True), *others, on_error=policy, **{n: make(10) for n, make in options.items()})
    assert type(given_up.error).__name__ == "ToolExecutionError"
    assert given_up.executions[0].outcome is Outcome.DONE


def test_a_lazy_result_of_an_executor_is_asked_for_within_its_call(mode: Mode) -> None:
    asked: list[str] = []

    def supply() -> str:
        asked.append("asked")
        raise ValueError("no")

    def lazy(_: Any, __: ToolContext) -> ToolResult:
        return ToolResult.lazy(supply, value=7)

    ended = mode.play(ask(call("lazy")), say("done"), tools=[(ToolSpec("lazy"), lazy)])
    sentence = SENTENCE.replace("fetch", "lazy").replace("Counted", "ToolResult")
    assert (asked, ended.results) == (["asked"], [("lazy", sentence, True)])
    assert [type(event.execution.result) for event in ended.of(ToolFinished)] == [ToolResult]


@pytest.mark.parametrize("returns", [ReturnBehavior.TO_MODEL, IMMEDIATE])
def test_a_long_lazy_result_is_cut_like_any_other(mode: Mode, returns: ReturnBehavior) -> None:
    @tool(max_result=10, returns=returns)
    def fetch() -> ToolResult:
        """Give text when somebody asks."""
        return ToolResult.lazy(lambda: "0123456789abcdef")

    ended = mode.play(ask(call("fetch")), say("done"), tools=[fetch])
    assert [m.text for m in ended.messages if isinstance(m, ToolMessage)] == ["0123456789" + NOTE.format(16)]
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE]


@pytest.mark.without_journal("what is recorded is encoded")
def test_whoever_reads_a_result_that_cannot_be_encoded_does_not_fail(mode: Mode) -> None:
    read_by_hook: list[str] = []

    def hook(execution: ToolExecution[Any], _: Any) -> None:
        read_by_hook.append(execution.result.text)

    ended = play(mode, Counted(fails=True), after_tool=hook)
    assert ended.answer.immediate
    assert read_by_hook == [SENTENCE]
    assert [event.execution.result.text for event in ended.of(ToolFinished)] == [SENTENCE]
    assert [(m.text, m.is_error) for m in ended.messages if isinstance(m, ToolMessage)] == [(SENTENCE, False)]


@pytest.mark.parametrize("mode", IN_SEQUENCE, ids=str)
def test_what_comes_late_is_bounded_too(mode: Mode) -> None:
    leave, known = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        leave.wait(10)
        return "0123456789abc"

    def listen(event: Event) -> None:
        if isinstance(event, ToolFinished) and event.late:
            late.append(event.execution.result.text)
            known.set()

    late: list[str] = []
    agent = Agent(ScriptedModel([ask(call("slow")), say("done")]), tools=[slow], max_result=10, listeners=[listen])

    async def arun() -> None:
        await agent.arun("Go")
        leave.set()
        await asyncio.to_thread(known.wait, 10)

    if mode.is_async:
        asyncio.run(arun())
    else:
        agent.run("Go")
        leave.set()
        assert known.wait(10)
    assert late == ["0123456789" + NOTE.format(13)]


def test_what_a_handler_says_of_a_value_is_bounded_too(mode: Mode) -> None:
    ended = play(mode, Counted(fails=True), "other", on_error=lambda error, context: "0123456789abc", max_result=10)
    assert ended.results[0] == ("fetch", "0123456789" + NOTE.format(13), True)
