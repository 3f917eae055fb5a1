"""What becomes of a call in whose middle the process died: by the tool's policy, its probe, and somebody's word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from surehand import (
    Absent,
    Happened,
    Outcome,
    ReplayMismatch,
    RunGivenUp,
    RunInProgress,
    RunSuspended,
    ToolContext,
    ToolExecutionError,
    ToolMessage,
    UndoPolicy,
    Unknown,
    UnknownRun,
    UserError,
    report_of,
    tool,
    undoes,
)
from surehand.testing import call, calls, say

from ..modes import Ended, Mode
from .remains import RUN, Life, agent, asked, both_colours, every_mode, raised, resume

KEY = f"{RUN}:2.0"
LOST = "the process died while 'pay' was called (call 2.0 of run 'order-7'), and nobody can tell whether it happened"


def bank(life: Life, *, effect: bool = True, **options: Any) -> list[Any]:
    """``book``, which can be undone; ``pay``, in which the process dies, with its effect or before it; and ``boom``."""

    @tool
    def book(what: str) -> str:
        life.log.append(f"book {what}")
        return f"booked {what}"

    @undoes(book)
    def cancel(booking: str) -> None:
        life.log.append(f"cancel {booking[7:]}")

    @tool(**options)
    def pay(amount: int, ctx: ToolContext[Any]) -> str:
        if not life.is_over and not effect:
            life.dies()
        life.log.append(f"pay {amount} {ctx.idempotency_key}")
        life.dies()
        return f"paid {amount}"

    @tool
    def boom() -> None:
        raise OSError("boom")

    return [book, pay, boom]


SCRIPT = [calls(call("book", {"what": "seat"})), calls(call("pay", {"amount": 5}))]
PAID = f"pay 5 {KEY}"


def revived(mode: Mode, life: Life, *rest: Any, effect: bool = True, **options: Any) -> Ended:
    """The run dies in ``pay``, and is begun again under its id by another process."""
    mode.drive(agent(life, *SCRIPT, say("Done"), tools=bank(life, effect=effect, **options)), run_id=RUN)
    life.next()
    return mode.drive(agent(life, *rest, tools=bank(life, **options)), run_id=RUN)


def state(life: Life) -> str:
    row = life.journal.row(RUN)
    assert row is not None
    return row.state


@every_mode
@pytest.mark.parametrize("repeat", ["safe", "with_key"])
@pytest.mark.parametrize("effect", [True, False])
def test_what_may_be_repeated_is_run_again_with_the_same_key_and_no_probe_is_asked(
    mode: Mode, repeat: str, effect: bool
) -> None:
    life = Life()
    probed: list[Any] = []
    ended = revived(
        mode, life, say("Done"), effect=effect, repeat=repeat, probe=lambda ctx, arguments: probed.append(1)
    )
    assert ended.answer.output == "Done" and probed == []
    assert life.log == ["book seat", *[PAID] * (2 if effect else 1)]
    assert [(e.outcome, e.value) for e in ended.executions] == [
        (Outcome.DONE, "booked seat"),
        (Outcome.DONE, "paid 5"),
    ]


@every_mode
def test_SFX_18_kill_between_effect_and_record(mode: Mode) -> None:
    life = Life()
    asked_of: list[Any] = []

    def probe(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        asked_of.append((context.idempotency_key, arguments))
        return Happened("paid 5")

    ended = revived(mode, life, say("Done"), probe=probe)
    assert asked_of == [(KEY, {"amount": 5})]
    assert life.log == ["book seat", PAID]  # no blind second run
    assert [(e.outcome, e.value, e.result.text) for e in ended.answer.executions][1] == (
        Outcome.DONE,
        "paid 5",
        "paid 5",
    )
    assert ended.answer.undone.unknown == ()


@every_mode
def test_a_call_that_did_not_happen_is_made_once(mode: Mode) -> None:
    life = Life()
    ended = revived(mode, life, say("Done"), effect=False, probe=lambda context, arguments: Absent())
    assert (ended.answer.output, life.log) == ("Done", ["book seat", PAID])


def _breaks(context: Any, arguments: Any) -> Any:
    raise OSError("the bank is closed")


CANNOT_TELL = pytest.mark.parametrize(
    "probe",
    [None, lambda context, arguments: Unknown(), lambda context, arguments: "who knows", _breaks],
    ids=["no_probe", "unknown", "nonsense", "raises"],
)


@every_mode
@CANNOT_TELL
@pytest.mark.parametrize("effect", [True, False])
def test_by_default_a_run_waits_until_somebody_tells(mode: Mode, probe: Any, effect: bool) -> None:
    life = Life()
    ended = revived(mode, life, effect=effect, probe=probe)
    log = ["book seat", PAID] if effect else ["book seat"]
    result = ended.answer
    assert (result.output, life.log, state(life)) == (None, log, "SUSPENDED")
    assert [(e.key, e.outcome, e.call.arguments) for e in result.pending] == [("2.0", Outcome.UNKNOWN, '{"amount":5}')]
    if mode.streams:
        assert [event.pending for event in ended.of(RunSuspended)] == [result.pending]
    waiting = agent(life, tools=bank(life, probe=probe))
    assert [(u.key, u.run_id, u.call.name, u.state, u.waits) for u in waiting.unknowns()] == [
        (KEY, RUN, "pay", "SUSPENDED", True)
    ]
    assert waiting.recover() == []  # it waits for somebody, not for a process
    again = waiting.resume(RUN)
    assert (again.output, again.pending, life.log) == (None, result.pending, log)


@every_mode
def test_once_somebody_has_told_that_it_happened_the_run_goes_on_with_its_value(mode: Mode) -> None:
    life = Life()
    revived(mode, life)
    agent(life, tools=bank(life)).resolve(KEY, Happened("paid in cash"))
    last = agent(life, say("Done"), tools=bank(life))
    ended = mode.drive(last, run_id=RUN)
    assert (ended.answer.output, ended.answer.pending, asked(last)) == ("Done", (), 1)
    assert [m.text for m in ended.messages if isinstance(m, ToolMessage)] == ["booked seat", "paid in cash"]
    assert life.log == ["book seat", PAID] and last.unknowns() == []


@every_mode
def test_once_somebody_has_told_that_it_did_not_happen_it_is_done_once(mode: Mode) -> None:
    life = Life()
    revived(mode, life, effect=False)
    agent(life, tools=bank(life)).resolve(KEY, Absent())
    (recovered,) = agent(life, say("Done"), tools=bank(life)).recover()
    assert (recovered.run_id, recovered.error) == (RUN, None)
    assert recovered.result is not None and recovered.result.output == "Done"
    assert life.log == ["book seat", PAID]


@every_mode
def test_somebodys_word_is_about_the_process_that_died_and_not_about_the_next_one(mode: Mode) -> None:
    life = Life()
    revived(mode, life, effect=False)
    agent(life, tools=bank(life)).resolve(KEY, Absent())
    mode.drive(agent(life, say("Done"), tools=bank(life)), run_id=RUN)  # and dies in the body, with the effect
    life.next()
    assert life.log == ["book seat", PAID]
    waits = mode.drive(agent(life, say("Never"), tools=bank(life)), run_id=RUN)
    assert [e.key for e in waits.answer.pending] == ["2.0"] and life.log == ["book seat", PAID]
    told = agent(life, say("Done"), tools=bank(life))
    assert [(u.key, u.waits) for u in told.unknowns()] == [(KEY, True)]
    told.resolve(KEY, Happened("paid 5"))
    assert mode.drive(told, run_id=RUN).answer.output == "Done" and life.log == ["book seat", PAID]


@every_mode
def test_a_value_that_somebody_told_and_that_fits_no_more_halts_the_run_and_nothing_is_undone(mode: Mode) -> None:
    life = Life()
    revived(mode, life)
    agent(life, tools=bank(life)).resolve(KEY, Happened("paid 5"))
    book, _, boom = bank(life)

    @tool
    def pay(amount: int, ctx: ToolContext[Any]) -> int:
        return amount

    error = mode.drive(agent(life, tools=[book, pay, boom]), run_id=RUN).error
    assert isinstance(error, ReplayMismatch) and "what 'pay' returned in run 'order-7' cannot be read" in str(error)
    assert life.log == ["book seat", PAID] and state(life) == "RUNNING"
    ended = mode.drive(agent(life, say("Done"), tools=bank(life)), run_id=RUN)
    assert ended.answer.output == "Done" and life.log == ["book seat", PAID]


@every_mode
@CANNOT_TELL
@pytest.mark.parametrize("effect", [True, False])
def test_with_unknown_undo_the_run_is_given_up_and_the_call_is_undone_by_its_arguments(
    mode: Mode, probe: Any, effect: bool
) -> None:
    life = Life()

    def refund(amount: int, ctx: ToolContext[Any]) -> None:
        life.log.append(f"refund {amount} {ctx.idempotency_key}")

    ended = revived(mode, life, effect=effect, probe=probe, unknown="undo", undo=refund)
    assert isinstance(ended.error, ToolExecutionError) and str(ended.error) == LOST
    assert life.log == ["book seat", *([PAID] if effect else []), f"refund 5 {KEY}", "cancel seat"]
    assert [(e.key, e.undo and e.undo.error) for e in ended.report.undone] == [("1.0", None), ("2.0", None)]
    assert (ended.report.unknown, state(life)) == ((), "UNDONE")
    log = list(life.log)
    again = raised(lambda: agent(life, tools=bank(life, unknown="undo", undo=refund)).resume(RUN))
    assert isinstance(again, RunGivenUp) and report_of(again) == ended.report and life.log == log


@every_mode
@CANNOT_TELL
def test_with_unknown_dead_letter_the_rest_is_undone_and_the_call_is_named(mode: Mode, probe: Any) -> None:
    life = Life()
    ended = revived(mode, life, probe=probe, unknown="dead_letter")
    assert isinstance(ended.error, ToolExecutionError) and str(ended.error) == LOST
    assert life.log == ["book seat", PAID, "cancel seat"]
    assert [e.key for e in ended.report.unknown] == ["2.0"] and state(life) == "STUCK"
    letters = [record.step for record in life.journal.records(RUN) if record.kind == "DEAD_LETTER"]
    assert letters == ["2.0"]
    told = agent(life, tools=bank(life, unknown="dead_letter"))
    assert [(u.key, u.state, u.waits) for u in told.unknowns()] == [(KEY, "STUCK", False)]
    told.resolve(KEY, Absent())
    assert told.unknowns() == []


@both_colours
def test_a_call_of_a_run_that_was_given_up_is_undone_once_somebody_tells_that_it_happened(colour: str) -> None:
    life = Life()

    def refund(value: str) -> None:
        life.log.append(f"refund {value}")

    options: dict[str, Any] = {"unknown": "dead_letter", "undo": refund}
    revived(Mode("run", False), life, **options)
    told = agent(life, tools=bank(life, **options))
    told.resolve(KEY, Happened("paid 5"))
    error = raised(lambda: resume(told, colour))
    assert isinstance(error, RunGivenUp)
    assert life.log == ["book seat", PAID, "cancel seat", "refund paid 5"]
    report = report_of(error)
    assert report is not None and [e.key for e in report.undone] == ["1.0", "2.0"] and state(life) == "UNDONE"


@every_mode
def test_several_calls_of_one_round_wait_and_the_run_goes_on_once_all_are_told(mode: Mode) -> None:
    """SFX-29: what was done before is kept, and what had not begun runs once."""
    life = Life()
    if mode.parallel:
        return  # which calls have begun is chance then

    ran: list[str] = []

    @tool
    def act(name: str, ctx: ToolContext[Any]) -> str:
        ran.append(f"{name} {ctx.idempotency_key}")
        if name == "two":
            life.dies()
        return name

    round_ = calls(*[call("act", {"name": name}) for name in ("one", "two", "three")])
    mode.drive(agent(life, round_, say("Done"), tools=[act]), run_id=RUN)
    life.next()
    ran.clear()
    waits = mode.drive(agent(life, tools=[act]), run_id=RUN)
    assert [e.key for e in waits.answer.pending] == ["1.1"] and ran == []
    agent(life, tools=[act]).resolve(f"{RUN}:1.1", Absent())
    ended = mode.drive(agent(life, say("Done"), tools=[act]), run_id=RUN)
    assert ran == [f"two {RUN}:1.1", f"three {RUN}:1.2"]
    assert [(e.key, e.call.id, e.value) for e in ended.answer.executions] == [
        ("1.0", "c0", "one"),
        ("1.1", "c1", "two"),
        ("1.2", "c2", "three"),
    ]


@dataclass
class Seat:
    row: int


class Room(pydantic.BaseModel):
    number: int


class Car(msgspec.Struct):
    plate: str


@both_colours
@pytest.mark.parametrize("value", [Seat(3), Room(number=4), Car("B-1"), {"a": 1}, ["x"], None, "text"])
def test_a_value_that_somebody_tells_comes_back_as_what_the_tool_returns(colour: str, value: Any) -> None:
    life = Life()
    taken_back: list[Any] = []

    def pay(ctx: ToolContext[Any]):  # type: ignore[no-untyped-def]
        life.dies()
        return value

    pay.__annotations__["return"] = {dict: dict[str, int], list: list[str]}.get(type(value), type(value))

    def refund(given) -> None:  # type: ignore[no-untyped-def]
        taken_back.append(given)

    tools = [tool(undo=refund)(pay), bank(life)[2]]
    agent(life, calls(call("pay")), say("Done"), tools=tools).run("Go", run_id=RUN)
    life.next()
    waiting = resume(agent(life, tools=tools), colour)
    assert [e.key for e in waiting.pending] == ["1.0"]
    agent(life, tools=tools).resolve(f"{RUN}:1.0", Happened(value))
    error = raised(lambda: resume(agent(life, calls(call("boom")), tools=tools), colour))
    assert str(error) == "boom" and taken_back == [value] and type(taken_back[0]) is type(value)


def test_only_calls_that_are_unknown_can_be_resolved_and_only_with_an_answer() -> None:
    life = Life()
    revived(Mode("run", False), life)
    told = agent(life, tools=bank(life))
    with pytest.raises(UserError, match=r"expected Happened\(value\) or Absent\(\)"):
        told.resolve(KEY, Unknown())  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"that call is not unknown; agent.unknowns"):
        told.resolve(f"{RUN}:1.0", Absent())
    with pytest.raises(UserError, match="that call is not unknown"):
        told.resolve(f"{RUN}:9.9", Absent())
    for key in ("nobody:1.0", "nonsense", ""):
        with pytest.raises(UnknownRun, match="there is no run"):
            told.resolve(key, Absent())
    with pytest.raises(UserError, match="the value cannot be stored; give what 'pay' returns"):
        told.resolve(KEY, Happened(object()))
    told.resolve(KEY, Happened("paid 5"))
    with pytest.raises(UserError, match="that call is not unknown"):
        told.resolve(KEY, Absent())


def test_while_a_run_is_at_work_its_calls_cannot_be_resolved() -> None:
    life, seen = Life(), []

    @tool(timeout=0.01)
    async def slow() -> None:
        import asyncio

        await asyncio.sleep(30)

    @tool
    def tell() -> None:
        seen.append(raised(lambda: agent(life, tools=[slow]).resolve(f"{RUN}:1.0", Absent())))

    script = [calls(call("slow")), calls(call("tell")), say("Done")]
    result = agent(life, *script, tools=[slow, tell]).run("Go", run_id=RUN)
    assert isinstance(seen[0], RunInProgress)
    assert [e.key for e in result.undone.unknown] == ["1.0"]
    assert [(u.key, u.state, u.waits) for u in agent(life, tools=[slow]).unknowns()] == [
        (f"{RUN}:1.0", "SUCCEEDED", False)
    ]


@every_mode
def test_without_undo_a_lost_call_that_may_be_undone_is_named_as_unknown(mode: Mode) -> None:
    life = Life()

    def refund(amount: int) -> None:
        life.log.append("refund")

    mode.drive(agent(life, *SCRIPT, say("Done"), tools=bank(life, unknown="undo", undo=refund)), run_id=RUN)
    life.next()
    second = agent(life, tools=bank(life, unknown="undo", undo=refund), undo=UndoPolicy.OFF)
    ended = mode.drive(second, run_id=RUN)
    assert [e.key for e in ended.report.unknown] == ["2.0"] and life.log == ["book seat", PAID]
