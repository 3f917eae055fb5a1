"""Faults that users reported in systems of this kind: effects and their undo, refusals, outcomes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from surehand import (
    CancelToken,
    Limits,
    Outcome,
    ReplayMismatch,
    RoundLimitError,
    RunCancelled,
    RunGivenUp,
    Suspended,
    TokenLimitError,
    ToolContext,
    ToolError,
    ToolExecution,
    ToolFinished,
    ToolResult,
    Usage,
    report_of,
    tool,
    undoes,
)
from surehand.testing import call, calls, say

from .durable.remains import RUN, Life, agent
from .modes import Mode, ask

STEPS = ["one", "two", "three"]


class Trip:
    """Steps that can be undone; ``log`` tells in which order."""

    def __init__(self, fails: str = "", fails_to_undo: str = "") -> None:
        self.log: list[str] = []
        self._fails, self._fails_to_undo = fails, fails_to_undo

    @tool
    def step(self, name: str) -> str:
        if name == self._fails:
            raise ValueError(f"{name} failed")
        self.log.append(name)
        return name

    @undoes(step)
    def take_back(self, value: str) -> None:
        self.log.append(f"undo {value}")
        if value == self._fails_to_undo:
            raise OSError("line is dead")

    @tool
    def email(self) -> str:
        self.log.append("email")
        return "sent"


def step(name: str) -> Any:
    return call("step", f'{{"name": "{name}"}}')


@pytest.mark.parametrize("fails", STEPS)
@pytest.mark.parametrize("one_round", [False, True])
def test_SFX_03_reverse_order_first_middle_last_fails(sequential: Mode, fails: str, one_round: bool) -> None:
    trip = Trip(fails)
    script = [ask(*map(step, STEPS))] if one_round else [ask(step(name)) for name in STEPS]
    ended = sequential.play(*script, tools=[trip])
    done = STEPS[: STEPS.index(fails)]
    assert str(ended.error) == f"{fails} failed"
    assert trip.log == [*done, *[f"undo {name}" for name in reversed(done)]]


@pytest.mark.parametrize("broken", STEPS)
def test_SFX_04_undo_that_fails(mode: Mode, broken: str) -> None:
    trip = Trip("four", fails_to_undo=broken)
    ended = mode.play(*[ask(step(name)) for name in [*STEPS, "four"]], tools=[trip])
    assert trip.log == [*STEPS, "undo three", "undo two", "undo one"]
    assert str(ended.error) == "four failed"  # the original error is kept
    assert [(e.value, e.undo.error) for e in ended.report.failed_to_undo if e.undo] == [
        (broken, "OSError: line is dead")
    ]
    assert broken in [e.value for e in ended.report.standing]
    assert "failed_to_undo" in "".join(getattr(ended.error, "__notes__", ()))  # not silent


def test_SFX_05_step_without_undo(mode: Mode) -> None:
    trip = Trip("pay")
    ended = mode.play(ask(step("book")), ask(call("email")), ask(step("pay")), tools=[trip])
    assert trip.log == ["book", "email", "undo book"]
    assert [e.call.name for e in ended.report.no_undo] == ["email"]
    assert "email" in [e.call.name for e in ended.report.standing]
    assert ended.error is not None and report_of(ended.error) == ended.report


@pytest.mark.parametrize("form", ["value", "arguments", "execution"])
def test_SFX_07_undo_gets_arguments_and_result(mode: Mode, form: str) -> None:
    log: list[Any] = []

    def by_value(booking: dict[str, int]) -> None:
        log.append(booking)

    def by_arguments(seats: int, name: str) -> None:
        log.append((seats, name))

    def by_execution(execution: ToolExecution[dict[str, int]], ctx: ToolContext[Any]) -> None:
        log.append((execution.value, execution.call.arguments, ctx.deps))

    undo = {"value": by_value, "arguments": by_arguments, "execution": by_execution}[form]

    @tool(undo=undo)
    def book(seats: int, name: str = "ann") -> dict[str, int]:
        return {"id": 7}

    asked = call("book", '{"seats": "2"}')
    mode.play(ask(asked), ask(asked), tools=[book], limits=Limits(rounds=1), run={"deps": "shop"})
    assert log == [
        {"value": {"id": 7}, "arguments": (2, "ann"), "execution": ({"id": 7}, '{"seats": "2"}', "shop")}[form]
    ]


@pytest.mark.parametrize("cause", ["cancel", "tokens", "rounds", "consecutive"])
def test_SFX_08_run_given_up_by_cancel_limit_or_turns(mode: Mode, cause: str) -> None:
    trip, token = Trip(), CancelToken()

    @tool
    def stop() -> None:
        token.cancel()

    @tool
    def refuse() -> None:
        raise ToolError("no")

    last, limits = {
        "cancel": ([ask(call("stop")), say("Never")], Limits()),
        "tokens": ([calls(step("x"), usage=Usage(500, 500))], Limits(tokens=100)),
        "rounds": ([ask(step("x"))], Limits(rounds=2)),
        "consecutive": ([ask(call("refuse"))], Limits(consecutive_errors=1)),
    }[cause]
    ended = mode.play(
        ask(step("one")), ask(step("two")), *last, tools=[trip, stop, refuse], limits=limits, run={"cancel": token}
    )
    assert trip.log == ["one", "two", "undo two", "undo one"]
    kinds = {"cancel": RunCancelled, "tokens": TokenLimitError, "rounds": RoundLimitError}
    assert isinstance(ended.error, kinds.get(cause, Exception))
    assert [e.value for e in ended.report.undone] == ["one", "two"]


def test_SFX_09_undo_twice_is_harmless(mode: Mode) -> None:
    trip = Trip("four")
    ended = mode.play(*[ask(step(name)) for name in [*STEPS, "four"]], tools=[trip])
    log = list(trip.log)
    assert ended.error is not None
    reports = [report_of(ended.error), report_of(ended.error), ended.report]
    assert trip.log == log  # asking again undoes nothing again
    assert reports[0] == reports[1] == reports[2]
    for name in STEPS:
        assert trip.log.count(f"undo {name}") == 1


@pytest.mark.parametrize("dies_in", [f"undo {name}" for name in STEPS])
def test_SFX_09_recovering_twice_undoes_nothing_twice(mode: Mode, dies_in: str) -> None:
    life = Life()

    @tool
    def step(name: str) -> str:
        if name == "four":
            raise ValueError("four failed")
        life.log.append(name)
        return name

    @undoes(step)
    def take_back(value: str) -> None:
        if f"undo {value}" == dies_in:
            life.dies()
        life.log.append(f"undo {value}")

    asked = [ask(call("step", {"name": name})) for name in [*STEPS, "four"]]
    mode.drive(agent(life, *asked, tools=[step]), run_id=RUN)
    life.next()
    second = agent(life, tools=[step])
    (recovered,) = second.recover()
    assert isinstance(recovered.error, RunGivenUp)
    assert life.log == [*STEPS, "undo three", "undo two", "undo one"]
    assert second.recover() == []
    again = mode.drive(second, run_id=RUN)
    assert isinstance(again.error, RunGivenUp) and again.report == recovered.undone
    assert life.log == [*STEPS, "undo three", "undo two", "undo one"]
    assert [e.value for e in again.report.undone] == STEPS


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What bodies that outlive their timeout wait for."""
    event = threading.Event()
    yield event
    event.set()


