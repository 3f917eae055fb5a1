"""A little HTTP server that answers chat completions as a test tells it to, faults included."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = Callable[["_Handler"], None]


class FakeProvider:
    """Answers each request with ``answer``; keeps what it was sent in ``requests``."""

    def __init__(self, answer: Answer) -> None:
        self.requests: list[dict[str, Any]] = []
        self.gone = threading.Event()  # the client has closed a connection that was still being written to
        self.asked = threading.Event()  # a request has come
        self._answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """What to give to the client."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[_Handler]:
        provider = self

        class Handler(_Handler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                provider.requests.append(json.loads(self.rfile.read(length)))
                provider.asked.set()
                try:
                    provider._answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    provider.gone.set()
                self.close_connection = True

        return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def begin(self, status: int, kind: str, headers: Mapping[str, str] | None = None) -> None:
        """Send everything up to the body."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def event(self, data: Any) -> None:
        """Send one server-sent event."""
        self.wfile.write(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test's output is not a log."""


def whole(message: Mapping[str, Any], *, finish: str = "stop", usage: Mapping[str, Any] | None = None) -> Answer:
    """A complete reply."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {"id": "r1", "object": "chat.completion", "created": 1, "model": "fake-1", "choices": [choice]}
    return refused(200, {**body, "usage": usage})


def refused(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    """A JSON body with that status."""

    def answer(handler: _Handler) -> None:
        handler.begin(status, "application/json", headers)
        handler.wfile.write(json.dumps(body).encode())

    return answer


def streamed(deltas: Iterable[Mapping[str, Any]], *, finish: str | None = "stop", then: Iterable[Any] = ()) -> Answer:
    """A stream of deltas; a ``finish`` of ``None`` breaks it off there."""

    def answer(handler: _Handler) -> None:
        handler.begin(200, "text/event-stream")
        for delta in deltas:
            handler.event(chunk(delta))
        if finish is not None:
            handler.event(chunk({}, finish))
        for event in then:
            handler.event(event)

    return answer


def endless(delta: Mapping[str, Any]) -> Answer:
    """A stream that goes on until the client leaves."""

    def answer(handler: _Handler) -> None:
        handler.begin(200, "text/event-stream")
        while True:
            handler.event(chunk(delta))

    return answer


def silent(handler: _Handler) -> None:
    """No answer at all; waits until the client leaves."""
    if not handler.connection.recv(1):
        raise ConnectionResetError


def chunk(delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    """One chunk of a streamed reply."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "fake-1", "choices": [choice]}
