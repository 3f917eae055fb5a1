"""Agents in agents with a journal: told again, gone on with, waiting for somebody's word, joined while at work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from surehand import (
    Absent,
    Agent,
    CancelToken,
    Happened,
    MemoryJournal,
    MessageWindow,
    Outcome,
    ReplayMismatch,
    RunCancelled,
    RunFinished,
    RunSuspended,
    ToolContext,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    Unknown,
    report_of,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, calls, say

from ..modes import ALL_MODES, SIDE_BY_SIDE, Mode
from ..nested import requests, to, travel
from ..shop import Shop, book
from .remains import RUN, Life, agent, both_colours, raised, remains, resume

every_mode = pytest.mark.parametrize("mode", ALL_MODES, ids=str)
PATIENCE = 20.0
KEY = f"{RUN}:1.0/2.0"


def bank(life: Life, *, effect: bool = True) -> list[Any]:
    """Books, which can be undone, and pays, of which nobody can tell afterwards; the process dies while it pays."""

    @tool(undo=lambda value: life.log.append(f"cancel {value}"))
    def book(what: str) -> str:
        life.log.append(f"book {what}")
        return what

    @tool
    def pay(ctx: ToolContext[Any]) -> str:
        if not effect:
            life.dies()
        life.log.append(f"pay {ctx.idempotency_key}")
        life.dies()
        return "paid"

    return [book, pay]


BOOK, PAY = call("book", {"what": "seat"}, id="b"), call("pay", id="p")
PAID = f"pay {KEY}"


def asker(
    life: Life, *, effect: bool = True, script: Any = None, rest: Any = None
) -> tuple[Agent[Any, Any], Agent[Any, Any]]:
    """An agent that asks another one, which books and pays; and that other one."""
    replies = [calls(BOOK), calls(PAY), say("Paid.")] if rest is None else rest
    inner = travel(*replies, tools=bank(life, effect=effect))
    return agent(life, *([calls(to()), say("Done")] if script is None else script), tools=[inner]), inner


# ---------------------------------------------------------------- somebody's word


@every_mode
@pytest.mark.parametrize("effect", [True, False])
def test_a_call_in_an_agent_of_which_nobody_knows_makes_the_whole_run_wait(mode: Mode, effect: bool) -> None:
    life = Life()
    asker(life, effect=effect)[0].run("Go", run_id=RUN)
    life.next()
    log = ["book seat", PAID] if effect else ["book seat"]
    outer, inner = asker(life, script=[], rest=[])
    ended = mode.drive(outer, "Go", run_id=RUN)
    assert (ended.answer.output, life.log) == (None, log)
    assert [(e.key, e.outcome) for e in ended.answer.pending] == [("1.0/2.0", Outcome.UNKNOWN)]
    if mode.streams:
        assert [(event.path, event.pending) for event in ended.of(RunSuspended)] == [
            ("1.0", ended.answer.pending), ("", ended.answer.pending),
        ]  # fmt: skip
    assert [(u.key, u.call.name, u.state, u.waits) for u in outer.unknowns()] == [(KEY, "pay", "SUSPENDED", True)]
    assert (requests(outer), requests(inner)) == (0, 0)
    outer.resolve(KEY, Happened("paid in cash") if effect else Absent())
    outer, inner = asker(life, script=[say("Done")], rest=[say("Paid.")])
    result = mode.drive(outer, "Go", run_id=RUN).answer
    assert (result.output, result.pending, life.log, outer.unknowns()) == ("Done", (), ["book seat", PAID], [])
    assert (requests(outer), requests(inner)) == (1, 1)
    values = [(e.key, e.value) for e in result.undone.executions]
    assert values == [("1.0", "Paid."), ("1.0/1.0", "seat"), ("1.0/2.0", "paid in cash" if effect else "paid")]


@dataclass(frozen=True)
class Receipt:
    amount: int


@both_colours
def test_a_value_that_somebody_tells_of_a_call_in_an_agent_comes_back_as_what_its_tool_returns(colour: str) -> None:
    life = Life()

    replies: list[Any] = [calls(to("bank")), say("ok")]

    def nested(script: Any, middle: Any, deep: Any, tools: Callable[[], list[Any]]) -> Agent[Any, Any]:
        last = travel(*deep, name="bank", tools=tools())
        return agent(life, *script, tools=[travel(*middle, tools=[last])])

    def tools() -> list[Any]:
        @tool
        def pay() -> Receipt:
            life.dies()
            return Receipt(1)

        return [pay]

    nested([calls(to()), say("Done")], replies, [calls(PAY), say("ok")], tools).run("Go", run_id=RUN)
    life.next()
    waiting = nested([], [], [], tools)
    resume(waiting, colour)
    (unknown,) = waiting.unknowns()
    assert unknown.key == f"{RUN}:1.0/1.0/1.0"
    waiting.resolve(unknown.key, Happened(Receipt(7)))
    result = resume(nested([say("Done")], [say("ok")], [say("ok")], tools), colour)
    assert [e.value for e in result.undone.executions] == ["ok", "ok", Receipt(7)]


@pytest.mark.parametrize("mode", SIDE_BY_SIDE, ids=str)
def test_an_agent_beside_one_that_waits_is_neither_given_up_nor_undone(mode: Mode) -> None:
    life, is_at_work, waits = Life(), threading.Event(), threading.Event()

    def cannot_tell(context: Any, arguments: Any) -> Unknown:
        assert is_at_work.wait(PATIENCE)
        return Unknown()

    def outer(script: Any, payers: Any, others: Any) -> Agent[Any, Any]:
        @tool(probe=cannot_tell)
        def pay() -> str:
            life.dies()
            return "paid"

        @tool(undo=lambda value: life.log.append("cancel"))
        def slowly() -> str:
            life.log.append("slowly")
            is_at_work.set()
            assert waits.wait(PATIENCE)
            return "there"

        payer, other = travel(*payers, name="payer", tools=[pay]), travel(*others, name="other", tools=[slowly])
        return agent(life, *script, tools=[payer, other])

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished) and not event.path:
            waits.set()  # the payer has stopped, and the other one is still at work

    waits.set()
    slowly = calls(call("slowly"))
    first = outer([calls(to("payer"), to("other")), say("x")], [calls(PAY), say("x")], [slowly, say("x")])
    first.run("Go", run_id=RUN, parallel=False)
    life.next()
    waits.clear()
    is_at_work.clear()
    again = outer([], [], [slowly, slowly, say("never")])
    ended = mode.drive(again, "Go", run_id=RUN, listeners=[listener])
    assert ([e.key for e in ended.answer.pending], life.log) == (["1.0/1.0"], ["slowly"])
    again.resolve(f"{RUN}:1.0/1.0", Happened("paid"))
    result = mode.drive(outer([say("Done")], [say("Paid.")], [say("ok")]), "Go", run_id=RUN).answer
    assert (result.output, life.log) == ("Done", ["slowly"])
    assert [(e.call.name, e.outcome) for e in result.executions] == [("payer", Outcome.DONE), ("other", Outcome.DONE)]


@pytest.mark.parametrize("mode", SIDE_BY_SIDE, ids=str)
def test_agents_side_by_side_that_both_wait_are_told_of_together(mode: Mode) -> None:
    life, both = Life(), threading.Barrier(2)

    def outer(*rest: Any) -> Agent[Any, Any]:
        @tool
        def pay(ctx: ToolContext[Any]) -> str:
            both.wait(PATIENCE)
            life.dies()
            both.wait(PATIENCE)
            return "paid"

        replies = [calls(PAY), say("Paid.")] if rest else []
        first, second = (travel(*replies, name=name, tools=[pay]) for name in ("first", "second"))
        return agent(life, *rest, tools=[first, second])

    outer(calls(to("first"), to("second")), say("Done")).run("Go", run_id=RUN, parallel=True)
    life.next()
    ended = mode.drive(outer(), "Go", run_id=RUN)
    assert ended.answer.output is None
    waiting = outer()
    assert sorted(unknown.key for unknown in waiting.unknowns()) == [f"{RUN}:1.0/1.0", f"{RUN}:1.1/1.0"]
    assert sorted(e.key for e in ended.answer.pending) == ["1.0/1.0", "1.1/1.0"]


# ---------------------------------------------------------------- gone on with


@every_mode
def test_whatever_its_process_left_an_agent_is_gone_on_with_and_nothing_is_done_or_asked_twice(mode: Mode) -> None:
    life = Life()

    inner = travel(calls(BOOK), say("Booked."), tools=bank(life))
    whole = agent(life, calls(to()), say("Done"), tools=[inner])
    first = whole.run("Go", run_id=RUN)
    journal = life.journal
    for upto in range(1, len(journal.records(RUN)) + 1):
        life.journal = remains(journal, upto=upto)
        kinds = [(r.kind, r.step) for r in life.journal.records(RUN)]
        has_booked = ("DONE", "1.0/1.0") in kinds
        life.log[:] = ["book seat"] if has_booked or ("INTENT", "1.0/1.0") not in kinds else []
        asked_inner = [step for kind, step in kinds if kind == "MODEL" and step.startswith("1.0/")]
        asked_outer = [step for kind, step in kinds if kind == "MODEL" and "/" not in step]
        inner = travel(*[calls(BOOK), say("Booked.")][len(asked_inner) :], tools=bank(life))
        again = agent(life, *[calls(to()), say("Done")][len(asked_outer) :], tools=[inner])
        ended = mode.drive(again, "Go", run_id=RUN)
        if ("INTENT", "1.0/1.0") in kinds and not has_booked:  # nobody can tell whether it was booked
            assert [e.key for e in ended.answer.pending] == ["1.0/1.0"]
            continue
        assert (ended.answer, again._model.is_spent, inner._model.is_spent) == (first, True, True)  # type: ignore[attr-defined]
        assert life.log == (["book seat"] if has_booked else ["book seat", "book seat"])


@both_colours
@pytest.mark.parametrize("has_ended", [True, False])
def test_an_agent_that_is_not_among_the_tools_any_more_is_a_mismatch_and_nothing_is_undone(
    colour: str, has_ended: bool
) -> None:
    life = Life()
    inner = travel(calls(BOOK), say("Booked."), tools=bank(life))
    shop = bank(life)
    agent(life, calls(to()), calls(PAY), say("Done"), tools=[inner, *shop]).run("Go", run_id=RUN)
    steps = [(r.kind, r.step) for r in life.journal.records(RUN)]
    life.journal = remains(life.journal, upto=steps.index(("DONE", "1.0")) + (1 if has_ended else 0))
    history, log = life.journal.records(RUN), list(life.log)
    error = raised(lambda: resume(agent(life, say("never"), tools=shop), colour))
    assert isinstance(error, ReplayMismatch)
    assert "'travel'" in str(error)
    assert (life.journal.records(RUN), life.log) == (history, log)


@both_colours
def test_a_tool_that_has_taken_the_name_of_an_agent_is_a_mismatch(colour: str) -> None:
    life = Life()
    asker(life)[0].run("Go", run_id=RUN)
    life.next()

    @tool(name="travel")
    def other(prompt: str) -> str:
        raise AssertionError

    error = raised(lambda: resume(agent(life, tools=[other]), colour))
    assert isinstance(error, ReplayMismatch)


# ---------------------------------------------------------------- joined while at work


@pytest.mark.parametrize("mode", ALL_MODES, ids=str)
def test_whoever_joins_while_an_agent_is_at_work_gets_the_same_result_and_does_nothing(mode: Mode) -> None:
    life, reached, open_ = Life(), threading.Event(), threading.Event()

    @tool(undo=lambda value: life.log.append("cancel"))
    def gate() -> str:
        life.log.append("gate")
        reached.set()
        assert open_.wait(PATIENCE)
        return "open"

    inner = travel(calls(call("gate", id="g")), say("ok", usage=None), tools=[gate])
    first = agent(life, calls(to()), say("Done"), tools=[inner])
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(first.run("Go", run_id=RUN)))
    thread.start()
    assert reached.wait(PATIENCE)
    joining = agent(life, tools=[travel(tools=[gate])])
    threading.Timer(0.1, open_.set).start()
    ended = mode.drive(joining, "Go", run_id=RUN)
    thread.join(PATIENCE)
    assert ended.answer == results[0]
    assert (life.log, requests(joining)) == (["gate"], 0)
    assert ended.of(ToolStarted) == []
    if mode.streams:
        assert [event.path for event in ended.of(RunFinished)] in (["1.0", ""], [""])


# ---------------------------------------------------------------- late ends


class Watched(MemoryJournal):
    """Tells in which state the run is."""

    @property
    def state(self) -> str:
        row = self.row(RUN)
        return "" if row is None else row.state


def test_a_call_of_an_agent_that_ends_after_all_is_over_leaves_the_run_to_be_undone_until_it_is() -> None:
    life, token, open_ = Life(), CancelToken(), threading.Event()
    journal = life.journal = Watched()
    states: list[str] = []

    def take_back(value: str) -> None:
        states.append(journal.state)

    @tool(undo=take_back, repeat="with_key")
    def late(ctx: ToolContext[Any]) -> str:
        token.cancel()
        assert open_.wait(PATIENCE)
        return "late"

    heard = Recorder()
    inner = travel(calls(call("late")), say("never"), tools=[late])
    outer = agent(life, calls(to(), to(id="u")), tools=[inner], drain_timeout=0.05, listeners=[heard])
    error = raised(lambda: outer.run("Go", run_id=RUN, parallel=True, cancel=token))
    assert isinstance(error, RunCancelled)
    report = report_of(error)
    assert report is not None
    assert [e.call.name for e in report.unknown] == ["late"]
    assert journal.state == "UNDOING"  # whoever recovers it has to see to the call
    open_.set()
    for _ in range(2000):
        if journal.state == "UNDONE":
            break
        threading.Event().wait(0.005)
    assert (states, journal.state) == (["UNDOING"], "UNDONE")
    last = report_of(error)
    assert last is not None
    assert last.standing == ()


# ---------------------------------------------------------------- hooks and undo, told again


@every_mode
def test_what_was_undone_in_agents_is_told_again_as_it_was(mode: Mode) -> None:
    life, shop = Life(), Shop()
    inner = travel(calls(book("a")), say("ok"), tools=[shop])
    outer = agent(life, calls(to()), calls(book("z")), OSError("end"), tools=[inner, shop])
    first = raised(lambda: outer.run("Go", run_id=RUN))
    assert shop.log == ["book a", "book z", "cancel booked z", "cancel booked a"]
    again = agent(life, tools=[travel(tools=[shop]), shop])
    ended = mode.drive(again, "Go", run_id=RUN)
    report = report_of(first or BaseException())
    assert ended.report == report
    assert next(m.text for m in ended.messages if isinstance(m, ToolMessage)) == (
        "What was done here was undone because the run was given up: ['book']."
    )
    assert len(shop.log) == 4
    assert isinstance(again._model, ScriptedModel) and again._model.requests == []


@every_mode
def test_conversations_of_an_agent_that_was_asked_twice_are_put_right_and_not_said_again(mode: Mode) -> None:
    life, kept = Life(), list[Any]()

    def outer(memory: MessageWindow, script: Any, *replies: Any) -> Agent[Any, Any]:
        @tool(repeat="with_key")
        def fail(ctx: ToolContext[Any]) -> None:
            if not kept:
                kept.extend(memory.messages())
            life.dies()
            raise OSError("line is dead")

        return agent(life, *script, tools=[travel(*replies, tools=[bank(life)[0]], memory=memory), fail])

    seat, bed = calls(BOOK), calls(call("book", {"what": "bed"}, id="b"))
    script = [calls(to()), calls(to()), calls(call("fail"))]
    raised(lambda: outer(MessageWindow(50), script, seat, say("one"), bed, say("two")).run("Go", run_id=RUN))
    life.next()
    memory = MessageWindow(50)
    memory.add_all(kept)
    ended = mode.drive(outer(memory, []), "Go", run_id=RUN)
    assert isinstance(ended.error, OSError)
    assert life.log == ["book seat", "book bed", "cancel bed", "cancel seat"]
    why = "Tool 'book' had succeeded, but it was undone because the run was given up."
    texts = [getattr(message, "text", None) for message in memory.messages()]
    assert texts == ["Book", None, why, "one", "Book", None, why, "two"]
