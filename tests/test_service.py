"""The tool service without an agent: one call, the loop with a function for a model, and runs taken step by step."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    AsyncStepwiseRun,
    CancelToken,
    ErrorPolicy,
    FinishReason,
    Limits,
    MemoryJournal,
    MessageWindow,
    Outcome,
    RoundLimitError,
    RunCancelled,
    StepwiseRun,
    Suspended,
    TextContent,
    ToolMessage,
    ToolService,
    ToolUndone,
    UndoPolicy,
    UndoReason,
    UserError,
    UserMessage,
    abort,
    report_of,
    tool,
)
from surehand.testing import Recorder, ScriptedModel, call, calls, say

from .modes import Mode, retold
from .shop import Shop, book, pay

BY_HAND = [Mode(way, parallel) for way in ("begin", "abegin") for parallel in (False, True)]
RECORDED = [Mode(way, way == "abegin", journal) for way in ("begin", "abegin") for journal in ("memory", "sqlite")]
by_hand = pytest.mark.parametrize("mode", [*BY_HAND, *RECORDED], ids=str)

BOOKED = calls(book("A"))
TWO = calls(book("A", "x"), book("B", "y"))


def drained(steps: Any, model: ScriptedModel) -> Any:
    """Take the steps until there is an answer."""
    while (request := steps.request()) is not None:
        steps.receive(model.generate(request))
        steps.settle()
    return steps.result


# ---------------------------------------------------------------- the same run, by hand


@by_hand
@pytest.mark.parametrize(
    ("replies", "options"),
    [
        ([say("Hello")], {}),
        ([TWO, BOOKED, say("Done")], {}),
        ([calls(book("A"), pay("politely")), say("Sorry")], {"undo": UndoPolicy.ON_TOOL_ERROR}),
        ([BOOKED, calls(pay("badly"))], {}),
        ([BOOKED, BOOKED], {"limits": Limits(rounds=1)}),
        ([BOOKED, OSError("no network")], {}),
        ([calls(finish_reason=FinishReason.TOOL_EXECUTION), say("Now")], {}),
        ([calls(book("A"), finish_reason=FinishReason.LENGTH), BOOKED, say("Done")], {}),
        ([calls(call("bok")), say("Sorry")], {"on_error": ErrorPolicy()}),
    ],
    ids=["answer", "rounds", "undo-on-error", "given-up", "limit", "model", "empty", "cut-off", "unknown-name"],
)
def test_a_run_taken_step_by_step_comes_out_as_any_other(mode: Mode, replies: Any, options: Any) -> None:
    plain = Mode("arun" if mode.is_async else "run", mode.parallel, mode.journal)
    expected_shop, shop = Shop(), Shop()
    expected = plain.play(*replies, tools=[expected_shop], **options)
    ended = mode.play(*replies, tools=[shop], **options)
    assert retold(ended) == retold(expected)
    assert (ended.names, ended.requests, shop.log) == (expected.names, expected.requests, expected_shop.log)
    assert (type(ended.error), str(ended.error)) == (type(expected.error), str(expected.error))


# ---------------------------------------------------------------- one call


def test_one_call_is_run_and_its_effect_stands() -> None:
    shop = Shop()
    execution = ToolService([shop]).execute(book("A"))
    assert (execution.result.text, execution.outcome) == ("booked A", Outcome.DONE)
    assert shop.log == ["book A"]


def test_one_call_awaited() -> None:
    async def main() -> Any:
        return await ToolService([Shop()]).aexecute(book("A"))

    assert asyncio.run(main()).result.text == "booked A"


def test_one_call_tells_the_tool_what_it_was_given() -> None:
    seen: list[Any] = []

    def look(context: Any) -> None:
        seen.append((context.deps, context.memory_id, dict(context.parameters)))

    given = {"deps": "d", "memory_id": "m", "parameters": {"a": 1}}
    ToolService([Shop()]).execute(book("A"), before_tool=look, **given)
    assert seen == [("d", "m", {"a": 1})]


def test_a_failure_that_would_give_a_run_up_is_raised_with_a_report() -> None:
    service = ToolService([Shop()])
    with pytest.raises(ValueError, match="card reader broke") as caught:
        service.execute(pay("badly"))
    report = report_of(caught.value)
    assert report is not None
    assert [execution.call.name for execution in report.unknown] == ["pay"]


def test_one_call_is_undone_if_its_after_hook_fails() -> None:
    shop = Shop()

    def after(execution: Any, context: Any) -> None:
        raise OSError("hook")

    with pytest.raises(OSError, match="hook"):
        ToolService([shop]).execute(book("A"), after_tool=after)
    assert shop.log == ["book A", "cancel booked A"]


def test_an_awaited_call_whose_caller_is_cancelled_finishes_and_is_undone() -> None:
    log, begun, may_end = [], asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        begun.set()
        await may_end.wait()
        log.append("slow")
        return "ok"

    async def main() -> None:
        task = asyncio.create_task(ToolService([slow]).aexecute(call("slow")))
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert log == ["slow"]


def test_a_call_that_the_provider_ran_and_what_is_no_call_are_refused() -> None:
    from surehand import ToolCall

    service: Any = ToolService([Shop()])
    with pytest.raises(UserError, match="provider has run"):
        service.execute(ToolCall(None, "book", "{}", executed_by_provider=True))
    with pytest.raises(UserError, match="no ToolCall"):
        service.execute("book")


# ---------------------------------------------------------------- the loop with a function


def test_the_loop_asks_a_function_and_adds_to_the_memory() -> None:
    model, memory = ScriptedModel([BOOKED, say("Done")]), MessageWindow(20)
    result = ToolService([Shop()]).loop(model.generate, "Go", memory=memory)
    assert (result.output, tuple(memory.messages())) == ("Done", result.messages)


def test_the_loop_takes_a_first_reply_that_is_there_already() -> None:
    model = ScriptedModel([say("Done")])
    result = ToolService([Shop()]).loop(model.generate, "Go", first=BOOKED)
    assert (result.output, result.intermediate, len(model.requests)) == ("Done", (BOOKED,), 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_either_loop_takes_functions_of_either_colour(is_async: bool) -> None:
    service = ToolService([Shop()])
    model = ScriptedModel([BOOKED, say("Done")])
    ask: Any = model.agenerate if is_async else model.generate
    assert service.loop(ask, "Go").output == "Done"
    model = ScriptedModel([BOOKED, say("Done")])
    ask = model.agenerate if is_async else model.generate
    assert asyncio.run(service.aloop(ask, "Go")).output == "Done"


def test_the_history_is_not_changed() -> None:
    history: Any = [UserMessage.of("before")]
    ToolService([Shop()]).loop(ScriptedModel([BOOKED, say("Done")]).generate, "Go", history=history)
    assert history == [UserMessage.of("before")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 3}, "memory=3"),
        ({"first": "x"}, "first='x'"),
        ({"wrong": 1}, "'wrong'"),
        ({"run_id": "a"}, "no journal"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_asked(options: Any, message: str) -> None:
    model = ScriptedModel([])
    with pytest.raises(UserError, match=message):
        ToolService([Shop()]).loop(model.generate, "Go", **options)
    assert model.requests == []


# ---------------------------------------------------------------- steps


def test_each_step_tells_what_it_came_to() -> None:
    model, shop = ScriptedModel([TWO, say("Done")]), Shop()
    with ToolService([shop]).begin("Go") as run:
        request = run.request()
        assert request is not None
        assert run.receive(model.generate(request)) == TWO.message.tool_calls
        assert shop.log == []
        combined = run.combine()
        assert [result.text for result in combined.results] == ["booked A", "booked B"]
        assert combined.first_error is None
        assert [each.execution.call.id for each in run.undoable] == ["y", "x"]
        outcome = run.settle()
        assert outcome.messages == (
            ToolMessage("x", "book", (TextContent("booked A"),), False),
            ToolMessage("y", "book", (TextContent("booked B"),), False),
        )
        assert (outcome.any_errored, outcome.returns, outcome.undone) == (False, False, ())
        assert drained(run, model).output == "Done"
        assert run.undoable == ()


def test_a_call_can_be_started_before_the_others_and_runs_once() -> None:
    model, shop = ScriptedModel([TWO, say("Done")]), Shop()
    with ToolService([shop]).begin("Go") as run:
        run.receive(model.generate(run.request()))  # type: ignore[arg-type]
        started = run.start(1)
        assert run.start(1) is started
        assert started.result().result.text == "booked B"
        assert started.execution == started.result()
        assert [execution.call.id for execution in run.combine().executions] == ["x", "y"]
        run.settle()
    assert shop.log[:2] == ["book B", "book A"]


def test_calls_that_were_started_run_beside_each_other() -> None:
    both = threading.Barrier(2, timeout=10)

    @tool
    def meet() -> str:
        both.wait()
        return "met"

    model = ScriptedModel([calls(call("meet"), call("meet")), say("Done")])
    with ToolService([meet]).begin("Go") as run:
        run.receive(model.generate(run.request()))  # type: ignore[arg-type]
        run.start(0)
        run.start(1)
        assert [result.text for result in run.combine().results] == ["met", "met"]
        assert drained_after(run, model).output == "Done"


def drained_after(run: StepwiseRun, model: ScriptedModel) -> Any:
    run.settle()
    return drained(run, model)


def test_a_started_call_can_be_awaited() -> None:
    async def main() -> list[str]:
        model = ScriptedModel([TWO, say("Done")])
        async with ToolService([Shop()]).abegin("Go") as run:
            await run.receive(model.generate(await run.request()))  # type: ignore[arg-type]
            first, second = run.start(0), run.start(1)
            texts = [(await second).result.text, (await first).result.text]
            await run.settle()
            await run.receive(model.generate(await run.request()))  # type: ignore[arg-type]
            assert run.result.output == "Done"
            return texts

    assert asyncio.run(main()) == ["booked B", "booked A"]


def test_combining_waits_for_all_although_one_has_given_the_run_up() -> None:
    shop, may_end = Shop(), threading.Event()

    @tool
    def slow() -> str:
        may_end.wait(10)
        return "slow"

    model = ScriptedModel([calls(call("slow"), pay("badly"))])
    with pytest.raises(ValueError, match="card reader"), ToolService([shop, slow]).begin("Go", parallel=True) as run:
        run.receive(model.generate(run.request()))  # type: ignore[arg-type]
        run.start(0)
        run.start(1).result()
        may_end.set()
        combined = run.combine()
        assert [result.is_error for result in combined.results] == [False, True]
        assert isinstance(combined.first_error, ValueError)
        run.settle()


def test_what_stands_no_neighbour_is_left_to_combine() -> None:
    @tool(exclusive=True)
    def alone() -> str:
        return "alone"

    @tool(max_parallel=1)
    def single() -> str:
        return "single"

    model = ScriptedModel([calls(call("alone"), call("single"), call("single")), say("Done")])
    with ToolService([alone, single]).begin("Go") as run:
        run.receive(model.generate(run.request()))  # type: ignore[arg-type]
        with pytest.raises(UserError, match="exclusive"):
            run.start(0)
        run.start(1)
        with pytest.raises(UserError, match="max_parallel=1"):
            run.start(2)
        with pytest.raises(UserError, match="3 calls"):
            run.start(3)
        assert [result.text for result in run.combine().results] == ["alone", "single", "single"]


def test_a_call_of_a_reply_that_still_goes_on_starts_early_and_is_undone_if_the_reply_lacks_it() -> None:
    shop = Shop()
    service = ToolService([shop], early_start="all", parallel=True)
    model = ScriptedModel([BOOKED, say("Done")])
    with service.begin("Go") as run:
        request = run.request()
        kept, lost = run.start_early(0, BOOKED.message.tool_calls[0]), run.start_early(1, book("Z", "z"))
        assert kept is not None and lost is not None
        assert (kept.result().result.text, lost.result().result.text) == ("booked A", "booked Z")
        run.receive(model.generate(request))  # type: ignore[arg-type]
        assert run.start(0) is kept
        assert [result.text for result in run.combine().results] == ["booked A"]
        run.settle()
        assert shop.log[2:] == ["cancel booked Z"]
        assert drained(run, model).output == "Done"


def test_steps_out_of_turn_name_the_one_whose_turn_it_is() -> None:
    model = ScriptedModel([BOOKED, say("Done")])
    outside = ToolService([Shop()]).begin("Go")
    with pytest.raises(UserError, match="with"):
        outside.request()
    with ToolService([Shop()]).begin("Go") as run:
        for step in (run.settle, run.combine, lambda: run.receive(BOOKED)):
            with pytest.raises(UserError, match=r"the turn of request\(\)"):
                step()
        request = run.request()
        with pytest.raises(UserError, match=r"the turn of receive\(response\)"):
            run.request()
        run.receive(model.generate(request))  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"the turn of combine\(\) or settle\(\)"):
            run.request()
        with pytest.raises(UserError, match="no result"):
            _ = run.result
        with pytest.raises(UserError, match="begun already"):
            run.__enter__()
    with pytest.raises(UserError, match="given up or left"):
        run.settle()


# ---------------------------------------------------------------- the end of a run by hand


@pytest.fixture(params=["blocking", "awaitable"])
def left(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Leaves a block after a round in which A was booked: by an error, or early; gives the run and what was raised."""

    def blocking(service: ToolService, error: BaseException | None) -> Any:
        run, raised = service.begin("Go"), None
        try:
            with run:
                run.request()
                run.receive(BOOKED)
                run.settle()
                if error is not None:
                    raise error
        except BaseException as caught:
            raised = caught
        return run, raised

    async def awaitable(service: ToolService, error: BaseException | None) -> Any:
        run, raised = service.abegin("Go"), None
        try:
            async with run:
                await run.request()
                await run.receive(BOOKED)
                await run.settle()
                if error is not None:
                    raise error
        except BaseException as caught:
            raised = caught
        return run, raised

    yield blocking if request.param == "blocking" else lambda *given: asyncio.run(awaitable(*given))


