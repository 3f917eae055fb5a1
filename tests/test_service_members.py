"""The 67 members of the reference: what the spec requires of each is there, and the table in the docs says where."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

import surehand
from surehand import (
    Agent,
    AssistantMessage,
    CombinedResults,
    ErrorPolicy,
    KeywordSearch,
    Limits,
    MessageWindow,
    NextRequest,
    Outcome,
    ReturnBehavior,
    RoundLimitError,
    RoundOutcome,
    TextContent,
    ToolCall,
    ToolError,
    ToolExecuted,
    ToolMessage,
    ToolResult,
    ToolService,
    ToolSpec,
    Undoable,
    UndoPolicy,
    UserError,
    UserMessage,
    find_tools,
    programmatic_tool,
    replace_last_user,
    report_of,
    returns_immediately,
    tool,
    tool_provider,
    undoes,
    use_executor,
)
from surehand._options import ServiceOptions
from surehand.testing import Recorder, ScriptedModel, call, calls, say

from .shop import Shop, book, pay

TABLE = Path(__file__).parent.parent / "docs" / "tool-service.md"
BOOKED, DONE = calls(book("A")), say("Done")

TO_MODEL, IMMEDIATE, IF_LAST = ReturnBehavior.TO_MODEL, ReturnBehavior.IMMEDIATE, ReturnBehavior.IMMEDIATE_IF_LAST

PROOFS: dict[int, Callable[[], None]] = {}


def member(*numbers: int) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The function proves what the spec requires of these members."""

    def enter(proof: Callable[[], None]) -> Callable[[], None]:
        for number in numbers:
            assert number not in PROOFS
            PROOFS[number] = proof
        return proof

    return enter


@pytest.mark.parametrize("number", range(1, 68))
def test_member(number: int) -> None:
    PROOFS[number]()


# ---------------------------------------------------------------- hooks


@member(1, 8)
def hooks_can_be_read_and_are_none_by_default() -> None:
    def before(context: Any) -> None: ...
    def after(execution: Any, context: Any) -> None: ...

    hooks = ToolService(before_tool=before, after_tool=after).hooks
    assert (hooks.before, hooks.after) == ((before,), (after,))
    assert (ToolService().hooks.before, ToolService().hooks.after) == ((), ())


@member(2)
def the_after_hook_fires_with_the_record_also_of_a_failure_that_ends_the_run() -> None:
    heard: list[Any] = []
    service = ToolService([Shop()], after_tool=lambda execution, context: heard.append(execution))
    with pytest.raises(ValueError, match="card"):
        service.loop(ScriptedModel([calls(pay("badly"))]).generate, "Go")
    assert [(e.call.name, e.result.is_error, e.started_at is None) for e in heard] == [("pay", True, False)]


@member(9)
def the_before_hook_may_change_a_call_and_the_services_comes_first() -> None:
    order: list[str] = []

    def ours(context: Any) -> ToolCall:
        order.append("service")
        return book("B")

    def theirs(context: Any) -> None:
        order.append(f"call {context.call.arguments}")

    execution = ToolService([Shop()], before_tool=ours).execute(book("A"), before_tool=theirs)
    assert (execution.result.text, order) == ("booked B", ["service", 'call {"what": "B"}'])


@member(23)
def one_call_has_its_own_hooks_and_those_of_the_service() -> None:
    order: list[str] = []
    service = ToolService([Shop()], after_tool=lambda execution, context: order.append("service"))
    execution = service.execute(book("A"), after_tool=lambda execution, context: order.append(execution.result.text))
    assert (execution.result.text, order) == ("booked A", ["service", "booked A"])


# ---------------------------------------------------------------- names and errors


@member(3)
def an_unknown_name_is_answered_by_its_handler_as_an_error_with_all_it_says() -> None:
    message = ToolMessage("c", "nope", (TextContent("no"), TextContent("such")), None, {"a": 1})
    service = ToolService([Shop()], on_error=ErrorPolicy(unknown_name=lambda call, names: message))
    result = service.execute(call("nope")).result
    assert (result.contents, result.attributes, result.is_error) == (message.contents, {"a": 1}, True)
    assert "'book'" in ToolService([Shop()]).execute(call("bok")).result.text


