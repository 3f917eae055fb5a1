"""Faults that users reported in systems of this kind: arguments of calls. Each name starts with the case's id."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from surehand import (
    ArgumentRepaired,
    MessageWindow,
    Outcome,
    ToolCall,
    ToolMessage,
    ToolStarted,
    messages_from_json,
    messages_to_json,
    tool,
)
from surehand._codec import canonical
from surehand.testing import call, say
from surehand.tools._collect import collect_tools

from .modes import Ended, Mode, ask


class User(BaseModel):
    name: str
    age: int


class Bench:
    """Tools of many kinds, which note what they were given."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def _note(self, value: Any) -> str:
        self.got.append(value)
        return "done"

    @tool
    def list_dirs(self) -> str:
        return self._note(())

    @tool
    def get(self, city: str) -> str:
        return self._note(city)

    @tool
    def glob(self, pattern: str) -> str:
        return self._note(pattern)

    @tool
    def create(self, user: User) -> str:
        return self._note(user)

    @tool
    def save(self, content: str) -> str:
        return self._note(content)

    @tool
    def label(self, v: str | list[str]) -> str:
        return self._note(v)

    @tool
    def note(self, text: str, n: int) -> str:
        return self._note((text, n))

    @tool
    def wipe(self, path: str = "/tmp/x") -> str:
        return self._note(path)

    @tool
    def set_temp(self, t: float) -> str:
        return self._note(t)

    @tool
    def count(self, n: int) -> str:
        return self._note(n)

    @tool
    def search(self, q: str) -> str:
        return self._note(q)

    @tool
    def weather(self, city: str) -> str:
        return self._note(city)

    @tool
    def describe(self, properties: dict[str, str], city: str) -> str:
        return self._note((properties, city))

    @tool
    def pair(self, a: int, b: int) -> str:
        return self._note((a, b))


def played(mode: Mode, name: str, arguments: str, **options: Any) -> tuple[Bench, Ended]:
    """One call with that text, and a final answer after it."""
    bench = Bench()
    return bench, mode.play(ask(call(name, arguments, id="a")), say("Ok"), tools=[bench], **options)


def ran(mode: Mode, name: str, arguments: str, value: Any, **options: Any) -> Ended:
    """It ran, once, with that value of the same type."""
    bench, ended = played(mode, name, arguments, **options)
    assert [(type(got), got) for got in bench.got] == [(type(value), value)]
    assert ended.answer.output == "Ok"
    assert [execution.outcome for execution in ended.executions] == [Outcome.DONE]
    return ended


def refused(mode: Mode, name: str, arguments: str, *words: str, **options: Any) -> Ended:
    """It never ran, the model reads why, and the run goes on."""
    bench, ended = played(mode, name, arguments, **options)
    assert bench.got == []
    assert ended.answer.output == "Ok"
    assert [execution.outcome for execution in ended.executions] == [Outcome.REJECTED]
    assert ended.of(ToolStarted) == []
    ((tool_name, text, is_error),) = ended.results
    assert (tool_name, is_error) == (name, True)
    assert all(word in text for word in (repr(name), *words)), text
    sent = [message for message in ended.requests[1].messages if isinstance(message, ToolMessage)]
    assert [(message.call_id, message.text) for message in sent] == [("a", text)]
    return ended


def repairs(ended: Ended) -> list[tuple[str, Any, Any]]:
    """What was changed, as listeners were told."""
    return [(event.repair.path, event.repair.before, event.repair.after) for event in ended.of(ArgumentRepaired)]


BLANK = ["", "  \n\t", " ", "\n", "{}", " {} "]


@pytest.mark.parametrize("text", BLANK)
def test_arg_01_empty_string_for_a_tool_without_parameters(mode: Mode, text: str) -> None:
    assert repairs(ran(mode, "list_dirs", text, ())) == []


@pytest.mark.parametrize("text", BLANK)
def test_arg_02_empty_string_and_a_required_parameter_is_missing(mode: Mode, text: str) -> None:
    refused(mode, "get", text, "city: missing")


def test_arg_03_json_null_as_arguments(mode: Mode) -> None:
    ran(mode, "list_dirs", "null", ())
    refused(mode, "get", "null", "city: missing")
    ran(mode, "wipe", " null ", "/tmp/x")
    refused(mode, "get", '{"city": null}', "city: not convertible: expected text, received null")


