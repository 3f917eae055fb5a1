"""The memory after a resume: nothing twice and nothing lost, whatever the moment in which the process died."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from surehand import Message, MessageWindow, ToolContext, UndoPolicy, messages_from_json, messages_to_json, tool
from surehand.testing import call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, every_mode, remains


class FileStore:
    """Conversations in a file; ``moment`` is told before and after each change."""

    def __init__(self, path: Path, moment: Callable[[], object] = lambda: None) -> None:
        self.path, self.moment = path, moment

    def get(self, id: Any, /) -> list[Message]:
        return list(messages_from_json(self.path.read_bytes())) if self.path.exists() else []

    def update(self, id: Any, messages: Sequence[Message], /) -> None:
        self.moment()
        self.path.write_bytes(messages_to_json(messages))
        self.moment()

    def delete(self, id: Any, /) -> None:
        self.path.unlink()


def kept(path: Path, moment: Callable[[], object] = lambda: None) -> MessageWindow:
    """A memory whose messages are in that file."""
    return MessageWindow(50, store=FileStore(path, moment))


class Moments:
    """Copies of the journal and of the memory's file, one for each moment before or after a change of the memory."""

    def __init__(self, life: Life, path: Path) -> None:
        self._life, self._path = life, path
        self.taken: list[tuple[Any, str | None, list[Any]]] = []

    def __call__(self) -> None:
        held = self._path.read_text() if self._path.exists() else None
        self.taken.append((remains(self._life.journal), held, list(self._life.log)))


def tools(life: Life, *, breaks: bool) -> list[Any]:
    def cancel(booking: str) -> None:
        life.log.append("cancel")

    @tool(repeat="with_key", undo=cancel)
    def book(what: str, ctx: ToolContext[Any]) -> str:
        life.log.append("book")
        return f"booked {what}"

    @tool(repeat="with_key")
    def pay(ctx: ToolContext[Any]) -> str:
        if breaks:
            raise ValueError("card reader broke")
        return "paid"

    return [book, pay]


ROUNDS = [calls(call("book", {"what": "a"}), call("book", {"what": "b"})), calls(call("pay")), say("Done")]


def left_to_say(journal: Any) -> list[Any]:
    return ROUNDS[sum(record.kind == "MODEL" for record in journal.records(RUN)) :]


@every_mode
@pytest.mark.parametrize("breaks", [False, True], ids=["succeeds", "given_up"])
@pytest.mark.parametrize("undo", [UndoPolicy.ON_GIVE_UP, UndoPolicy.ON_TOOL_ERROR])
def test_a_persistent_memory_gets_everything_once_whenever_the_process_dies(
    mode: Mode, breaks: bool, undo: UndoPolicy, tmp_path: Path
) -> None:
    path, life = tmp_path / "talk.json", Life()
    options: dict[str, Any] = {"instructions": "Be kind", "undo": undo}
    earlier = kept(path)
    agent(Life(), say("Hello"), memory=earlier, instructions="Be kind").run("Hi")
    before = path.read_text()
    moments = Moments(life, path)
    whole = mode.drive(
        agent(life, *ROUNDS, tools=tools(life, breaks=breaks), memory=kept(path, moments), **options), run_id=RUN
    )
    expected = path.read_text()
    assert len(moments.taken) >= 6 and json.loads(expected) != json.loads(before)
    for journal, held, log in moments.taken:
        life.journal, life.log[:] = journal, log
        path.write_text(held or "[]")
        second = agent(life, *left_to_say(journal), tools=tools(life, breaks=breaks), memory=kept(path), **options)
        ended = mode.drive(second, run_id=RUN)
        assert json.loads(path.read_text()) == json.loads(expected)
        assert (ended.result is None) == (whole.result is None)
        assert ended.report == whole.report


@every_mode
@pytest.mark.parametrize("breaks", [False, True], ids=["succeeds", "given_up"])
def test_a_memory_that_died_with_the_process_is_filled_again(mode: Mode, breaks: bool) -> None:
    life, lost = Life(), MessageWindow(50)
    boxes = tools(life, breaks=breaks)
    journals: list[Any] = []

    @tool(repeat="safe")
    def look() -> str:
        journals.append(remains(life.journal))
        return "seen"

    script = [ROUNDS[0], calls(call("look")), *ROUNDS[1:]]
    options: dict[str, Any] = {"tools": [*boxes, look], "instructions": "Be kind"}
    mode.drive(agent(life, *script, memory=lost, **options), run_id=RUN)
    life.journal = journals[0]
    found = MessageWindow(50)
    mode.drive(agent(life, *script[2:], memory=found, **options), run_id=RUN)
    assert found.messages() == lost.messages()


@every_mode
def test_telling_a_run_again_adds_nothing_to_a_memory_that_has_gone_on(mode: Mode, tmp_path: Path) -> None:
    path, life = tmp_path / "talk.json", Life()
    memory = kept(path)
    first = mode.drive(agent(life, *ROUNDS, tools=tools(life, breaks=False), memory=memory), run_id=RUN)
    agent(life, say("More"), memory=memory).run("And then?")
    held = path.read_text()
    again = mode.drive(agent(life, tools=tools(life, breaks=False), memory=memory), run_id=RUN)
    assert (again.answer, path.read_text()) == (first.answer, held)
