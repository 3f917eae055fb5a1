"""What cannot work is refused before any model is called, by name (spec 3.6, 6.1, 11.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import (
    Agent,
    ChatParameters,
    MessageWindow,
    ToolContext,
    ToolSpec,
    UserError,
    UserMessage,
    tool,
    undoes,
)
from surehand.testing import ScriptedModel, say

from .modes import WAYS, Mode


@tool
def book(seats: int) -> str:
    """Book."""
    return "booked"


def another() -> Any:
    @tool(name="book")
    def other() -> None:
        """Another one."""

    return other


def undo_of(name: str) -> Any:
    @undoes(name)
    def take_back(value: str) -> None:
        """Take back."""

    return take_back


def undo_with(*parameters: str) -> Any:
    scope: dict[str, Any] = {}
    exec(f"def take_back({', '.join(parameters)}): ...", scope)
    return undoes("book")(scope["take_back"])


class Empty:
    """Has no tools."""


BAD_TOOLS: dict[str, tuple[Any, list[str]]] = {
    "equal names": (lambda: [book, another()], ["'book'", "another name"]),
    "a class": (lambda: [Empty], ["Empty is a class", "Empty()"]),
    "nothing marked": (lambda: [Empty()], ["Empty", "no method marked with @tool"]),
    "a nested list": (lambda: [[book]], ["list inside the list of tools", "unpack"]),
    "no list": (lambda: book, ["expected a list of tools", "[book]"]),
    "text": (lambda: ["book"], ["'book' is no tool"]),
    "a spec without executor": (lambda: [ToolSpec("book")], ["'book'", "(spec, executor)"]),
    "an undo without its tool": (lambda: [book, undo_of("pay")], ["'take_back'", "'pay'", "register the tool"]),
    "two undos": (lambda: [book, undo_of("book"), undo_of("book")], ["'book'", "more than one undo", "keep one"]),
    "an undo that fits nothing": (lambda: [book, undo_with("seats", "colour")], ["'book'", "'colour'"]),
}


@pytest.mark.parametrize("case", BAD_TOOLS)
def test_tools_that_cannot_work_are_refused_with_who_what_and_remedy(case: str) -> None:
    make, words = BAD_TOOLS[case]
    with pytest.raises(UserError) as caught:
        Agent(ScriptedModel([]), tools=make())
    assert all(word in str(caught.value) for word in words), str(caught.value)


BAD_TOOL_OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "repeat": ({"repeat": "sometimes"}, ["repeat='sometimes'", "'safe'", "'with_key'", "'never'"]),
    "retries of never": ({"retries": 2}, ["retries=2", "repeat='safe'"]),
    "retries": ({"retries": -1, "repeat": "safe"}, ["retries=-1"]),
    "key without context": ({"repeat": "with_key"}, ["ToolContext"]),
    "timeout": ({"timeout": 0}, ["timeout=0", "seconds"]),
    "undo_timeout": ({"undo_timeout": -1.0}, ["undo_timeout=-1.0", "seconds"]),
    "max_parallel": ({"max_parallel": 0}, ["max_parallel=0"]),
    "exclusive": ({"exclusive": "yes"}, ["exclusive='yes'"]),
    "returns": ({"returns": "now"}, ["returns='now'", "ReturnBehavior.IMMEDIATE"]),
    "metadata": ({"metadata": "{"}, ["metadata", "JSON"]),
    "probe": ({"probe": 7}, ["probe=7"]),
    "authorise": ({"authorise": 7}, ["authorise=7"]),
}


@pytest.mark.parametrize("case", BAD_TOOL_OPTIONS)
def test_options_of_a_tool_that_cannot_work_name_the_tool_and_the_option(case: str) -> None:
    options, words = BAD_TOOL_OPTIONS[case]
    with pytest.raises(UserError) as caught:

        @tool(**options)
        def pay(amount: int) -> None:
            """Pay."""

        Agent(ScriptedModel([]), tools=[pay])
    assert all(word in str(caught.value) for word in ["pay", *words]), str(caught.value)


def test_a_keyed_tool_with_a_context_is_fine() -> None:
    @tool(repeat="with_key", retries=3)
    def pay(ctx: ToolContext[Any]) -> None:
        """Pay."""

    Agent(ScriptedModel([]), tools=[pay])


BAD_AGENT_OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown": ({"limit": 3}, ["Agent() has no option 'limit'", "did you mean 'limits'?"]),
    "limits": ({"limits": 3}, ["limits=3", "Limits"]),
    "instructions": ({"instructions": 3}, ["instructions=3", "str"]),
    "undo": ({"undo": "off"}, ["undo='off'", "UndoPolicy"]),
    "chat_parameters": ({"chat_parameters": {}}, ["chat_parameters={}", "ChatParameters"]),
    "early_start": ({"early_start": "never"}, ["early_start='never'", "'safe'", "'off'"]),
    "on_abort": ({"on_abort": "keep"}, ["on_abort='keep'", "'complete'", "'discard'"]),
    "undo_timeout": ({"undo_timeout": -1}, ["undo_timeout=-1", "seconds"]),
    "drain_timeout": ({"drain_timeout": None}, ["drain_timeout=None", "seconds"]),
    "on_error": ({"on_error": "abort"}, ["on_error='abort'", "ErrorPolicy"]),
    "parallel": ({"parallel": 0}, ["parallel=0", "at least 1"]),
    "stream_buffer": ({"stream_buffer": 0}, ["stream_buffer=0", "at least 1"]),
    "authorise": ({"authorise": True}, ["authorise=True", "function"]),
    "before_tool": ({"before_tool": []}, ["before_tool=[]", "function"]),
    "relax_tool_choice": ({"relax_tool_choice": 1}, ["relax_tool_choice=1", "bool"]),
}


@pytest.mark.parametrize("case", BAD_AGENT_OPTIONS)
def test_options_of_an_agent_that_cannot_work_are_refused_by_name(case: str) -> None:
    options, words = BAD_AGENT_OPTIONS[case]
    with pytest.raises(UserError) as caught:
        Agent(ScriptedModel([]), **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_something_that_is_no_model_is_refused() -> None:
    with pytest.raises(UserError, match=r"model=7.*'openai:gpt-5'"):
        Agent(7)  # type: ignore[arg-type]


BAD_RUN_OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "unknown": ({"memory": 1}, ["run() has no option 'memory'", "did you mean 'memory_id'?"]),
    "parallel": ({"parallel": -1}, ["parallel=-1", "at least 1"]),
    "cancel": ({"cancel": True}, ["cancel=True", "CancelToken"]),
    "parameters": ({"parameters": [1]}, ["parameters=[1]", "Parameters"]),
    "history with memory": ({"history": [UserMessage.of("x")]}, ["history=", "without a memory"]),
    "an id for one memory": ({"memory_id": "ann"}, ["memory_id='ann'", "function"]),
    "tools": ({"chat_parameters": ChatParameters(tools=())}, ["chat_parameters.tools", "Agent(tools=…)"]),
    "after_tool": ({"after_tool": 7}, ["after_tool=7", "function"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", BAD_RUN_OPTIONS)
def test_options_of_a_run_that_cannot_work_are_refused_before_the_model_is_called(case: str, way: str) -> None:
    options, words = BAD_RUN_OPTIONS[case]
    model, memory = ScriptedModel([say("Never")]), MessageWindow(10)
    ended = Mode(way, False).drive(Agent(model, memory=memory, tools=[book]), **options)
    assert type(ended.error) is UserError
    assert all(word in str(ended.error) for word in words), str(ended.error)
    assert (model.requests, memory.messages()) == ([], [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prompt", [7, None, ["text"], [7]])
def test_a_prompt_that_is_none_is_refused_before_the_model_is_called(way: str, prompt: Any) -> None:
    model = ScriptedModel([say("Never")])
    ended = Mode(way, False).drive(Agent(model), prompt)
    assert type(ended.error) is UserError and "expected text, a UserMessage, or a list of contents" in str(ended.error)
    assert model.requests == []


class Closing(ScriptedModel):
    """Tells when it is closed."""

    def __init__(self) -> None:
        super().__init__([])
        self.closed: list[str] = []

    def close(self) -> None:
        self.closed.append("close")

    async def aclose(self) -> None:
        self.closed.append("aclose")


def test_an_agent_closes_its_model_with_the_block() -> None:
    model = Closing()
    with Agent(model):
        assert model.closed == []
    assert model.closed == ["close"]

    async def main() -> None:
        async with Agent(model):
            pass

    asyncio.run(main())
    assert model.closed == ["close", "aclose"]
