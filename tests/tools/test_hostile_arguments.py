"""Text that is huge, deep, broken or odd: the right answer or a clear refusal, in time that grows with the text."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from surehand.errors import ToolArgumentsError

from .decoding import Decode, decoder, refusal
from .test_coercion_table import TABLE


class Tree(TypedDict):
    value: int
    children: list[Tree]


class Leaf(BaseModel):
    price: Decimal = Decimal(0)
    next: Leaf | None = None


HINTS: dict[str, Any] = {row: hint for row, (hint, _) in TABLE.items()}
HINTS |= {"tree": Tree, "leaf": Leaf, "mixed": int | str | list[int] | dict[str, Any] | None, "free list": list[Any]}
DECODERS = {row: decoder(v=hint) for row, hint in HINTS.items()}
DECODERS["nothing"] = decoder()

NUMBERS = [
    "1e1000000000", "-1e1000000000", "1e-1000000000", "-0.0e99999999", "0e99999999999999999999",
    "1e-99999999999999999999",
    "1e99999999999999999999", "1e400", "-1e400", "9" * 6000, "-" + "9" * 6000, "9" * 4301, "9" * 4300, "9" * 500,
    "9" * 500 + ".5", "0." + "1" * 6000, "1." + "0" * 6000, "1" + "0" * 308 + ".0", "NaN", "Infinity", "-Infinity",
    "1E309", "-0", "-0.0", "1e15", "18446744073709551616", "-9223372036854775809", "1e999", "5e-324", "1e-400",
]  # fmt: skip
TEXTS = [
    '"\\ud800"', '"\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"a\x00b"', '"a\nb"', '"\x1f"', '"\x7f"',
    '"\\x"', '"\\u12"',
    '"\ufeff"', '"\u2028"', "[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000, '{"children":[' * 5_000, "[" * 150 + "]" * 150,
    '"' * 100_001, "\\" * 100_000,
    '"' + "\\" * 100_000 + '"', '"' + '\\"' * 100_000, "," * 100_000, "[" + "," * 100_000 + "]",
    '"' + "x" * 1_000_000 + '"',
    '"' + "[" * 100_000 + '"', json.dumps("[" * 300 + "]" * 300), json.dumps("[" * 100_000 + "]" * 100_000),
    json.dumps("9" * 6000), json.dumps("1e" + "9" * 6000), json.dumps("-" * 100_000), json.dumps(" " * 100_000),
    json.dumps(["x"] * 1_000), json.dumps([{"a": "x"}] * 1_000), json.dumps({str(n): "x" for n in range(1_000)}),
    json.dumps({"value": 1, "children": [{"value": "x"}] * 500}), "[null" + ",null" * 1_000 + "]",
    '{"": 1}', '{"\\ud800": 1}',
    '{"\ud800": "\ud800"}', '{"a": "\\ud800"}', "{}}", "{]", "[}", "", " ", "]", "tru", "nul", "'a'",
    "{a: 1}", "/*x*/1", "1 1", "+1", ".5",
    "5.", "01", "0x10", "1_000", "--1", "\u0661", "\ufeff1",
]  # fmt: skip


def nested_text(levels: int) -> str:
    """JSON text inside of JSON text inside of …"""
    text = "[1]"
    for _ in range(levels):
        text = json.dumps([text])
    return text


def outcome(decode: Decode, text: str, decoding: Any) -> Any:
    """The values, or ``None`` for a refusal that is as it should be."""
    try:
        values, repairs = decode(text, decoding)
    except ToolArgumentsError as error:
        message = str(error)
        assert len(message) <= 1000
        assert message.startswith(("The arguments of 't' are not a JSON object: ", "The arguments of 't' do not fit: "))
        foreign = ("Input should", "Value error", "pydantic", "ValidationError")
        assert not any(words in message and words not in text for words in foreign)  # what was sent is quoted
        message.encode()
        return None
    repr(repairs).encode()
    repr(values).encode()
    return values


VALUES = [*NUMBERS, *TEXTS, nested_text(8)]
SHAPES = ('{"v": %s}', '{"v": [%s]}', '{"v": {"a": %s}}', "%s", '{"v": %s')


@pytest.mark.parametrize("row", [*HINTS, "nothing"])
def test_odd_values_are_read_or_refused(row: str) -> None:
    for value in VALUES:
        if len(value) < 500:
            for decoding in ("strict", "repair", "salvage"):
                for shape in SHAPES:
                    outcome(DECODERS[row], shape % value, decoding)


@pytest.mark.parametrize("row", ["int", "text", "decimal", "list", "dataclass", "tree", "mixed", "anything", "nothing"])
def test_huge_values_are_read_or_refused(row: str) -> None:
    for value in VALUES:
        if len(value) >= 500:
            for shape in SHAPES[:2]:
                outcome(DECODERS[row], shape % value, "salvage")


@given(st.text() | st.text(alphabet='{}[]",:\\ v1e.-ntu`'), st.sampled_from(["strict", "repair", "salvage"]))
@settings(max_examples=300, deadline=None)
@example('"\\', "repair")
@example("```{}", "salvage")
def test_no_text_raises_anything_but_an_argument_error(text: str, decoding: Any) -> None:
    for row in ("int", "anything", "decimal", "mixed", "tree", "nothing"):
        outcome(DECODERS[row], text, decoding)
        outcome(DECODERS[row], f'{{"v": {text}}}', decoding)


@pytest.mark.parametrize(
    ("row", "value", "expected"),
    [
        ("int", "-0.0e99999999", 0), ("float", "-0.0e99999999", -0.0), ("decimal", "-0.0e99999999", Decimal(0)),
        ("int", "9" * 4300, int("9" * 4300)), ("int", "1e15", 10**15), ("anything", "1e15", 1e15),
        ("decimal", "9" * 500 + ".5", Decimal("9" * 500 + ".5")), ("float", "5e-324", 5e-324), ("float", "1e-400", 0.0),
        ("decimal", "0." + "1" * 6000, Decimal("0." + "1" * 6000)), ("text", '"\\u0000"', "\x00"),
        ("text", '"\\ud800"', "\ufffd"),
        ("text", '"\x7f"', "\x7f"), ("anything", '{"\\ud800": 1}', {"\ufffd": 1}), ("text", "9" * 4000, "9" * 4000),
        ("text", "1E999", None), ("int", "1e999", None), ("float", "1e309", None), ("int", "9" * 4301, None),
        ("decimal", "1e1000000000", None), ("text", '"a\nb"', None), ("anything", "NaN", None),
        ("float", "Infinity", None),
    ],
)  # fmt: skip
def test_the_right_answer_where_there_is_one(row: str, value: str, expected: Any) -> None:
    values = outcome(DECODERS[row], f'{{"v": {value}}}', "repair")
    if expected is None:
        assert values is None
    else:
        assert values == {"v": expected} and type(values["v"]) is type(expected)


@pytest.mark.parametrize("depth", [150, 195, 198, 199, 200, 201, 202, 500])
def test_depth_is_bounded_alike_on_the_quick_and_the_careful_way(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    quick = outcome(DECODERS["anything"], f'{{"v": {deep}}}', "strict")
    careful = outcome(decoder(v=Any, n=int), f'{{"v": {deep}, "n": 2.0}}', "strict")
    assert (quick is None) == (careful is None) == (depth >= 201)


def test_a_deep_mistake_has_its_whole_path() -> None:
    text, path = '{"value": "x", "children": []}', "v"
    for _ in range(40):
        text = f'{{"value": 1, "children": [{text}]}}'
        path += ".children[0]"
    assert f"{path}.value: not convertible" in refusal(DECODERS["tree"], f'{{"v": {text}}}')


def test_thousands_of_unknown_names_are_each_reported() -> None:
    text = json.dumps({"v": 1, **{f"x{number}": number for number in range(5_000)}})
    values, repairs = DECODERS["int"](text)
    assert values == {"v": 1} and len(repairs) == 5_000


def test_json_text_in_json_text_is_read_a_few_levels_deep_and_then_refused() -> None:
    hint: Any = int
    for _ in range(3):
        hint = list[hint]
    assert decoder(v=hint)(json.dumps({"v": json.dumps([json.dumps([json.dumps([1])])])}))[0] == {"v": [[[1]]]}
    for _ in range(5):
        hint = list[hint]
    assert "do not fit" in refusal(decoder(v=hint), f'{{"v": {nested_text(7)}}}')


# ---------------------------------------------------------------- time


def operations(function: Callable[[], Any]) -> int:
    """How many lines of Python and calls of C functions it takes: what grows, whatever the machine does."""
    count = 0

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return tracer

    sys.settrace(tracer)
    try:
        function()
    finally:
        sys.settrace(None)
    return count


GROWING: dict[str, tuple[str, Callable[[int], str]]] = {
    "numbers as text": ("list", lambda n: json.dumps({"v": ["7"] * n})),
    "wrong items": ("list", lambda n: json.dumps({"v": ["x"] * n})),
    "wrong items of a union": ("mixed", lambda n: json.dumps({"v": ["x"] * n})),
    "unknown names": ("int", lambda n: json.dumps({"v": 1, **{f"x{i}": i for i in range(n)}})),
    "unknown properties": ("dataclass", lambda n: json.dumps({"v": {"a": 1, **{f"x{i}": i for i in range(n)}}})),
    "quotes": ("text", lambda n: '{"v": ' + '"' * n),
    "backslashes": ("text", lambda n: '{"v": "' + "\\" * n),
    "commas": ("list", lambda n: '{"v": [' + "," * n + "]}"),
    "trailing commas": ("free list", lambda n: '{"v": [' + "[1,]," * n + "]}"),
    "open brackets": ("anything", lambda n: '{"v": ' + "[" * n),
    "open objects": ("anything", lambda n: '{"v": ' * n),
    "digits": ("int", lambda n: '{"v": ' + "9" * n + "}"),
    "digits as text": ("int", lambda n: '{"v": "' + "9" * n + '"}'),
    "fraction": ("decimal", lambda n: '{"v": 0.' + "1" * n + "}"),
    "fraction as text": ("decimal", lambda n: '{"v": "0.' + "1" * n + '"}'),
    "numbers where text is wanted": ("strings", lambda n: json.dumps({"v": [1.5] * n})),
    "JSON text where lists are wanted": ("lists", lambda n: json.dumps({"v": ["[1.5]"] * n})),
    "fences": ("text", lambda n: "```" * n),
    "objects in prose": ("text", lambda n: 'a {"v": "x"} ' * n),
    "braces": ("text", lambda n: "x" + "{" * n + "}" * n),
}  # fmt: skip
DECODERS["strings"] = decoder(v=list[str])
DECODERS["lists"] = decoder(v=list[list[str]])


@pytest.mark.parametrize("kind", GROWING)
def test_twice_the_text_takes_about_twice_the_steps(kind: str) -> None:
    row, text = GROWING[kind]
    steps = []
    for size in (400, 800, 1600):
        sent = text(size)
        steps.append(operations(lambda sent=sent: outcome(DECODERS[row], sent, "salvage")))  # type: ignore[misc]
    assert steps[2] - steps[1] <= 2.6 * (steps[1] - steps[0]) + 200


@pytest.mark.parametrize("kind", GROWING)
def test_much_text_is_read_or_refused(kind: str) -> None:
    # What is quadratic in C, where no step is counted, would take minutes here: the time limit of the suite shows it.
    row, text = GROWING[kind]
    each = max(1, len(text(1_000)) - len(text(500))) / 500
    outcome(DECODERS[row], text(int(1_000_000 / each / 10)), "salvage")


# ---------------------------------------------------------------- very much that is wrong


@dataclasses.dataclass
class Point:
    """A record."""

    a: int


ORDERS = decoder(v=list[Point | tuple[int, str] | dict[str, Decimal]])


@pytest.mark.parametrize("item", [{"a": "x"}, {"b": [], "c": 1}, "x", [1]])
def test_of_very_many_hopeless_items_only_the_first_are_looked_at(item: Any) -> None:
    def steps(count: int) -> int:
        text = json.dumps({"v": [item] * count})
        return operations(lambda: outcome(ORDERS, text, "repair"))

    assert (steps(2000) - steps(1000)) / 1000 < 100  # looking at each takes several times as many
    few, many = (refusal(ORDERS, json.dumps({"v": [item] * count})) for count in (3, 3000))
    assert many.split("; v[1]")[0] == few.split("; v[1]")[0]


@pytest.mark.parametrize("bad", [0, 1, 1500, 2999])
def test_one_hopeless_item_among_many_that_can_be_repaired_is_found(bad: int) -> None:
    items: list[Any] = [{"a": "1"}] * 3000
    assert ORDERS(json.dumps({"v": items}))[0] == {"v": [Point(1)] * 3000}
    items[bad] = {"a": "x"}
    assert f"do not fit: v[{bad}]" in refusal(ORDERS, json.dumps({"v": items}))