def _tells(error: BaseException, context: Any) -> str:
    return f"told {type(error).__name__}"


@member(4, 27)
def the_effective_handlers_can_be_read() -> None:
    policy = ErrorPolicy(arguments=_tells, execution=_tells)
    errors = ToolService(on_error=policy).errors
    assert (errors.arguments, errors.execution) == (_tells, _tells)
    assert ToolService(on_error=_tells).errors.execution is _tells
    assert ToolService().errors == ErrorPolicy()


@member(5)
def the_arguments_handler_is_asked_of_arguments_alone() -> None:
    service = ToolService([Shop()], on_error=ErrorPolicy(arguments=_tells))
    refused = service.execute(call("book", '{"wat": 1}'))
    assert (refused.result.text, refused.outcome) == ("told ToolArgumentsError", Outcome.REJECTED)
    assert service.execute(pay("politely")).result.text == "card refused"


@member(6, 7)
def awaitable_forms_ask_the_same_handlers() -> None:
    service = ToolService([Shop()], on_error=ErrorPolicy(arguments=_tells, execution=_tells))
    for asked in (call("book", "{}"), pay("badly")):
        here, awaited = service.execute(asked), asyncio.run(service.aexecute(asked))
        assert here.result.text.startswith("told ")
        assert (awaited.result, awaited.outcome) == (here.result, here.outcome)


@member(26)
def errors_are_routed_by_what_was_raised_also_outside_of_a_loop() -> None:
    service = ToolService([Shop()], on_error=_tells)
    assert service.execute(pay("badly")).result == ToolResult.error("told ValueError")
    assert service.execute(pay("politely")).result == ToolResult.error("card refused")


@member(28)
def the_execution_handler_may_raise_and_the_tools_error_stays_its_cause() -> None:
    def gives_up(error: BaseException, context: Any) -> str:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough") as caught:
        ToolService([Shop()], on_error=gives_up).execute(pay("badly"))
    assert isinstance(caught.value.__cause__, ValueError)


@member(31)
def what_the_handler_of_unknown_names_raises_ends_the_run_and_is_no_error_of_a_tool() -> None:
    def raises(call: Any, names: Any) -> str:
        raise LookupError(f"{call.name} of {list(names)}")

    service = ToolService([Shop()], on_error=ErrorPolicy(unknown_name=raises, execution=_tells))
    with pytest.raises(LookupError, match=r"nope of \['book'"):
        service.loop(ScriptedModel([calls(call("nope"))]).generate, "Go")


# ---------------------------------------------------------------- undoing


@member(10, 37)
def what_a_round_did_is_in_the_ledger_in_the_order_of_completion_over_all_rounds() -> None:
    service = ToolService([Shop()])
    with service.begin("Go") as run:
        assert run.undoable == ()
        run.request()
        run.receive(calls(book("A", "x"), call("email", id="e")))
        run.settle()
        run.request()
        run.receive(calls(book("B", "y"), book("C", "z")))
        assert run.start(1).result().outcome is Outcome.DONE
        run.combine()
        assert [each.execution.call.id for each in run.undoable] == ["y", "z", "x"]


@member(11, 61)
def combining_covers_every_call_also_equal_ones_and_never_raises() -> None:
    with ToolService([Shop()]).begin("Go", parallel=True) as run:
        run.request()
        run.receive(calls(book("A"), pay("badly"), book("A")))
        combined = run.combine()
        assert isinstance(combined, CombinedResults)
        assert [result.text for result in combined.results][::2] == ["booked A", "booked A"]
        assert (combined.results[1].is_error, type(combined.first_error)) == (True, ValueError)


ON_ERROR: Any = {"undo": UndoPolicy.ON_TOOL_ERROR}
FAILS = calls(book("A", "x"), pay("politely"))


