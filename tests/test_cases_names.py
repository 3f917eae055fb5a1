"""Faults that users reported in systems of this kind: names and ids of calls. Each name starts with the case's id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    ArgumentRepaired,
    AssistantMessage,
    Limits,
    MessageWindow,
    Outcome,
    ToolCall,
    ToolExecuted,
    ToolFinished,
    ToolMessage,
    UserMessage,
    messages_from_json,
    messages_to_json,
    tool,
)
from surehand.testing import call, say

from .modes import Mode, answer_of, ask


@tool(name="search", repeat="safe")
def search(q: str = "") -> str:
    """Search."""
    return f"found {q}"


class Shell:
    """A tool with effects, which notes what it was asked."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @tool(name="Bash")
    def bash(self, command: str = "") -> str:
        self.ran.append(command)
        return f"ran {command}"


@pytest.mark.parametrize("unknown", ["foo", "", "search.", "sea rch", "Search", "json_tool_call"])
@pytest.mark.parametrize("position", [0, 1])
def test_NAM_02_unknown_next_to_known(mode: Mode, unknown: str, position: int) -> None:
    asked = [call("search", '{"q": "x"}', id="s")]
    asked.insert(position, call(unknown, id="u"))
    ended = mode.play(ask(*asked), say("Ok"), tools=[search])
    outcomes = [Outcome.DONE]
    outcomes.insert(position, Outcome.REJECTED)
    assert [e.outcome for e in ended.executions] == outcomes
    sent = ended.requests[1].messages[2:]
    assert [(m.call_id, m.tool_name, m.is_error) for m in sent if isinstance(m, ToolMessage)] == [
        (c.id, c.name, c.name == unknown) for c in asked
    ]
    assert answer_of(call("search", id="s"), "found x") in sent


@pytest.mark.parametrize("name", ["Bash\n", "\nBash", " Bash ", "Bash\t\n\n"])
def test_NAM_04_trailing_newline(mode: Mode, name: str) -> None:
    shell, memory = Shell(), MessageWindow(50)
    ended = mode.play(*[ask(call(name, '{"command": "ls"}'))] * 3, say("Ok"), tools=[shell], memory=memory)
    assert shell.ran == ["ls"] * 3
    stored = [c.name for m in memory.messages() if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert stored == ["Bash"] * 3  # the newline cannot grow in history
    assert {m.tool_name for m in memory.messages() if isinstance(m, ToolMessage)} == {"Bash"}
    assert len(ended.of(ArgumentRepaired)) == 3


@pytest.mark.parametrize(
    "name",
    ["functions.Bash<|channel|>analysis", "Bash<|end|>", "tools.Bash<|constrain|>json", "<|Bash|>", "Bash<", "x.Bash"],
)
def test_NAM_06_special_token_tail(mode: Mode, name: str) -> None:
    shell = Shell()
    ended = mode.play(ask(call(name, '{"command": "ls"}', id="b")), say("Ok"), tools=[shell])
    (execution,) = ended.executions
    assert (execution.outcome, execution.call.name) in [(Outcome.DONE, "Bash"), (Outcome.REJECTED, name)]
    assert shell.ran == (["ls"] if execution.outcome is Outcome.DONE else [])
    if name.startswith(("functions.Bash<|", "Bash<|", "tools.Bash<|")):
        assert execution.outcome is Outcome.DONE


@pytest.mark.parametrize("name", ["mcp_mcp_Bash", "Bash_Bash", "BashBash", "functions.functions.Bash", "bash"])
def test_NAM_07_doubled_prefix(mode: Mode, name: str) -> None:
    shell = Shell()
    ended = mode.play(ask(call(name, '{"command": "rm"}', id="b")), say("Ok"), tools=[shell])
    assert shell.ran == []  # a tool with effects runs only under a name that is certain
    assert ended.executions[0].outcome is Outcome.REJECTED
    assert "'Bash'" in ended.executions[0].result.text


@pytest.mark.parametrize("name", ["", None, " ", "\n"])
def test_NAM_09_empty_or_none_name(mode: Mode, name: Any) -> None:
    memory = MessageWindow(50)
    ended = mode.play(ask(ToolCall("n", name, "{}"), call("search", id="s")), say("Ok"), tools=[search], memory=memory)
    assert ended.answer.output == "Ok"
    assert [e.outcome for e in ended.executions] == [Outcome.REJECTED, Outcome.DONE]
    answers = [m for m in memory.messages() if isinstance(m, ToolMessage)]
    assert [(m.call_id, m.is_error) for m in answers] == [("n", True), ("s", False)]
    assert messages_from_json(messages_to_json(memory.messages())) == memory.messages()


@pytest.mark.parametrize("name", ["json_tool_call", "final_result", "structured_output"])
def test_NAM_10_helper_tool_name_from_a_structured_output_trick(mode: Mode, name: str) -> None:
    ended = mode.play(ask(call(name, '{"answer": 7}', id="j")), say("Ok"), tools=[search])
    assert (ended.answer.output, ended.executions[0].outcome) == ("Ok", Outcome.REJECTED)
    assert ended.results[0][2] is True and repr(name) in ended.results[0][1]


@pytest.mark.parametrize("id", ["call_1", "", None])
@pytest.mark.parametrize("arguments", [("first", "second"), ("same", "same")])
def test_NAM_11_NAM_12_duplicate_empty_and_missing_ids_in_one_response(
    mode: Mode, id: Any, arguments: tuple[str, str]
) -> None:
    asked = [ToolCall(id, "search", f'{{"q": "{text}"}}') for text in arguments]
    ended = mode.play(ask(*asked), say("Ok"), tools=[search])
    assert [(e.key, e.value) for e in ended.executions] == [
        ("1.0", f"found {arguments[0]}"),
        ("1.1", f"found {arguments[1]}"),
    ]
    assert ended.requests[1].messages[2:] == tuple(
        answer_of(c, f"found {text}") for c, text in zip(asked, arguments, strict=True)
    )


@pytest.mark.parametrize("id", ["X", "", None])
@pytest.mark.parametrize("turns", [2, 3, 5])
def test_NAM_13_same_id_in_different_turns(mode: Mode, id: Any, turns: int) -> None:
    memory = MessageWindow(50)
    script = [ask(ToolCall(id, "search", f'{{"q": "{turn}"}}')) for turn in range(turns)]
    ended = mode.play(*script, say("Ok"), tools=[search], memory=memory)
    assert [text for _, text, _ in ended.results] == [f"found {turn}" for turn in range(turns)]
    sent = [m.text for m in ended.requests[-1].messages if isinstance(m, ToolMessage)]
    assert sent == [f"found {turn}" for turn in range(turns)]
    assert [e.key for e in ended.executions] == [f"{turn + 1}.0" for turn in range(turns)]


@pytest.mark.parametrize("id", ["", None])
@pytest.mark.parametrize("with_memory", [False, True])
def test_NAM_14_empty_id_result_must_survive(mode: Mode, id: Any, with_memory: bool) -> None:
    asked = ToolCall(id, "search", '{"q": "x"}')
    ended = mode.play(ask(asked), say("Ok"), tools=[search], memory=MessageWindow(50) if with_memory else None)
    assert ended.requests[1].messages == (
        UserMessage.of("Go"),
        AssistantMessage(None, (asked,)),
        answer_of(asked, "found x"),
    )


@pytest.mark.parametrize("ids", [("1", "2"), ("1", "1"), (None, None)])
@pytest.mark.parametrize("repeat", ["safe", "never"])
def test_NAM_15_identical_call_twice_in_one_response(mode: Mode, ids: tuple[Any, Any], repeat: Any) -> None:
    ran: list[str] = []

    @tool(repeat=repeat)
    def read(path: str) -> int:
        ran.append(path)
        return len(ran)

    ended = mode.play(ask(*[ToolCall(id, "read", '{"path": "a"}') for id in ids]), say("Ok"), tools=[read])
    assert ran == ["a", "a"]
    assert sorted(e.value for e in ended.executions) == [1, 2]


def test_NAM_16_result_order(concurrent: Mode) -> None:
    all_fast_finished = threading.Barrier(2, timeout=5)
    finished: list[str] = []

    @tool
    def slow() -> str:
        all_fast_finished.wait()
        return "slow"

    @tool
    def fast() -> str:
        return "fast"

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished):
            finished.append(event.execution.value)
            if finished == ["fast", "fast"]:
                all_fast_finished.wait()

    ended = concurrent.play(
        ask(call("slow"), call("fast"), call("fast")), say("Ok"), tools=[slow, fast], listeners=[listener]
    )
    assert finished == ["fast", "fast", "slow"]
    # The listener lets the slow tool go before the stream has its own copy of the event, so only it tells the order.
    assert sorted(event.execution.value for event in ended.of(ToolFinished)) == sorted(finished)
    assert [event.execution.value for event in ended.of(ToolExecuted)] == ["slow", "fast", "fast"]
    assert [text for _, text, _ in ended.results] == ["slow", "fast", "fast"]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What bodies that outlive their timeout wait for."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("id", ["1", "", None])
