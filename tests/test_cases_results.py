"""Faults that users reported in systems of this kind: results that no JSON was made for, or that break later."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from surehand import (
    ErrorPolicy,
    ImageContent,
    Limits,
    MessageWindow,
    Outcome,
    RoundLimitError,
    TextContent,
    ToolError,
    ToolMessage,
    ToolProgress,
    ToolResult,
    tell_model,
    tool,
)
from surehand._codec import canonical, from_json, to_json
from surehand.testing import call, say

from .modes import Ended, Mode, ask
from .odd_values import LONE, READABLE, UNREADABLE, Colour, Hostile, Loud

# ---------------------------------------------------------------- what is read of a value, and what comes after


def given(mode: Mode, make: Callable[[], Any], **options: Any) -> Ended:
    """A run whose tool returns what ``make`` gives; whatever that is, the run has to go on to its end."""
    memory = MessageWindow(50)

    @tool
    def fetch() -> Any:
        return make()

    ended = mode.play(ask(call("fetch", id="c1")), say("done"), tools=[fetch], memory=memory, **options)
    assert ended.answer.output == "done"
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE]
    check_later_use(ended, memory)
    return ended


def check_later_use(ended: Ended, memory: MessageWindow) -> None:
    """What becomes of the message afterwards: sent, remembered, stored and read again, hashed, printed."""
    (message,) = [message for message in ended.messages if isinstance(message, ToolMessage)]
    assert message in ended.requests[-1].messages
    assert message in list(memory.messages())
    assert from_json(to_json(message), ToolMessage) == message
    assert canonical(message) == canonical(from_json(to_json(message), ToolMessage))
    assert hash(message.contents) == hash(message.contents)
    assert " at 0x" not in repr(message)
    repr(message).encode()


def read(mode: Mode, make: Callable[[], Any]) -> str:
    """What the model reads of the value, which is no error."""
    ((name, text, is_error),) = given(mode, make).results
    assert (name, is_error) == ("fetch", False)
    text.encode()
    return text


@pytest.mark.parametrize("name", READABLE)
def test_res_02_07_08_09_any_value_reads_as_json_and_the_run_goes_on(mode: Mode, name: str) -> None:
    make, expected = READABLE[name]
    text = read(mode, make)
    assert text == expected
    if not isinstance(make(), str | Colour):
        json.loads(text, parse_int=str)


def test_a_set_reads_the_same_in_every_process() -> None:
    code = (
        "from surehand.tools._results import make_encoder\n"
        "import datetime\n"
        "names = {f'name {n}' for n in range(40)}\n"
        "print(make_encoder('t', dict)({'s': names, 'm': names | {1, None, (2, 3)}, 'f': {frozenset(names)}}).text)\n"
    )
    texts = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        texts.add(subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout)
    assert len(texts) == 1
    assert json.loads(texts.pop())["s"] == sorted(f"name {n}" for n in range(40))


# ---------------------------------------------------------------- what cannot be shown (RES-03, RES-04)


@pytest.mark.parametrize("name", UNREADABLE)
def test_res_03_04_what_cannot_be_shown_is_said_so_and_the_call_stays_done(mode: Mode, name: str) -> None:
    ended = given(mode, UNREADABLE[name])
    ((tool_name, text, is_error),) = ended.results
    assert (tool_name, is_error) == ("fetch", True)
    assert text.startswith("Tool 'fetch' did run, but its result cannot be shown: ")
    assert text.endswith(" cannot be encoded. Do not repeat the call.")
    assert " at 0x" not in text


@pytest.mark.parametrize("name", UNREADABLE)
def test_res_03_a_handler_is_told_which_tool_and_why_without_a_repr(name: str) -> None:
    mode = Mode("run", False)
    ((_, text, is_error),) = given(mode, UNREADABLE[name], on_error=ErrorPolicy(execution=tell_model)).results
    assert is_error
    assert text.startswith("Tool 'fetch' did run, but it returned ")
    assert "Do not repeat the call." in text
    assert " at 0x" not in text and "Traceback" not in text


@pytest.mark.parametrize("name", ["class", "hostile", "exception", "cyclic", "10,000 deep", "hostile in a set"])
def test_res_03_what_cannot_be_shown_can_be_undone(mode: Mode, name: str) -> None:
    made: list[Any] = []
    undone: list[Any] = []

    @tool(undo=undone.append)
    def fetch() -> Any:
        made.append(UNREADABLE[name]())
        return made[-1]

    ended = mode.play(ask(call("fetch")), ask(call("fetch")), tools=[fetch], limits=Limits(rounds=1))
    assert isinstance(ended.error, RoundLimitError)
    assert len(undone) == 1 and undone[0] is made[0]
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE, Outcome.NOT_RUN]
    assert ended.report.failed_to_undo == ()


# ---------------------------------------------------------------- generators (RES-10)


def test_res_10_an_async_generator_function_is_consumed(mode: Mode) -> None:
    @tool
    async def fetch() -> AsyncIterator[dict[str, Any]]:
        yield {"done": {1}}
        yield {"saved": {"b", "a"}}

    ended = mode.play(ask(call("fetch", id="c1")), say("done"), tools=[fetch])
    assert [event.value for event in ended.of(ToolProgress)] == [{"done": {1}}]
    assert ended.results == [("fetch", '{"saved":["a","b"]}', False)]
    assert ended.answer.output == "done"


@pytest.mark.parametrize("last", [dict, object(), LONE], ids=["class", "object", "half a character"])
def test_res_10_the_last_of_a_generator_is_read_like_any_value(mode: Mode, last: Any) -> None:
    @tool
    async def fetch() -> AsyncIterator[Any]:
        yield "first"
        yield last

    ended = mode.play(ask(call("fetch", id="c1")), say("done"), tools=[fetch])
    ((_, text, is_error),) = ended.results
    assert (text == "\ufffd", is_error) == ((True, False) if last is LONE else (False, True))
    assert ended.answer.output == "done"


# ---------------------------------------------------------------- contents, whole results, awaitables

IMAGE, TEXT = ImageContent(url="https://x/y.png"), TextContent("hi")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: TEXT, (TEXT,)),
        (lambda: IMAGE, (IMAGE,)),
        (lambda: [IMAGE, TEXT], (IMAGE, TEXT)),
        (lambda: (TEXT, IMAGE), (TEXT, IMAGE)),
        (lambda: collections.deque([IMAGE]), (IMAGE,)),
        (lambda: {TextContent("b"), TextContent("a")}, (TextContent("a"), TextContent("b"))),
        (lambda: TextContent(f"{LONE}!"), (TextContent("\ufffd!"),)),
        (lambda: [IMAGE, TextContent(LONE)], (IMAGE, TextContent("\ufffd"))),
        (list, (TextContent("[]"),)),
        (lambda: {"a": TEXT}, (TextContent('{"a":{"type":"text","text":"hi"}}'),)),
        (lambda: [[TEXT]], (TextContent('[[{"type":"text","text":"hi"}]]'),)),
        (lambda: ToolResult.of("x", value=Hostile()), (TextContent("x"),)),
        (lambda: ToolResult.lazy(lambda: LONE), (TextContent("\ufffd"),)),
        (lambda: ToolResult.of(Loud("x")), (TextContent("x"),)),
        (lambda: ToolResult.of(f"{LONE}x", IMAGE), (TextContent("\ufffdx"), IMAGE)),
    ],
)
def test_contents_are_sent_as_they_are_and_their_texts_are_clean(
    mode: Mode, make: Callable[[], Any], expected: tuple[Any, ...]
) -> None:
    ended = given(mode, make)
    (message,) = [message for message in ended.messages if isinstance(message, ToolMessage)]
    assert (message.contents, message.is_error) == (expected, False)


def test_a_whole_result_keeps_its_flag_and_attributes(mode: Mode) -> None:
    ended = given(mode, lambda: ToolResult.of("no", is_error=True, attributes={"code": 7}))
    (message,) = [message for message in ended.messages if isinstance(message, ToolMessage)]
    assert message == ToolMessage("c1", "fetch", (TextContent("no"),), True, {"code": 7})


@pytest.mark.parametrize("value", [{"s": {1}}, dict, None])
def test_an_awaitable_is_awaited_and_then_read_like_any_value(mode: Mode, value: Any) -> None:
    async def inner() -> Any:
        return value

    def fetch() -> Awaitable[Any]:
        return inner()

    ended = mode.play(ask(call("fetch")), say("done"), tools=[fetch])
    expected: Mapping[str, tuple[str, bool]] = {
        "dict": ('{"s":[1]}', False),
        "type": (
            "Tool 'fetch' did run, but its result cannot be shown: type cannot be encoded. Do not repeat the call.",
            True,
        ),
        "NoneType": ("null", False),
    }
    assert ended.results == [("fetch", *expected[type(value).__name__])]
    assert ended.answer.output == "done"


def test_res_09_half_a_character_in_an_error_is_replaced(mode: Mode) -> None:
    @tool
    def fetch() -> str:
        raise ToolError(f"{LONE} not found")

    memory = MessageWindow(50)
    ended = mode.play(ask(call("fetch")), say("done"), tools=[fetch], memory=memory)
    assert ended.results == [("fetch", "\ufffd not found", True)]
    check_later_use(ended, memory)