def test_SFX_10_sibling_of_a_failing_parallel_call(concurrent: Mode) -> None:
    a_done, b_failed, log = threading.Event(), threading.Event(), []

    def take_back(value: str) -> None:
        log.append(f"undo {value}")

    @tool(undo=take_back)
    def a() -> str:
        return "a"

    @tool
    def b() -> None:
        assert a_done.wait(5)
        raise ValueError("b failed")

    @tool(undo=take_back)
    def c() -> str:
        assert b_failed.wait(5)
        log.append("c")
        return "c"

    def listener(event: Any) -> None:
        if isinstance(event, ToolFinished):
            {"a": a_done, "b": b_failed}.get(event.execution.call.name, threading.Event()).set()

    ended = concurrent.play(ask(call("a"), call("b"), call("c")), tools=[a, b, c], listeners=[listener])
    assert str(ended.error) == "b failed"
    assert log == ["c", "undo c", "undo a"]


@pytest.mark.parametrize("how", ["raises", "times_out"])
def test_SFX_11_key_stable_over_a_retry(mode: Mode, how: str, release: threading.Event) -> None:
    keys: list[str] = []

    @tool(repeat="with_key", retries=3, timeout=0.05)
    def send(ctx: ToolContext[Any]) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) < 3:
            if how == "raises":
                raise OSError("line broke")
            release.wait(10)
        return "sent"

    ended = mode.play(ask(call("send")), ask(call("send")), say("Ok"), tools=[send])
    assert keys == ["run-1:1.0"] * 3 + ["run-1:2.0"]
    assert [e.value for e in ended.executions] == ["sent", "sent"]


