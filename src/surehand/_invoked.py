"""A model that is a function of the request, blocking or awaitable (spec 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._checks import is_async_callable, is_awaitable, misfit
from ._colour import from_thread, run_in_pool
from ._perform import settled
from .errors import UserError
from .messages import ChatRequest, ChatResponse
from .models._base import ChatModel

__all__ = ["Invoked"]


class Invoked(ChatModel):
    """Gives the ``first`` reply if there is one, and then what the function gives."""

    name = "function"

    def __init__(self, function: Callable[[ChatRequest], Any], first: ChatResponse | None = None) -> None:
        expected = misfit(function, "request")
        if expected is not None:
            raise UserError(f"invoke={function!r}; expected {expected}")
        if first is not None and not isinstance(first, ChatResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"first={first!r}; expected a ChatResponse, or None")
        self._function = function
        self._first = first

    def _take_first(self) -> ChatResponse | None:
        first, self._first = self._first, None
        return first

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The reply, blocking."""
        first = self._take_first()
        answer: ChatResponse = settled(self._function(request)) if first is None else first
        return answer

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The reply, awaitable; a function that may block runs on a worker thread."""
        first = self._take_first()
        if first is not None:
            return first
        if is_async_callable(self._function):
            answer: Any = self._function(request)
        else:
            answer = await from_thread(run_in_pool(self._function, request))
        reply: ChatResponse = await answer if is_awaitable(answer) else answer
        return reply
