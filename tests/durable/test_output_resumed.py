"""A run with a type for its answer, resumed at any record: nothing is asked twice, and the answer is the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from surehand import (
    Agent,
    MemoryJournal,
    MessageWindow,
    Outcome,
    OutputError,
    ReplayMismatch,
    RunGivenUp,
    ToolContext,
    report_of,
    tool,
)
from surehand.testing import FakeClock, ScriptedModel, call, calls, say

from .remains import RUN, both_colours, remains, resume


@dataclass
class Trip:
    city: str
    days: int


@dataclass
class OtherTrip:
    town: str


ROME = Trip("Rome", 3)
GOOD, BAD = '{"city": "Rome", "days": 3}', '{"city": "Rome"}'


class World:
    """What was done outside, by key; a tool that does nothing twice for the same one."""

    def __init__(self) -> None:
        self.done: dict[str, str] = {}

    def tools(self) -> list[Any]:
        def unbook(ctx: ToolContext[Any]) -> None:
            self.done.pop(ctx.idempotency_key, None)

        @tool(repeat="with_key", undo=unbook)
        def book(what: str, ctx: ToolContext[Any]) -> str:
            self.done[ctx.idempotency_key] = what
            return what

        return [book]


def final(arguments: str, id: str) -> Any:
    return call("final_answer", arguments, id=id)


BOOK = call("book", {"what": "a"}, id="b")
SCRIPTS = {
    "tool": [
        calls(BOOK),
        say("Hm."),
        calls(final(BAD, "1")),
        calls(final(BAD, "2"), BOOK, final(GOOD, "3"), final(GOOD, "4")),
    ],
    "text": [calls(BOOK), say("Hm."), say(BAD), say(f"```json\n{GOOD}\n```")],
    "schema": [say(BAD), calls(BOOK), say(GOOD)],
}
REFUSED = [calls(BOOK), say("Hm."), calls(final(BAD, "1"), BOOK), say(BAD)]


def agent(journal: MemoryJournal, world: World, model: ScriptedModel, **options: Any) -> Agent[Any, Any]:
    given: dict[str, Any] = {"output": Trip, "tools": world.tools(), "undo_retries": 0, **options}
    return Agent[Any, Any](model, journal=journal, clock=FakeClock(1000.0), **given)


def replies_in(journal: MemoryJournal) -> int:
    return sum(record.kind == "MODEL" for record in journal.records(RUN))


@pytest.mark.parametrize("beside", ["run", "skip"])
@pytest.mark.parametrize("form", SCRIPTS)
@both_colours
def test_resumed_at_any_record_it_comes_out_the_same(form: Any, beside: Any, colour: str) -> None:
    world, journal, options = World(), MemoryJournal(), {"output_mode": form, "beside_output": beside}
    whole = agent(journal, world, ScriptedModel(SCRIPTS[form]), **options).run("Go", run_id=RUN)
    assert whole.output == ROME
    for upto in range(1, len(journal.records(RUN)) + 1):
        left = remains(journal, upto=upto)
        model = ScriptedModel(SCRIPTS[form][replies_in(left) :])
        again = resume(agent(left, world, model, memory=MessageWindow(50), **options), colour)
        assert (again.output, again.messages, again.executions) == (ROME, whole.messages, whole.executions), upto
        assert model.is_spent, upto
    assert len(world.done) == (2 if form == "tool" and beside == "run" else 1)


@both_colours
def test_a_run_that_was_given_up_for_its_answer_stays_given_up(colour: str) -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(OutputError) as failed:
        agent(journal, world, ScriptedModel(REFUSED)).run("Go", run_id=RUN)
    whole = report_of(failed.value)
    assert whole is not None
    for upto in range(1, len(journal.records(RUN)) + 1):
        left = remains(journal, upto=upto)
        model = ScriptedModel(REFUSED[replies_in(left) :])
        with pytest.raises((OutputError, RunGivenUp)) as again:
            resume(agent(left, world, model), colour)
        report = report_of(again.value)
        assert report is not None
        assert [e.outcome for e in report.executions] == [e.outcome for e in whole.executions], upto
        assert (report.messages, report.standing, world.done) == (whole.messages, (), {}), upto
        assert model.is_spent, upto


@pytest.mark.parametrize("form", SCRIPTS)
def test_a_run_that_has_ended_gives_its_answer_again(form: Any) -> None:
    world, journal = World(), MemoryJournal()
    whole = agent(journal, world, ScriptedModel(SCRIPTS[form]), output_mode=form).run("Go", run_id=RUN)
    again = agent(journal, world, ScriptedModel([]), output_mode=form).resume(RUN)
    assert (again.output, again == whole) == (ROME, True)


def test_fewer_retries_than_were_made_then_end_no_run_that_has_gone_on() -> None:
    world, journal = World(), MemoryJournal()
    agent(journal, world, ScriptedModel(SCRIPTS["text"]), output_mode="text").run("Go", run_id=RUN)
    again = agent(journal, world, ScriptedModel([]), output_mode="text", output_retries=0).resume(RUN)
    assert again.output == ROME


@pytest.mark.parametrize("form", ["tool", "text"])
def test_an_answer_that_does_not_fit_the_type_of_today_is_no_reason_to_ask_again(form: Any) -> None:
    world, journal, script = World(), MemoryJournal(), [calls(final(GOOD, "1")) if form == "tool" else say(GOOD)]
    agent(journal, world, ScriptedModel(script), output_mode=form).run("Go", run_id=RUN)
    with pytest.raises(ReplayMismatch):
        agent(journal, world, ScriptedModel([]), output=OtherTrip, output_mode=form).resume(RUN)
    assert agent(journal, world, ScriptedModel([]), output_mode=form).resume(RUN).output == ROME


def test_a_call_beside_the_answer_that_a_dead_process_had_begun_is_gone_on_with() -> None:
    world, journal, log = World(), MemoryJournal(), list[str]()
    left: list[MemoryJournal] = []

    @tool(repeat="with_key")
    def pay(ctx: ToolContext[Any]) -> str:
        log.append(ctx.idempotency_key)
        left.append(remains(journal))
        return "paid"

    script = [calls(final(GOOD, "1"), call("pay", id="p"))]
    agent(journal, world, ScriptedModel(script), tools=[pay]).run("Go", run_id=RUN)
    again = agent(left[0], world, ScriptedModel([]), tools=[pay], beside_output="skip").resume(RUN)
    assert again.output == ROME
    assert {e.call.name: e.outcome for e in again.executions} == {
        "final_answer": Outcome.DONE,
        "pay": Outcome.DONE,
    }
    assert log == [f"{RUN}:1.1"] * 2