def test_NAM_17_two_results_for_one_id(mode: Mode, id: Any, release: threading.Event) -> None:
    late, memory = threading.Event(), MessageWindow(50)
    heard: list[bool] = []

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.execution.call == asked:
            heard.append(event.late)
            if event.late:
                late.set()

    @tool(timeout=0.02)
    def slow() -> str:
        release.wait(10)
        return "late duplicate"

    @tool
    def wait_for_it() -> None:
        release.set()
        assert late.wait(5)

    asked = ToolCall(id, "slow", "{}")
    ended = mode.play(
        ask(asked), ask(call("wait_for_it", id="w")), say("Ok"),
        tools=[slow, wait_for_it], memory=memory, listeners=[listener], limits=Limits(consecutive_errors=None),
    )  # fmt: skip
    results = [m for m in ended.requests[-1].messages if isinstance(m, ToolMessage) and m.tool_name == "slow"]
    assert len(results) == 1 and "late duplicate" not in repr(ended.requests)
    assert [m for m in memory.messages() if isinstance(m, ToolMessage) and m.tool_name == "slow"] == results
    assert heard == [False, True]


@pytest.mark.parametrize("name", ["search", "x" * 64, "näme", "with space", "functions.search", "a/b", "Search"])
def test_NAM_22_listed_name_must_be_callable(mode: Mode, name: str) -> None:
    @tool(name=name)
    def other() -> str:
        return "ran"

    tools = [other] if name == "search" else [search, other]
    listed = [spec.name for spec in mode.play(say("Ok"), tools=tools).requests[0].tools]
    ended = mode.play(ask(*map(call, listed)), say("Ok"), tools=tools)
    assert [(e.call.name, e.outcome) for e in ended.executions] == [(n, Outcome.DONE) for n in listed]