@pytest.mark.parametrize("name", ["idempotency_key", "ctx", "key", "_idempotency_key"])
@pytest.mark.parametrize("has_one", [False, True])
def test_SFX_14_model_cannot_choose_the_key(mode: Mode, name: str, has_one: bool) -> None:
    got: list[tuple[str, Any]] = []

    @tool(name="send", repeat="with_key")
    def plain(n: int, ctx: ToolContext[Any]) -> None:
        got.append((ctx.idempotency_key, None))

    @tool(name="send", repeat="with_key")
    def with_one(n: int, idempotency_key: str, ctx: ToolContext[Any]) -> None:
        got.append((ctx.idempotency_key, idempotency_key))

    arguments = {"n": 1, "idempotency_key": "mine", name: "mine"}
    ended = mode.play(ask(call("send", arguments)), say("Ok"), tools=[with_one if has_one else plain])
    parameters: Any = ended.requests[0].tools[0].parameters
    assert set(parameters["properties"]) == ({"n", "idempotency_key"} if has_one else {"n"})
    assert all(key == "run-1:1.0" for key, _ in got)  # what the model sends is an argument at most
    assert [given for _, given in got] == (["mine"] if has_one else [None]) * len(got)
    assert ended.answer.executions[0].key == "1.0"


def _as_text(amount: str, ctx: ToolContext[Any]) -> str: ...  # type: ignore[empty-body]


def _as_float(amount: float, ctx: ToolContext[Any]) -> str: ...  # type: ignore[empty-body]


def _as_list(amount: list[int], ctx: ToolContext[Any]) -> str: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("body", "reads_as"), [(_as_text, '"2"'), (_as_float, "2.0"), (_as_list, "")], ids=["text", "float", "list"]
)
def test_SFX_15_key_reuse_with_other_arguments(mode: Mode, body: Any, reads_as: str) -> None:
    life = Life()

    @tool(repeat="with_key")
    def pay(amount: int, ctx: ToolContext[Any]) -> str:
        life.log.append((ctx.idempotency_key, amount))
        life.dies()
        return "paid"

    mode.drive(agent(life, ask(call("pay", {"amount": 2})), say("Ok"), tools=[pay]), run_id=RUN)
    life.next()
    other = tool(name="pay", repeat="with_key")(body)
    ended = mode.drive(agent(life, say("Ok"), tools=[other]), run_id=RUN)
    assert isinstance(ended.error, ReplayMismatch)
    changed = f'pay({{"amount":2}}), and would now be pay({{"amount":{reads_as}}})'
    assert (changed if reads_as else "its arguments do not fit") in str(ended.error)
    assert life.log == [(f"{RUN}:1.0", 2)]


@pytest.mark.parametrize("kind", [ValueError, OSError, TimeoutError])
def test_SFX_16_unsafe_tool_is_not_retried(mode: Mode, kind: type[Exception]) -> None:
    effects: list[int] = []

    @tool
    def pay() -> None:
        effects.append(1)
        raise kind("connection lost after the payment")

    ended = mode.play(ask(call("pay")), say("Never"), tools=[pay])
    assert type(ended.error) is kind
    assert effects == [1]
    assert [e.call.name for e in ended.report.unknown] == ["pay"]


