"""Limits may change between versions: what a run has done by then is not undone because of those of today."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from typing_extensions import TypedDict

from surehand import Agent, CallLimitError, Limits, MemoryJournal, Suspended
from surehand.testing import ScriptedModel, call, calls, say

from ..shop import Shop, book


class Verdict(TypedDict):
    word: Literal["good"]


@pytest.mark.parametrize("today", [Limits(calls=0), Limits(rounds=0), Limits(seconds=0), Limits(tokens=0)])
def test_a_run_that_has_ended_is_told_again_whatever_the_limits_are_now(today: Limits) -> None:
    shop, journal = Shop(), MemoryJournal()
    answer = calls(call("final_answer", {"word": "good"}))
    options: dict[str, Any] = {"tools": [shop], "journal": journal, "output": Verdict, "output_mode": "tool"}
    first = Agent(ScriptedModel([calls(book("a")), answer]), **options).run("Go", run_id="r")
    again = Agent(ScriptedModel([]), limits=today, **options).run("Go", run_id="r")
    assert again == first
    assert shop.log == ["book a"]


def test_a_round_that_has_ended_is_not_refused_by_a_limit_of_today() -> None:
    shop, journal = Shop(), MemoryJournal()
    replies: list[Any] = [calls(book("a")), calls(book("b")), Suspended("the process stops")]
    with pytest.raises(Suspended):
        Agent(ScriptedModel(replies), tools=[shop], journal=journal).run("Go", run_id="r")
    today = Agent(ScriptedModel([say("Done")]), tools=[shop], journal=journal, limits=Limits(calls=1))
    assert today.resume("r").output == "Done"
    assert shop.log == ["book a", "book b"]


def test_a_round_that_has_not_begun_is_refused_by_a_limit_of_today() -> None:
    shop, journal = Shop(), MemoryJournal()
    replies: list[Any] = [calls(book("a")), Suspended("the process stops")]
    with pytest.raises(Suspended):
        Agent(ScriptedModel(replies), tools=[shop], journal=journal).run("Go", run_id="r")
    today = Agent(ScriptedModel([calls(book("b"))]), tools=[shop], journal=journal, limits=Limits(calls=1))
    with pytest.raises(CallLimitError):
        today.resume("r")
    assert shop.log == ["book a", "cancel booked a"]
