"""What the memory holds when a run is given up, and that the conversation can go on (spec 7.10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from surehand import (
    Agent,
    AssistantMessage,
    AsyncNotSupportedError,
    CancelToken,
    ErrorPolicy,
    Limits,
    Message,
    MessageWindow,
    ModelError,
    RoundLimitError,
    RunCancelled,
    SystemMessage,
    ToolContext,
    ToolExecution,
    ToolMessage,
    UserError,
    UserMessage,
    tool,
)
from surehand.testing import ScriptedModel, call, say

from .modes import Ended, Mode, answer_of, ask, scripted

ACT, READ = call("act", id="a"), call("read", id="r")
MAY_HAVE = "This call of 'act' may have happened; it is not known. Do not repeat it."
NOT_RUN = "This call of 'read' was not run: the round ended before."
CANCELLED = "Tool 'act' had succeeded, but it was undone because the run was cancelled."
UNDONE = "Tool 'act' had succeeded, but it was undone because the run was given up."


def cancel_act(value: str) -> None:
    """Take it back."""


def acting(error: BaseException | None = None, then: Callable[[], object] = lambda: None) -> Any:
    """A tool named ``act`` that does something, and then works or raises."""

    @tool(undo=cancel_act)
    def act() -> str:
        then()
        if error is not None:
            raise error
        return "acted"

    return act


@tool(repeat="safe")
def read() -> str:
    """Read."""
    return "read"


def well_formed(messages: Sequence[Message]) -> bool:
    """Whether every call has its result right behind it, and no result stands alone."""
    open_calls: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls.pop(0) != message.call_id:
                return False
        else:
            if open_calls:
                return False
            open_calls = [c.id for c in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return not open_calls


# Ways to give a run up in its only round, with what the model will read of ``act`` and of ``read``.


def by_the_tool(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    agent = agent_for(memory, acting(ValueError("broken")), **more)
    return mode.drive(agent), ValueError, MAY_HAVE, NOT_RUN


def by_a_handler(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    def handler(error: Any, context: Any) -> str:
        raise LookupError("handler")

    agent = agent_for(memory, acting(ValueError("broken")), on_error=handler, **more)
    return mode.drive(agent), LookupError, "The run was given up while 'act' was called.", NOT_RUN


def by_an_unknown_name(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    def refuse(call: Any, names: Any) -> str:
        raise LookupError("unknown")

    @tool(name="other")
    def other() -> None: ...

    agent = agent_for(memory, other, on_error=ErrorPolicy(unknown_name=refuse), **more)
    return mode.drive(agent), LookupError, "The run was given up while 'act' was called.", NOT_RUN


def by_a_limit(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    agent = agent_for(memory, acting(), limits=Limits(rounds=0), **more)
    why = "This call of {!r} was not run: a limit of the run was reached."
    return mode.drive(agent), RoundLimitError, why.format("act"), why.format("read")


def by_cancelling(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    token = CancelToken()
    agent = agent_for(memory, acting(then=token.cancel), **more)
    return mode.drive(agent, cancel=token), RunCancelled, CANCELLED, NOT_RUN


def by_a_hook(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    def after(execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        if execution.call.name == "act":
            raise LookupError("hook")

    agent = agent_for(memory, acting(), after_tool=after, **more)
    return mode.drive(agent), LookupError, UNDONE, NOT_RUN


def by_an_interrupt(mode: Mode, memory: MessageWindow, **more: Any) -> tuple[Ended, type, str, str]:
    agent = agent_for(memory, acting(KeyboardInterrupt()), **more)
    return mode.drive(agent), KeyboardInterrupt, MAY_HAVE, NOT_RUN


ABORTS = [by_the_tool, by_a_handler, by_an_unknown_name, by_a_limit, by_cancelling, by_a_hook, by_an_interrupt]


def agent_for(memory: MessageWindow, act: Any, **options: Any) -> Agent[Any, Any]:
    model = ScriptedModel([ask(ACT, READ), say("Never")])
    return scripted(model, tools=[act, read], memory=memory, instructions="Be kind", **options)


@pytest.mark.parametrize("abort", ABORTS)
def test_every_call_of_a_run_that_was_given_up_is_answered_and_the_conversation_goes_on(
    mode: Mode, abort: Callable[..., tuple[Ended, type, str, str]]
) -> None:
    memory = MessageWindow(50)
    ended, kind, text, other = abort(mode, memory)
    assert type(ended.error) is kind
    # Side by side, the other call runs too, unless a limit has stopped both.
    second = answer_of(READ, other, is_error=True)
    if mode.parallel and abort not in (by_a_limit,):
        second = answer_of(READ, "read")
    conversation = [
        SystemMessage("Be kind"),
        UserMessage.of("Go"),
        AssistantMessage(None, (ACT, READ)),
        answer_of(ACT, text, is_error=True),
        second,
    ]
    if abort is by_cancelling and mode.parallel:
        assert memory.messages()[:4] == conversation[:4]  # the other call may or may not have begun
    else:
        assert memory.messages() == conversation
    assert well_formed(memory.messages())
    assert list(ended.messages) == memory.messages()[1:]

    model = ScriptedModel([say("I am back")])
    again = mode.drive(scripted(model, memory=memory, instructions="Be kind"), "And now?")
    assert again.answer.output == "I am back"
    assert list(model.requests[0].messages) == [*memory.messages()[:5], UserMessage.of("And now?")]


@pytest.mark.parametrize("abort", ABORTS)
def test_with_discard_the_round_that_was_given_up_is_left_out(
    mode: Mode, abort: Callable[..., tuple[Ended, type, str, str]]
) -> None:
    memory = MessageWindow(50)
    ended, kind, _, _ = abort(mode, memory, on_abort="discard")
    assert type(ended.error) is kind
    assert memory.messages() == [SystemMessage("Be kind"), UserMessage.of("Go")]
    assert list(ended.messages) == [UserMessage.of("Go")]
    assert [e.call for e in ended.executions][:1] == [ACT]  # the books keep what history leaves out


@pytest.mark.parametrize("on_abort", ["complete", "discard"])
@pytest.mark.parametrize("with_memory", [False, True])
def test_rounds_before_the_one_that_was_given_up_stay(mode: Mode, on_abort: Any, with_memory: bool) -> None:
    memory = MessageWindow(50) if with_memory else None
    ended = mode.play(ask(READ), ask(ACT), tools=[acting(ValueError("x")), read], memory=memory, on_abort=on_abort)
    kept = [UserMessage.of("Go"), AssistantMessage(None, (READ,)), answer_of(READ, "read")]
    if on_abort == "complete":
        kept += [AssistantMessage(None, (ACT,)), answer_of(ACT, MAY_HAVE, is_error=True)]
    assert list(ended.messages) == kept
    if memory is not None:
        assert memory.messages() == kept


def test_a_model_that_fails_leaves_the_user_message_alone(mode: Mode) -> None:
    memory, error = MessageWindow(50), ModelError("down")
    ended = mode.play(error, memory=memory)
    assert ended.error is error
    assert memory.messages() == [UserMessage.of("Go")]


def test_a_reply_and_its_results_reach_the_memory_as_one_batch(mode: Mode) -> None:
    class Noting(MessageWindow):
        def __init__(self) -> None:
            super().__init__(50)
            self.batches: list[int] = []

        def add_all(self, messages: Sequence[Message], /) -> None:
            self.batches.append(len(messages))
            super().add_all(messages)

    memory = Noting()
    mode.play(ask(READ, ACT), say("Done"), tools=[acting(), read], memory=memory)
    assert memory.batches == [1, 3, 1]


def test_a_window_smaller_than_the_round_keeps_it_whole(mode: Mode) -> None:
    memory, asked = MessageWindow(3), [call("read", id=f"r{n}") for n in range(5)]
    ended = mode.play(ask(*asked), say("Done"), tools=[read], memory=memory, repeated_calls="allow")
    assert list(ended.requests[1].messages) == [
        AssistantMessage(None, tuple(asked)),
        *[answer_of(c, "read") for c in asked],
    ]
    assert well_formed(memory.messages())


# ---------------------------------------------------------------- memories of any colour


class Plain:
    """A blocking memory that declares nothing."""

    id = "default"
    offload: bool = True

    def __init__(self) -> None:
        self.kept: list[Message] = []
        self.threads: set[Any] = set()

    def add(self, message: Message, /) -> None:
        self.add_all([message])

    def add_all(self, messages: Sequence[Message], /) -> None:
        self.threads.add(threading.current_thread())
        self.kept.extend(messages)

    def set(self, messages: Sequence[Message], /) -> None:
        self.kept[:] = messages

    def messages(self) -> list[Message]:
        return list(self.kept)

    def clear(self) -> None:
        self.kept.clear()


class Awaitable(Plain):
    """A memory with the awaitable twins."""

    async def aadd(self, message: Message, /) -> None:
        await self.aadd_all([message])

    async def aadd_all(self, messages: Sequence[Message], /) -> None:
        await asyncio.sleep(0)
        self.kept.extend(messages)

    async def amessages(self) -> list[Message]:
        await asyncio.sleep(0)
        return self.messages()

    async def aset(self, messages: Sequence[Message], /) -> None:
        await asyncio.sleep(0)
        self.set(messages)


@pytest.mark.parametrize("make", [Plain, Awaitable])
def test_any_memory_works_in_every_mode_and_never_blocks_an_event_loop(mode: Mode, make: type[Plain]) -> None:
    memory = make()
    ended = mode.play(ask(READ), ask(ACT), tools=[acting(ValueError("x")), read], memory=memory)
    assert type(ended.error) is ValueError
    assert memory.kept == list(ended.messages)
    on_main = threading.main_thread() in memory.threads
    assert on_main is not mode.is_async


@pytest.mark.without_journal("a run is over once its memory is closed")
def test_a_memory_bound_to_its_thread_is_refused_where_it_would_have_to_leave_it(mode: Mode) -> None:
    memory = Plain()
    memory.offload = False
    ended = mode.play(say("Hi"), memory=memory)
    if mode.is_async:
        assert isinstance(ended.error, AsyncNotSupportedError)
        assert "Plain" in str(ended.error) and "aadd" in str(ended.error)
    else:
        assert ended.answer.output == "Hi"


def test_each_memory_id_has_a_conversation_of_its_own(mode: Mode) -> None:
    made: list[Any] = []

    def make(id: Any) -> MessageWindow:
        made.append(id)
        return MessageWindow(10, id=id)

    model = ScriptedModel([say("one"), say("two"), say("three")])
    agent = scripted(model, memory=make)
    for id in ("ann", "bob", "ann"):
        mode.drive(agent, id, memory_id=id)
    assert made == ["ann", "bob"]
    assert [len(request.messages) for request in model.requests] == [1, 1, 3]


@pytest.mark.without_journal("a run is over once its memory is closed")
@pytest.mark.parametrize("kind", [OSError, TimeoutError])
@pytest.mark.parametrize("operation", ["add", "messages"])
def test_a_memory_that_fails_gives_the_run_up_with_its_own_error(
    mode: Mode, operation: str, kind: type[Exception]
) -> None:
    error = kind("disk is full")

    class Failing(Plain):
        def add(self, message: Message, /) -> None:
            if operation == "add":
                raise error
            super().add(message)

        def messages(self) -> list[Message]:
            if operation == "messages":
                raise error
            return super().messages()

    ended = mode.play(say("Never"), memory=Failing())
    assert ended.error is error
    assert list(ended.requests) == []


@pytest.mark.parametrize("gives", [None, []])
def test_a_memory_that_gives_nothing_is_named(mode: Mode, gives: Any) -> None:
    class Forgetful(Plain):
        def messages(self) -> Any:
            return gives

    ended = mode.play(say("Never."), memory=Forgetful())
    assert type(ended.error) is UserError and "Forgetful object" in str(ended.error)
    assert f"gave {gives!r} as its messages" in str(ended.error)
