"""What a caller gets when the provider refuses, breaks, or is not there; and what ends an exchange."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest

from surehand.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilterError,
    ContextLengthError,
    ModelError,
    NetworkError,
    OverloadedError,
    RateLimitError,
    UserError,
)
from surehand.messages import ChatRequest, TextPiece, UserMessage
from surehand.models.openai import OpenAIChat

from .asking import WAYS
from .fake_provider import Answer, FakeProvider, chunk, endless, refused, silent, streamed

REQUEST = ChatRequest((UserMessage.of("hi"),))
STREAMS = [way for way in WAYS if "stream" in way]


def failure(way: str, answer: Answer, **options: Any) -> ModelError:
    """The error that a request with this answer ends in."""
    with FakeProvider(answer) as provider:
        model = OpenAIChat("m", base_url=provider.base_url, max_retries=0, **options)
        with pytest.raises(ModelError) as caught:
            WAYS[way](model, REQUEST)
        model.close()
    return caught.value


def error_body(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, None, BadRequestError),
        (400, "context_length_exceeded", ContextLengthError),
        (400, "content_filter", ContentFilterError),
        (401, "invalid_api_key", AuthenticationError),
        (403, None, AuthenticationError),
        (404, "model_not_found", BadRequestError),
        (429, "rate_limit_exceeded", RateLimitError),
        (500, None, OverloadedError),
        (503, None, OverloadedError),
    ],
)
def test_a_refusal_has_its_own_error_with_the_sdks_as_its_cause(
    way: str, status: int, code: str | None, kind: type[ModelError]
) -> None:
    error = failure(way, refused(status, error_body("no, sorry", code)))
    assert (type(error), error.status) == (kind, status)
    assert "no, sorry" in str(error)
    assert isinstance(error.__cause__, openai.APIStatusError)


@pytest.mark.parametrize("way", WAYS)
def test_a_rate_limit_carries_the_providers_advice(way: str) -> None:
    error = failure(way, refused(429, error_body("slow down"), {"Retry-After": "7.5"}))
    assert isinstance(error, RateLimitError)
    assert error.retry_after == 7.5


def at(seconds_from_now: float) -> dict[str, str]:
    return {"Retry-After": email.utils.formatdate(time.time() + seconds_from_now, usegmt=True)}


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        (lambda: {"retry-after-ms": "1500", "Retry-After": "9"}, 1.5, 1.5),
        (lambda: at(36_000), 30_000, 36_000),
        (lambda: at(-36_000), 0, 0),
    ],
)
def test_the_advice_may_come_in_other_forms(headers: Callable[[], dict[str, str]], low: float, high: float) -> None:
    error = failure("generate", refused(429, error_body("slow down"), headers()))
    assert isinstance(error, RateLimitError)
    assert error.retry_after is not None
    assert low <= error.retry_after <= high


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "soon"}])
def test_without_advice_there_is_none(headers: dict[str, str]) -> None:
    error = failure("generate", refused(429, error_body("slow down"), headers))
    assert isinstance(error, RateLimitError)
    assert error.retry_after is None


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_that_is_not_there_is_a_network_error(way: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = OpenAIChat("m", base_url=f"http://127.0.0.1:{unused.getsockname()[1]}/v1", max_retries=0)
        with pytest.raises(NetworkError) as caught:
            WAYS[way](model, REQUEST)
        model.close()
    assert isinstance(caught.value.__cause__, openai.APIConnectionError)


@pytest.mark.parametrize("way", WAYS)
def test_a_provider_that_is_silent_is_a_network_error(way: str) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        model = OpenAIChat("m", base_url=address, max_retries=0, timeout=0.05)
        with pytest.raises(NetworkError) as caught:
            WAYS[way](model, REQUEST)
        model.close()
    assert isinstance(caught.value.__cause__, openai.APITimeoutError)


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_without_its_end_is_a_network_error(way: str) -> None:
    assert isinstance(failure(way, streamed([{"content": "to be or"}], finish=None)), NetworkError)


@pytest.mark.parametrize("way", STREAMS)
def test_a_stream_that_breaks_inside_an_event_is_a_network_error(way: str) -> None:
    def answer(handler: Any) -> None:
        handler.begin(200, "text/event-stream", {"Content-Length": "1000"})
        handler.event(chunk({"content": "to be"}))
        handler.wfile.write(b'data: {"id": "r1", "cho')

    assert isinstance(failure(way, answer), NetworkError)


@pytest.mark.parametrize("way", STREAMS)
@pytest.mark.parametrize(
    ("code", "kind"), [("context_length_exceeded", ContextLengthError), ("server_error", OverloadedError)]
)
def test_an_error_in_the_middle_of_a_stream_is_told(way: str, code: str, kind: type[ModelError]) -> None:
    answer = streamed([{"content": "to be"}], finish=None, then=[error_body("stop here", code)])
    error = failure(way, answer)
    assert type(error) is kind
    assert "stop here" in str(error)


def test_a_reply_without_choices_is_the_providers_failure() -> None:
    body = {"id": "r1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    assert isinstance(failure("generate", refused(200, body)), OverloadedError)


# ---------------------------------------------------------------- leaving early


def test_closing_a_stream_closes_the_connection() -> None:
    with FakeProvider(endless({"content": "on and "})) as provider:
        model = OpenAIChat("m", base_url=provider.base_url, max_retries=0)
        pieces = model.stream(REQUEST)
        assert next(pieces) == TextPiece("on and ")
        pieces.close()  # pyright: ignore[reportAttributeAccessIssue]  # it is a generator
        assert provider.gone.wait(10)
        model.close()


def test_closing_an_awaitable_stream_closes_the_connection() -> None:
    async def leave(model: OpenAIChat) -> None:
        pieces: Any = model.astream(REQUEST)
        assert await anext(pieces) == TextPiece("on and ")
        await pieces.aclose()
        assert await asyncio.to_thread(provider.gone.wait, 10)
        await model.aclose()

    with FakeProvider(endless({"content": "on and "})) as provider:
        asyncio.run(leave(OpenAIChat("m", base_url=provider.base_url, max_retries=0)))


def test_cancelling_a_request_closes_the_connection() -> None:
    async def leave(model: OpenAIChat) -> None:
        task = asyncio.create_task(model.agenerate(REQUEST))
        assert await asyncio.to_thread(provider.asked.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(provider.gone.wait, 10)
        await model.aclose()

    with FakeProvider(silent) as provider:
        asyncio.run(leave(OpenAIChat("m", base_url=provider.base_url, max_retries=0)))


def test_cancelling_a_stream_closes_the_connection() -> None:
    async def leave(model: OpenAIChat) -> None:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in model.astream(REQUEST):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(provider.gone.wait, 10)
        await model.aclose()

    with FakeProvider(endless({"content": "on and "})) as provider:
        asyncio.run(leave(OpenAIChat("m", base_url=provider.base_url, max_retries=0)))


# ---------------------------------------------------------------- wrong use


def test_a_missing_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UserError, match=r"pip install 'surehand\[openai\]'"):
        OpenAIChat("m")


def test_a_missing_key_is_told_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    model = OpenAIChat("m")
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        model.generate(REQUEST)


def test_clients_of_ones_own_are_used_and_left_open() -> None:
    with (
        FakeProvider(refused(401, error_body("whose key?"))) as provider,
        openai.OpenAI(base_url=provider.base_url, api_key="mine", max_retries=0) as client,
    ):
        model = OpenAIChat("m", client=client)
        with pytest.raises(AuthenticationError):
            model.generate(REQUEST)
        model.close()
        assert not client.is_closed()
