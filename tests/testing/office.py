"""A world outside for crash tests: one file of what was done in it, a model that plays a script, an agent's tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from surehand import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    Message,
    ToolContext,
    messages_from_json,
    messages_to_json,
    tool,
    undoes,
)
from surehand.testing import Effect, ScriptedModel


class Office:
    """A service outside that remembers what it did, and does nothing twice for the same key."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "office"

    def do(self, key: str, kind: str = "done") -> None:
        """Do it, unless that was done already."""
        if (key, kind) not in self.all():
            self.do_again(key, kind)

    def do_again(self, key: str, kind: str = "done") -> None:
        """Do it, whatever was done before."""
        with self.file.open("ab", buffering=0) as file:
            file.write(f"{key} {kind}\n".encode())

    def count(self, name: str) -> int:
        """How often that was counted before, in this process or another."""
        with (self.file.parent / name).open("ab", buffering=0) as file:
            file.write(b".")
            return file.tell()

    def all(self) -> list[tuple[str, str]]:
        """Everything, in order."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [(key, kind) for key, _, kind in (line.rpartition(" ") for line in lines)]


def effects(folder: Path) -> list[Effect]:
    return [Effect(key, "done" if kind == "done" else "undone") for key, kind in Office(folder).all()]


Context = ToolContext[Office]


@tool(repeat="with_key")
def book(what: str, ctx: Context) -> str:
    """Book something."""
    ctx.deps.do(ctx.idempotency_key)
    return what


@undoes(book)
def cancel(booking: str, ctx: Context) -> None:
    ctx.deps.do(ctx.idempotency_key, "undone")


@tool(repeat="safe")
def look(what: str) -> str:
    """Look something up."""
    return f"{what}: there is"


def replies(*script: ChatResponse) -> ScriptedModel:
    """A model that knows by the conversation how far it is, as real ones do: each process asks a new one."""

    def reply(request: ChatRequest) -> ChatResponse:
        return script[sum(isinstance(message, AssistantMessage) for message in request.messages)]

    return ScriptedModel([reply] * 20)


class FileStore:
    """Conversations in a folder, each written in one step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, id: Any, /) -> list[Message]:
        path = self._folder / f"conversation-{id}"
        return messages_from_json(path.read_bytes()) if path.exists() else []

    def update(self, id: Any, messages: Iterable[Message], /) -> None:
        new = self._folder / f"conversation-{id}.new"
        new.write_bytes(messages_to_json(list(messages)))
        new.rename(self._folder / f"conversation-{id}")

    def delete(self, id: Any, /) -> None:
        (self._folder / f"conversation-{id}").unlink(missing_ok=True)


def conversation(folder: Path) -> list[Message]:
    return FileStore(folder).get("ann")