class NeedsApproval(Suspended):
    """A wait that a tool of the user's own asks for."""


@pytest.mark.parametrize("kind", [Suspended, NeedsApproval])
@pytest.mark.parametrize("where", ["body", "step"])
def test_SFX_21_control_flow_exception_under_an_engine_retry(mode: Mode, kind: type[Suspended], where: str) -> None:
    life, approved = Life(), []

    def take_back(value: str) -> None:
        life.log.append("undo")

    @tool(undo=take_back)
    def book() -> str:
        life.log.append("book")
        return "booked"

    def check() -> None:
        life.log.append("check")
        if not approved:
            raise kind("a person has to agree")

    @tool(repeat="with_key", retries=3)
    def pay(ctx: ToolContext[Any]) -> str:
        ctx.step("check", check) if where == "step" else check()
        life.log.append("pay")
        return "paid"

    tools = [book, pay]
    first = mode.drive(agent(life, ask(call("book")), ask(call("pay")), tools=tools), run_id=RUN)
    assert type(first.error) is kind
    assert life.log == ["book", "check"]  # neither tried again nor undone
    row = life.journal.row(RUN)
    assert row is not None and row.state == "SUSPENDED"
    approved.append(True)
    ended = mode.drive(agent(life, say("Ok"), tools=tools), run_id=RUN)
    assert ended.answer.output == "Ok" and life.log == ["book", "check", "check", "pay"]
    assert [(e.key, e.value) for e in ended.answer.executions] == [("1.0", "booked"), ("2.0", "paid")]


def test_SFX_29_sibling_done_before_the_pause(sequential: Mode) -> None:
    life, approved = Life(), []

    @tool(repeat="with_key")
    def act(name: str, ctx: ToolContext[Any]) -> str:
        if name == "two" and not approved:
            raise Suspended("a person has to agree")
        life.log.append((name, ctx.call.id, ctx.idempotency_key))
        return name

    asked = calls(*[call("act", {"name": name}, id=f"id-{name}") for name in ("one", "two", "three")])
    first = sequential.drive(agent(life, asked, tools=[act]), run_id=RUN)
    assert type(first.error) is Suspended and life.log == [("one", "id-one", f"{RUN}:1.0")]
    approved.append(True)
    ended = sequential.drive(agent(life, say("Ok"), tools=[act]), run_id=RUN)
    assert life.log == [
        ("one", "id-one", f"{RUN}:1.0"),
        ("two", "id-two", f"{RUN}:1.1"),
        ("three", "id-three", f"{RUN}:1.2"),
    ]
    assert [(e.call.id, e.value) for e in ended.answer.executions] == [
        ("id-one", "one"),
        ("id-two", "two"),
        ("id-three", "three"),
    ]


@pytest.mark.parametrize("is_async", [False, True])
def test_SFX_30_asking_in_a_loop(mode: Mode, is_async: bool) -> None:
    """As far as steps go: a body that waits for one answer after the other does nothing twice."""
    life, answers = Life(), dict[str, str]()

    def asking(question: str) -> str:
        if question not in answers:
            raise Suspended(f"what is your {question}?")
        life.log.append(f"heard {question}")
        return answers[question]

    def noting(answer: str) -> str:
        life.log.append(f"noted {answer}")
        return answer

    @tool(name="interview", repeat="with_key")
    def blocking(ctx: ToolContext[Any]) -> list[str]:
        given: list[str] = []
        for question in ("name", "age", "town"):
            answer = ctx.step(f"ask {question}", lambda question=question: asking(question))
            given.append(ctx.step(f"note {question}", lambda answer=answer: noting(answer)))
        return given

    @tool(name="interview", repeat="with_key")
    async def awaitable(ctx: ToolContext[Any]) -> list[str]:
        given: list[str] = []
        for question in ("name", "age", "town"):

            async def hear(question: str = question) -> str:
                return asking(question)

            answer = await ctx.step(f"ask {question}", hear)

            async def note(answer: str = answer) -> str:
                return noting(answer)

            given.append(await ctx.step(f"note {question}", note))
        return given

    tools = [awaitable if is_async else blocking]
    first = mode.drive(agent(life, ask(call("interview")), tools=tools), run_id=RUN)
    assert str(first.error) == "what is your name?"
    for question, answer, following in (("name", "Ann", "age"), ("age", "7", "town"), ("town", "Ulm", "")):
        answers[question] = answer
        ended = mode.drive(agent(life, say("Ok"), tools=tools), run_id=RUN)
        assert str(ended.error) == (f"what is your {following}?" if following else "None")
    assert life.log == ["heard name", "noted Ann", "heard age", "noted 7", "heard town", "noted Ulm"]
    assert [e.value for e in ended.answer.executions] == [["Ann", "7", "Ulm"]]