@pytest.mark.parametrize("text", ["[]", "5", "true", '"x"', "[{}]"])
def test_arg_03_other_values_that_are_no_object(mode: Mode, text: str) -> None:
    refused(mode, "list_dirs", text, "not a JSON object")
    refused(mode, "wipe", text, "not a JSON object")


@pytest.mark.parametrize("text", ["  \n\t", "\r\n", "\t"])
def test_arg_05_whitespace_only(mode: Mode, text: str) -> None:
    ran(mode, "list_dirs", text, ())
    ran(mode, "wipe", text, "/tmp/x")
    refused(mode, "get", text, "city: missing")


def test_arg_08_whole_arguments_encoded_twice(mode: Mode) -> None:
    inner = '{"pattern":"*.md"}'
    text = json.dumps(inner)
    assert repairs(ran(mode, "glob", text, "*.md")) == [("", text, inner)]
    refused(mode, "glob", text, "not a JSON object", decoding="strict")
    refused(mode, "glob", json.dumps(json.dumps(text)), "not a JSON object")  # once, not as often as it takes
    assert repairs(ran(mode, "glob", '"{"pattern":"*.md"}"', "*.md")) == [("", '"{"pattern":"*.md"}"', inner)]
    assert repairs(ran(mode, "glob", '{"pattern":"*.md",}', "*.md")) == [("", '{"pattern":"*.md",}', inner)]


def test_arg_09_object_field_sent_as_json_text(mode: Mode) -> None:
    inner = '{"name":"Ann","age":3}'
    ended = ran(mode, "create", json.dumps({"user": inner}), User(name="Ann", age=3))
    assert repairs(ended) == [("user", inner, {"name": "Ann", "age": 3})]
    refused(mode, "create", json.dumps({"user": inner}), "user: ", decoding="strict")
    refused(mode, "create", json.dumps({"user": inner[:-1]}), "user: not convertible: expected an object")
    refused(mode, "create", json.dumps({"user": json.dumps(inner)}), "user: not convertible: expected an object")


@pytest.mark.parametrize("text", ['{"a":1}', "[1]", "true", "7", "null", '"x"', "{}", "```json\n{}\n```", " {\n} "])
def test_arg_10_a_str_that_looks_like_json_stays_a_str(mode: Mode, text: str) -> None:
    for decoding in ("strict", "repair", "salvage"):
        assert repairs(ran(mode, "save", json.dumps({"content": text}), text, decoding=decoding)) == []


@pytest.mark.parametrize("value", ['["a"]', "[]", "a", ["a"], []])
def test_arg_11_union_of_str_and_list_keeps_what_was_sent(mode: Mode, value: Any) -> None:
    assert repairs(ran(mode, "label", json.dumps({"v": value}), value)) == []


@pytest.mark.parametrize("text", ["true", "7", "null", "1.5", ""])
def test_arg_13_a_scalar_in_text_is_not_decoded_too_far(mode: Mode, text: str) -> None:
    ended = ran(mode, "note", json.dumps({"text": text, "n": "7"}), (text, 7))
    assert repairs(ended) == [("n", "7", 7)]
    refused(mode, "note", json.dumps({"text": text, "n": "7"}), "n: not convertible", decoding="strict")


CUT = '{"path": "/tmp/a'


@pytest.mark.parametrize(
    "text", [CUT, "not-json", "{", '{"path": ', "{'path': '/tmp/a'}", "{}{}", '{"path": "/tmp/a"', "}"]
)
@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_arg_15_unparsable_text_is_refused_and_not_turned_into_defaults(mode: Mode, text: str, decoding: Any) -> None:
    refused(mode, "wipe", text, "not a JSON object", "path: string (optional)", decoding=decoding)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999", '"NaN"', '"Infinity"', '"inf"'])
def test_arg_19_nan_and_infinity(mode: Mode, word: str) -> None:
    refused(mode, "set_temp", f'{{"t": {word}}}', "t: number")


def test_arg_21_very_large_integers(mode: Mode) -> None:
    ran(mode, "count", '{"n": 9007199254740993}', 2**53 + 1)
    ran(mode, "count", '{"n": 9007199254740993.0}', 2**53 + 1)
    ran(mode, "count", '{"n": "123456789012345678901234567890"}', 123456789012345678901234567890)
    for digits in ("9" * 6000, "-" + "9" * 6000):
        refused(mode, "count", f'{{"n": {digits}}}', "digits is too large")
        refused(mode, "count", f'{{"n": "{digits}"}}', "n: not convertible")
    refused(mode, "count", '{"n": 1e1000000000}', "too large")


