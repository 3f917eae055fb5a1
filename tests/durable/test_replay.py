"""What is recorded is told to its end before anything else, and a run that would do something else now is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from surehand import (
    CallLimitError,
    CancelToken,
    ChatRequest,
    Limits,
    Outcome,
    ReplayMismatch,
    ReturnBehavior,
    RoundLimitError,
    RunCancelled,
    RunGivenUp,
    StreamPiece,
    ToolCall,
    ToolCallReady,
    ToolContext,
    ToolError,
    UndoPolicy,
    report_of,
    tool,
)
from surehand.testing import ScriptedModel, call, calls, say

from ..modes import Mode
from .remains import RUN, Held, Life, agent, asked, both_colours, every_mode, raised, remains, resume


def bookings(life: Life, dies_at: int) -> Any:
    """``book``, in whose n-th call the process dies, after its effect."""

    def cancel(n: int) -> None:
        life.log.append(f"cancel {n}")

    @tool(repeat="with_key", undo=cancel)
    def book(n: int, ctx: ToolContext[Any]) -> int:
        life.log.append(f"book {n}")
        if n == dies_at:
            life.dies()
        return n

    return book


def book(n: int) -> Any:
    return call("book", {"n": n})


def dead_after(life: Life, rounds: int) -> None:
    script = [calls(book(n)) for n in range(1, rounds + 1)]
    agent(life, *script, say("Done"), tools=[bookings(life, rounds)]).run("Go", run_id=RUN)
    life.next()


@every_mode
def test_a_resumed_run_that_is_cancelled_at_once_undoes_all_that_was_done(mode: Mode) -> None:
    life, token = Life(), CancelToken()
    dead_after(life, 3)
    token.cancel()
    ended = mode.drive(agent(life, tools=[bookings(life, 0)]), run_id=RUN, cancel=token)
    assert isinstance(ended.error, RunCancelled)
    assert life.log == ["book 1", "book 2", "book 3", "book 3", "cancel 3", "cancel 2", "cancel 1"]
    assert [(e.key, e.outcome) for e in ended.report.undone] == [(f"{n}.0", Outcome.DONE) for n in (1, 2, 3)]


@every_mode
@pytest.mark.parametrize("limits", [Limits(rounds=1), Limits(calls=1), Limits(calls=2)])
def test_a_limit_that_is_lower_now_ends_the_run_only_where_it_stands_and_everything_is_undone(
    mode: Mode, limits: Limits
) -> None:
    life = Life()
    dead_after(life, 3)
    ended = mode.drive(agent(life, tools=[bookings(life, 0)], limits=limits), run_id=RUN)
    assert isinstance(ended.error, RoundLimitError | CallLimitError)
    assert life.log == ["book 1", "book 2", "book 3", "book 3", "cancel 3", "cancel 2", "cancel 1"]
    assert [e.key for e in ended.report.undone] == ["1.0", "2.0", "3.0"]
    assert report_of(raised(lambda: agent(life, tools=[bookings(life, 0)]).resume(RUN)) or OSError()) == ended.report


@every_mode
def test_errors_in_a_row_that_were_allowed_then_do_not_end_the_run_in_the_middle(mode: Mode) -> None:
    life = Life()

    @tool
    def refuse() -> None:
        raise ToolError("no")

    script = [calls(call("refuse")), calls(call("refuse")), calls(book(3)), say("Done")]
    agent(life, *script, tools=[refuse, bookings(life, 3)]).run("Go", run_id=RUN)
    life.next()
    ended = mode.drive(
        agent(life, say("Done"), tools=[refuse, bookings(life, 0)], limits=Limits(consecutive_errors=1)), run_id=RUN
    )
    assert ended.answer.output == "Done"


@pytest.mark.parametrize("mode", [Mode("stream", True), Mode("astream", True)], ids=str)
def test_calls_begun_early_in_a_round_that_a_limit_refuses_are_told_as_they_were(mode: Mode) -> None:
    life = Life()

    def take_back(value: int) -> None:
        life.log.append(f"take back {value}")

    @tool(repeat="with_key", undo=take_back)
    def act(n: int, ctx: ToolContext[Any]) -> int:
        life.log.append(f"act {n}")
        return n

    script = [calls(*[call("act", {"n": n}) for n in (1, 2, 3)])]
    options: dict[str, Any] = {"tools": [act], "limits": Limits(calls=1), "early_start": "all"}
    model = Held(script, lambda: "INTENT" in [record.kind for record in life.journal.records(RUN)])
    ended = mode.drive(agent(life, model, **options), run_id=RUN)
    assert isinstance(ended.error, CallLimitError) and life.log == ["act 1", "take back 1"]
    again = mode.drive(agent(life, **options), run_id=RUN)
    assert isinstance(again.error, RunGivenUp) and again.report == ended.report
    assert life.log == ["act 1", "take back 1"]
    kinds = [record.kind for record in life.journal.records(RUN)]
    life.journal = remains(life.journal, upto=kinds.index("GIVEN_UP"))  # the first call has begun, or has even ended
    life.log = ["act 1"]
    resumed = mode.drive(agent(life, **options), run_id=RUN)
    assert isinstance(resumed.error, CallLimitError) and resumed.report == ended.report
    assert life.log in (["act 1", "take back 1"], ["act 1", "act 1", "take back 1"])


# ---------------------------------------------------------------- what would be something else now


@both_colours
def test_another_decoding_of_the_arguments_of_a_call_in_flight_is_refused_and_both_are_named(colour: str) -> None:
    life = Life()
    dead_after(life, 2)

    @tool(name="book", repeat="with_key", undo=lambda n: life.log.append("cancel"))
    def other(n: float, ctx: ToolContext[Any]) -> int:
        life.log.append("other")
        return int(n)

    log = list(life.log)
    error = raised(lambda: resume(agent(life, tools=[other]), colour))
    assert isinstance(error, ReplayMismatch)
    assert 'book({"n":2})' in str(error) and 'book({"n":2.0})' in str(error)
    assert life.log == log
    assert agent(life, say("Done"), tools=[bookings(life, 0)]).resume(RUN).output == "Done"  # with the code of then


@both_colours
@pytest.mark.parametrize("what", ["tool", "undo"])
def test_a_tool_or_an_undo_that_is_gone_is_refused_and_nothing_is_undone(colour: str, what: str) -> None:
    life = Life()
    dead_after(life, 2)

    @tool(name="book", repeat="with_key")
    def bare(n: int, ctx: ToolContext[Any]) -> int:
        life.log.append("bare")
        return n

    log = list(life.log)
    error = raised(lambda: resume(agent(life, tools=[bare] if what == "undo" else []), colour))
    assert isinstance(error, ReplayMismatch)
    assert "book" in str(error) and "1.0" in str(error) and life.log == log
    assert agent(life, say("Done"), tools=[bookings(life, 0)]).resume(RUN).output == "Done"


@both_colours
def test_another_result_of_an_earlier_call_is_refused_and_named(colour: str) -> None:
    from msgspec.structs import replace

    from surehand import MemoryJournal
    from surehand._codec import from_json, to_json
    from surehand._records import CallEnd, Draft
    from surehand.messages import TextContent

    life = Life()
    dead_after(life, 2)
    forged = MemoryJournal()
    row = life.journal.row(RUN)
    assert row is not None
    drafts: list[Draft] = []
    for record in life.journal.records(RUN):
        body = record.body
        if (record.kind, record.step) == ("DONE", "1.0"):
            body = to_json(replace(from_json(body, CallEnd), contents=(TextContent("100"),)))
        drafts.append(Draft(record.kind, record.step, body))
    forged.start(RUN, "gone", drafts, state=row.state)
    life.journal = forged
    log = list(life.log)
    second = agent(life, say("Done"), tools=[bookings(life, 0)])
    with pytest.raises(ReplayMismatch, match=r"request 2 of run 'order-7' would differ.*the result of 'book'"):
        resume(second, colour)
    assert (life.log, asked(second)) == (log, 0)


@every_mode
def test_a_run_that_has_ended_and_would_go_on_now_is_refused_with_what_to_do(mode: Mode) -> None:
    life = Life()

    @tool(returns=ReturnBehavior.IMMEDIATE)
    def end() -> str:
        return "the end"

    @tool(name="end")
    def no_end() -> str:
        return "the end"

    assert mode.drive(agent(life, calls(call("end")), tools=[end]), run_id=RUN).answer.immediate
    second = agent(life, say("Never"), tools=[no_end])
    error = mode.drive(second, run_id=RUN).error
    assert isinstance(error, ReplayMismatch) and asked(second) == 0
    assert "run 'order-7' cannot be told again: " in str(error) and "with the code that began it" in str(error)
    assert mode.drive(agent(life, tools=[end]), run_id=RUN).answer.immediate


@pytest.mark.parametrize("mode", [Mode("stream", True), Mode("astream", True)], ids=str)
def test_a_run_whose_dropped_call_was_not_undone_is_told_again_as_it_was(mode: Mode) -> None:
    life = Life()

    @tool(undo=lambda: life.log.append("undo"))
    def act() -> str:
        life.log.append("act")
        return "acted"

    class Forgets(ScriptedModel):
        """Announces a call, and leaves it out of its reply."""

        def stream(self, request: ChatRequest) -> Iterator[StreamPiece]:
            yield ToolCallReady(0, ToolCall("c0", "act", "{}"))
            yield from super().stream(request)

        async def astream(self, request: ChatRequest) -> AsyncIterator[StreamPiece]:
            for piece in self.stream(request):
                yield piece

    options: dict[str, Any] = {"tools": [act], "early_start": "all", "undo": UndoPolicy.OFF}
    first = mode.drive(agent(life, Forgets([say("Done")]), **options), run_id=RUN)
    again = mode.drive(agent(life, **options), run_id=RUN)
    assert first.answer.output == "Done" and again.answer == first.answer and life.log == ["act"]


@every_mode
def test_instructions_tools_and_parameters_may_improve_between_versions(mode: Mode) -> None:
    life = Life()
    dead_after(life, 2)

    @tool
    def another() -> None: ...

    second = agent(life, say("Done"), tools=[another, bookings(life, 0)], instructions="Be kinder")
    assert mode.drive(second, run_id=RUN).answer.output == "Done"
