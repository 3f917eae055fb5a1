"""Models behind OpenAI's chat completions API, at OpenAI or at any server that speaks it (extra ``openai``)."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import threading
import weakref
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

from ..errors import NetworkError, UserError
from ..messages import ChatParameters, ChatRequest, ChatResponse, StreamPiece
from ._base import ChatModel
from ._openai_replies import ReplyReader, model_error, whole_reply
from ._openai_requests import request_body
from ._wire import WireNames

__all__ = ["OpenAIChat"]

_NO_DEFAULTS = ChatParameters()
_STREAMING: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


class OpenAIChat(ChatModel):
    """A chat model through the official ``openai`` SDK (spec 2.6, 2.7).

    ``model`` is the provider's name for it. ``api_key`` and ``base_url`` default to what the SDK reads from the
    environment; a server with a ``base_url`` of its own may need no key. ``timeout`` is in seconds, per request;
    ``max_retries`` counts the SDK's own retries of requests that failed before a reply began. ``defaults`` are
    parameters that a request may override; what is in ``extra`` is sent as it is, for example
    ``ChatParameters(extra={"parallel_tool_calls": False})``. ``supports_json_schema`` is true at OpenAI's own service
    alone; set it, or ``Agent(output_mode="schema")``, for a server that has it too. Bring ``client=``
    (``openai.OpenAI``) or ``async_client=`` (``openai.AsyncOpenAI``) to use your own; they are not closed here.

    Clients are made at first use, one for blocking modes and one per event loop, since their connections belong
    to a loop. Raises a ``ModelError`` for what the provider refuses, with the SDK's exception as ``__cause__``;
    ``UserError`` when the SDK or the key is missing.
    """

    provider = "openai"

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        max_retries: int = 2,
        defaults: ChatParameters = _NO_DEFAULTS,
        client: Any = None,
        async_client: Any = None,
    ) -> None:
        try:
            self._sdk: Any = importlib.import_module("openai")
        except ImportError as error:
            raise UserError("OpenAIChat needs the openai SDK: pip install 'surehand[openai]'") from error
        self.name = model
        self.defaults = ChatParameters(model=model).override_with(defaults)
        self._options = _client_options(api_key, base_url, timeout, max_retries)
        # Only OpenAI's own service insists on the newer name; most compatible servers know the older one alone.
        elsewhere = base_url or os.environ.get("OPENAI_BASE_URL") or client is not None or async_client is not None
        self._limit_key = "max_tokens" if elsewhere else "max_completion_tokens"
        self.supports_json_schema = not elsewhere  # many compatible servers pass over it in silence
        self._given, self._given_async = client, async_client
        self._lock = threading.Lock()
        self._client: Any = None
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, blocking."""
        body, names = self._prepare(request)
        with _our_errors():
            return whole_reply(self._blocking().chat.completions.create(**body), names)

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, awaitable; cancelling it closes the connection."""
        body, names = self._prepare(request)
        with _our_errors():
            return whole_reply(await self._awaitable().chat.completions.create(**body), names)

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        """The reply in pieces; closing the iterator closes the connection."""
        body, names = self._prepare(request)
        reader = ReplyReader(names)
        with _our_errors():
            chunks = self._blocking().chat.completions.create(**body, **_STREAMING)
            try:
                for chunk in chunks:
                    yield from reader.read(chunk)
            finally:
                chunks.close()
        _require_end(reader)
        yield from reader.done()

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        """The reply in pieces, awaitable; closing the iterator or cancelling closes the connection."""
        body, names = self._prepare(request)
        reader = ReplyReader(names)
        with _our_errors():
            chunks = await self._awaitable().chat.completions.create(**body, **_STREAMING)
            try:
                async for chunk in chunks:
                    for piece in reader.read(chunk):
                        yield piece
            finally:
                await chunks.close()
        _require_end(reader)
        for piece in reader.done():
            yield piece

    def close(self) -> None:
        """Close the blocking client; clients of event loops are closed by ``aclose``, each in its own loop."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the client of the running event loop and the blocking one."""
        with self._lock:
            client = self._by_loop.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        self.close()

    def _prepare(self, request: ChatRequest) -> tuple[dict[str, Any], WireNames]:
        merged = ChatRequest(request.messages, self.defaults.override_with(request.parameters))
        names = WireNames(merged.tools)
        return request_body(merged, names, limit_key=self._limit_key), names

    def _blocking(self) -> Any:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._client is None:
                self._client = self._make("OpenAI")
            return self._client

    def _awaitable(self) -> Any:
        if self._given_async is not None:
            return self._given_async
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._by_loop.get(loop)
            if client is None:
                client = self._by_loop[loop] = self._make("AsyncOpenAI")
            return client

    def _make(self, kind: str) -> Any:
        try:
            return getattr(self._sdk, kind)(**self._options)
        except self._sdk.OpenAIError as error:
            raise UserError(
                f"OpenAIChat({self.name!r}) has no key: set OPENAI_API_KEY or pass api_key= ({error})"
            ) from error


def _client_options(
    api_key: str | None, base_url: str | None, timeout: float | None, max_retries: int
) -> dict[str, Any]:
    options: dict[str, Any] = {"max_retries": max_retries}
    if base_url is not None:
        options["base_url"] = base_url
        if api_key is None and not os.environ.get("OPENAI_API_KEY"):
            api_key = "none"  # the SDK insists on one, a server of one's own often does not
    if api_key is not None:
        options["api_key"] = api_key
    if timeout is not None:
        options["timeout"] = timeout
    return options


def _require_end(reader: ReplyReader) -> None:
    if not reader.has_ended:
        raise NetworkError("the provider's stream broke off before the end of the reply")


@contextlib.contextmanager
def _our_errors() -> Generator[None]:
    try:
        yield
    except Exception as error:
        ours = model_error(error)
        if ours is None:
            raise
        raise ours from error
