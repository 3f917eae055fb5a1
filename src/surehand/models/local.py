"""A model that runs in this process: llama.cpp through ``xllamacpp`` (extra ``local``), no key and no network.

Without a path it is SmolLM2-135M. That is a very small model, good for trying things out without a key: it picks
the right one of a few tools most of the time, takes one or two arguments from the request, and cannot plan. So by
default it may call tools in one round for each user message, then its answer quotes the results word for word
after a line of its own. Any chat model in GGUF form works; one of half a billion parameters is far more able.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import queue
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from .._colour import from_thread, run_in_pool
from ..errors import BadRequestError, ContextLengthError, ModelError, UserError
from ..messages import (
    ChatParameters,
    ChatRequest,
    ChatResponse,
    FinishReason,
    ResponseDone,
    StreamPiece,
    Usage,
)
from ._base import ChatModel
from ._examples import Example
from ._prompted import Plan, Policy, plan_reply
from ._prompted_reply import PromptedReader
from ._weights import require_weights

__all__ = ["LocalModel"]

_NO_DEFAULTS = ChatParameters()
_INTRODUCTION = 'start: /[A-Z][^\\n:{}"]{2,80}:/'
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
_SAMPLING = ("temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty")
_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}

Emit = Callable[[StreamPiece], None]


class LocalModel(ChatModel):
    """A GGUF model in this process, with tools by prompt and constrained decoding (spec 2.7).

    ``path`` is a GGUF file with a chat template; ``None`` means the weights that ``surehand model install``
    fetches. ``n_ctx`` is the context in tokens, ``threads`` the processor threads (default: half of them, at
    least one), ``max_output_tokens`` the limit where a request sets none. Decoding is greedy unless a temperature
    is set.

    ``spans`` takes string arguments from the words of the user's last message and numbers from the numbers in it;
    ``tool_rounds`` is how many rounds of calls the model may ask for after one user message before it must
    answer; ``quote_results`` makes the answer quote the tools' results instead of retelling them. They default to
    ``True``, ``1`` and ``True`` for the fetched weights, and to ``False``, no limit and ``False`` for a ``path``.
    ``examples`` are ``(request, tool name, arguments)``; a tool may bring its own as ``(request, arguments)`` in
    ``ToolSpec.metadata["examples"]``.

    Constructing loads nothing; the first use or ``load()`` does. Requests run one after the other. It reads text
    alone, calls one tool per reply, and takes no system-wide resources but memory (280 MB with the fetched
    weights). Raises ``UserError`` when xllamacpp or the weights are missing.
    """

    provider = "local"
    supports_json_schema = True

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        n_ctx: int = 4096,
        threads: int | None = None,
        max_output_tokens: int = 256,
        defaults: ChatParameters = _NO_DEFAULTS,
        spans: bool | None = None,
        tool_rounds: int | None = None,
        quote_results: bool | None = None,
        examples: Iterable[tuple[str, str, Mapping[str, Any]]] = (),
    ) -> None:
        bundled = path is None
        self._path = None if path is None else Path(path)
        self.name = "SmolLM2-135M" if path is None else Path(path).stem
        self.defaults = ChatParameters(temperature=0.0, max_output_tokens=max_output_tokens).override_with(defaults)
        self._policy = Policy(
            spans=bundled if spans is None else spans,
            tool_rounds=1 if bundled and tool_rounds is None else tool_rounds,
            quote=bundled if quote_results is None else quote_results,
            examples=tuple(Example(*example) for example in examples),
        )
        self._n_ctx = n_ctx
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self._engine = _Engine(self._open)

    def load(self) -> None:
        """Load the weights now (about a second) instead of at the first request."""
        self._engine.load()

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, blocking."""
        return self._run(request, _ignore, threading.Event())

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The whole reply, awaitable; cancelling it stops the model at the next token."""
        stop = threading.Event()
        try:
            return await from_thread(run_in_pool(self._run, request, _ignore, stop))
        finally:
            stop.set()

    def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
        """The reply in pieces; closing the iterator stops the model at the next token."""
        stop = threading.Event()
        pieces: queue.SimpleQueue[StreamPiece | None] = queue.SimpleQueue()
        future = run_in_pool(self._run, request, pieces.put, stop)
        future.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
            future.result()
        finally:
            stop.set()

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        """The reply in pieces, awaitable; closing the iterator or cancelling stops the model at the next token."""
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[StreamPiece | None] = asyncio.Queue()

        def put(piece: StreamPiece | None) -> None:
            if not stop.is_set():  # the loop of a consumer that has gone may be closed
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        future = run_in_pool(self._run, request, put, stop)
        future.add_done_callback(lambda _: put(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            future.result()
        finally:
            stop.set()

    def close(self) -> None:
        """Free the model's memory."""
        self._engine.close()

    # ------------------------------------------------------------ one reply

    def _run(self, request: ChatRequest, emit: Emit, stop: threading.Event) -> ChatResponse:
        merged = ChatRequest(request.messages, self.defaults.override_with(request.parameters))
        plan = plan_reply(merged, self._policy)
        reader = PromptedReader(plan)
        ending = self._engine.chat(_body(plan, merged.parameters), lambda text: _each(reader.read(text), emit), stop)
        last = _each(reader.done(ending.finish_reason, usage=ending.usage, model=self.name), emit)
        assert isinstance(last, ResponseDone)
        return last.response

    def _open(self) -> Any:
        sdk = _sdk()
        path = self._path or require_weights()
        if not path.is_file():
            raise UserError(f"LocalModel({str(path)!r}): there is no such file; give the path of a GGUF file")
        settings = sdk.CommonParams()
        settings.model.path = str(path)
        settings.n_ctx = self._n_ctx
        settings.n_parallel = 1
        settings.verbosity = -1
        settings.use_jinja = True
        settings.warmup = False
        settings.cpuparams.n_threads = self._threads
        settings.cpuparams_batch.n_threads = self._threads
        # The server listens on the loopback address as well; a key that nobody knows keeps other users out.
        settings.api_keys = [secrets.token_hex()]
        try:
            return sdk.Server(settings)
        except RuntimeError as error:
            raise UserError(f"LocalModel({str(path)!r}): llama.cpp cannot load this file ({error})") from error