def _check_undone(shop: Shop, outcome: RoundOutcome, recorder: Recorder) -> None:
    assert shop.log == ["book A", "pay politely", "cancel booked A"]
    assert [execution.call.id for execution in outcome.undone] == ["x"]
    assert (outcome.any_errored, outcome.messages[0].is_error) == (True, True)
    assert "was undone because tool 'pay' failed" in outcome.messages[0].text
    assert recorder.names.count("ToolUndone") == 1


@member(12)
def a_failed_tool_undoes_what_was_done_and_the_model_reads_so() -> None:
    shop, recorder = Shop(), Recorder()
    with ToolService([shop], listeners=[recorder], **ON_ERROR).begin("Go") as run:
        run.request()
        run.receive(FAILS)
        _check_undone(shop, run.settle(), recorder)
        assert run.undoable == ()


@member(13)
def the_same_awaited_with_an_undo_that_is_awaited() -> None:
    log: list[str] = []

    @tool
    async def reserve() -> str:
        return "seat"

    @undoes(reserve)
    async def release() -> None:
        log.append("released")

    @tool
    async def fails() -> str:
        raise ToolError("no")

    async def main() -> RoundOutcome:
        async with ToolService([reserve, release, fails], **ON_ERROR).abegin("Go", parallel=False) as run:
            await run.request()
            await run.receive(calls(call("reserve"), call("fails")))
            return await run.settle()

    outcome = asyncio.run(main())
    assert (log, len(outcome.undone), outcome.any_errored) == (["released"], 1, True)


@member(14)
def a_round_that_was_collected_is_undone_once() -> None:
    shop, recorder = Shop(), Recorder()

    async def main() -> None:
        service = ToolService([shop], listeners=[recorder], **ON_ERROR)
        async with service.abegin("Go", parallel=False) as run:
            await run.request()
            await run.receive(FAILS)
            await run.combine()
            assert [each.execution.call.id for each in run.undoable] == ["x"]
            _check_undone(shop, await run.settle(), recorder)

    asyncio.run(main())
    assert shop.log.count("cancel booked A") == 1


@member(15)
def undoing_after_a_cancellation_waits_for_running_tools_and_may_be_repeated() -> None:
    async def main() -> list[str]:
        log: list[str] = []
        begun, may_end = asyncio.Event(), asyncio.Event()

        @tool
        async def slow() -> str:
            begun.set()
            await may_end.wait()
            log.append("done")
            return "x"

        @undoes(slow)
        def take_back() -> None:
            log.append("undone")

        memory = MessageWindow(10)
        async with ToolService([slow, take_back]).abegin("Go", memory=memory) as run:
            await run.request()
            await run.receive(calls(call("slow")))
            run.start(0)
            await begun.wait()
            undoing = asyncio.create_task(run.undo(surehand.UndoReason.RUN_CANCELLED))
            await asyncio.sleep(0)
            may_end.set()
            report = await undoing
            assert await run.undo() == report
        result = memory.messages()[-1]
        assert isinstance(result, ToolMessage)
        assert "undone because the run was cancelled" in result.text
        return log

    assert asyncio.run(main()) == ["done", "undone"]


@member(16)
def undoing_after_failed_tools_is_a_policy_and_a_mere_failure_undoes_nothing_by_default() -> None:
    cases: list[tuple[dict[str, Any], int]] = [(ON_ERROR, 1), ({}, 0), ({"undo": UndoPolicy.OFF}, 0)]
    for options, undone in cases:
        shop = Shop()
        ToolService([shop], **options).loop(ScriptedModel([FAILS, DONE]).generate, "Go")
        assert shop.log.count("cancel booked A") == undone
    assert ToolService([Shop()]).undo_policy is UndoPolicy.ON_GIVE_UP
    assert ToolService([book_nothing]).undo_policy is UndoPolicy.OFF


@tool
def book_nothing() -> str:
    return "nothing"


