"""Calls of tools that do not exist, and names that are nearly right (spec 10)."""

from __future__ import annotations

from typing import Any

import pytest

from surehand import (
    ArgumentRepaired,
    AssistantMessage,
    ErrorPolicy,
    MessageWindow,
    Outcome,
    Repair,
    TextContent,
    ToolCall,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UnknownToolError,
    tool,
)
from surehand.policies import abort_on_unknown_name
from surehand.testing import call, say

from .modes import Mode, answer_of, ask


@tool
def read_file(path: str = "") -> str:
    """Read."""
    return f"read {path}"


@tool
def write_file() -> str:
    """Write."""
    return "written"


@tool(repeat="safe")
def fine() -> str:
    """Always works."""
    return "fine"


FILES = [read_file, write_file, fine]


def test_an_unknown_name_is_answered_with_the_closest_names_and_others_run(mode: Mode) -> None:
    ended = mode.play(ask(call("read_fil", id="a"), call("fine", id="b")), say("Ok"), tools=FILES)
    assert [e.outcome for e in ended.executions] == [Outcome.REJECTED, Outcome.DONE]
    (name, text, is_error), good = ended.results
    assert (name, is_error, good) == ("read_fil", True, ("fine", "fine", False))
    assert "'read_fil'" in text and "'read_file'" in text
    assert ended.names.count("ToolStarted") == 1


def test_abort_on_unknown_name_fails_the_run_and_closes_the_conversation(mode: Mode) -> None:
    memory = MessageWindow(10)
    policy = ErrorPolicy(unknown_name=abort_on_unknown_name)
    ended = mode.play(ask(call("nope", id="n")), tools=FILES, on_error=policy, memory=memory)
    assert isinstance(ended.error, UnknownToolError) and "'nope'" in str(ended.error)
    (_, _, answer) = memory.messages()
    assert isinstance(answer, ToolMessage) and (answer.call_id, answer.is_error) == ("n", True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("plain", ToolMessage("n", "nope", (TextContent("plain"),), True)),
        (ToolResult.of("soft", attributes={"k": 1}), ToolMessage("n", "nope", (TextContent("soft"),), False, {"k": 1})),
        (ToolMessage("x", "y", (TextContent("a"), TextContent("b")), None, {"k": 2}),
         ToolMessage("n", "nope", (TextContent("a"), TextContent("b")), True, {"k": 2})),
        (ToolMessage("x", "y", (TextContent("a"),), False), ToolMessage("n", "nope", (TextContent("a"),), False)),
    ],
)  # fmt: skip
def test_an_answer_for_an_unknown_name_keeps_contents_flag_and_attributes(
    mode: Mode, given: Any, message: ToolMessage
) -> None:
    policy = ErrorPolicy(unknown_name=lambda call, names: given)
    ended = mode.play(ask(call("nope", id="n")), say("Ok"), tools=FILES, on_error=policy)
    assert ended.requests[1].messages[-1] == message


@pytest.mark.parametrize("name", ["read_file\n", "  read_file ", "functions.read_file", "tools.read_file"])
def test_a_name_with_a_stray_prefix_or_space_is_repaired_and_reported(mode: Mode, name: str) -> None:
    ended = mode.play(ask(call(name, '{"path": "x"}', id="a")), say("Ok"), tools=FILES)
    fixed = ToolCall("a", "read_file", '{"path": "x"}')
    assert ended.requests[1].messages[1:] == (AssistantMessage(None, (fixed,)), answer_of(fixed, "read x"))
    assert [(e.call, e.repair) for e in ended.of(ArgumentRepaired)] == [(fixed, Repair("name", name, "read_file"))]


def test_a_name_that_exists_is_never_changed(mode: Mode) -> None:
    spec = ToolSpec("functions.read_file")
    odd = (spec, type("Odd", (), {"execute": lambda self, call, context: "the odd one"})())
    ended = mode.play(ask(call("functions.read_file", id="a")), say("Ok"), tools=[*FILES, odd])
    assert ended.results == [("functions.read_file", "the odd one", False)]
    assert ended.of(ArgumentRepaired) == []


def test_a_model_that_is_asked_of_nothing_says_so_without_suggestions(mode: Mode) -> None:
    ended = mode.play(ask(call("nope", id="n")), say("Ok"))
    assert ended.results == [("nope", "There is no tool named 'nope'.", True)]
