"""A scenario as an agent of ours: real typed functions for its tools, a model that plays its script, its policies.

The defaults of the reference are set here, openly: tools with ``repeat="safe"``; errors of bodies go to the model,
arguments that do not fit and unknown names give the run up; ``compensate`` is ``UndoPolicy.ON_TOOL_ERROR`` with the
predicate "always", otherwise ``OFF``; ``concurrent`` is ``parallel=True, early_start="all"``, otherwise ``False`` and
``"off"``; there is no limit to errors in a row, and calls may repeat each other.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from surehand import (
    Agent,
    AssistantMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    ErrorContext,
    FinishReason,
    KeywordSearch,
    Limits,
    MemoryJournal,
    MessageWindow,
    ResponseDone,
    StreamPiece,
    TextPiece,
    ToolCall,
    ToolCallReady,
    ToolMessage,
    ToolResult,
    UndoPolicy,
    Usage,
    abort,
    tell_model,
    undo_on_any_error,
)
from surehand.policies import ErrorPolicy, abort_on_unknown_name

from .outputs import hint_of_return, is_typed
from .record import Scripted, Trace, call_of, error_of, exception_of, execution_of, message_of
from .scenario import Scenario
from .tools import Toolbox

__all__ = ["Player", "build"]


def build(
    scenario: Scenario,
    trace: Trace,
    player: Player,
    memories: dict[Any, MessageWindow],
    journal: MemoryJournal | None = None,
) -> Agent[Any, Any]:
    """The agent of a scenario; raises ``UserError`` if it cannot be put together."""
    config = scenario.config
    limits = Limits(consecutive_errors=None)
    if "max_round_trips" in config:
        limits = Limits(consecutive_errors=None, rounds=config["max_round_trips"])

    def memory_of(memory_id: Any) -> MessageWindow:
        window = MessageWindow(scenario.window or 1, id=memory_id)
        return memories.setdefault(memory_id, window)

    output: dict[str, Any] = {}
    if is_typed(scenario.return_type):
        output = {"output": hint_of_return(scenario.return_type), "output_mode": "text", "output_retries": 0}
    return Agent(
        player,
        **output,
        tools=Toolbox(scenario, trace).entries(),
        tool_search=_search(config.get("tool_search")),
        instructions=config.get("system"),
        memory=None if scenario.window is None else memory_of,
        limits=limits,
        repeated_calls="allow",
        parallel=scenario.concurrent,
        early_start="all" if scenario.concurrent else "off",
        on_error=_error_policy(config, trace),
        undo=UndoPolicy.ON_TOOL_ERROR if scenario.compensates else UndoPolicy.OFF,
        undo_when=undo_on_any_error,
        before_tool=_before_hook(scenario, trace),
        after_tool=_after_hook(scenario, trace),
        listeners=[trace.listen] if scenario.listeners else [],
        journal=journal,
        undo_retries=0,
        new_id=map("run {:03}".format, itertools.count()).__next__,
    )


def _search(options: Mapping[str, Any] | None) -> KeywordSearch | None:
    if options is None:
        return None
    given = dict(options)
    return KeywordSearch(argument_errors=given.pop("throw_arguments_exceptions", False), **given)


# ---------------------------------------------------------------- policies


def _error_policy(config: Mapping[str, Any], trace: Trace) -> ErrorPolicy:
    arguments, execution = config.get("arguments_error_handler"), config.get("execution_error_handler")
    return ErrorPolicy(
        arguments=_handler("arguments_error_handler", arguments, trace) if arguments else abort,
        tool_error=_handler("execution_error_handler", execution, trace) if execution else tell_model,
        execution=_handler("execution_error_handler", execution, trace) if execution else tell_model,
        unknown_name=_unknown_name(config["hallucinated"]) if config.get("hallucinated") else abort_on_unknown_name,
    )


def _handler(event: str, does: Mapping[str, Any], trace: Trace) -> Any:
    def handle(error: BaseException, context: ErrorContext) -> Any:
        trace.errors[context.call.id] = error
        raw = None if context.raw_error is None else error_of(context.raw_error)
        trace.note(event, tool=context.call.name, id=context.call.id, error=error_of(error), raw_error=raw)
        if "throw" in does:
            raise exception_of(does["throw"])
        if does.get("rethrow"):
            raise error
        if "prefix" in does:
            return does["prefix"] + _said(error)
        return does.get("text")  # null_text and null_result both give nothing

    return handle


def _said(error: BaseException) -> str:
    described = error.described if isinstance(error, Scripted) else error_of(error)
    message = described.get("message")
    return "null" if message is None else message


def _unknown_name(does: Mapping[str, Any]) -> Any:
    def answer(call: ToolCall, names: Any) -> Any:
        if does.get("return_null"):
            return None
        text = does["text"].replace("{name}", call.name or "null")
        result = ToolResult.of(text, attributes=does.get("attributes") or {})
        return ToolMessage(call.id, call.name, result.contents, does.get("is_error"), result.attributes)

    return answer


def _before_hook(scenario: Scenario, trace: Trace) -> Any:
    def before(context: Any) -> None:
        if scenario.hooks:
            trace.note("before_tool", **call_of(context.call))
        _throw_if_asked(scenario.config.get("before_hook"), context.call)

    return before if scenario.hooks or scenario.config.get("before_hook") else None


def _after_hook(scenario: Scenario, trace: Trace) -> Any:
    def after(execution: Any, context: Any) -> None:
        if scenario.hooks:
            trace.note("after_tool", **execution_of(execution))
        _throw_if_asked(scenario.config.get("after_hook"), execution.call)

    return after if scenario.hooks or scenario.config.get("after_hook") else None


def _throw_if_asked(does: Mapping[str, Any] | None, call: ToolCall) -> None:
    if does and does.get("tool", call.name) == call.name and "throw" in does:
        raise exception_of(does["throw"])


# ---------------------------------------------------------------- the model


class Player(ChatModel):
    """Plays the script and notes what it is asked."""

    name = provider = "script"

    def __init__(self, scenario: Scenario, trace: Trace) -> None:
        self._scenario = scenario
        self._trace = trace
        self._lock = threading.Lock()
        self.requests = 0

    def _next(self, request: ChatRequest) -> dict[str, Any]:
        with self._lock:
            entry = self._scenario.reply(self.requests)
            self.requests += 1
        tools = [spec.name for spec in request.tools]
        messages = [message_of(message) for message in request.messages]
        self._trace.note("model_request", n=self.requests, tools=tools, messages=messages)
        return {"error": {"class": "<script ended>", "message": "<script ended>"}} if entry is None else entry

    def generate(self, request: ChatRequest) -> ChatResponse:
        return self._response(self._next(request))

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        return self.generate(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        entry = self._next(request)
        for word in (entry.get("text") or "").replace(" ", " \0").split("\0"):
            if word:
                yield TextPiece(word)
        response = self._response(entry)
        if not entry.get("no_complete_tool_call_events"):
            for index, call in enumerate(response.message.tool_calls):
                yield ToolCallReady(index, call)
        yield ResponseDone(response)

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        for piece in self.stream(request):
            yield piece

    def _response(self, entry: Mapping[str, Any]) -> ChatResponse:
        if entry.get("error"):
            raise exception_of(entry["error"])
        calls = tuple(
            ToolCall(call["id"], call["name"] or "", call["arguments"] or "") for call in entry.get("tool_calls") or ()
        )
        usage = None if entry.get("usage") is None else Usage(*entry["usage"])
        reason = FinishReason.TOOL_EXECUTION if calls else FinishReason.STOP
        return ChatResponse(AssistantMessage(entry.get("text"), calls), usage, reason)


def settle(scenario: Scenario) -> None:
    """Wait as long as the scenario says, for what may still run after its last call."""
    if scenario.config.get("settle_ms"):
        time.sleep(min(scenario.config["settle_ms"] / 1000, 0.05))