@member(38)
def an_outer_ledger_can_be_kept_by_a_hook_whatever_the_policy_is() -> None:
    shop, outer = Shop(), list[Any]()

    def collect(execution: Any, context: Any) -> None:
        undo = service.tools[execution.call.name].undo
        if undo is not None and execution.outcome is Outcome.DONE:
            outer.append((undo, execution, context))

    service = ToolService([shop], undo=UndoPolicy.OFF, after_tool=collect)
    service.loop(ScriptedModel([calls(book("A"), call("email")), DONE]).generate, "Go")
    asyncio.run(service.aloop(ScriptedModel([calls(book("B")), DONE]).agenerate, "Go"))
    assert shop.log == ["book A", "email", "book B"]
    for undo, execution, context in reversed(outer):
        undo.call(execution, {}, context)
    assert shop.log[3:] == ["cancel booked B", "cancel booked A"]


@member(39)
def the_callback_of_a_failed_round_is_called_once_however_many_calls_failed() -> None:
    told: list[Any] = []
    service = ToolService([Shop()], on_tool_error=told.append)
    with service.begin("Go") as run:
        run.request()
        run.receive(calls(pay("politely"), pay("politely"), book("A")))
        run.settle()
        assert len(told) == 1
        run.request()
        run.receive(BOOKED)
        run.settle()
    assert [context.run_id for context in told] == [run.run_id]


@member(62)
def what_can_be_undone_has_its_execution_and_its_message() -> None:
    with ToolService([Shop()]).begin("Go") as run:
        run.request()
        run.receive(BOOKED)
        outcome = run.settle()
        (undoable,) = run.undoable
        assert isinstance(undoable, Undoable)
        assert (undoable.execution, (undoable.message,)) == (outcome.executions[0], outcome.messages)


# ---------------------------------------------------------------- the context, the loop


@tool
def found_by_search() -> str:
    """Sends a fax."""
    return "fax"


@member(17)
def the_context_has_own_tools_then_what_providers_give_and_none_is_the_shared_empty_one() -> None:
    @tool_provider
    def more(request: Any) -> Any:
        return [found_by_search]

    with ToolService([more, Shop()]).begin("Go") as run:
        run.request()
        assert [spec.name for spec in run.tools] == ["book", "email", "pay", "found_by_search"]
    assert (
        ToolService().settings.toolset
        is ToolService().settings.toolset
        is Agent(ScriptedModel([])).service.settings.toolset
    )


@member(18, 25, 29)
def bodies_run_on_the_executor_that_was_given() -> None:
    class Counted(Executor):
        jobs = 0

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            Counted.jobs += 1
            done: Future[Any] = Future()
            thread = threading.Thread(target=lambda: done.set_result(fn(*args, **kwargs)))
            thread.start()
            return done

    assert (ToolService(parallel=2).parallel, ToolService().parallel) == (2, None)
    use_executor(Counted())
    try:
        service = ToolService([Shop()], parallel=True)
        result = service.loop(ScriptedModel([calls(book("A"), book("B")), DONE]).generate, "Go")
    finally:
        use_executor(None)
    assert ([e.result.text for e in result.executions], Counted.jobs) == (["booked A", "booked B"], 2)


@member(19)
def the_loop_of_a_service_and_of_an_agent_is_one() -> None:
    model, other = ScriptedModel([BOOKED, DONE]), ScriptedModel([BOOKED, DONE])
    ours = ToolService([Shop()], clock=lambda: 0.0).loop(model.generate, "Go")
    assert ours == Agent(other, tools=[Shop()], clock=lambda: 0.0).run("Go")
    assert model.requests == other.requests


@member(20)
def the_loop_takes_a_reply_that_is_there_and_leaves_the_callers_messages_alone() -> None:
    history: list[Any] = [UserMessage.of("earlier")]
    model = ScriptedModel([DONE])
    result = ToolService([Shop()]).loop(model.generate, "Go", first=BOOKED, history=history)
    assert (result.intermediate, result.response, len(history)) == ((BOOKED,), DONE, 1)
    assert [type(m).__name__ for m in model.requests[0].messages] == [
        "UserMessage",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]


def _cancelled(start: Callable[[Shop, asyncio.Event], Any]) -> list[str]:
    shop = Shop()

    async def main() -> None:
        asked = asyncio.Event()
        task = asyncio.create_task(start(shop, asked))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert report_of(caught.value) is not None

    asyncio.run(main())
    return shop.log


