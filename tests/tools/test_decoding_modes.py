"""What is done about arguments that do not fit: nothing, repairs, or an object taken out of other text (spec 4.1)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from surehand.tools._tool import Repair

from .decoding import decoder, decoder_with, refusal

OBJECT = '{"q": "a"}'
IN_OTHER_TEXT = [
    f"```json\n{OBJECT}\n```",
    f"```\n{OBJECT}\n```",
    f"```{OBJECT}```",
    f"Sure:\n```json\n{OBJECT}\n```",
    f"Sure:\n```json\n{OBJECT}\n```\nShall I go on?",
    f"Here are the arguments: {OBJECT}",
    f"{OBJECT} is what I'd send.",
    f"I'll use \"search\" with {OBJECT}; it isn't hard.",
    f"<tool_call>{OBJECT}</tool_call>",
    "```json\n" + '{"q": "a",}' + "\n```",
    f"{OBJECT} // the query",
    f"{OBJECT};",
]
NEVER = [
    OBJECT * 2,
    f"{OBJECT}\n{OBJECT}",
    f"{OBJECT}, {OBJECT}",
    f"```json\n{OBJECT}\n```\n```json\n{OBJECT}\n```",
    f"First {OBJECT}, then {OBJECT}",
    f"Use {{braces}}: {OBJECT}",
    'Sure: {"q": "a"',
    'Sure: {"q": "a',
    '```json\n{"q": "a", "r": {"s": 1}\n```',
    '"r": {"q": "a"}',
    '"r": {"q": "a"}}',
    '\'r\': {"q": "a"}',
    '{"r": {"q": "a"}',
    '[{"q": "a"}',
    'Sure: [{"q": "a"}]',
    '{"q": "a"}}',
    '{{"q": "a"}',
    "{'q': 'a'}",
    "{q: 'a'}",
    '{q: "a"}',
    '{"q": "a" /* the query */}',
    '{"q": "a" // the query\n}',
    '{"q": a}',
    '{"q": "a" "r": 1}',
    '{"q": "a",,}',
    '{,"q": "a"}',
    '{"q": undefined}',
    '{"q": None}',
    "Sure, I'll do that.",
    "```json\n```",
    "}{",
    "{\"q\": 'a'}",
]


@pytest.mark.parametrize("text", IN_OTHER_TEXT)
def test_one_object_in_other_text_is_taken_only_where_that_is_asked_for(text: str) -> None:
    decode = decoder(q=str)
    values, repairs = decode(text, "salvage")
    assert values == {"q": "a"}
    assert [(repair.path, repair.before) for repair in repairs] == [("", text)]
    assert json.loads(repairs[0].after) == {"q": "a"}
    for decoding in ("repair", "strict"):
        assert "are not a JSON object" in refusal(decode, text, decoding)


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
@pytest.mark.parametrize("text", NEVER)
def test_two_objects_cut_ones_and_what_is_no_json_are_refused(text: str, decoding: Any) -> None:
    decode = decoder_with({"q": str, "r": Any}, {"q": "the default", "r": None})
    assert "are not a JSON object" in refusal(decode, text, decoding)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"```json\n{OBJECT}\n```", "it is in a Markdown fence; send the bare object"),
        (f"Sure: {OBJECT}", 'it begins with "Sure: {'),
        (OBJECT * 2, "it goes on after its end (at character 11)"),
        ('{"q": "a', "it ends too early, as if cut off"),
        ('{"q": ', "it ends too early, as if cut off"),
        ('{"q": "a", ', "it ends too early, as if cut off"),
        ("{'q': 1}", "a property name in double quotes is missing at character 2"),
        ("{q: 1}", "a property name in double quotes is missing at character 2"),
        ("{\"q\": 'a'}", "something else is expected at character 7"),
        ('{"q": 1 /* one */}', "something else is expected at character 9"),
        ('{"q": "a\nb"}', "a control character at character 9 has to be escaped"),
        ('{"q": "\\x"}', "the escape at character 8 is none that JSON has"),
        ('{"q": NaN}', "NaN is not a number in JSON"),
    ],
)
def test_what_is_wrong_with_the_text_is_said(text: str, reason: str) -> None:
    assert reason in refusal(decoder(q=str), text)


@pytest.mark.parametrize("text", ['"{\\"q\\": \\"a\\"}"', '{"q": "a",}', '"{"q": "a"}"', '"{\\"q\\": \\"a\\",}"'])
def test_strict_mode_neither_unwraps_nor_removes_commas(text: str) -> None:
    for decoding in ("repair", "salvage"):
        assert decoder(q=str)(text, decoding)[0] == {"q": "a"}  # type: ignore[arg-type]
    assert "are not a JSON object" in refusal(decoder(q=str), text, "strict")


def test_what_was_encoded_three_times_is_refused() -> None:
    refusal(decoder(a=int), json.dumps(json.dumps(json.dumps({"a": 1}))), "salvage")


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_a_byte_order_mark_is_no_part_of_the_text(decoding: Any) -> None:
    for hint in (str, Any):
        assert decoder(q=hint)("\ufeff" + OBJECT, decoding) == ({"q": "a"}, ())
    assert decoder(q=int)('\ufeff{"q": 2.0}', decoding) == ({"q": 2}, ())
    assert decoder()("\ufeff", decoding) == ({}, ())


# ---------------------------------------------------------------- names that come twice


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
@pytest.mark.parametrize(
    ("hint", "text", "expected"),
    [
        (int, '{"v": 1, "v": 2}', 2),
        (int, '{"v": "x", "v": 2}', 2),
        (int, '{"v": 1, "v": 2.0}', 2),  # the careful way
        (Decimal, '{"v": 1, "v": 0.12345678901234567890}', Decimal("0.12345678901234567890")),
        (Any, '{"v": {"a": 1, "a": 2}}', {"a": 2}),
        (Any, '{"v": {"a": 1e300, "a": 2}}', {"a": 2}),
        (dict[str, int], '{"v": {"a": 1, "a": 2}}', {"a": 2}),
        (dict[str, int], '{"v": {"a": "x", "a": 2}}', {"a": 2}),
        (dict[str, int], '{"v": {"a": 1, "a": 2.0}}', {"a": 2}),
    ],
)
def test_of_a_name_that_comes_twice_the_last_counts_on_every_way(
    hint: Any, text: str, expected: Any, decoding: Any
) -> None:
    assert decoder(v=hint)(text, decoding)[0] == {"v": expected}


def test_the_last_of_two_counts_when_it_is_the_one_that_is_wrong() -> None:
    assert "v: not convertible" in refusal(decoder(v=int), '{"v": 1, "v": "x"}')
    assert decoder(v=int)('{"v": 1, "v": "7"}') == ({"v": 7}, (Repair("v", "7", 7),))


# ---------------------------------------------------------------- what takes no repair


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_an_integral_fraction_is_an_integer_and_no_repair(decoding: Any) -> None:
    assert decoder(v=int)('{"v": 2.0}', decoding) == ({"v": 2}, ())
    assert decoder(v=list[int])('{"v": [1, 2.0, 1e2]}', decoding) == ({"v": [1, 2, 100]}, ())


@pytest.mark.parametrize("decoding", ["strict", "repair", "salvage"])
def test_unknown_names_are_ignored_and_reported(decoding: Any) -> None:
    expected = ({"v": 2}, (Repair("w", [1], None),))
    assert decoder(v=int)('{"v": 2, "w": [1]}', decoding) == expected
    assert decoder(v=int)('{"v": 2.0, "w": [1]}', decoding) == expected
    assert decoder()('{"w": [1]}', decoding) == ({}, (Repair("w", [1], None),))


def test_a_long_fraction_next_to_a_decimal_is_a_float_and_no_repair() -> None:
    text = '{"d": 0.12345678901234567890, "f": 0.12345678901234567890}'
    for decoding in ("strict", "repair"):
        values, repairs = decoder(d=Decimal, f=float)(text, decoding)  # type: ignore[arg-type]
        assert values == {"d": Decimal("0.12345678901234567890"), "f": 0.12345678901234568}
        assert type(values["f"]) is float
        assert repairs == ()


@pytest.mark.parametrize(
    "number", ["0.1", "1e2", "12345678901234567e3", "1e-7", "0.00001", "-0.0", "1e22", "123456789.12345678"]
)
def test_decimals_are_exact_in_every_notation(number: str) -> None:
    for hints in ({"v": Decimal}, {"v": Decimal, "x": Any}):
        text = f'{{"v": {number}, "x": 1}}'
        assert decoder_with(hints)(text, "strict")[0]["v"] == Decimal(number)


# ---------------------------------------------------------------- the schema echoed


ECHO = '{"properties": {"city": "Paris"}}'


def test_arguments_inside_of_the_schema_s_words_are_unwrapped() -> None:
    repaired = ({"city": "Paris"}, (Repair("", {"properties": {"city": "Paris"}}, {"city": "Paris"}),))
    assert decoder(city=str)(ECHO) == repaired
    assert decoder_with({"city": str}, {"city": "Rome"})(ECHO) == repaired  # no default stands in for what was sent
    assert decoder(city=str)('{"type": "object", "properties": {"city": "Paris"}}')[0] == {"city": "Paris"}
    assert "city: missing" in refusal(decoder(city=str), ECHO, "strict")


def test_they_are_not_unwrapped_where_properties_is_a_parameter_or_other_names_stand_next_to_it() -> None:
    assert "city: missing" in refusal(decoder(city=str, properties=dict[str, str]), ECHO)
    assert decoder(properties=dict[str, str])(ECHO) == ({"properties": {"city": "Paris"}}, ())
    assert "city: missing" in refusal(decoder(city=str), '{"properties": {"city": "Paris"}, "unit": "C"}')


def test_the_schema_itself_is_no_arguments() -> None:
    assert "city: missing" in refusal(decoder(city=str), '{"properties": {"city": {"type": "string"}}}')


def test_numbers_inside_of_an_echo_are_as_written() -> None:
    assert decoder(v=str)('{"properties": {"v": 2.50}}')[0] == {"v": "2.50"}
    assert decoder(v=list[str])('{"v": "[2.50, 1E2]"}')[0] == {"v": ["2.50", "1E2"]}