def test_leaving_the_block_by_an_error_undoes_what_was_done_and_reports_it(left: Any) -> None:
    shop, recorder, error = Shop(), Recorder(), KeyError("mine")
    run, raised = left(ToolService([shop], listeners=[recorder]), error)
    assert raised is error
    report = report_of(raised)
    assert report is not None
    assert (shop.log, [e.call.name for e in report.undone]) == (["book A", "cancel booked A"], ["book"])
    assert run.undone == report
    assert recorder.names[-1] == "RunFailed"


def test_leaving_the_block_early_cancels_the_run_and_raises_nothing(left: Any) -> None:
    shop, recorder = Shop(), Recorder()
    run, raised = left(ToolService([shop], listeners=[recorder]), None)
    assert (raised, shop.log) == (None, ["book A", "cancel booked A"])
    assert (recorder.names[-1], len(run.undone.undone)) == ("RunCancelledEvent", 1)


@pytest.mark.parametrize("error", [StopIteration(1), GeneratorExit(), KeyboardInterrupt(), StopAsyncIteration()])
def test_leaving_the_block_by_any_error_undoes_what_was_done(error: BaseException) -> None:
    shop = Shop()
    try:
        with ToolService([shop]).begin("Go") as run:
            run.request()
            run.receive(BOOKED)
            run.settle()
            raise error
    except BaseException as caught:
        assert caught is error
    assert shop.log == ["book A", "cancel booked A"]
    assert report_of(error) is not None