@member(21, 22)
def cancelling_the_awaited_loop_ends_the_models_call_and_undoes_what_was_done() -> None:
    def start(shop: Shop, asked: asyncio.Event) -> Any:
        replies = [BOOKED]

        async def ask(request: Any) -> Any:
            if replies:
                return replies.pop()
            asked.set()
            await asyncio.Event().wait()

        return ToolService([shop]).aloop(ask, "Go")

    assert _cancelled(start) == ["book A", "cancel booked A"]


@member(24)
def tools_of_a_round_overlap_only_if_they_are_told_to() -> None:
    both = threading.Barrier(2, timeout=10)

    @tool
    def meet() -> str:
        both.wait()
        return "met"

    meeting = calls(call("meet"), call("meet"))
    result = ToolService([meet], parallel=True).loop(ScriptedModel([meeting, DONE]).generate, "Go")
    assert [execution.result.text for execution in result.executions] == ["met", "met"]
    threads: list[int] = []

    @tool
    def where() -> None:
        threads.append(threading.get_ident())

    ToolService([where]).loop(ScriptedModel([calls(call("where"), call("where")), DONE]).generate, "Go")
    assert threads == [threading.get_ident()] * 2


@member(33, 35)
def the_limit_of_rounds_can_be_read() -> None:
    assert (ToolService().limits.rounds, ToolService(limits=Limits(rounds=3)).limits.rounds) == (100, 3)


@member(34, 36)
def so_many_rounds_run_and_an_answer_after_them_is_fine() -> None:
    shop = Shop()
    service = ToolService([shop], limits=Limits(rounds=1))
    assert service.loop(ScriptedModel([BOOKED, DONE]).generate, "Go").output == "Done"
    with pytest.raises(RoundLimitError, match=r"1 rounds.*Limits\(rounds"):
        service.loop(ScriptedModel([BOOKED, BOOKED]).generate, "Go")
    assert shop.log == ["book A", "book A", "cancel booked A"]
    with pytest.raises(UserError, match="rounds"):
        Limits(rounds=-1)


# ---------------------------------------------------------------- messages and requests


class Batches(MessageWindow):
    """Notes how messages reach it."""

    def __init__(self) -> None:
        super().__init__(20)
        self.added: list[list[str]] = []

    def add(self, message: Any) -> None:
        self.added.append([type(message).__name__])
        super().add(message)

    def add_all(self, messages: Any) -> None:
        self.added.append([type(message).__name__ for message in messages])
        super().add_all(messages)


class AwaitedBatches(Batches):
    async def aadd_all(self, messages: Any) -> None:
        self.added.append(["awaited"])
        super().add_all(messages)

    async def amessages(self) -> Any:
        return self.messages()


@member(40)
def results_are_persisted_as_one_batch_awaited_where_that_can_be() -> None:
    memory = AwaitedBatches()

    async def main() -> None:
        async with ToolService([Shop()]).abegin("Go", memory=memory) as run:
            await run.request()
            await run.receive(calls(book("A"), book("B")))
            await run.settle()
            request = await run.request()
            assert request is not None
            assert list(request.messages) == memory.messages()

    asyncio.run(main())
    assert memory.added.count(["awaited"]) == 1


@member(41)
def results_are_persisted_as_one_batch_and_the_next_messages_are_the_memorys() -> None:
    memory = Batches()
    with ToolService([Shop()]).begin("Go", memory=memory) as run:
        run.request()
        run.receive(calls(book("A"), book("B")))
        run.settle()
        assert memory.added[-1] == ["AssistantMessage", "ToolMessage", "ToolMessage"]
        request = run.request()
        assert request is not None
        assert list(request.messages) == memory.messages()
    with ToolService([Shop()]).begin("Go") as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        request = run.request()
        assert request is not None
        assert request.messages == run.messages


def _shout(request: Any, memory_id: Any) -> Any:
    return surehand.ChatRequest((*request.messages, UserMessage.of("!")), request.parameters)


