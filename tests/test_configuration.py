"""What cannot work is refused before any model is called, by name (spec 3.6, 6.1, 11.1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    ChatModel,
    ChatParameters,
    ChatResponse,
    ErrorPolicy,
    Limits,
    Listeners,
    MessageWindow,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolSpec,
    UserError,
    UserMessage,
    tool,
    undoes,
)
from surehand.messages import ToolCallReady
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
    "a probe of too little": ({"probe": lambda context: None}, ["probe=", "(context, arguments), not with (context)"]),
    "an authorisation of too little": (
        {"authorise": lambda: True},
        ["authorise=", "(context, arguments), not with ()"],
    ),
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


async def asynchronous(_: Any) -> Any:
    """Async, and awaited by nobody."""


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
    "memory": ({"memory": {}}, ["memory={}", "ChatMemory", "(memory_id)"]),
    "memory of nobody": ({"memory": lambda: MessageWindow(9)}, ["memory=", "called with (memory_id), not with ()"]),
    "async memory": ({"memory": asynchronous}, ["memory=", "(memory_id)", "not async"]),
    "listeners": ({"listeners": print}, ["listeners=", "a list of functions of one event"]),
    "a listener of nothing": ({"listeners": [lambda: None]}, ["listener", "(event), not with ()"]),
    "an async listener": ({"listeners": [asynchronous]}, ["listener", "(event)", "not async"]),
    "undo_when": ({"undo_when": None}, ["undo_when=None", "a function of (execution)"]),
    "async undo_when": ({"undo_when": asynchronous}, ["undo_when=", "(execution)", "not async"]),
    "clock": ({"clock": None}, ["clock=None", "a function of ()"]),
    "a hook of too little": ({"after_tool": lambda execution: None}, ["after_tool=", "(execution, context), not with"]),
    "a hook of too much": ({"before_tool": lambda a, b: None}, ["before_tool=", "(context), not with (a, b)"]),
    "an authorisation of too little": ({"authorise": lambda context: True}, ["authorise=", "(context, arguments)"]),
    "a handler of too little": ({"on_error": lambda error: ""}, ["on_error=", "ErrorPolicy", "(error, context)"]),
    "a transformer of too little": ({"transform_request": lambda r: r}, ["transform_request=", "(request, memory_id)"]),
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
    "history of nothing": ({"history": None}, ["history=None", "a list of messages"]),
    "history of something else": ({"history": [{"role": "user"}]}, ["{'role': 'user'}", "no message"]),
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


BAD_HANDLERS: dict[str, Any] = {
    "arguments": 7,
    "tool_error": None,
    "execution": lambda error: "",
    "unknown_name": lambda call: "",
}


@pytest.mark.parametrize("row", BAD_HANDLERS)
def test_a_handler_that_cannot_be_called_is_refused_by_its_row(row: str) -> None:
    with pytest.raises(UserError, match=rf"ErrorPolicy\({row}=.*\((error, context|call, names)\)"):
        ErrorPolicy(**{row: BAD_HANDLERS[row]})


@pytest.mark.parametrize("limit", ["rounds", "calls", "tokens", "consecutive_errors"])
def test_only_seconds_may_be_broken(limit: str) -> None:
    Limits(seconds=1.5)
    with pytest.raises(UserError, match=rf"Limits\({limit}=1.5\): expected a whole number"):
        Limits(**{limit: 1.5})  # type: ignore[arg-type]


def test_a_type_of_event_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="'ToolStarted' is no type of event"):
        Listeners().add(print, "ToolStarted")  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("made", "memory_id"), [(None, "ann"), ({}, "ann"), (MessageWindow(9), ["ann"])])
def test_a_memory_function_has_to_make_one(way: str, made: Any, memory_id: Any) -> None:
    model = ScriptedModel([say("Never")])
    ended = Mode(way, False).drive(Agent(model, memory=lambda _: made), memory_id=memory_id)
    assert type(ended.error) is UserError and "memory" in str(ended.error)
    assert model.requests == []


class OneForMany:
    """A class of memories that looks like a memory itself, since its id stands in the class."""

    id = "default"

    def __init__(self, memory_id: Any) -> None:
        self.id = memory_id
        self._window = MessageWindow(9)
        self.add, self.add_all, self.set = self._window.add, self._window.add_all, self._window.set  # type: ignore[method-assign]
        self.messages, self.clear = self._window.messages, self._window.clear  # type: ignore[method-assign]

    def add(self, message: Any, /) -> None: ...

    def add_all(self, messages: Any, /) -> None: ...

    def set(self, messages: Any, /) -> None: ...

    def messages(self) -> Any: ...

    def clear(self) -> None: ...


def test_a_class_of_memories_is_a_function_that_makes_one() -> None:
    agent = Agent(ScriptedModel([say("Hello, Ann."), say("Hello, Ben.")]), memory=OneForMany)
    assert [len(agent.run("I am here.", memory_id=name).messages) for name in ("ann", "ben")] == [2, 2]


# ---------------------------------------------------------------- what users' own functions and models answer


class Given(ChatModel):
    """Answers whatever it was given."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def generate(self, request: Any) -> Any:
        return self._answer


