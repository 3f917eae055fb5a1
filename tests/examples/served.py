"""The booking service as its tests serve it: with a model that plays a script, and points at which it is held up.

A file ``hold <point>`` in the folder holds up whoever comes to that point, until it is gone; who is held up has written
``at <point>``. Points are ``order-1 reply 2`` and ``before card charged order-1:2.0``, also with ``after``.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from examples.booking_service import create_app
from examples.travel import Ledger, travel_tools
from surehand import (
    Agent,
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    NetworkError,
    SQLiteJournal,
    StreamPiece,
    ToolContext,
    UserMessage,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

_LONGEST = 120.0  # seconds: a test that forgets a point fails, and leaves no process behind


class Points:
    """Where a test may hold up this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_held(self, point: str) -> bool:
        """Whether one must wait there."""
        if not (self._folder / f"hold {point}").exists():
            return False
        (self._folder / f"at {point}").touch()
        return True

    def passed(self, point: str) -> None:
        """Come by, on a thread that may wait."""
        deadline = time.monotonic() + _LONGEST
        while self.is_held(point) and time.monotonic() < deadline:
            time.sleep(0.005)


class HeldLedger(Ledger):
    """Services that may take long, before or after they have done what they were asked for."""

    def __init__(self, path: Path, points: Points) -> None:
        super().__init__(path)
        self._points = points

    def add(self, what: str, key: str, detail: object = "") -> None:
        self._points.passed(f"before {what} {key}")
        super().add(what, key, detail)
        self._points.passed(f"after {what} {key}")


def letter_tool(points: Points) -> Any:
    """A tool of which nobody can tell, once its process has died, whether it has done its work."""

    @tool
    def write_letter(ctx: ToolContext) -> str:
        """Write a letter."""
        points.passed(f"letter {ctx.idempotency_key}")
        return "written"

    return write_letter


class HeldModel(ScriptedModel):
    """Books, pays and answers, by what it is asked; each request is noted in ``asked``, and may take long."""

    def __init__(self, folder: Path, points: Points) -> None:
        super().__init__([_reply] * 1000)
        self._folder, self._points = folder, points

    async def _passed(self, request: ChatRequest) -> None:
        point = f"{_name(request)} reply {_number(request)}"
        with (self._folder / "asked").open("a") as asked:
            asked.write(f"{point}\n")
        deadline = time.monotonic() + _LONGEST
        while self._points.is_held(point) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        await self._passed(request)
        return await super().agenerate(request)

    async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
        await self._passed(request)
        async for piece in super().astream(request):
            yield piece


def _name(request: ChatRequest) -> str:
    """The first word of the prompt, for which the tests give the run's id."""
    return next(message.text.split()[0] for message in request.messages if isinstance(message, UserMessage))


def _number(request: ChatRequest) -> int:
    return 1 + sum(isinstance(message, AssistantMessage) for message in request.messages)


def _reply(request: ChatRequest) -> ChatResponse | BaseException:
    if _name(request).startswith("doubtful"):
        return calls(call("write_letter"))
    book, pay = call("book_seat", {"city": "Oslo"}), call("charge_card", {"euros": 95})
    last = NetworkError("the line is dead") if _name(request).startswith("failing") else say("You fly to Oslo.")
    return (calls(book, text="Let me see."), calls(pay), last)[_number(request) - 1]


class Noting:
    """An application that tells of each request once it has been dealt with, also if its client has left."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
        if scope["type"] == "http":
            print("dealt with", scope["method"], scope["path"], flush=True)


def make_app() -> Noting:
    """The service in the folder that ``DATA`` names."""
    folder = Path(os.environ["DATA"])
    points, journal = Points(folder), SQLiteJournal(folder / "runs.db")
    tools = [*travel_tools(HeldLedger(folder / "outside.db", points)), letter_tool(points)]
    return Noting(create_app(Agent(HeldModel(folder, points), tools=tools, journal=journal), journal))