@member(42, 63)
def the_next_request_is_transformed_afresh_and_keeps_what_it_was_built_from() -> None:
    with ToolService([Shop()], transform_request=_shout).begin("Go") as run:
        run.request()
        run.receive(BOOKED)
        run.settle()
        request = run.request()
        assert request is not None
        assert [type(m).__name__ for m in request.messages[1:]] == ["AssistantMessage", "ToolMessage", "UserMessage"]
        prepared = run.prepared
        assert isinstance(prepared, NextRequest)
        assert (prepared.request, prepared.messages) == (request, request.messages[:-1])
        assert (prepared.parameters.tools, prepared.tools) == (run.tools, run.tools)


@member(43, 64)
def a_settled_round_has_its_messages_and_behaviours_in_order_and_its_events_fired() -> None:
    recorder = Recorder()
    with ToolService([Shop()], listeners=[recorder]).begin("Go") as run:
        run.request()
        run.receive(calls(book("A"), pay("politely"), call("nope", id="n")))
        run.combine()
        assert "ToolExecuted" not in recorder.names
        outcome = run.settle()
        assert isinstance(outcome, RoundOutcome)
        assert (outcome.any_errored, outcome.behaviors) == (True, (TO_MODEL, TO_MODEL, TO_MODEL))
        assert [message.tool_name for message in outcome.messages] == ["book", "pay", "nope"]
        assert outcome.executions == run.executions
        executed = [event.execution for event in recorder.events if isinstance(event, ToolExecuted)]
        assert tuple(executed) == outcome.executions


@member(44)
def dynamic_providers_are_asked_before_each_request_and_what_is_there_stays() -> None:
    asked: list[str] = []

    @tool
    def other() -> str:
        return "other"

    @tool_provider(dynamic=True)
    def more(request: Any) -> Any:
        asked.append(request.user_message.text)
        return [found_by_search] if len(asked) == 1 else [other]

    with ToolService([more]).begin("Go") as run:
        run.request()
        assert [spec.name for spec in run.tools] == ["found_by_search"]
        run.receive(calls(call("found_by_search")))
        run.settle()
        run.request()
        assert [spec.name for spec in run.tools] == ["found_by_search", "other"]
    assert asked == ["Go", "Go"]


@member(45)
def the_last_user_message_is_replaced_in_what_is_sent_and_not_in_what_is_kept() -> None:
    def augment(request: Any, memory_id: Any) -> Any:
        messages = replace_last_user(request.messages, UserMessage.of("Go, and remember this"))
        return surehand.ChatRequest(tuple(messages), request.parameters)

    model, memory = ScriptedModel([DONE]), MessageWindow(9)
    ToolService(transform_request=augment).loop(model.generate, "Go", memory=memory)
    assert model.requests[0].messages == (UserMessage.of("Go, and remember this"),)
    assert memory.messages() == [UserMessage.of("Go"), AssistantMessage("Done")]
    same = [UserMessage.of("x")]
    assert replace_last_user(same, None) is same


# ---------------------------------------------------------------- behaviours


@member(32, 46)
def what_happens_after_a_tool_is_known_by_its_name_and_unknown_names_go_to_the_model() -> None:
    ends = programmatic_tool(ToolSpec("ends"), lambda call, context: "x", returns=IMMEDIATE)
    last = programmatic_tool(ToolSpec("last"), lambda call, context: "x", returns=IF_LAST)
    service = ToolService([ends, last, Shop()])
    assert [service.returns(name) for name in ("ends", "last", "book", "nope")] == [
        IMMEDIATE,
        IF_LAST,
        TO_MODEL,
        TO_MODEL,
    ]


@member(47)
def whether_a_round_ends_the_run() -> None:
    assert returns_immediately(False, [TO_MODEL, IF_LAST])
    assert returns_immediately(False, [IMMEDIATE, IMMEDIATE])
    for failed, behaviors in ((True, [IMMEDIATE]), (False, []), (False, [IF_LAST, TO_MODEL]), (False, [TO_MODEL])):
        assert not returns_immediately(failed, behaviors)