def asks(*calls: Any) -> ChatResponse:
    return ChatResponse(AssistantMessage(None, calls))


BAD_ANSWERS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "the model answered None; expected a ChatResponse"),
    "text": ("Hello", "the model answered 'Hello'; expected a ChatResponse"),
    "a message": (AssistantMessage("Hello"), "expected a ChatResponse"),
    "text for a message": (ChatResponse("Hello"), "message='Hello'; expected an AssistantMessage"),  # type: ignore[arg-type]
    "no list of calls": (ChatResponse(AssistantMessage("x", None)), "expected an AssistantMessage"),  # type: ignore[arg-type]
    "a name for a call": (asks("book"), "'book' is no ToolCall"),
    "a dict of arguments": (asks(ToolCall("1", "book", {"seats": 2})), "the arguments as JSON text"),  # type: ignore[arg-type]
    "a number for a name": (asks(ToolCall("1", 7)), "a tool's name, in text"),  # type: ignore[arg-type]
    "a number of tokens": (ChatResponse(AssistantMessage("x"), 7), "usage=7; expected a Usage"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_an_answer_that_no_run_can_use_is_named(case: str, way: str) -> None:
    answer, words = BAD_ANSWERS[case]
    ended = Mode(way, False).drive(Agent(Given(answer), tools=[book]))
    assert type(ended.error) is UserError and words in str(ended.error)


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("pieces", [[None], ["text"], [ToolCallReady(0, None)]])  # type: ignore[arg-type]
def test_a_piece_that_is_none_is_named(way: str, pieces: list[Any]) -> None:
    ended = Mode(way, True).drive(Agent(ScriptedModel([pieces]), tools=[book], early_start="all"))
    assert type(ended.error) is UserError and "expected a piece such as TextPiece" in str(ended.error)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_a_stream_that_is_none_is_named(way: str) -> None:
    class Mute(Given):
        def stream(self, request: Any) -> Any:
            return self._answer

        def astream(self, request: Any) -> Any:
            return self._answer

    ended = Mode(way, False).drive(Agent(Mute(None)))
    assert type(ended.error) is UserError and "the model's stream is None; expected an iterator" in str(ended.error)


@pytest.mark.parametrize("name", ["generate", "stream"])
def test_a_model_that_is_async_under_a_blocking_name_is_refused(name: str) -> None:
    async def method(self: Any, request: Any) -> Any: ...

    model = type("Mine", (ChatModel,), {name: method})()
    with pytest.raises(UserError, match=rf"Mine.{name} is async; name it a{name}"):
        Agent(model)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("answer", [None, "text"])
def test_a_transformer_has_to_give_a_request(way: str, answer: Any) -> None:
    model = ScriptedModel([say("Never")])
    ended = Mode(way, False).drive(Agent(model, transform_request=lambda request, memory_id: answer))
    assert type(ended.error) is UserError and f"returned {answer!r}; expected the ChatRequest" in str(ended.error)
    assert model.requests == []


def test_a_script_holds_replies() -> None:
    for script in (None, say("Hello"), ["Hello"], [None], [ValueError]):
        with pytest.raises(UserError, match=r"ScriptedModel.*say"):
            ScriptedModel(script)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="reply 1 of 'scripted' is None; expected a ChatResponse"):
        Agent(ScriptedModel([lambda request: None])).run("Hello?")  # type: ignore[list-item, arg-type, return-value]


def test_contents_are_no_text() -> None:
    with pytest.raises(UserError, match=r"UserMessage\.of"):
        UserMessage("Hello")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="TextContent"):
        ToolMessage("1", "book", "booked")  # type: ignore[arg-type]


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


def test_an_agent_cannot_be_changed_in_silence() -> None:
    agent = Agent(ScriptedModel([]))
    with pytest.raises(UserError, match=r"make another: Agent\(…, tools=…\)"):
        agent.tools = []  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def test_an_option_of_the_agent_given_to_a_run_says_where_it_belongs() -> None:
    options: Any = {"limits": None}
    with pytest.raises(UserError, match=r"the agent has: Agent\(…, limits=…\)"):
        Agent(ScriptedModel([])).run("Go", **options)
    options = {"dep": 1}
    with pytest.raises(UserError, match="did you mean 'deps'"):
        Agent(ScriptedModel([])).run("Go", **options)


@pytest.mark.parametrize("executor", [lambda call: "x", lambda a, b, c: "x"])
def test_an_executor_that_cannot_be_called_with_call_and_context_is_refused(executor: Any) -> None:
    with pytest.raises(UserError, match=r"tool 'rows': the executor .*called with \(call, context\)"):
        Agent(ScriptedModel([]), tools=[(ToolSpec("rows"), executor)])
