"""Undo: what is undone, when, in which order, and what the model and the caller are told (spec 11)."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from surehand import (
    ErrorContext,
    ErrorPolicy,
    Limits,
    MessageWindow,
    ModelError,
    Outcome,
    RoundLimitError,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolUndone,
    UndoOutcome,
    UndoPolicy,
    UndoReason,
    UserError,
    report_of,
    tool,
)
from surehand.testing import call, say

from .modes import Mode, answer_of, ask
from .shop import WHY_GIVEN_UP, Shop, book, pay, undone

# ---------------------------------------------------------------- ON_GIVE_UP, the default


def test_a_run_that_is_given_up_undoes_what_was_done_newest_first(sequential: Mode) -> None:
    shop = Shop()
    ended = sequential.play(ask(book("seat"), book("bed")), ask(book("car")), ask(pay("badly")), tools=[shop])
    assert type(ended.error) is ValueError
    assert shop.log[4:] == ["cancel booked car", "cancel booked bed", "cancel booked seat"]
    assert undone(ended) == [("booked car", None), ("booked bed", None), ("booked seat", None)]
    assert {event.reason for event in ended.of(ToolUndone)} == {UndoReason.RUN_GIVEN_UP}
    assert ended.names[-4:] == ["ToolUndone", "ToolUndone", "ToolUndone", "RunFailed"]
    assert ended.results == [
        ("book", WHY_GIVEN_UP, True),
        ("book", WHY_GIVEN_UP, True),
        ("book", WHY_GIVEN_UP, True),
        ("pay", "This call of 'pay' may have happened; it is not known. Do not repeat it.", True),
    ]


def test_the_order_of_undoing_is_that_of_completion_reversed(concurrent: Mode) -> None:
    import threading

    second_done, log = threading.Event(), []

    def cancel(value: str) -> None:
        log.append(value)

    @tool(undo=cancel)
    def first() -> str:
        assert second_done.wait(5)
        return "first"

    @tool(undo=cancel)
    def second() -> str:
        return "second"

    def after(execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        if execution.call.name == "second":
            second_done.set()

    ended = concurrent.play(
        ask(call("first"), call("second")), ask(call("nope")),
        tools=[first, second], run={"after_tool": after}, limits=Limits(rounds=1),
    )  # fmt: skip
    assert log == ["first", "second"]
    assert [event.execution.value for event in ended.of(ToolUndone)] == ["first", "second"]
    assert [execution.value for execution in ended.report.undone] == ["first", "second"]  # request order


def give_up_by_limit(shop: Shop) -> dict[str, Any]:
    return {"script": [ask(book("seat")), ask(book("bed"))], "options": {"limits": Limits(rounds=1)}}


def give_up_by_model(shop: Shop) -> dict[str, Any]:
    return {"script": [ask(book("seat")), ModelError("model is down")]}


def give_up_by_unknown_name(shop: Shop) -> dict[str, Any]:
    def refuse(call: ToolCall, names: Sequence[str]) -> str:
        raise LookupError(call.name)

    return {"script": [ask(book("seat"), call("nope"))], "options": {"on_error": ErrorPolicy(unknown_name=refuse)}}


def give_up_by_handler(shop: Shop) -> dict[str, Any]:
    def handler(error: BaseException, context: ErrorContext) -> str:
        raise LookupError("handler")

    return {"script": [ask(book("seat"), pay("badly"))], "options": {"on_error": handler}}


def give_up_by_hook(shop: Shop) -> dict[str, Any]:
    def hook(execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        raise LookupError("hook")

    return {"script": [ask(book("seat"))], "options": {"after_tool": hook}}


def give_up_by_transformer(shop: Shop) -> dict[str, Any]:
    def transform(request: Any, memory_id: Any) -> Any:
        if len(request.messages) > 1:
            raise LookupError("transformer")
        return request

    return {"script": [ask(book("seat"))], "options": {"transform_request": transform}}


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (give_up_by_limit, RoundLimitError),
        (give_up_by_model, ModelError),
        (give_up_by_unknown_name, LookupError),
        (give_up_by_handler, LookupError),
        (give_up_by_hook, LookupError),
        (give_up_by_transformer, LookupError),
    ],
)
@pytest.mark.parametrize("with_memory", [False, True])
def test_whatever_ends_a_run_what_it_did_is_undone_first(mode: Mode, cause: Any, kind: Any, with_memory: bool) -> None:
    shop, memory = Shop(), MessageWindow(50) if with_memory else None
    given = cause(shop)
    ended = mode.play(*given["script"], tools=[shop], memory=memory, **given.get("options", {}))
    assert isinstance(ended.error, kind)
    assert [entry for entry in shop.log if not entry.startswith("pay")] == ["book seat", "cancel booked seat"]
    assert ended.results[0] == ("book", WHY_GIVEN_UP, True)
    assert [execution.value for execution in ended.report.undone] == ["booked seat"]
    assert [execution.call.name for execution in ended.report.standing] == (
        ["pay"] if cause is give_up_by_handler else []
    )
    if memory is not None:
        assert memory.messages() == list(ended.messages)


def test_a_failed_tool_alone_undoes_nothing_while_the_run_goes_on(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(ask(book("seat"), pay("politely")), say("Sorry"), tools=[shop])
    assert shop.log.count("cancel booked seat") == 0
    assert ended.results == [("book", "booked seat", False), ("pay", "card refused", True)]
    assert (ended.report.undone, len(ended.report.standing)) == ((), 1)


def test_with_undo_off_nothing_is_ever_undone_and_the_report_says_what_stands(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(ask(book("seat"), pay("badly")), tools=[shop], undo=UndoPolicy.OFF)
    assert type(ended.error) is ValueError
    assert "cancel booked seat" not in shop.log
    assert ended.results[0] == ("book", "booked seat", False)
    assert [(e.call.name, e.outcome) for e in ended.report.standing] == [
        ("book", Outcome.DONE),
        ("pay", Outcome.UNKNOWN),
    ]


def test_the_report_names_what_has_no_undo(mode: Mode) -> None:
    shop = Shop()
    ended = mode.play(ask(book("seat"), call("email")), ask(pay("badly")), tools=[shop])
    report = ended.report
    names = {
        field: [execution.call.name for execution in getattr(report, field)]
        for field in ("done", "undone", "failed_to_undo", "unknown", "no_undo", "standing")
    }
    assert names == {
        "done": ["book", "email"],
        "undone": ["book"],
        "failed_to_undo": [],
        "unknown": ["pay"],
        "no_undo": ["email"],
        "standing": ["email", "pay"],
    }
    assert report.run_id == "run-1"
    notes = "".join(getattr(ended.error, "__notes__", ()))
    assert "surehand run run-1" in notes and "email" in notes and "report_of" in notes


# ---------------------------------------------------------------- undo functions that fail


@pytest.mark.parametrize("failing", ["seat", "bed", "car"])
def test_an_undo_that_fails_stops_no_other_and_the_truth_is_told(sequential: Mode, failing: str) -> None:
    shop, memory = Shop(fails_to_cancel=[failing]), MessageWindow(50)
    ended = sequential.play(
        ask(book("seat"), book("bed"), book("car"), pay("badly")), tools=[shop], memory=memory
    )  # fmt: skip
    assert type(ended.error) is ValueError
    assert shop.log[-3:] == ["cancel booked car", "cancel booked bed", "cancel booked seat"]
    error = "OSError: line is dead"
    names = ["seat", "bed", "car"]
    assert undone(ended) == [(f"booked {n}", error if n == failing else None) for n in reversed(names)]
    assert [e.undo for e in ended.executions[:3]] == [
        UndoOutcome(error if name == failing else None, 1000.0) for name in names
    ]
    assert [e.value for e in ended.report.failed_to_undo] == [f"booked {failing}"]
    assert [e.call.name for e in ended.report.standing] == ["book", "pay"]
    attempted = (
        "Tool 'book' had succeeded. Undoing it because the run was given up was attempted and failed: "
        "its effect may stand."
    )
    assert [text for _, text, _ in ended.results[:3]] == [attempted if n == failing else WHY_GIVEN_UP for n in names]
    assert memory.messages() == list(ended.messages)


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), StopIteration(), KeyboardInterrupt()],
                         ids=lambda e: type(e).__name__)  # fmt: skip
def test_no_exception_of_an_undo_function_stops_the_others(mode: Mode, error: BaseException) -> None:
    log: list[str] = []

    def cancel(value: str) -> None:
        log.append(value)
        if value == "two":
            raise error

    @tool(undo=cancel)
    def do(what: str) -> str:
        return what

    script = [ask(call("do", f'{{"what": "{what}"}}')) for what in ("one", "two", "three", "four")]
    ended = mode.play(*script, tools=[do], limits=Limits(rounds=3))
    assert log == ["three", "two", "one"]
    assert [e.undo is not None and e.undo.is_undone for e in ended.executions[:3]] == [True, False, True]
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else RoundLimitError
    assert type(ended.error) is expected


@pytest.mark.parametrize("is_async", [False, True])
def test_blocking_and_awaitable_undo_functions_work_in_every_mode(mode: Mode, is_async: bool) -> None:
    log: list[Any] = []

    def cancel(execution: ToolExecution[str], ctx: ToolContext[Any]) -> None:
        log.append((execution.value, execution.key, ctx.deps, ctx.idempotency_key))

    async def cancel_async(execution: ToolExecution[str], ctx: ToolContext[Any]) -> None:
        cancel(execution, ctx)

    @tool(undo=cancel_async if is_async else cancel)
    def do() -> str:
        return "done"

    mode.play(ask(call("do")), ask(call("do")), tools=[do], limits=Limits(rounds=1), run={"deps": "airline"})
    assert log == [("done", "1.0", "airline", "run-1:1.0")]


@pytest.mark.parametrize("id", ["b", None])
def test_an_equal_call_of_an_earlier_run_keeps_its_result(mode: Mode, id: str | None) -> None:
    shop, memory = Shop(), MessageWindow(50)
    mode.play(ask(book("seat", id)), say("Booked"), tools=[shop], memory=memory)
    earlier = memory.messages()
    ended = mode.play(ask(book("seat", id)), ask(pay("badly")), tools=[shop], memory=memory)
    assert memory.messages() == [*earlier, *ended.messages]
    assert earlier[2] == answer_of(book("seat", id), "booked seat")
    assert ended.results[0] == ("book", WHY_GIVEN_UP, True)
    assert shop.log.count("cancel booked seat") == 1


# ---------------------------------------------------------------- in another process


@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.deepcopy], ids=["pickle", "copy"])
def test_an_error_and_its_report_arrive_in_another_process(mode: Mode, copied: Callable[[Any], Any]) -> None:
    error = mode.play(ask(book("seat")), ask(pay("badly")), tools=[Shop()]).error
    assert error is not None
    there = copied(error)
    assert (type(there), str(there), there.__notes__) == (type(error), str(error), error.__notes__)
    report = report_of(there)
    assert report is not None and report == report_of(error)
    assert [entry.value for entry in report.undone] == ["booked seat"]
    assert report_of(copied(there)) == report


def test_an_error_arrives_although_a_value_of_its_report_cannot(mode: Mode) -> None:
    @tool
    def lock() -> Any:
        """A value that stays in its process."""
        return threading.Lock()

    error = mode.play(ask(call("lock")), tools=[lock], limits=Limits(rounds=0)).error
    assert type(pickle.loads(pickle.dumps(error))) is RoundLimitError
    error = mode.play(ask(call("lock")), ask(call("lock")), tools=[lock], limits=Limits(rounds=1)).error
    there = pickle.loads(pickle.dumps(error))
    assert (type(there), report_of(there)) == (RoundLimitError, None)


def test_a_result_arrives_in_another_process(mode: Mode) -> None:
    result = mode.play(ask(book("seat")), say("Done."), tools=[Shop()]).result
    there = pickle.loads(pickle.dumps(result))
    assert there == result and there is not result
    assert [entry.value for entry in there.undone.done] == ["booked seat"]


def test_asking_a_result_for_its_report_says_where_it_is() -> None:
    nonsense: Any = "a result"
    with pytest.raises(UserError, match=r"report_of\('a result'\): expected an exception; .*\.undone"):
        report_of(nonsense)