@member(48)
def a_started_tool_runs_beside_its_caller_with_hooks_and_is_not_run_again() -> None:
    may_end, heard = threading.Event(), list[str]()

    @tool
    def slow() -> str:
        may_end.wait(10)
        return "slow"

    service = ToolService([slow], before_tool=lambda context: heard.append("before"))
    with service.begin("Go") as run:
        run.request()
        run.receive(calls(call("slow")))
        started = run.start(0)
        assert started.execution is None
        may_end.set()
        assert started.result().result.text == "slow"
        assert run.combine().executions == (started.result(),)
    assert heard == ["before"]


# ---------------------------------------------------------------- what a service is made of


@member(30)
def the_tools_of_an_object_are_found_and_what_has_none_is_named() -> None:
    assert [made.name for made in find_tools(Shop())] == ["book", "email", "pay"]
    for wrong, message in ((Shop, "Shop is a class"), ([Shop()], "list"), (object(), "object")):
        with pytest.raises(UserError, match=message):
            find_tools(wrong)


@member(49)
def tools_are_found_by_name_each_with_what_runs_it_and_nobody_can_change_them() -> None:
    def execute(call: Any, context: Any) -> str:
        return "x"

    tools: Any = ToolService([Shop(), (ToolSpec("b"), execute)]).tools
    assert list(tools) == ["book", "email", "pay", "b"]
    assert tools["b"].body.executor is execute
    with pytest.raises(TypeError):
        tools["c"] = tools["b"]


@tool_provider
def first_provider(request: Any) -> Any:
    return [found_by_search]


@tool_provider
def second_provider(request: Any) -> Any:
    return [book_nothing]


@member(50, 52)
def providers_can_be_read_in_order() -> None:
    assert ToolService().providers == ()
    assert ToolService([first_provider, Shop(), second_provider]).providers == (first_provider, second_provider)


@member(51)
def a_providers_tools_can_be_called_also_by_a_call_alone() -> None:
    service = ToolService([first_provider])
    assert service.execute(call("found_by_search"), prompt="Go").result.text == "fax"
    assert service.execute(call("found_by_search")).outcome is Outcome.REJECTED  # nobody was asked
    assert asyncio.run(service.aexecute(call("found_by_search"), prompt="Go")).result.text == "fax"


@member(53)
def several_providers_are_asked_each_once_and_equal_names_are_refused() -> None:
    with ToolService([first_provider, second_provider, first_provider]).begin("Go") as run:
        run.request()
        assert [spec.name for spec in run.tools] == ["found_by_search", "book_nothing"]
    with (
        pytest.raises(UserError, match="book_nothing"),
        ToolService([book_nothing, second_provider]).begin("Go") as run,
    ):
        run.request()


@member(54)
def objects_are_scanned_and_undos_are_never_shown() -> None:
    service = ToolService([Shop(), book_nothing])
    assert [spec.name for spec in service.specs] == ["book", "email", "pay", "book_nothing"]
    assert service.tools["book"].undo is not None


@member(55)
def records_are_taken_in_order_and_equal_names_are_refused() -> None:
    records = find_tools(Shop())
    assert list(ToolService(records).tools.values()) == records
    with pytest.raises(UserError, match="two tools are named 'book'"):
        ToolService([*records, Shop()])


@member(56)
def a_map_of_specifications_to_executors_is_taken_and_its_executor_gets_the_call() -> None:
    service = ToolService([{ToolSpec("raw"): lambda call, context: call.arguments}])
    assert service.execute(call("raw", '{"a": 1}')).result.text == '{"a": 1}'


@member(57)
def a_tool_of_a_specification_may_end_the_run() -> None:
    ends = programmatic_tool(ToolSpec("ends"), lambda call, context: "the end", returns=IMMEDIATE)
    with ToolService([ends]).begin("Go") as run:
        run.request()
        run.receive(calls(call("ends")))
        outcome = run.settle()
        assert (outcome.returns, outcome.behaviors, outcome.messages[0].text) == (True, (IMMEDIATE,), "the end")
        assert (run.request(), run.result.immediate, run.result.output) == (None, True, None)


