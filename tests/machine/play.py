"""Plays a script in a mode, and says how the run ended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import TypedDict

from surehand import (
    Agent,
    AssistantMessage,
    CancelToken,
    FinishReason,
    Limits,
    Message,
    MessageWindow,
    ResponseDone,
    SystemMessage,
    ToolCallReady,
    UndoReport,
    UserMessage,
    report_of,
)
from surehand.messages import ChatRequest, ChatResponse, StreamPiece, ToolCall
from surehand.testing import ScriptedModel, call, calls, say

from .scripts import AGENTS, ANSWER, Answer, Asked, Script, numbered
from .world import Plan, World, make_tools


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class Exit:
    """How a run ended: ``report`` is what it tells of itself, ``messages`` what its memory holds (or would)."""

    world: World
    report: UndoReport
    messages: Sequence[Message]
    still_running: set[int]
    result: Any = None
    error: BaseException | None = None
    left: bool = False

    @property
    def given_up(self) -> bool:
        """Whether there is no result."""
        return self.result is None


class _Model(ScriptedModel):
    """Plays the script, takes a turn of the event loop before and after, and counts as a step of the world."""

    supports_json_schema = True

    def __init__(self, world: World, replies: Sequence[Any]) -> None:
        super().__init__(replies)
        self._world = world

    def generate(self, request: ChatRequest) -> ChatResponse:
        self._world.step()
        return super().generate(request)

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        await asyncio.sleep(0)
        reply = self.generate(request)
        await asyncio.sleep(0)
        return reply

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        self._world.step()
        yield from super().stream(request)

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        for piece in self.stream(request):
            await asyncio.sleep(0)
            yield piece


class _BlockingMemory:
    """A memory without awaitable forms, so that it is offloaded."""

    id = "default"

    def __init__(self) -> None:
        self.held: list[Message] = []

    def add(self, message: Message, /) -> None:
        self.held.append(message)

    def add_all(self, messages: Sequence[Message], /) -> None:
        self.held.extend(messages)

    def messages(self) -> list[Message]:
        return list(self.held)

    def set(self, messages: Sequence[Message], /) -> None:
        self.held = list(messages)

    def clear(self) -> None:
        self.held = []


class _AwaitableMemory(_BlockingMemory):
    """A memory that takes a turn of the event loop for each operation."""

    async def aadd(self, message: Message, /) -> None:
        await asyncio.sleep(0)
        self.add(message)

    async def aadd_all(self, messages: Sequence[Message], /) -> None:
        await asyncio.sleep(0)
        self.add_all(messages)

    async def amessages(self) -> list[Message]:
        await asyncio.sleep(0)
        return self.messages()

    async def aset(self, messages: Sequence[Message], /) -> None:
        await asyncio.sleep(0)
        self.set(messages)


# ---------------------------------------------------------------- from a script to an agent


class Verdict(TypedDict):
    """What answers have to be, in scripts with an output."""

    word: Literal["good"]


def _replies(script: Script, world: World) -> list[Any]:
    numbers = {id(one): n for n, one, _ in numbered(script)}
    for n, one, _ in numbered(script):
        world.plans[n], world.names[n] = one.plan, one.name
    replies: list[Any] = []
    for number, round_ in enumerate(script.rounds):
        reason = FinishReason.LENGTH if script.cut_off == number else FinishReason.TOOL_EXECUTION
        reply = calls(*[_call(one, numbers[id(one)]) for one in round_], text="so", finish_reason=reason)
        replies.append(_pieces(script, number, reply) if script.breaks_at or script.withheld else reply)
    for number, answer in enumerate(script.answers, len(numbers) + 1):
        world.plans[number], world.names[number] = Plan(), ANSWER
        replies.append(_answer(script, answer, number, [_call(one, numbers[id(one)]) for one in answer.beside]))
    end = _ending(script.end, world)
    return [*replies, end, end]


def _answer(script: Script, answer: Answer, n: int, beside: Sequence[ToolCall]) -> Any:
    text = f'{{"word": "{"good" if answer.fits else "bad"}"}}'
    if script.output != "tool":
        return say(text)
    # What it does not know is left out, so that the number is only for the checks.
    return calls(call(ANSWER, text.replace("}", f', "n": {n}}}'), id=f"c{n % 3}"), *beside, text="so")


def _call(one: Asked, n: int) -> ToolCall:
    if one.asks_agent:
        return call(one.name, {"prompt": f"do {n}"}, id=f"c{n % 3}")
    name = "no_such_tool" if one.flaw == "unknown" else one.name
    return call(name, f'{{"n": {n}' if one.flaw == "bad" else f'{{"n": {n}}}', id=f"c{n % 3}")


def _ending(end: str, world: World) -> Any:
    if end == "say":
        return say("that is all")
    return world.made("error" if end == "error" else "interrupt", 0)


class _InnerModel(_Model):
    """The model of an agent that is asked: it knows by its conversation which call it is, and how far it is."""

    def __init__(self, script: Script, world: World) -> None:
        self._asked = {n: one for n, one, _ in numbered(script)}
        self._numbers = {id(one): n for n, one in self._asked.items()}
        super().__init__(world, [self._reply] * 1000)

    def _reply(self, request: ChatRequest) -> ChatResponse:
        asked = request.messages[0]
        assert isinstance(asked, UserMessage)
        one = self._asked[int(asked.text.removeprefix("do "))]
        done = sum(isinstance(message, AssistantMessage) for message in request.messages)
        if done < len(one.inner):
            return calls(*[_call(inner, self._numbers[id(inner)]) for inner in one.inner[done]], text="so")
        end = _ending(one.end, self._world)
        if isinstance(end, BaseException):
            raise end
        return end


def _pieces(script: Script, number: int, reply: ChatResponse) -> list[StreamPiece]:
    """A stream that breaks off, or that announces a call which the reply then does not have."""
    ready = [ToolCallReady(index, asked) for index, asked in enumerate(reply.message.tool_calls)]
    if script.breaks_at is not None and script.breaks_at[0] == number:
        return [*ready[: script.breaks_at[1]]]
    if script.withheld and len(ready) > 1:
        kept = reply.message.tool_calls[1:]
        return [*ready, ResponseDone(calls(*kept, finish_reason=reply.finish_reason or FinishReason.STOP))]
    return [*ready, ResponseDone(reply)]


def _hooks(script: Script, world: World) -> dict[str, Any]:
    counts = [0, 0]
    lock = threading.Lock()

    def failing(which: int) -> Any:
        def hook(*_: Any) -> None:
            with lock:
                counts[which] += 1
                hit = counts[which] == script.hook_fails[which]
            if hit:
                raise world.made("error", 0)

        return hook

    return {"before_tool": failing(0), "after_tool": failing(1)}


def make_agent(script: Script, world: World, memory: Any, *, replied: int = 0, **options: Any) -> Agent:
    """The agent of the script; its model goes on after the first ``replied`` replies."""
    denied = {n for n, one, _ in numbered(script) if one.flaw == "denied"}
    replies = _replies(script, world)[replied:]
    shared: dict[str, Any] = {
        "parallel": script.parallel,
        "undo": script.policy,
        "early_start": script.early_start,
        "authorise": lambda _, arguments: arguments.get("n") not in denied,
        "drain_timeout": 0.05 if any(plan.waits == "stuck" for plan in world.plans.values()) else 20.0,
        "undo_timeout": 20.0,
    }
    tools: list[Any] = list(make_tools(world))
    for name in reversed(AGENTS):
        inner = Agent(_InnerModel(script, world), tools=tools, name=name, description="Does things.", **shared)
        tools = [*make_tools(world), inner]
    return Agent(
        _Model(world, replies),
        tools=tools,
        memory=memory,
        stream_buffer=script.buffer,
        limits=Limits(calls=script.calls),
        **shared,
        **_hooks(script, world),
        **({"output": Verdict, "output_mode": script.output} if script.output else {}),
        **options,
    )


# ---------------------------------------------------------------- playing


def make_memory(kind: str) -> Any:
    """A new memory of that kind."""
    kinds = {"window": lambda: MessageWindow(1000), "blocking": _BlockingMemory, "awaitable": _AwaitableMemory}
    return kinds[kind]() if kind in kinds else None


def play(script: Script, mode: str, world: World | None = None, memory: Any = None, **options: Any) -> Exit:
    """Run the script and wait until the world is at rest; the exit tells what was so when the run returned."""
    world = world or World()
    world.cancel_at_step = script.token_at
    memory = make_memory(script.memory) if memory is None else memory
    token = CancelToken()
    world.cancel = token.cancel
    agent = make_agent(script, world, memory, **options)
    if mode in ("arun", "astream"):
        return asyncio.run(_play_async(script, mode, agent, world, memory, token))
    return _play_blocking(script, mode, agent, world, memory, token)


def _exit(world: World, memory: Any, report: UndoReport, **how: Any) -> Exit:
    messages = report.messages if memory is None else tuple(memory.messages())
    return Exit(world, report, messages, set(world.running), **how)


def _play_blocking(script: Script, mode: str, agent: Agent, world: World, memory: Any, token: CancelToken) -> Exit:
    try:
        if mode == "run":
            result = agent.run("go", cancel=token)
            ended = _exit(world, memory, result.undone, result=result)
        else:
            ended = _consume(agent.stream("go", cancel=token), script, world, memory)
    except BaseException as error:
        report = report_of(error)
        if report is None:
            raise Broken(f"a run ended without a report: {error!r}") from error
        ended = _exit(world, memory, report, error=error)
    world.release.set()
    deadline = time.monotonic() + 1
    while not at_rest(ended) and time.monotonic() < deadline:
        time.sleep(0.001)
    return ended


def _consume(stream: Any, script: Script, world: World, memory: Any) -> Exit:
    left = False
    with stream as run:
        for index, _ in enumerate(run):
            if index == script.leaves_at:
                left = True
                break
    with contextlib.suppress(ValueError):
        return _exit(world, memory, stream.undone, result=stream.result)
    return _exit(world, memory, stream.undone, left=left)


async def _play_async(script: Script, mode: str, agent: Agent, world: World, memory: Any, token: CancelToken) -> Exit:
    stream = agent.astream("go", cancel=token) if mode == "astream" else None
    left = False

    async def consume() -> Any:
        nonlocal left
        assert stream is not None
        index = 0
        async with stream as run:
            async for _ in run:
                if index == script.leaves_at:
                    left = True
                    break
                index += 1

    task = asyncio.ensure_future(_held(consume() if stream is not None else agent.arun("go", cancel=token)))
    for turns in script.cuts:
        for _ in range(turns + 1):  # a task that never began has nothing to account for
            await asyncio.sleep(0)
        task.cancel()
    ended = await _ended(task, stream, world, memory, left=lambda: left or bool(script.cuts))
    world.release.set()
    deadline = time.monotonic() + 1
    while not at_rest(ended) and time.monotonic() < deadline:
        await asyncio.sleep(0.001)
    return ended


async def _held(awaitable: Any) -> Any:
    """The result, or the interrupt that ended it: one that escapes a task would end the whole event loop."""
    try:
        return await awaitable
    except KeyboardInterrupt as interrupt:
        return interrupt


async def _ended(task: Any, stream: Any, world: World, memory: Any, *, left: Any) -> Exit:
    try:
        result = await task
        if isinstance(result, KeyboardInterrupt):
            raise result
    except BaseException as error:
        report = report_of(error) or (None if stream is None else stream.undone)
        if report is None:
            raise Broken(f"a run ended without a report: {error!r}") from error
        return _exit(world, memory, report, error=error, left=left())
    if stream is None:
        return _exit(world, memory, result.undone, result=result)
    with contextlib.suppress(ValueError):
        return _exit(world, memory, stream.undone, result=stream.result)
    return _exit(world, memory, stream.undone, left=left())


def at_rest(ended: Exit) -> bool:
    """Whether nothing runs any more, and what finished late has been taken back if its run was given up."""
    world = ended.world
    if world.running:
        return False
    late = {n for n in ended.still_running if world.effects.get(n) and "_undo" in world.names[n]}
    return not ended.given_up or late <= set(world.undo_tries)


def opening(messages: Sequence[Message]) -> bool:
    """Whether the conversation begins as it should."""
    said = [message for message in messages if not isinstance(message, SystemMessage)]
    return bool(said) and isinstance(said[0], UserMessage) and said == list(messages)[-len(said) :]
