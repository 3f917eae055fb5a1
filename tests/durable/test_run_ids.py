"""A run that is asked for by its id begins at most once, in every way to run."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    Agent,
    CancelToken,
    ChatParameters,
    ChatRequest,
    MemoryJournal,
    MessageWindow,
    RunCancelled,
    RunGivenUp,
    StreamPiece,
    ToolCallReady,
    ToolContext,
    ToolFinished,
    UserError,
    UserMessage,
    report_of,
    tool,
    undoes,
)
from surehand.messages import TextContent
from surehand.testing import ScriptedModel, call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, asked, every_mode, raised


@tool
def pay(ctx: ToolContext[Any]) -> str:
    """Pay once."""
    ctx.deps.append(ctx.idempotency_key)
    return "paid"


@every_mode
def test_the_same_id_and_input_give_the_same_result_and_nothing_is_done_again(mode: Mode) -> None:
    life, paid = Life(), []
    first = agent(life, calls(call("pay")), say("Done"), tools=[pay])
    one = mode.drive(first, "Buy", run_id=RUN, deps=paid, parameters={"a": 1}).answer
    for other in (first, agent(life, tools=[pay])):
        assert mode.drive(other, "Buy", run_id=RUN, deps=paid, parameters={"a": 1}).answer == one
    assert (paid, asked(first), one.run_id) == ([f"{RUN}:1.0"], 2, RUN)
    assert mode.drive(agent(life, say("Hi")), "Buy").answer.run_id != RUN  # without an id each is a run of its own


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "Sell"}, "prompt"),
    ({"prompt": "Buy", "parameters": {"a": 2}}, "parameters"),
    ({"prompt": "Buy", "history": [UserMessage((TextContent("earlier"),))]}, "history"),
    ({"prompt": "Buy", "chat_parameters": ChatParameters(temperature=0.5)}, "chat_parameters"),
    ({"prompt": "Sell", "parameters": {"a": 2}}, "prompt, parameters"),
]


@every_mode
@pytest.mark.parametrize(("other", "names"), OTHERS)
def test_the_same_id_with_another_input_is_refused_and_what_differs_is_named(
    mode: Mode, other: dict[str, Any], names: str
) -> None:
    life = Life()
    agent(life, say("Done")).run("Buy", run_id=RUN)
    error = mode.drive(agent(life, say("Never")), run_id=RUN, **other).error
    assert isinstance(error, UserError)
    assert f"run_id='order-7' is the id of a run that was begun with other input ({names});" in str(error)
    assert len(life.journal.rows()) == 1


def test_another_conversation_is_another_input() -> None:
    life = Life()
    options: dict[str, Any] = {"memory": lambda id: MessageWindow(9, id=id)}
    agent(life, say("Done"), **options).run("Buy", run_id=RUN, memory_id="ann")
    with pytest.raises(UserError, match=r"begun with other input \(memory_id\);"):
        agent(life, say("Never"), **options).run("Buy", run_id=RUN, memory_id="bob")


@every_mode
def test_a_run_that_was_given_up_is_told_with_its_report(mode: Mode) -> None:
    life = Life()

    @tool
    def boom() -> None:
        raise OSError("boom")

    first = mode.drive(agent(life, calls(call("boom")), tools=[boom]), run_id=RUN)
    assert isinstance(first.error, OSError)
    again = mode.drive(agent(life, tools=[boom]), run_id=RUN)
    assert isinstance(again.error, RunGivenUp) and again.report == first.report
    assert str(again.error) == "run 'order-7' was given up because of OSError: boom"


@every_mode
def test_whoever_asks_for_a_run_that_is_at_work_in_another_thread_waits_for_its_result(mode: Mode) -> None:
    life, paid = Life(), []
    begun, may_end = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        begun.set()
        assert may_end.wait(20)
        return "slow"

    script = [calls(call("slow")), calls(call("pay")), say("Done")]
    results: list[Any] = []
    first = agent(life, *script, tools=[slow, pay])
    worker = threading.Thread(target=lambda: results.append(first.run("Go", run_id=RUN, deps=paid)))
    worker.start()
    assert begun.wait(20)
    joined: list[Any] = []
    second = agent(life, tools=[slow, pay])
    joiner = threading.Thread(target=lambda: joined.append(mode.drive(second, run_id=RUN, deps=paid)))
    joiner.start()
    joiner.join(0.05)
    assert joined == []
    may_end.set()
    worker.join(20)
    joiner.join(20)
    (ended,) = joined
    assert ended.answer == results[0]
    assert (asked(second), paid) == (0, [f"{RUN}:2.0"])
    if mode.streams:
        assert [event.execution.key for event in ended.of(ToolFinished)] == ["1.0", "2.0"]


def test_tasks_that_ask_for_the_same_run_all_get_its_one_result() -> None:
    life, paid = Life(), []

    @tool
    async def slow() -> str:
        await asyncio.sleep(0.01)
        return "slow"

    one = agent(life, calls(call("slow")), calls(call("pay")), say("Done"), tools=[slow, pay])

    async def everybody() -> list[Any]:
        return await asyncio.gather(*[one.arun("Go", run_id=RUN, deps=paid) for _ in range(20)])

    results = asyncio.run(everybody())
    assert results == [results[0]] * 20
    assert (paid, asked(one), len(life.journal.rows())) == ([f"{RUN}:2.0"], 3, 1)


@every_mode
def test_whoever_waits_for_a_run_may_stop_waiting_and_the_run_goes_on(mode: Mode) -> None:
    life, token = Life(), CancelToken()
    begun, may_end = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        begun.set()
        assert may_end.wait(20)
        return "slow"

    results: list[Any] = []
    first = agent(life, calls(call("slow")), say("Done"), tools=[slow])
    worker = threading.Thread(target=lambda: results.append(first.run("Go", run_id=RUN)))
    worker.start()
    assert begun.wait(20)
    threading.Timer(0.05, token.cancel).start()
    error = mode.drive(agent(life, tools=[slow]), run_id=RUN, cancel=token).error
    assert isinstance(error, RunCancelled)
    may_end.set()
    worker.join(20)
    assert results[0].output == "Done"


@every_mode
@pytest.mark.parametrize("fails_in", ["a tool", "the model"])
def test_whoever_joins_a_run_that_is_being_given_up_gets_its_report_once_all_is_undone(
    mode: Mode, fails_in: str
) -> None:
    life, log = Life(), []
    undoing, may_end = threading.Event(), threading.Event()

    @tool
    def book() -> str:
        log.append("book")
        return "seat"

    @undoes(book)
    def cancel(seat: str) -> None:
        undoing.set()
        assert may_end.wait(20)
        log.append("cancel")

    @tool
    def boom() -> None:
        raise OSError("boom")

    first = agent(
        life, calls(call("book")), calls(call("boom")) if fails_in == "a tool" else OSError("boom"), tools=[book, boom]
    )
    errors: list[Any] = []
    worker = threading.Thread(target=lambda: errors.append(raised(lambda: first.run("Go", run_id=RUN))))
    worker.start()
    assert undoing.wait(20)
    joined: list[Any] = []
    joiner = threading.Thread(target=lambda: joined.append(mode.drive(agent(life, tools=[book, boom]), run_id=RUN)))
    joiner.start()
    joiner.join(0.1)
    assert joined == []
    may_end.set()
    worker.join(20)
    joiner.join(20)
    (ended,) = joined
    assert isinstance(ended.error, RunGivenUp) and ended.report == report_of(errors[0])
    assert [e.key for e in ended.report.undone] == ["1.0"] and log == ["book", "cancel"]


@every_mode
def test_whoever_joins_a_run_that_is_given_up_while_a_call_is_at_work_leaves_that_call_to_it(mode: Mode) -> None:
    life, log = Life(), []
    entered, may_end = threading.Event(), threading.Event()

    @tool(repeat="with_key")
    def slow(ctx: ToolContext[Any]) -> str:
        log.append("slow")
        entered.set()
        assert may_end.wait(20)
        return "slow"

    @undoes(slow)
    def undo_slow(value: str) -> None:
        log.append("undo")

    class Breaks(ScriptedModel):
        def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
            for piece in super().stream(request):
                yield piece
                if isinstance(piece, ToolCallReady):
                    assert entered.wait(20)
                    raise OSError("the line broke")

    first = agent(life, Breaks([calls(call("slow"))]), tools=[slow], early_start="all")
    worker = threading.Thread(target=lambda: Mode("stream", True).drive(first, "Go", run_id=RUN))
    worker.start()
    assert entered.wait(20)
    while "GIVEN_UP" not in [record.kind for record in life.journal.records(RUN)]:
        time.sleep(0.001)
    joined: list[Any] = []
    joiner = threading.Thread(target=lambda: joined.append(mode.drive(agent(life, tools=[slow]), run_id=RUN)))
    joiner.start()
    joiner.join(0.1)
    assert joined == [] and log == ["slow"]
    may_end.set()
    worker.join(20)
    joiner.join(20)
    (ended,) = joined
    assert isinstance(ended.error, RunGivenUp)
    assert [e.key for e in ended.report.undone] == ["1.0"] and log == ["slow", "undo"]


# ---------------------------------------------------------------- what cannot be kept


class Live:
    """Has no JSON form."""


@every_mode
@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"parameters": {"db": Live()}}, "parameters"),
        ({"parameters": {"t": (1, 2)}}, "parameters"),
        ({"parameters": {1: 2}}, "parameters"),
        ({"memory_id": ("a", 1)}, "memory_id"),
        ({"chat_parameters": ChatParameters(extra={"x": Live()})}, "chat_parameters"),
    ],
)
def test_what_a_journal_cannot_keep_is_refused_before_anything_happens(
    mode: Mode, options: dict[str, Any], name: str
) -> None:
    life = Life()
    one = agent(life, say("Never"), memory=lambda id: MessageWindow(9, id=id))
    error = mode.drive(one, **options).error
    assert isinstance(error, UserError) and str(error).startswith(f"{name}=")
    assert "cannot be kept in a journal, so the run could not be resumed" in str(error)
    assert (asked(one), life.journal.rows()) == (0, [])


@every_mode
def test_parameters_are_read_only_with_a_journal_and_come_back_after_a_crash(mode: Mode) -> None:
    life = Life()
    read: list[Any] = []

    @tool(repeat="safe")
    def note(ctx: ToolContext[Any]) -> None:
        read.append(dict(ctx.parameters))
        for change in (lambda: ctx.parameters.update(a=2), lambda: ctx.parameters.pop("a"), ctx.parameters.clear):
            error = raised(change)
            assert isinstance(error, UserError) and "read-only" in str(error) and "ctx.step" in str(error)
        life.dies()

    given = {"a": 1, "b": {"c": [None, True, 1.5, "x"]}}
    mode.drive(agent(life, calls(call("note")), say("Done"), tools=[note]), run_id=RUN, parameters=given)
    life.next()
    (recovered,) = agent(life, say("Done"), tools=[note]).recover()
    assert recovered.result is not None and recovered.result.output == "Done"
    assert read == [given, given]


@pytest.mark.parametrize("run_id", ["", "x" * 201, 7, b"x"])
def test_an_id_is_text_of_a_sensible_length(run_id: Any) -> None:
    with pytest.raises(UserError, match="run_id="):
        Agent(ScriptedModel([]), journal=MemoryJournal()).run("Go", run_id=run_id)


def test_deps_are_given_anew_and_never_recorded() -> None:
    life = Life()

    @tool(repeat="safe")
    def use(ctx: ToolContext[Any]) -> str:
        life.log.append(ctx.deps)
        life.dies()
        return "used"

    secret = Live()
    agent(life, calls(call("use")), say("Done"), tools=[use]).run("Go", run_id=RUN, deps=secret)
    life.next()
    life.log.clear()
    agent(life, say("Done"), tools=[use]).resume(RUN, deps="new deps")
    assert life.log == ["new deps"]
    assert report_of(OSError()) is None
