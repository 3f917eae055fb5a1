"""Durable runs whose tools come from providers or were searched for: recorded rounds ask nobody again (design 5)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from surehand import (
    CancelToken,
    ChatRequest,
    ChatResponse,
    Happened,
    KeywordSearch,
    LimitWarning,
    MemoryJournal,
    MessageWindow,
    ProviderRequest,
    ReplayMismatch,
    RunCancelled,
    RunGivenUp,
    ToolContext,
    UserMessage,
    report_of,
    tool,
    tool_provider,
    undoes,
)
from surehand.testing import ScriptedModel, call, calls, say

from ..modes import RECORDED, Mode
from .remains import RUN, Life, agent, asked, every_mode, raised


class Booking(msgspec.Struct, frozen=True):
    """A value that comes back as itself only if its tool is known."""

    what: str


def shop(life: Life, dies_at: str = "", **options: Any) -> list[Any]:
    """``book`` with an undo, and ``boom``, which gives the run up; the process dies at that point."""

    def point(name: str) -> None:
        if name == dies_at and not life.is_over:
            life.dies()

    @tool(**{"repeat": "with_key", **options})
    def book(what: str, ctx: ToolContext[Any]) -> Booking:
        point(f"before {what}")
        life.log.append(("book", what, ctx.idempotency_key))
        point(f"after {what}")
        return Booking(what)

    @undoes(book)
    def cancel(booking: Booking, ctx: ToolContext[Any]) -> None:
        life.log.append(("cancel", booking.what, ctx.idempotency_key))
        point(f"after cancelling {booking.what}")

    @tool
    def boom() -> None:
        raise OSError("boom")

    return [book, cancel, boom]


class Shop:
    """A provider of these tools, that tells how many messages there were whenever it was asked."""

    def __init__(self, tools: list[Any], *, dynamic: bool = False) -> None:
        self.dynamic, self.tools = dynamic, tools
        self.asked: list[int] = []

    def provide(self, request: ProviderRequest[Any]) -> list[Any]:
        self.asked.append(len(request.messages))
        return self.tools


def book(what: str) -> Any:
    return calls(call("book", {"what": what}))


def kinds(life: Life) -> list[tuple[str, str]]:
    return [entry[:2] for entry in life.log]


@tool(repeat="safe")
def look() -> str:
    return "there is"


@every_mode
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_run_that_goes_on_asks_for_the_tools_of_its_calls(mode: Mode, dynamic: bool) -> None:
    life = Life()
    script = [calls(call("look")), book("seat"), book("car"), say("Done")]
    first = Shop(shop(life, "after car"), dynamic=dynamic)
    given: dict[str, Any] = {"run_id": RUN, "history": [UserMessage.of("Earlier")]}
    mode.drive(agent(life, *script, tools=[look, first]), **given)
    life.next()
    second = Shop(shop(life), dynamic=dynamic)
    again = agent(life, say("Done"), tools=[look, second])
    ended = mode.drive(again, **given)
    car = ("book", "car", f"{RUN}:3.0")
    assert life.log == [("book", "seat", f"{RUN}:2.0"), car, car]
    assert (ended.answer.output, asked(again)) == ("Done", 1)
    assert [execution.value for execution in ended.answer.executions] == ["there is", Booking("seat"), Booking("car")]
    # The first round names nothing that is unknown; the second does, and was asked with four messages before it.
    assert second.asked == ([4, 8] if dynamic else [4])


@every_mode
def test_rounds_whose_tools_are_known_ask_nobody_until_the_run_goes_live(mode: Mode) -> None:
    life = Life()
    provider = Shop([look], dynamic=True)
    tools = [*shop(life, "after car"), provider]
    mode.drive(agent(life, book("seat"), book("car"), say("Done"), tools=tools), run_id=RUN)
    assert provider.asked == [1, 3, 5]
    life.next()
    again = Shop([look], dynamic=True)
    ended = mode.drive(agent(life, say("Done"), tools=[*shop(life), again]), run_id=RUN)
    assert (ended.answer.output, again.asked) == ("Done", [5])
    told = Shop([look], dynamic=True)
    assert agent(life, tools=[*shop(life), told]).resume(RUN).output == "Done"
    assert told.asked == []


@every_mode
def test_a_crash_inside_an_undo_continues_it_with_the_tools_of_the_provider(mode: Mode) -> None:
    life = Life()
    script = [book("seat"), book("car"), calls(call("boom"))]
    mode.drive(agent(life, *script, tools=[Shop(shop(life, "after cancelling car"))]), run_id=RUN)
    life.next()
    error = mode.drive(agent(life, tools=[Shop(shop(life))]), run_id=RUN).error
    assert isinstance(error, RunGivenUp)
    assert kinds(life) == [("book", "seat"), ("book", "car"), ("cancel", "car"), ("cancel", "car"), ("cancel", "seat")]
    report = report_of(raised(lambda: agent(life, tools=[Shop(shop(life))]).resume(RUN)) or BaseException())
    assert report is not None
    assert [execution.value for execution in report.undone] == [Booking("seat"), Booking("car")]


@every_mode
def test_a_run_without_the_tool_that_could_undo_it_is_left_as_it_is(mode: Mode) -> None:
    life = Life()
    tools = shop(life, "after car")
    mode.drive(agent(life, book("seat"), book("car"), tools=[Shop(tools)]), run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, say("Done"), tools=[Shop([])]), run_id=RUN)
    assert isinstance(ended.error, ReplayMismatch) and "'book', which had an undo then" in str(ended.error)
    ended = mode.drive(agent(life, say("Done"), tools=[Shop(shop(life))]), run_id=RUN)
    assert (ended.answer.output, kinds(life)) == ("Done", [("book", "seat"), ("book", "car"), ("book", "car")])


@every_mode
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_a_provider_that_fails_while_a_run_is_told_again_undoes_nothing(mode: Mode, kind: type[BaseException]) -> None:
    if kind is KeyboardInterrupt and mode.is_async:
        kind = TimeoutError  # an event loop is interrupted in other ways
    life = Life()
    mode.drive(agent(life, book("seat"), book("car"), tools=[Shop(shop(life, "after car"))]), run_id=RUN)
    life.next()

    class Down(Shop):
        def provide(self, request: ProviderRequest[Any]) -> list[Any]:
            raise kind("down")

    ended = mode.drive(agent(life, tools=[Down([])]), run_id=RUN)
    assert type(ended.error) is kind
    assert kinds(life) == [("book", "seat"), ("book", "car")]
    ended = mode.drive(agent(life, say("Done"), tools=[Shop(shop(life))]), run_id=RUN)
    assert (ended.answer.output, len(kinds(life))) == ("Done", 3)


@every_mode
def test_a_call_that_has_ended_is_not_forgotten_because_a_provider_fails(mode: Mode) -> None:
    life = Life()

    def die(request: ChatRequest) -> ChatResponse:
        life.dies()
        return say("Done")

    mode.drive(agent(life, book("seat"), die, tools=[Shop(shop(life))]), run_id=RUN)
    life.next()

    class Down(Shop):
        def provide(self, request: ProviderRequest[Any]) -> list[Any]:
            raise OSError("down")

    assert type(mode.drive(agent(life, tools=[Down([])]), run_id=RUN).error) is OSError
    ended = mode.drive(agent(life, calls(call("boom")), tools=[Shop(shop(life))]), run_id=RUN)
    assert str(ended.error) == "boom"
    assert kinds(life) == [("book", "seat"), ("cancel", "seat")]


@pytest.mark.parametrize("mode", [mode for mode in RECORDED if mode.is_async], ids=str)
def test_a_cancellation_while_a_provider_is_asked_again_waits_until_everything_is_told(mode: Mode) -> None:
    life, token = Life(), CancelToken()
    mode.drive(agent(life, book("seat"), book("car"), tools=[Shop(shop(life, "after car"))]), run_id=RUN)
    life.next()

    @tool_provider
    async def given(request: ProviderRequest[Any]) -> list[Any]:
        token.cancel()
        await asyncio.sleep(0.001)
        return shop(life)

    ended = mode.drive(agent(life, tools=[given]), run_id=RUN, cancel=token)
    assert type(ended.error) is RunCancelled
    undone = [execution.value for execution in ended.report.undone]
    assert undone[:1] == [Booking("seat")] and ("cancel", "seat") in kinds(life)


@every_mode
def test_nobody_is_asked_for_a_name_that_was_refused_nor_twice(mode: Mode) -> None:
    life = Life()
    static, dynamic = Shop(shop(life)), Shop([look], dynamic=True)
    script = [calls(call("nope")), book("seat"), say("Done")]
    mode.drive(agent(life, *script, tools=[static, dynamic]), run_id=RUN)
    static, dynamic = Shop(shop(life)), Shop([look], dynamic=True)
    assert agent(life, tools=[static, dynamic]).resume(RUN).executions[1].value == Booking("seat")
    # Once, before the round with the booking: the one that is asked once gave the tool, so the other need not be.
    assert (static.asked, dynamic.asked) == ([3], [])


def test_whoever_follows_a_run_asks_once_for_a_tool_that_nobody_gives() -> None:
    looked, begun, go = [0], threading.Event(), threading.Event()

    class Watched(MemoryJournal):
        def row(self, run_id: str) -> Any:
            looked[0] += begun.is_set()
            if looked[0] > 5:
                go.set()
            return super().row(run_id)

    @tool(repeat="safe")
    def wait() -> str:
        begun.set()
        go.wait(10)
        return "waited"

    life = Life()
    life.journal = Watched()
    first = agent(life, calls(call("wait")), say("Done"), tools=[wait])
    thread = threading.Thread(target=first.run, args=("Go",), kwargs={"run_id": RUN})
    thread.start()
    begun.wait(10)
    provider = Shop([], dynamic=True)
    assert agent(life, tools=[provider]).run("Go", run_id=RUN).output == "Done"
    thread.join()
    assert provider.asked == [1]


@every_mode
def test_somebodys_word_on_a_call_of_a_provided_tool_is_read_as_its_value(mode: Mode) -> None:
    life = Life()
    tools = shop(life, "after seat", repeat="never")
    mode.drive(agent(life, book("seat"), tools=[Shop(tools)]), run_id=RUN)
    life.next()
    second = agent(life, say("Done"), tools=[Shop(shop(life, repeat="never"))])
    (waits,) = mode.drive(second, run_id=RUN).answer.pending
    second.resolve(f"{RUN}:{waits.key}", Happened({"what": "seat"}))
    ended = mode.drive(agent(life, say("Done"), tools=[Shop(shop(life, repeat="never"))]), run_id=RUN)
    assert ended.answer.executions[0].value == Booking("seat")
    assert kinds(life) == [("book", "seat")]


@every_mode
@pytest.mark.parametrize("remembers", [False, True])
def test_a_run_that_goes_on_shows_what_its_searches_have_found(mode: Mode, remembers: bool) -> None:
    life = Life()
    script = [calls(call("tool_search_tool", {"terms": ["book"]})), book("seat"), say("Done")]

    def options() -> dict[str, Any]:
        memory = {"memory": MessageWindow(50)} if remembers else {}
        return {"tool_search": KeywordSearch(), **memory}

    mode.drive(agent(life, *script, tools=[look, Shop(shop(life, "after seat"))], **options()), run_id=RUN)
    life.next()
    model = ScriptedModel([calls(call("tool_search_tool", {"terms": ["book", "look"]})), say("Done")])
    ended = mode.drive(agent(life, model, tools=[look, Shop(shop(life))], **options()), run_id=RUN)
    shown = [[spec.name for spec in request.tools] for request in model.requests]
    assert shown == [["tool_search_tool", "book"], ["tool_search_tool", "book", "look"]]
    assert [execution.value.names for execution in ended.answer.executions[::2]] == [("book",), ("look",)]
    assert agent(life, tools=[look, Shop(shop(life))], **options()).resume(RUN) == ended.answer


@every_mode
def test_what_was_found_is_shown_once_its_provider_has_been_asked(mode: Mode) -> None:
    life = Life()
    script = [calls(call("tool_search_tool", {"terms": ["lookup"]})), book("seat"), say("Done")]

    def options() -> dict[str, Any]:
        # The window holds the latest exchange alone, so that the result of the search is evicted.
        return {"tool_search": KeywordSearch(), "memory": MessageWindow(2)}

    lookup = tool(name="lookup", repeat="safe")(lambda: "there is")
    mode.drive(agent(life, *script, tools=[*shop(life, "after seat"), Shop([lookup])], **options()), run_id=RUN)
    life.next()
    model = ScriptedModel([calls(call("lookup")), say("Done")])
    ended = mode.drive(agent(life, model, tools=[*shop(life), Shop([lookup])], **options()), run_id=RUN)
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["tool_search_tool", "lookup"]] * 2
    assert (ended.answer.output, ended.of(LimitWarning)) == ("Done", [])


@every_mode
def test_a_search_that_a_dead_process_had_begun_is_made_again(mode: Mode) -> None:
    life = Life()

    class Dying(KeywordSearch):
        def search(self, *args: Any) -> Any:
            if not life.is_over:
                life.dies()
            return super().search(*args)

    both = calls(call("tool_search_tool", {"terms": ["book"]}))
    search = calls(call("tool_search_tool", {"terms": ["look", "book"]}))
    tools = [look, *shop(life)]
    mode.drive(agent(life, both, search, say("Done"), tools=tools, tool_search=Dying()), run_id=RUN)
    life.next()
    model = ScriptedModel([search, say("Done")])
    ended = mode.drive(agent(life, model, tools=tools, tool_search=KeywordSearch()), run_id=RUN)
    assert [execution.value.names for execution in ended.answer.executions] == [("book",), ("look",)]


def test_a_function_as_a_provider_is_enough() -> None:
    life = Life()
    one = agent(life, book("seat"), say("Done"), tools=[tool_provider(lambda request: shop(life))])
    one.run("Go", run_id=RUN)
    again = agent(life, tools=[tool_provider(lambda request: shop(life))])
    assert again.resume(RUN).executions[0].value == Booking("seat")
