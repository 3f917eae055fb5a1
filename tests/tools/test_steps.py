"""Steps within a body: run once per call, recorded before they give anything, given back when the body runs again."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from surehand.errors import UserError
from surehand.messages import ToolCall, ToolSpec
from surehand.tools._declare import tool
from surehand.tools._executor import programmatic_tool
from surehand.tools._steps import CallSteps
from surehand.tools._tool import ToolContext

from .helpers import context, one


class Order(Struct, frozen=True):
    """What a service gives."""

    number: int
    day: datetime.date


ORDER = Order(7, datetime.date(2031, 5, 3))


class Counted:
    """A function that gives a value and knows how often it ran."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.runs = 0

    def __call__(self) -> Any:
        self.runs += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value

    async def awaited(self) -> Any:
        return self()


def attempts(steps: Any) -> Callable[[], ToolContext[Any]]:
    """Makes the context of one attempt after another at the same call."""
    return lambda: context(steps=steps)


# ---------------------------------------------------------------- once per call


@pytest.mark.parametrize("value", [None, 5, 1.5, "text", True, [1, {"a": None}], {}])
def test_a_step_runs_once_per_call_and_gives_the_same_in_each_attempt(value: Any) -> None:
    attempt, fn = attempts(CallSteps()), Counted(value)
    given = [attempt().step("reserve", fn) for _ in range(3)]
    assert (given, list(map(type, given)), fn.runs) == ([value] * 3, [type(value)] * 3, 1)


def test_a_value_of_a_declared_type_comes_back_as_itself() -> None:
    attempt, fn = attempts(CallSteps()), Counted(ORDER)
    assert [attempt().step("order", fn, type=Order) for _ in range(2)] == [ORDER, ORDER]
    assert [attempt().step("days", lambda: (ORDER.day,), type=tuple[datetime.date, ...]) for _ in range(2)] == [
        (ORDER.day,),
        (ORDER.day,),
    ]
    assert fn.runs == 1


def test_steps_of_different_names_and_of_different_calls_are_different() -> None:
    steps, fn = CallSteps(), Counted(1)
    given = context(steps=steps)
    assert [given.step("a", fn), given.step("b", fn), context(steps=CallSteps()).step("a", fn)] == [1, 1, 1]
    assert fn.runs == 3


def test_what_a_step_raises_is_passed_on_and_the_step_runs_again() -> None:
    attempt, error = attempts(CallSteps()), OSError("line is dead")
    with pytest.raises(OSError) as caught:
        attempt().step("reserve", Counted(error))
    assert caught.value is error
    assert attempt().step("reserve", Counted("booked")) == "booked"


def test_what_was_kept_first_stays() -> None:
    steps = CallSteps()

    def overtaken() -> str:
        context(steps=steps).step("reserve", lambda: "first")  # a later attempt, while this one still runs
        return "second"

    context(steps=steps).step("reserve", overtaken)
    assert context(steps=steps).step("reserve", lambda: "third") == "first"


def test_a_context_made_by_hand_runs_the_function_and_records_nothing() -> None:
    given, fn = context(), Counted(object())
    assert [given.step("reserve", fn) for _ in range(2)] == [fn.value, fn.value]
    assert fn.runs == 2


def test_an_executor_has_steps_too() -> None:
    fn = Counted(1)

    def execute(call: ToolCall, given: ToolContext[Any]) -> str:
        return str(given.step("reserve", fn))

    made, attempt = programmatic_tool(ToolSpec("book"), execute), attempts(CallSteps())
    assert [made.body.call({}, attempt()) for _ in range(2)] == ["1", "1"]
    assert fn.runs == 1


# ---------------------------------------------------------------- awaited


def test_an_async_step_is_awaited_and_runs_once() -> None:
    attempt, fn = attempts(CallSteps()), Counted("booked")

    async def body() -> list[Any]:
        return [await attempt().step("reserve", fn.awaited) for _ in range(3)]

    assert (asyncio.run(body()), fn.runs) == (["booked"] * 3, 1)


def test_a_plain_function_that_gives_an_awaitable_is_awaited_each_time() -> None:
    attempt, fn = attempts(CallSteps()), Counted(ORDER)

    async def body() -> list[Any]:
        return [await attempt().step("reserve", lambda: fn.awaited(), type=Order) for _ in range(3)]

    assert (asyncio.run(body()), fn.runs) == ([ORDER] * 3, 1)


def test_steps_of_an_async_body_may_run_at_the_same_time() -> None:
    attempt, fn = attempts(CallSteps()), Counted(1)

    async def body() -> list[Any]:
        given = attempt()
        return await asyncio.gather(*(given.step(f"item-{number}", fn.awaited) for number in range(3)))

    assert [asyncio.run(body()), asyncio.run(body()), fn.runs] == [[1, 1, 1], [1, 1, 1], 3]


def test_what_an_async_step_raises_is_passed_on_and_the_step_runs_again() -> None:
    attempt, error = attempts(CallSteps()), OSError("line is dead")

    async def body() -> str:
        with pytest.raises(OSError) as caught:
            await attempt().step("reserve", Counted(error).awaited)
        assert caught.value is error
        return str(await attempt().step("reserve", Counted("booked").awaited))

    assert asyncio.run(body()) == "booked"