class _Ending:
    """How a reply ended."""

    def __init__(self) -> None:
        self.finish_reason: FinishReason | None = None
        self.usage: Usage | None = None
        self.error: Mapping[str, Any] | None = None
        self.failure: BaseException | None = None

    def note(self, chunk: Mapping[str, Any]) -> str:
        """Keep what the chunk tells about the end; returns its text."""
        self.error = chunk.get("error", self.error)
        if usage := chunk.get("usage"):
            details: Mapping[str, int] = usage.get("prompt_tokens_details") or {}
            extras = {"cached": details["cached_tokens"]} if details.get("cached_tokens") else {}
            self.usage = Usage(usage["prompt_tokens"], usage["completion_tokens"], extras=extras)
        text = ""
        for choice in chunk.get("choices", ()):
            text += choice.get("delta", {}).get("content") or ""
            if reason := choice.get("finish_reason"):
                self.finish_reason = _FINISH.get(reason, FinishReason.OTHER)
        return text


class _Engine:
    """The loaded model, used by one thread at a time, made anew in a forked child."""

    _left_behind: list[Any] = []  # noqa: RUF012 - a parent's model in a child: its threads are gone, freeing it would hang

    def __init__(self, open_server: Callable[[], Any]) -> None:
        self._open = open_server
        self._start_over()

    def _start_over(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._server: Any = None

    def load(self) -> None:
        with self._locked():
            self._loaded()

    def close(self) -> None:
        with self._locked():
            self._server = None

    def chat(self, body: Mapping[str, Any], on_text: Callable[[str], object], stop: threading.Event) -> _Ending:
        """Run one reply, giving its text as it comes; ``stop`` ends it at the next token."""
        ending = _Ending()

        def on_chunk(chunk: Mapping[str, Any]) -> bool:
            # What is raised here would be lost in llama.cpp's C++.
            try:
                text = ending.note(chunk)
                if text and not stop.is_set():
                    on_text(text)
            except BaseException as failure:
                ending.failure = failure
            return stop.is_set() or ending.failure is not None

        with self._locked():
            if not stop.is_set():
                server = self._loaded()
                try:
                    server.handle_chat_completions(dict(body), on_chunk)
                except ValueError as error:
                    raise BadRequestError(f"llama.cpp did not accept the request: {error}") from error
        if ending.failure is not None:
            raise ending.failure
        if ending.error is not None:
            raise _refusal(ending.error)
        return ending

    def _locked(self) -> threading.Lock:
        if self._process != os.getpid():
            self._left_behind.append(self._server)
            self._start_over()
        return self._lock

    def _loaded(self) -> Any:
        if self._server is None:
            self._server = self._open()
        return self._server


def _body(plan: Plan, parameters: ChatParameters) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": plan.chat, "stream": True, "stream_options": {"include_usage": True}}
    body |= {name: value for name in _SAMPLING if (value := getattr(parameters, name)) is not UNSET}
    body["max_tokens"] = parameters.max_output_tokens
    if parameters.stop_sequences is not UNSET and plan.form == "text":
        body["stop"] = list(parameters.stop_sequences)
    if plan.form == "intro":
        body["grammar"] = f"%llguidance {{}}\n{_INTRODUCTION}"
    elif plan.schema is not None:
        body["grammar"] = _sdk().json_schema_to_grammar({**plan.schema, "x-guidance": _COMPACT})
    return body | dict(parameters.extra or {})


def _sdk() -> Any:
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise UserError(
            "LocalModel needs xllamacpp: pip install 'surehand[local]'. It comes as wheels for Linux, macOS and "
            "Windows on common processors; where pip finds none, use another model"
        ) from error


def _refusal(error: Mapping[str, Any]) -> ModelError:
    text, status = str(error.get("message", error)), error.get("code")
    if error.get("type") == "exceed_context_size_error":
        return ContextLengthError(f"{text} (LocalModel's n_ctx=)", status=status)
    return BadRequestError(f"llama.cpp refused the request: {text}", status=status)


def _each(pieces: Iterable[StreamPiece], emit: Emit) -> StreamPiece | None:
    last: StreamPiece | None = None
    for last in pieces:
        emit(last)
    return last


def _ignore(_: StreamPiece) -> None:
    return None
