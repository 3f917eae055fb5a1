"""The same work through surehand: a model that asks for ``width`` calls in each of ``rounds`` rounds."""

from __future__ import annotations

from typing import Any

from surehand import (
    Agent,
    AssistantMessage,
    ChatModel,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Limits,
    ToolCall,
    ToolMessage,
    tool,
)

from . import _bare

TOOLS: dict[str, Any] = {name: tool(function) for name, function in _bare.FUNCTIONS.items()}


class LoopModel(ChatModel):
    """Makes its reply anew for every request, as the bare loop's model does."""

    name = "loop"

    def __init__(self, rounds: int, width: int, tool_name: str) -> None:
        self._rounds, self._width, self._tool_name = rounds, width, tool_name

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The reply after the last message."""
        last = request.messages[-1]
        number = _bare.next_round(last.call_id if isinstance(last, ToolMessage) else None)
        if number >= self._rounds:
            return ChatResponse(AssistantMessage("done"), None, FinishReason.STOP)
        name = self._tool_name
        calls = tuple([ToolCall(f"c{number}_{i}", name, _bare.ARGUMENTS) for i in range(self._width)])
        return ChatResponse(AssistantMessage(None, calls), None, FinishReason.TOOL_EXECUTION)

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The reply after the last message."""
        return self.generate(request)


def agent(rounds: int, width: int, name: str, **options: Any) -> Agent[None]:
    """An agent with that one tool, which is called with the same arguments all the time, and that is meant."""
    model, limits = LoopModel(rounds, width, name), Limits(rounds=None)
    return Agent(model, tools=[TOOLS[name]], limits=limits, repeated_calls="allow", **options)


def watched(rounds: int, width: int, name: str) -> Agent[None]:
    """The same with the hooks around calls and a listener in place."""

    return agent(rounds, width, name, **_HOOKS)


def governed(rounds: int, width: int, name: str) -> Agent[None]:
    """The same with an authorisation of every call and a request transformer besides."""
    return agent(
        rounds,
        width,
        name,
        authorise=lambda context, arguments: True,
        transform_request=lambda request, memory_id: request,
        **_HOOKS,
    )


def _nothing(*_: Any) -> None:
    return None


_HOOKS: dict[str, Any] = {"before_tool": _nothing, "after_tool": _nothing, "listeners": [_nothing]}
