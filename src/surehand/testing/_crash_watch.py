"""Watching an agent at work: each moment at which a process may die is noted, and at one of them it does.

Around the journal, the model, the memory, the bodies of tools and their undos. All of them behave as if unwatched.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from .._agent_tool import Nested
from .._codec import from_json, to_json
from .._records import INTENT, MODEL, UNDO_INTENT, Draft
from ..agent import Agent
from ..durable._journal import Claim, Journal
from ..messages import ChatRequest, ChatResponse, Message, StreamPiece, ToolCallReady
from ..models import ChatModel
from ..tools._providers import Source
from ..tools._tool import Tool, ToolContext, ToolExecution
from ..tools._toolset import toolset_of
from ._crash_world import Kill, Note

__all__ = ["Watch", "notes_of", "watched"]


class Watch:
    """The diary of one process, and the moment at which it kills itself. Safe to use from many threads."""

    def __init__(self, diary: Path, process: int, kill: Kill | None = None) -> None:
        self._file = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._process = process
        self._kill = kill or Kill()
        self._seen: Counter[str] = Counter()
        self.tools: dict[str, str] = {}
        self.provided: dict[str, Tool] = {}  # what providers gave in this process, by name

    def note(self, kind: str, text: str = "", *, step: str = "", key: str = "") -> None:
        """Write a line: in one piece, whatever else writes, and there to stay when the process dies."""
        os.write(self._file, to_json(Note(self._process, kind, text, step, key)) + b"\n")

    def moment(self, name: str) -> None:
        """The process is at this point now. If it is the one, it dies here."""
        self._seen[name] += 1
        if self._seen[name] > 1:
            name = f"{name}, time {self._seen[name]}"
        self.note("moment", name)
        if name == self._kill.moment or self._seen.total() == self._kill.nth:
            self.note("killed", name)
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()  # it is dead before this returns

    def of(self, step: str) -> str:
        """A call by its step and the name of its tool."""
        tool = self.tools.get(step)
        return f"call {step} ({tool})" if tool else f"call {step}"


def notes_of(diary: Path) -> list[Note]:
    """The lines of a diary."""
    decoder = msgspec.json.Decoder(Note)
    return [decoder.decode(line) for line in diary.read_bytes().splitlines()] if diary.exists() else []


def watched(agent: Agent[Any, Any], journal: Journal, model: ChatModel | None, watch: Watch) -> Agent[Any, Any]:
    """The same agent with that journal and that model, under watch; the given one stays as it is."""
    result = _inside(agent, watch)
    inside = vars(result)  # an agent is frozen for those who use it; here is the one place that takes it apart
    if model is not None:
        inside["_model"] = _WatchedModel(model, watch)
    vars(inside["_service"])["_journal"] = _WatchedJournal(journal, watch)
    return result


def _inside(agent: Agent[Any, Any], watch: Watch, whose: str = "") -> Agent[Any, Any]:
    """The same agent with all that it uses under watch, and the agents among its tools with all that they use."""
    result = copy.copy(agent)
    inside = vars(result)
    service = inside["_service"] = copy.copy(inside["_service"])
    settings = service.settings
    tools = {name: _watched_tool(tool, watch) for name, tool in settings.toolset.tools.items()}
    vars(service)["_settings"] = replace(
        settings,
        toolset=toolset_of(tools, settings.toolset.shown),
        search=tuple(tools[tool.name] for tool in settings.search),
        providers=tuple(_WatchedSource(source.provider, watch) for source in settings.providers),
    )
    inside["_model"] = _WatchedModel(inside["_model"], watch, whose)
    inside["_memories"] = inside["_memories"].wrapped(partial(_WatchedMemory, watch=watch))
    return result


# ---------------------------------------------------------------- the journal


class _WatchedJournal:
    """A journal whose every write is preceded and followed by a moment."""

    def __init__(self, inner: Journal, watch: Watch) -> None:
        self._inner, self._watch = inner, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        name = self._name(drafts, state)
        self._watch.moment(f"before {name} was written")
        claim = self._inner.start(run_id, owner, drafts, state=state)
        self._kept(drafts, name)
        return claim

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        self._watch.moment("before the run was claimed")
        claim = self._inner.claim(run_id, owner, epoch=epoch)
        self._watch.moment("after the run was claimed")
        return claim

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        name = self._name(drafts, state)
        self._watch.moment(f"before {name} was written")
        written: Future[None] = Future()
        written.set_running_or_notify_cancel()

        def done(future: Future[None]) -> None:
            error = future.exception()
            if error is None:
                self._kept(drafts, name)  # before anybody hears of it
                written.set_result(None)
            else:
                written.set_exception(error)

        self._inner.append(claim, drafts, state=state).add_done_callback(done)
        return written

    def _kept(self, drafts: Sequence[Draft], name: str) -> None:
        for draft in drafts:
            body: dict[str, Any] = from_json(draft.body, dict[str, Any]) if draft.kind == INTENT else {}
            key = body.get("key", "")
            self._watch.note("kept", draft.kind, step=draft.step, key=key)
        kinds = {draft.kind for draft in drafts}
        then = ", before its body was entered" if INTENT in kinds else ""
        then = ", before it was undone" if UNDO_INTENT in kinds else then
        self._watch.moment(f"after {name} was on disk{then}")

    def _name(self, drafts: Sequence[Draft], state: str | None) -> str:
        return " and ".join(map(self._name_of, drafts)) or f"the state {state}"

    def _name_of(self, draft: Draft) -> str:
        if draft.kind == MODEL or not draft.step:
            return f"{draft.kind} {draft.step}".rstrip()
        if ":" not in draft.step and draft.step not in self._watch.tools:
            body: dict[str, Any] = from_json(draft.body, dict[str, Any])
            tool = body.get("tool") or body.get("call", {}).get("name")
            if tool:
                self._watch.tools[draft.step] = tool
        return f"{draft.kind} of {self._watch.of(draft.step)}"


# ---------------------------------------------------------------- the model


class _WatchedModel(ChatModel):
    """A model whose requests are noted, each with a digest of its messages."""

    def __init__(self, inner: ChatModel, watch: Watch, whose: str = "") -> None:
        self._inner, self._watch, self._whose, self._asked = inner, watch, whose, 0
        self.name, self.provider, self.defaults = inner.name, inner.provider, inner.defaults

    def _begin(self, request: ChatRequest) -> str:
        self._asked += 1
        name = f"request {self._asked} to the model{self._whose}"
        self._watch.moment(f"before {name}")
        kind = "asked inside" if self._whose else "asked"
        self._watch.note(kind, name, key=hashlib.sha256(to_json(list(request.messages))).hexdigest()[:16])
        return name

    def generate(self, request: ChatRequest) -> ChatResponse:
        name = self._begin(request)
        reply = self._inner.generate(request)
        self._watch.moment(f"after {name} was answered")
        return reply

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        name = self._begin(request)
        reply = await self._inner.agenerate(request)
        self._watch.moment(f"after {name} was answered")
        return reply

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        name = self._begin(request)
        for piece in self._inner.stream(request):
            yield piece
            self._read(piece, name)
        self._watch.moment(f"after {name} was answered")

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        name = self._begin(request)
        async for piece in self._inner.astream(request):
            yield piece
            self._read(piece, name)
        self._watch.moment(f"after {name} was answered")

    def _read(self, piece: StreamPiece, name: str) -> None:
        if isinstance(piece, ToolCallReady):
            self._watch.moment(f"after call {piece.index + 1} of the reply to {name} had been read")

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()


# ---------------------------------------------------------------- whatever is called

_ENTERED = ("was entered", "had returned")


class _Around:
    """Something that is called: moments before and after, also if what it gives has to be awaited."""

    def __init__(self, inner: Any, watch: Watch) -> None:
        self._inner, self._watch = inner, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _call(self, name: str, function: Callable[[], Any], verbs: tuple[str, str] = _ENTERED) -> Any:
        self._watch.moment(f"before {name} {verbs[0]}")
        with self._raising(name):
            result = function()
        if inspect.isawaitable(result):
            return self._awaited(name, result, verbs)
        self._watch.moment(f"after {name} {verbs[1]}")
        return result

    async def _awaited(self, name: str, awaitable: Awaitable[Any], verbs: tuple[str, str]) -> Any:
        with self._raising(name):
            result = await awaitable
        self._watch.moment(f"after {name} {verbs[1]}")
        return result

    @contextmanager
    def _raising(self, name: str) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            self._watch.moment(f"after {name} had raised {type(error).__name__}")
            raise


# ---------------------------------------------------------------- the memory


class _WatchedMemory(_Around):
    """A memory whose every change is preceded and followed by a moment."""

    @property
    def id(self) -> Any:
        return self._inner.id

    def add(self, message: Message, /) -> Any:
        return self._changed(self._inner.add, message)

    def add_all(self, messages: Sequence[Message], /) -> Any:
        return self._changed(self._inner.add_all, messages)

    def set(self, messages: Sequence[Message], /) -> Any:
        return self._changed(self._inner.set, messages)

    def messages(self) -> Any:
        return self._inner.messages()

    def clear(self) -> Any:
        return self._inner.clear()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return partial(self._changed, found) if name in ("aadd", "aadd_all", "aset") else found

    def _changed(self, function: Callable[..., Any], messages: Any) -> Any:
        name = "a message" if isinstance(messages, Message) else f"{len(messages)} messages"
        return self._call(name, lambda: function(messages), ("went to the memory", "had gone to the memory"))


# ---------------------------------------------------------------- tools


def tools_of(agent: Agent[Any, Any]) -> dict[str, Tool]:
    """The tools of an agent and of those among them that are agents, by name."""
    found = dict(agent.service.settings.toolset.tools)
    for tool in tuple(found.values()):
        if isinstance(tool.nested, Nested):
            found = {**tools_of(tool.nested.agent), **found}
    return found


class _WatchedSource(Source):
    """A provider, whose tools are watched."""

    def __init__(self, provider: Any, watch: Watch) -> None:
        super().__init__(provider)
        self._watch = watch

    def tools_of(self, objects: tuple[Any, ...]) -> Sequence[Tool]:
        tools = [_watched_tool(tool, self._watch) for tool in super().tools_of(objects)]
        self._watch.provided.update((tool.name, tool) for tool in tools)
        return tools


def _watched_tool(tool: Tool, watch: Watch) -> Tool:
    if isinstance(tool.nested, Nested):
        inner = _inside(tool.nested.agent, watch, f" of {tool.name!r}")
        return replace(tool, nested=Nested(inner))
    undo = None if tool.undo is None else cast(Any, _WatchedUndo(tool.undo, watch))
    return replace(tool, body=cast(Any, _WatchedBody(tool.body, watch, tool.name)), undo=undo)


class _WatchedBody(_Around):
    """A tool's body. It asks for a context, whose key tells which call it is, and passes it on if it is wanted."""

    wants_context = True

    def __init__(self, inner: Any, watch: Watch, tool: str) -> None:
        super().__init__(inner, watch)
        self._tool = tool

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        return self._enter(self._inner.call, arguments, context)

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        return self._enter(self._inner.call_async, arguments, context)

    def _enter(self, form: Callable[..., Any], arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        assert context is not None
        step = context.idempotency_key.rpartition(":")[2]
        self._watch.tools.setdefault(step, self._tool)
        self._watch.note("entered", self._tool, step=step, key=context.idempotency_key)
        given = context if self._inner.wants_context else None
        return self._call(f"the body of {self._watch.of(step)}", lambda: form(arguments, given))


class _WatchedUndo(_Around):
    """A tool's undo."""

    def call(self, execution: ToolExecution[Any], arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        step = context.idempotency_key.rpartition(":")[2]
        self._watch.note("undoing", execution.call.name, step=step, key=context.idempotency_key)
        name = f"the undo of {self._watch.of(step)}"
        return self._call(name, lambda: self._inner.call(execution, arguments, context))