@pytest.mark.parametrize("reason", [UndoReason.RUN_GIVEN_UP, UndoReason.RUN_CANCELLED])
def test_a_run_can_be_undone_by_its_caller_once(reason: UndoReason) -> None:
    shop, recorder = Shop(), Recorder()
    with ToolService([shop], listeners=[recorder]).begin("Go") as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        report = run.undo(reason)
        assert [execution.call.name for execution in report.undone] == ["book"]
        assert run.undo() == report
    assert [event.reason for event in recorder.events if isinstance(event, ToolUndone)] == [reason]
    assert shop.log == ["book A", "cancel booked A"]


def test_undoing_awaited() -> None:
    shop = Shop()

    async def main() -> Any:
        async with ToolService([shop]).abegin("Go") as run:
            await run.request()
            await run.receive(BOOKED)
            await run.settle()
            return await run.undo()

    assert len(asyncio.run(main()).undone) == 1
    assert shop.log == ["book A", "cancel booked A"]


def test_undo_says_which_reasons_there_are() -> None:
    with ToolService([Shop()]).begin("Go") as run, pytest.raises(UserError, match="ON_TOOL_ERROR"):
        run.undo(UndoReason.TOOL_FAILED)


def test_a_run_that_has_its_answer_is_not_undone() -> None:
    shop, model = Shop(), ScriptedModel([BOOKED, say("Done")])
    with pytest.raises(KeyError), ToolService([shop]).begin("Go") as run:
        drained(run, model)
        assert run.undo().undone == ()
        raise KeyError("afterwards")
    assert shop.log == ["book A"]