# ---------------------------------------------------------------- recorded before it gives anything


class Slowly(CallSteps):
    """Records when it is told to, as a journal does whose disk takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: Future[tuple[str, Future[None]]] = Future()

    def keep(self, name: str, data: bytes) -> Future[None]:  # type: ignore[override]
        super().keep(name, data)
        recorded: Future[None] = Future()
        self.kept.set_result((name, recorded))
        return recorded


def test_a_step_gives_its_value_only_once_it_is_recorded() -> None:
    async def body() -> None:
        steps = Slowly()
        blocking = asyncio.create_task(asyncio.to_thread(context(steps=steps).step, "reserve", lambda: 1))
        name, recorded = await asyncio.wrap_future(steps.kept)
        assert (name, blocking.done()) == ("reserve", False)
        recorded.set_result(None)
        assert await blocking == 1

        steps = Slowly()
        task = asyncio.create_task(context(steps=steps).step("reserve", Counted(2).awaited))
        name, recorded = await asyncio.wrap_future(steps.kept)
        assert (name, task.done()) == ("reserve", False)
        recorded.set_result(None)
        assert await task == 2

    asyncio.run(body())


def test_an_error_of_the_record_is_raised_by_the_step() -> None:
    class Broken(CallSteps):
        def keep(self, name: str, data: bytes) -> Future[None]:  # type: ignore[override]
            recorded: Future[None] = Future()
            recorded.set_exception(OSError("disk is full"))
            return recorded

    async def body() -> None:
        with pytest.raises(OSError, match="disk is full"):
            await context(steps=Broken()).step("reserve", Counted(1).awaited)

    with pytest.raises(OSError, match="disk is full"):
        context(steps=Broken()).step("reserve", Counted(1))
    asyncio.run(body())


def test_a_cancelled_step_does_not_lose_the_record_of_what_has_happened() -> None:
    async def body() -> None:
        steps, fn = Slowly(), Counted("booked")
        task = asyncio.create_task(context(steps=steps).step("reserve", fn.awaited))
        _, recorded = await asyncio.wrap_future(steps.kept)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert recorded.set_running_or_notify_cancel()  # whoever writes it is not told to leave it
        recorded.set_result(None)
        assert (await context(steps=steps).step("reserve", fn.awaited), fn.runs) == ("booked", 1)

    asyncio.run(body())


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("value", "hint"),
    [(object(), None), ((1, 2), None), (ORDER, None), ({1: 2}, None), (5, str), (ORDER, dict[str, Any])],
    ids=["object", "tuple", "dataclass", "key", "int as str", "dataclass as dict"],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_value_that_cannot_be_stored_is_refused_and_the_error_says_that_the_step_ran(
    value: Any, hint: Any, is_async: bool
) -> None:
    steps, fn = CallSteps(), Counted(value)
    options = {} if hint is None else {"type": hint}

    async def body() -> None:
        await context(steps=steps).step("reserve", fn.awaited, **options)

    with pytest.raises(UserError) as caught:
        if is_async:
            asyncio.run(body())
        else:
            context(steps=steps).step("reserve", fn, **options)
    words = ["'reserve' did run", type(value).__name__, "could not be stored", "type=", "plain data"]
    assert all(word in str(caught.value) for word in words), caught.value
    assert (fn.runs, steps.recall("reserve")) == (1, None)


def test_a_value_whose_type_has_changed_is_refused_and_the_step_does_not_run_again() -> None:
    attempt, fn = attempts(CallSteps()), Counted(ORDER)
    attempt().step("reserve", fn, type=Order)
    with pytest.raises(UserError, match=r"'reserve' was recorded, but .* cannot be read as <class 'int'>"):
        attempt().step("reserve", fn, type=int)
    assert fn.runs == 1


def test_a_name_may_be_used_once_in_one_attempt() -> None:
    attempt, fn = attempts(CallSteps()), Counted(1)
    for given in (attempt(), attempt()):
        given.step("reserve", fn)
        copy = replace(given, call=ToolCall("c2", "t", "{}"))
        for same in (given, copy):
            with pytest.raises(UserError, match=r"'reserve' is there twice in one attempt of the tool 't'.*'reserve-"):
                same.step("reserve", fn)
    assert fn.runs == 1


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_step_has_a_name(name: Any) -> None:
    with pytest.raises(UserError, match=rf"step\({name!r}\): expected a name"):
        context().step(name, lambda: 1)


def test_a_step_takes_a_function_and_not_what_it_gave() -> None:
    value: Any = "booked"
    with pytest.raises(UserError, match=r"step 'reserve': 'booked' cannot be called; give a function.*lambda"):
        context(steps=CallSteps()).step("reserve", value)


def test_a_body_uses_its_context() -> None:
    log: list[str] = []

    @tool(repeat="with_key")
    def book(ctx: ToolContext, room: str) -> str:
        """Book a room."""

        def reserve() -> str:
            log.append(room)
            return f"reserved {room}"

        return ctx.step("reserve", reserve)

    body, attempt = one(book).body, attempts(CallSteps())
    assert [body.call({"room": "12"}, attempt()) for _ in range(2)] == ["reserved 12"] * 2
    assert log == ["12"]