@member(58)
def tools_that_were_found_are_shown_from_the_next_request_on() -> None:
    with ToolService([found_by_search], tool_search=KeywordSearch()).begin("Go") as run:
        run.request()
        assert [spec.name for spec in run.tools] == ["tool_search_tool"]
        run.receive(calls(call("tool_search_tool", {"terms": ["fax"]})))
        run.settle()
        request = run.request()
        assert request is not None
        assert [spec.name for spec in request.tools] == ["tool_search_tool", "found_by_search"]


@member(59)
def specifications_are_in_order() -> None:
    specs = (ToolSpec("b"), ToolSpec("a"))
    assert ToolService([(spec, lambda call, context: "x") for spec in specs]).specs == specs


@member(60)
def a_service_is_settled_when_it_is_made() -> None:
    service: Any = ToolService([Shop()])
    with pytest.raises(UserError, match="make another"):
        service.limits = Limits(rounds=1)
    with pytest.raises(UserError, match="round_limit"):
        ToolService([Shop()], round_limit=1)  # type: ignore[call-arg]
    assert ToolService().specs == ()


# ---------------------------------------------------------------- executors


@member(65)
def an_executor_gives_text() -> None:
    class Echo:
        def execute(self, call: ToolCall, context: Any) -> str:
            return f"{call.name} for {context.memory_id}"

    service = ToolService([(ToolSpec("echo"), Echo())])
    assert service.execute(call("echo"), memory_id="m").result.text == "echo for m"


@member(66)
def an_executor_gives_a_result_with_all_that_it_has() -> None:
    given = ToolResult((TextContent("a"),), 7, True, {"k": "v"})

    class Full:
        def execute(self, call: ToolCall, context: Any) -> ToolResult:
            return given

    result = ToolService([(ToolSpec("full"), Full())]).execute(call("full")).result
    assert (result.contents, result.value, result.is_error, dict(result.attributes)) == (
        given.contents,
        7,
        True,
        {"k": "v"},
    )


@member(67)
def an_awaitable_executor_is_awaited_and_a_blocking_one_goes_to_a_thread() -> None:
    class Awaited:
        async def execute_async(self, call: ToolCall, context: Any) -> str:
            return str(threading.get_ident())

    class Blocks:
        def execute(self, call: ToolCall, context: Any) -> str:
            return str(threading.get_ident())

    service = ToolService([(ToolSpec("awaited"), Awaited()), (ToolSpec("blocks"), Blocks())])
    here = str(threading.get_ident())
    assert asyncio.run(service.aexecute(call("awaited"))).result.text == here
    assert asyncio.run(service.aexecute(call("blocks"))).result.text != here
    assert service.execute(call("awaited")).outcome is Outcome.DONE


# ---------------------------------------------------------------- the table in the docs


def _rows() -> dict[int, str]:
    rows = re.findall(r"^\| (\d+) \| .*? \| (.*) \| [^|]* \|$", TABLE.read_text("utf-8"), re.M)
    return {int(number): ours for number, ours in rows}


def test_the_table_names_every_member_once_and_every_member_has_its_test() -> None:
    assert list(_rows()) == list(range(1, 68)) == sorted(PROOFS)


@pytest.mark.parametrize("number", range(1, 68))
def test_what_the_table_names_is_there_and_documented(number: int) -> None:
    names = [name for name in re.findall(r"`([^`]+)`", _rows()[number]) if re.match(r"\w+(\.\w+)?(\(\w+=…\))?$", name)]
    assert names
    for name in names:
        path, _, option = name.removesuffix("=…)").partition("(")
        found: Any = surehand
        for part in path.split("."):
            assert _has(found, part), f"{name} is not there"
            found = getattr(found, part, None)
        if option and path == "ToolService":
            assert option == "tools" or option in ServiceOptions.__annotations__
        elif option:
            assert option in inspect.signature(found).parameters
        elif callable(found) or isinstance(found, property):
            assert inspect.getdoc(found), f"{name} is not documented"


def _has(owner: Any, name: str) -> bool:
    return hasattr(owner, name) or name in getattr(owner, "__struct_fields__", ())