def test_a_step_that_fails_has_given_the_run_up() -> None:
    shop = Shop()
    with ToolService([shop], limits=Limits(rounds=1)).begin("Go") as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        run.request()
        with pytest.raises(RoundLimitError):
            run.receive(BOOKED)
        assert shop.log == ["book A", "cancel booked A"]


def test_a_token_cancels_between_two_steps() -> None:
    shop, token = Shop(), CancelToken()
    with ToolService([shop]).begin("Go", cancel=token) as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        token.cancel()
        with pytest.raises(RunCancelled):
            run.request()
    assert shop.log == ["book A", "cancel booked A"]


def test_a_caller_that_is_cancelled_in_a_step_leaves_when_the_tool_is_done_and_undone() -> None:
    log: list[str] = []

    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            begun.set()
            await may_end.wait()
            log.append("slow")
            return "ok"

        async def steps() -> None:
            async with ToolService([slow, Shop()]).abegin("Go") as run:
                await run.request()
                await run.receive(calls(call("slow")))
                await run.combine()

        task = asyncio.create_task(steps())
        await begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        log.append(repr(report_of(caught.value)))

    asyncio.run(main())
    assert log == ["slow", "UndoReport(done=['slow'], no_undo=['slow'])"]


def test_two_steps_at_once_are_refused() -> None:
    async def main() -> None:
        async with ToolService([Shop()]).abegin("Go") as run:
            waiting = asyncio.create_task(run.request())
            await asyncio.sleep(0)
            with pytest.raises(UserError, match="still going on"):
                await run.request()
            await waiting

    asyncio.run(main())