@pytest.mark.parametrize("refusal", [False, "not on Sundays"])
def test_SEC_02_deny_hook(mode: Mode, refusal: Any) -> None:
    ran, after = [], []

    @tool
    def delete() -> None:
        ran.append(1)

    ended = mode.play(
        ask(call("delete", id="d")), say("Ok"), tools=[delete],
        authorise=lambda context, arguments: refusal, after_tool=lambda execution, context: after.append(execution),
    )  # fmt: skip
    assert ran == []
    assert "ToolStarted" not in ended.names  # nothing claims that it started
    assert [e.outcome for e in after] == [Outcome.DENIED]
    assert ended.results[0][2] is True
    assert ended.results[0][1] == (refusal or "The call of 'delete' was not allowed. It did not run.")


@pytest.mark.parametrize("arguments", ["{", "[]", '"x"', "null", '{"count": "many"}', "{}"])
@pytest.mark.parametrize("on_tool", [False, True])
def test_SEC_03_invalid_call_starts_no_hook(mode: Mode, arguments: str, on_tool: bool) -> None:
    asked: list[Any] = []

    def authorise(context: Any, given: Any) -> bool:
        asked.append(given)
        return True

    @tool(authorise=authorise if on_tool else None)
    def delete(count: int) -> None:
        raise AssertionError("the body must not be entered")

    ended = mode.play(
        ask(call("delete", arguments)), say("Ok"), tools=[delete], authorise=None if on_tool else authorise
    )
    assert asked == []
    assert [e.outcome for e in ended.executions] == [Outcome.REJECTED]


def test_OBS_01_status_tells_executed_from_not_executed(mode: Mode) -> None:
    @tool(authorise=lambda context, arguments: False)
    def denied() -> None: ...

    @tool
    def failed() -> None:
        raise ToolError("no")

    @tool
    def ok() -> None: ...

    @tool
    def returned_an_error() -> ToolResult:
        return ToolResult.error("closed")

    names = ["denied", "failed", "ok", "returned_an_error", "unknown"]
    ended = mode.play(ask(*map(call, names)), say("Ok"), tools=[denied, failed, ok, returned_an_error])
    expected = {
        "denied": Outcome.DENIED,
        "failed": Outcome.FAILED,
        "ok": Outcome.DONE,
        "returned_an_error": Outcome.DONE,
        "unknown": Outcome.REJECTED,
    }
    assert {e.call.name: e.outcome for e in ended.executions} == expected
    assert {event.execution.call.name: event.execution.outcome for event in ended.of(ToolFinished)} == expected


@pytest.mark.parametrize("hint", ["none", "text", "any", "nothing"])
def test_RES_11_none(mode: Mode, hint: str) -> None:
    def none() -> None:
        return None

    def text() -> str:
        return None  # type: ignore[return-value]

    def anything() -> Any:
        return None

    def unannotated():  # type: ignore[no-untyped-def]
        return None

    body = {"none": none, "text": text, "any": anything, "nothing": unannotated}[hint]
    ended = mode.play(ask(call("act")), say("Ok"), tools=[tool(name="act")(body)])
    assert ended.results == [("act", "Success" if hint in ("none", "nothing") else "null", False)]
    assert ended.executions[0].value is None
