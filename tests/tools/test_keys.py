"""The names of a map's entries follow the coercion table like values (spec 4.3.1)."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from surehand.tools._tool import Repair

from .decoding import decoder, read, refusal


class Colour(enum.Enum):
    """Constants with values that differ from their names."""

    RED = "red"
    BLUE = "bleu"


@pytest.mark.parametrize(("sent", "wanted"), [("RED", "red"), ("Red", "red"), ("blue", "bleu"), ("BLEU", "bleu")])
def test_a_constant_s_name_or_other_case_becomes_its_value(sent: str, wanted: str) -> None:
    decode = decoder(v=dict[Colour, int])
    assert decode(f'{{"v": {{"{sent}": 5}}}}') == ({"v": {Colour(wanted): 5}}, (Repair(f"v.{sent}", sent, wanted),))
    assert "not a valid enum value" in refusal(decode, f'{{"v": {{"{sent}": 5}}}}', "strict")
    assert decode(f'{{"v": {{"{sent}": "5"}}}}')[0] == {"v": {Colour(wanted): 5}}
    nested = decoder(v=list[dict[Colour, list[int]]])
    assert nested(f'{{"v": [{{"{sent}": ["5", 6]}}]}}')[0] == {"v": [{Colour(wanted): [5, 6]}]}


def test_entries_keep_their_order() -> None:
    assert list(read(dict[Colour, int], '{"BLUE": 1, "red": 2}')) == [Colour.BLUE, Colour.RED]


@pytest.mark.parametrize("sent", ['{"red": 1, "RED": 2}', '{"RED": 1, "Red": 2}', '{"Red": 1, "red": 2}'])
def test_two_names_for_one_constant_are_refused(sent: str) -> None:
    assert "not a valid enum value: expected 'red' or 'bleu' as its name" in refusal(
        decoder(v=dict[Colour, int]), f'{{"v": {sent}}}'
    )


@pytest.mark.parametrize("name", ["1", "0", "yes", "on", "t", " true", "2"])
def test_only_true_and_false_are_truth_values(name: str) -> None:
    assert "expected true or false as its name" in refusal(decoder(v=dict[bool, int]), f'{{"v": {{"{name}": 1}}}}')


@pytest.mark.parametrize(("name", "truth"), [("true", True), ("False", False)])
def test_in_any_case(name: str, truth: Any) -> None:
    assert read(dict[bool, int], f'{{"{name}": 1}}') == {truth: 1}