def test_a_block_that_is_left_before_the_first_step_leaves_nothing() -> None:
    async def main() -> None:
        async with ToolService([Shop()]).abegin("Go"):
            pass

    with ToolService([Shop()]).begin("Go") as run:
        pass
    assert run.undone.executions == ()
    asyncio.run(main())


# ---------------------------------------------------------------- with a journal


def test_a_run_by_hand_is_gone_on_with_at_the_request_that_was_not_answered() -> None:
    journal, shop = MemoryJournal(), Shop()
    service = ToolService([shop], journal=journal)
    with pytest.raises(Suspended), service.begin("Go", run_id="r") as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        raise Suspended("go on later")
    assert shop.log == ["book A"]
    with service.begin("Go", run_id="r") as again:
        request = again.request()
        assert request is not None
        assert [message.text for message in request.messages if isinstance(message, ToolMessage)] == ["booked A"]
        again.receive(say("Done"))
        assert (again.result.output, len(again.executions)) == ("Done", 1)
    with service.begin("Go", run_id="r") as told:
        assert (told.request(), told.result.output) == (None, "Done")
    assert shop.log == ["book A"]


def test_a_handler_that_aborts_is_the_first_error_and_is_raised_when_the_round_is_settled() -> None:
    service = ToolService([Shop()], on_error=ErrorPolicy(tool_error=abort))
    with service.begin("Go") as run:
        run.request()
        run.receive(calls(pay("politely"), book("A")))
        combined = run.combine()
        assert [e.outcome for e in combined.executions] == [Outcome.FAILED, Outcome.NOT_RUN]
        with pytest.raises(Exception, match="card refused") as caught:
            run.settle()
        assert caught.value is combined.first_error


def test_handles_are_of_their_colour() -> None:
    service = ToolService([Shop()])
    assert (type(service.begin("Go")), type(service.abegin("Go"))) == (StepwiseRun, AsyncStepwiseRun)