@pytest.mark.without_journal("JSON cannot hold them: told again, the call has U+FFFD")
@pytest.mark.parametrize("text", ['{"q":"\\ud800"}', '{"q":"\ud800"}', '{"q":"a", "\\udfff": 1}', '{"q":"a', "\ud800"])
def test_arg_23_lone_surrogate(mode: Mode, text: str) -> None:
    memory = MessageWindow(50)
    bench, ended = played(mode, "search", text, memory=memory)
    assert ended.answer.output == "Ok"
    assert [e.outcome for e in ended.executions] in ([Outcome.DONE], [Outcome.REJECTED])
    for value in (bench.got, ended.results, ended.events):
        repr(value).encode("utf-8", "strict" if value is not ended.events else "backslashreplace")
    assert all("\ud800" not in got for got in bench.got)
    assert messages_from_json(messages_to_json(memory.messages()))
    hash(canonical(bench.got))


@pytest.mark.parametrize(
    "text",
    ['Sure:\n```json\n{"q":"a"}\n```', '```json\n{"q":"a"}\n```', '{"q":"a"} is it.', 'Arguments: {"q":"a"}'],
)
def test_arg_24_markdown_fence_or_prose_around_the_arguments(mode: Mode, text: str) -> None:
    refused(mode, "search", text, "not a JSON object")
    refused(mode, "search", text, "not a JSON object", decoding="strict")
    assert repairs(ran(mode, "search", text, "a", decoding="salvage")) == [("", text, '{"q":"a"}')]


@pytest.mark.parametrize(
    "text", ['{"q":"a"}{"q":"b"}', 'Sure: {"q":"a"} or {"q":"b"}', '```json\n{"q":"a"\n```', "Sure"]
)
def test_arg_24_never_anything_in_between(mode: Mode, text: str) -> None:
    for decoding in ("strict", "repair", "salvage"):
        refused(mode, "search", text, "not a JSON object", decoding=decoding)


def test_arg_25_schema_wrapper_echoed(mode: Mode) -> None:
    echo: dict[str, Any] = {"properties": {"city": "Paris"}}
    assert repairs(ran(mode, "weather", json.dumps(echo), "Paris")) == [("", echo, echo["properties"])]
    refused(mode, "weather", json.dumps(echo), "city: missing", decoding="strict")
    refused(mode, "describe", json.dumps(echo), "city: missing")  # "properties" is one of its parameters
    refused(mode, "weather", json.dumps({"properties": {"city": {"type": "string"}}}), "city: missing")
    refused(mode, "weather", json.dumps({**echo, "unit": "C"}), "city: missing")


def test_arg_25_defaults_do_not_stand_in_for_what_the_wrapper_holds(mode: Mode) -> None:
    ran(mode, "wipe", json.dumps({"properties": {"path": "/tmp/a"}}), "/tmp/a")


def test_arg_27_hallucinated_argument_for_a_tool_without_parameters(mode: Mode) -> None:
    for decoding in ("strict", "repair", "salvage"):
        ended = ran(mode, "list_dirs", '{"description": "all of them"}', (), decoding=decoding)
        assert repairs(ended) == [("description", "all of them", None)]
    assert repairs(ran(mode, "get", '{"city": "Rome", "unit": "C"}', "Rome")) == [("unit", "C", None)]


SAME = [
    '{"a":1,"b":2}',
    '{ "b":2, "a":1 }',
    '{"a": 1.0, "b": 2}',
    '{"b": "2", "a": 1}',
    '{"a": 3, "a": 1, "b": 2, "c": 0}',
]


def test_arg_29_same_meaning_same_fingerprint(mode: Mode) -> None:
    bench = Bench()
    (pair,) = [made for made in collect_tools([bench]) if made.name == "pair"]
    prints = {canonical(pair.body.decode(text)[0]) for text in SAME}
    assert prints == {'{"a":1,"b":2}'}
    others = {canonical(pair.body.decode(text)[0]) for text in ('{"a":2,"b":1}', '{"a":1,"b":3}', '{"a":-1,"b":2}')}
    assert len(others) == 3 and not prints & others
    ended = mode.play(ask(*[ToolCall(str(n), "pair", text) for n, text in enumerate(SAME)]), say("Ok"), tools=[bench])
    assert bench.got == [(1, 2)] * len(SAME) and ended.answer.output == "Ok"
