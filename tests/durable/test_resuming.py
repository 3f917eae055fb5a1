"""A run whose process died is gone on with: what is finished is not repeated, what was paid for is not asked again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest

from surehand import (
    Absent,
    Agent,
    JournalError,
    MessageWindow,
    Outcome,
    RunGivenUp,
    RunInProgress,
    StaleClaim,
    ToolContext,
    ToolMessage,
    UnknownRun,
    UserError,
    report_of,
    tool,
    undoes,
)
from surehand.testing import ScriptedModel, call, calls, say

from ..modes import Mode
from .remains import RUN, Held, Life, agent, asked, both_colours, every_mode, raised, resume


def shop(life: Life, dies_at: str = "") -> list[Any]:
    """``book``, safe behind its key and with an undo, ``look`` and ``boom``; the process dies at one of the points."""

    def point(name: str) -> None:
        if name == dies_at and not life.is_over:
            life.dies()

    @tool(repeat="with_key")
    def book(what: str, ctx: ToolContext[Any]) -> str:
        point(f"before {what}")
        life.log.append(("book", what, ctx.idempotency_key))
        point(f"after {what}")
        return f"booked {what}"

    @undoes(book)
    def cancel(booking: str, ctx: ToolContext[Any]) -> None:
        point(f"before cancelling {booking[7:]}")
        life.log.append(("cancel", booking[7:], ctx.idempotency_key))
        point(f"after cancelling {booking[7:]}")

    @tool(repeat="safe")
    def look() -> int:
        life.log.append("look")
        point("look")
        return 7

    @tool
    def boom() -> None:
        raise OSError("boom")

    return [book, look, boom]


def book(what: str) -> Any:
    return call("book", {"what": what})


@every_mode
@pytest.mark.parametrize("dies_at", ["before car", "after car"])
def test_SFX_12_key_stable_over_a_resume(mode: Mode, dies_at: str) -> None:
    life = Life()
    first = [calls(call("look"), book("seat")), calls(book("car"))]
    mode.drive(agent(life, *first, say("Done"), tools=shop(life, dies_at)), run_id=RUN)
    life.next()
    second = agent(life, say("Done"), tools=shop(life))
    ended = mode.drive(second, run_id=RUN)
    seat, car = ("book", "seat", f"{RUN}:1.1"), ("book", "car", f"{RUN}:2.0")
    again = [car, car] if dies_at.startswith("after") else [car]
    assert sorted(map(str, life.log)) == sorted(map(str, ["look", seat, *again]))
    assert (ended.answer.output, asked(second)) == ("Done", 1)
    assert [(e.key, e.value, e.outcome) for e in ended.answer.executions] == [
        ("1.0", 7, Outcome.DONE),
        ("1.1", "booked seat", Outcome.DONE),
        ("2.0", "booked car", Outcome.DONE),
    ]
    assert agent(life, tools=shop(life)).resume(RUN) == ended.answer


@every_mode
def test_a_resumed_run_gives_the_very_result_that_it_would_have_given(mode: Mode) -> None:
    script = [calls(call("look"), book("seat"), text="I look"), calls(book("car")), say("Done")]
    life, whole = Life(), Life()
    uninterrupted = mode.drive(agent(whole, *script, tools=shop(whole)), run_id=RUN)
    mode.drive(agent(life, *script, tools=shop(life, "before car")), run_id=RUN)
    life.next()
    assert mode.drive(agent(life, script[-1], tools=shop(life)), run_id=RUN).answer == uninterrupted.answer


@both_colours
def test_recover_goes_on_with_every_run_whose_process_is_gone_and_with_no_other(colour: str) -> None:
    life = Life()
    tools = shop(life, "after car")
    agent(life, say("Hi"), tools=tools).run("Hello", run_id="over")
    agent(life, calls(book("car")), say("Done"), tools=tools).run("Go", run_id=RUN)
    life.next()
    second = agent(life, say("Done"), tools=shop(life))
    recovered = second.recover() if colour == "blocking" else asyncio.run(second.arecover())
    assert [(one.run_id, one.error, one.result and one.result.output) for one in recovered] == [(RUN, None, "Done")]
    assert second.recover() == []


@every_mode
@pytest.mark.parametrize("dies_at", ["before cancelling car", "after cancelling car", "before cancelling seat"])
def test_a_crash_inside_an_undo_continues_it(mode: Mode, dies_at: str) -> None:
    life = Life()
    script = [calls(book("seat")), calls(book("car")), calls(call("boom"))]
    mode.drive(agent(life, *script, tools=shop(life, dies_at)), run_id=RUN)
    life.next()
    second = agent(life, tools=shop(life))
    error = mode.drive(second, run_id=RUN).error
    assert isinstance(error, RunGivenUp) and str(error) == f"run {RUN!r} was given up because of OSError: boom"
    cancels = [entry for entry in life.log if entry[0] == "cancel"]
    car, seat = ("cancel", "car", f"{RUN}:2.0"), ("cancel", "seat", f"{RUN}:1.0")
    assert cancels == ([car, car, seat] if dies_at == "after cancelling car" else [car, seat])
    report = report_of(error)
    assert report is not None
    assert [(e.key, e.undo and e.undo.error) for e in report.undone] == [("1.0", None), ("2.0", None)]
    assert asked(second) == 0
    log = list(life.log)
    again = raised(lambda: agent(life, tools=shop(life)).resume(RUN))
    assert isinstance(again, RunGivenUp) and report_of(again) == report and life.log == log


@both_colours
def test_a_run_that_is_not_in_the_journal_cannot_be_resumed(colour: str) -> None:
    with pytest.raises(UnknownRun, match="there is no run 'order-7' in this journal"):
        resume(agent(Life()), colour)


@both_colours
def test_an_option_that_does_not_exist_is_named_though_there_is_nothing_to_recover(colour: str) -> None:
    idle, wrong = agent(Life()), dict[str, Any](dep=5)
    error = raised(lambda: idle.recover(**wrong) if colour == "blocking" else asyncio.run(idle.arecover(**wrong)))
    assert str(error) == "recover() has no option 'dep'; did you mean 'deps'?"
    error = raised(lambda: resume(idle, colour, takeover=True))
    assert str(error) == "resume() has no option 'takeover'; did you mean 'take_over'?"


def test_without_a_journal_nothing_can_be_resumed() -> None:
    plain = Agent(ScriptedModel([]))
    for call_it in (lambda: plain.resume(RUN), plain.recover, plain.unknowns, lambda: plain.run("Go", run_id=RUN)):
        with pytest.raises(UserError, match="this agent has no journal"):
            call_it()


@both_colours
def test_a_run_that_is_at_work_is_not_resumed_nor_recovered_beside_itself(colour: str) -> None:
    life, seen = Life(), []

    @tool
    def look() -> None:
        other = agent(life, tools=[look])
        seen.append(raised(lambda: other.resume(RUN)))
        seen.append(other.recover())

    first = agent(life, calls(call("look")), say("Done"), tools=[look])
    result = first.run("Go", run_id=RUN) if colour == "blocking" else asyncio.run(first.arun("Go", run_id=RUN))
    assert isinstance(seen[0], RunInProgress) and "wait" in str(seen[0])
    assert (seen[1], result.output) == ([], "Done")


def test_a_run_at_work_in_another_opening_of_the_journal_here_is_said_to_be_so(tmp_path: Path) -> None:
    seen: list[Any] = []

    @tool
    def look() -> None:
        with Agent(ScriptedModel([]), tools=[look], journal=tmp_path / "runs.db") as other:
            seen.append(raised(lambda: other.resume(RUN)))

    script = ScriptedModel([calls(call("look")), say("Done")])
    with Agent(script, tools=[look], journal=tmp_path / "runs.db") as first:
        first.run("Go", run_id=RUN)
    assert isinstance(seen[0], RunInProgress)
    assert "another agent of this process, close it, or let both share one SQLiteJournal(…)" in str(seen[0])


@pytest.mark.parametrize("key", ["1.0", 5])
def test_what_is_no_key_is_told_what_a_key_is(key: Any) -> None:
    error = raised(lambda: agent(Life()).resolve(key, Absent()))
    assert isinstance(error, UnknownRun)
    assert str(error).startswith(
        f"resolve({key!r}): there is no run in that key; expected one such as 'order-1:2.0', which is the run's id and"
    )


def test_a_run_that_is_taken_over_stops_with_a_typed_error_and_undoes_nothing() -> None:
    life = Life()
    taken: list[Any] = []

    @tool
    def boom() -> None:
        taken.append(agent(life, say("Other"), tools=[*shop(life)[:2], boom]).resume(RUN, take_over=True))
        raise OSError("boom")

    first = agent(life, calls(book("car")), calls(call("boom")), say("Done"), tools=[*shop(life)[:2], boom])
    error = raised(lambda: first.run("Go", run_id=RUN))
    assert isinstance(error, StaleClaim) and isinstance(error, JournalError)
    assert [entry for entry in life.log if entry[0] == "cancel"] == []


# ---------------------------------------------------------------- values come back as themselves


@dataclass
class Seat:
    row: int


class Room(pydantic.BaseModel):
    number: int


class Car(msgspec.Struct):
    plate: str


@pytest.mark.parametrize(
    "value", [Seat(3), Room(number=4), Car("B-1"), [Seat(1), Seat(2)], {"a": Room(number=1)}, None]
)
@every_mode
def test_what_a_tool_returned_before_the_crash_comes_back_as_itself(mode: Mode, value: Any) -> None:
    life = Life()
    hint = {list: list[Seat], dict: dict[str, Room]}.get(type(value), type(value))
    undone: list[Any] = []

    def reserve():  # type: ignore[no-untyped-def]
        return value

    reserve.__annotations__["return"] = hint

    def release(given) -> None:  # type: ignore[no-untyped-def]
        undone.append(given)

    @tool(repeat="safe")
    def wait() -> None:
        life.dies()

    tools = [tool(undo=release)(reserve), wait, shop(life)[2]]
    mode.drive(agent(life, calls(call("reserve")), calls(call("wait")), say("Done"), tools=tools), run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, calls(call("boom")), tools=tools), run_id=RUN)
    assert str(ended.error) == "boom"
    assert undone == [value] and type(undone[0]) is type(value)
    assert [e.value for e in ended.report.undone] == [value]


class Handle:
    """What has no JSON form."""


@every_mode
def test_a_value_that_cannot_be_stored_is_done_and_an_undo_that_needs_it_is_named_and_never_called(mode: Mode) -> None:
    life = Life()
    undone: list[Any] = []

    @tool
    def open_it() -> Any:
        return Handle()

    @undoes(open_it)
    def close_it(handle: Any) -> None:
        undone.append(handle)

    @tool(repeat="safe")
    def wait() -> None:
        life.dies()

    tools = [open_it, wait, shop(life)[2]]
    script = [calls(call("open_it")), calls(call("wait")), say("Done")]
    first = mode.drive(agent(life, *script, tools=tools), run_id=RUN)
    life.next()
    second = agent(life, calls(call("boom")), tools=tools)
    ended = mode.drive(second, run_id=RUN)
    assert [e.outcome for e in first.executions] == [Outcome.DONE, Outcome.DONE]
    assert str(ended.error) == "boom" and undone == []
    (failed,) = ended.report.failed_to_undo
    assert failed.key == "1.0" and failed.undo is not None and "open_it" in (failed.undo.error or "")
    assert life.journal.row(RUN).state == "STUCK"  # type: ignore[union-attr]
    assert "DEAD_LETTER" in [record.kind for record in life.journal.records(RUN)]


@every_mode
def test_an_undo_that_needs_the_arguments_alone_is_called_although_the_value_is_lost(mode: Mode) -> None:
    life = Life()
    undone: list[Any] = []

    def close_it(name: str) -> None:
        undone.append(name)

    @tool(undo=close_it)
    def open_it(name: str) -> Any:
        return Handle()

    @tool(repeat="safe")
    def wait() -> None:
        life.dies()

    tools = [open_it, wait, shop(life)[2]]
    mode.drive(
        agent(life, calls(call("open_it", {"name": "x"})), calls(call("wait")), say("Done"), tools=tools), run_id=RUN
    )
    life.next()
    ended = mode.drive(agent(life, calls(call("boom")), tools=tools), run_id=RUN)
    assert (str(ended.error), undone) == ("boom", ["x"])
    assert [e.key for e in ended.report.undone] == ["1.0"]


# ---------------------------------------------------------------- replies of which only calls are there


@pytest.mark.parametrize("mode", [Mode("stream", True), Mode("astream", True)], ids=str)
@pytest.mark.parametrize("asks_again", [True, False])
def test_calls_begun_early_for_a_reply_that_never_came_are_joined_or_undone(mode: Mode, asks_again: bool) -> None:
    life = Life()
    tools = shop(life)

    def kinds() -> list[str]:
        return [record.kind for record in life.journal.records(RUN)]

    def dies_once_it_is_booked() -> bool:
        if "DONE" in kinds():
            life.dies()
        return life.is_over

    model = Held([calls(book("car")), say("Done")], dies_once_it_is_booked)
    first = Agent(model, tools=tools, early_start="all", journal=life.journal)
    mode.drive(first, run_id=RUN)
    life.next()
    assert "MODEL" not in kinds() and "DONE" in kinds()
    replies = [calls(book("car")), say("Done")] if asks_again else [say("Done")]
    second = agent(life, *replies, tools=tools, early_start="all")
    ended = mode.drive(second, run_id=RUN)
    assert ended.answer.output == "Done"
    made, taken_back = ("book", "car", f"{RUN}:1.0"), ("cancel", "car", f"{RUN}:1.0")
    assert life.log == ([made] if asks_again else [made, taken_back])
    assert [m.text for m in ended.messages if isinstance(m, ToolMessage)] == (["booked car"] if asks_again else [])


def test_what_a_window_in_the_process_had_is_filled_again() -> None:
    life = Life()
    before = [calls(call("look")), calls(book("car"))]
    whole = MessageWindow(50)
    agent(life, *before, say("Done"), tools=shop(life, "after car"), memory=whole, instructions="Be kind").run(
        "Go", run_id=RUN
    )
    life.next()
    fresh = MessageWindow(50)
    agent(life, say("Done"), tools=shop(life), memory=fresh, instructions="Be kind").resume(RUN)
    assert fresh.messages() == whole.messages()
