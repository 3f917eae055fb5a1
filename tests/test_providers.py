"""Tools from providers: who is asked when, what stays, and what fails the run (spec 6.3 to 6.5)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from surehand import (
    AsyncNotSupportedError,
    CancelToken,
    ChatRequest,
    MessageWindow,
    ProviderRequest,
    ReturnBehavior,
    RunCancelled,
    RunFailed,
    SystemMessage,
    ToolProvider,
    ToolSpec,
    UndoPolicy,
    UserError,
    UserMessage,
    tool,
    tool_provider,
)
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Ended, Mode, scripted


def named(*names: str, **options: Any) -> list[Any]:
    """Tools of these names that give their names."""

    def made(name: str) -> Any:
        def body() -> str:
            return name

        return tool(name=name, repeat="safe", **options)(body)

    return [made(name) for name in names]


class Provider:
    """Gives each time the next of its lists, the last one for ever, and keeps what it was asked."""

    def __init__(self, *lists: Sequence[Any] | None, dynamic: bool = False) -> None:
        self.dynamic = dynamic
        self.asked: list[ProviderRequest[Any]] = []
        self.threads: set[threading.Thread] = set()
        self._lists = lists

    def provide(self, request: ProviderRequest[Any]) -> Any:
        self.asked.append(request)
        self.threads.add(threading.current_thread())
        return self._lists[min(len(self.asked), len(self._lists)) - 1]


def offered(ended: Ended) -> list[list[str]]:
    """The names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in ended.requests]


def say_and_call(*names: str) -> list[Any]:
    """A script that calls these, one after another, and then answers."""
    return [*(calls(call(name)) for name in names), say("Done")]


# ---------------------------------------------------------------- who is asked when


def test_a_provider_is_asked_once_per_run_and_its_tools_come_behind_the_agents_own(mode: Mode) -> None:
    first, second = Provider(named("b", "c")), Provider(named("d"))
    ended = mode.play(*say_and_call("b", "own", "d"), tools=[first, *named("own"), second, first])
    assert offered(ended) == [["own", "b", "c", "d"]] * 4
    assert ended.results == [("b", "b", False), ("own", "own", False), ("d", "d", False)]


@pytest.mark.without_journal("a run that is told again asks for the tools that it names")
def test_each_run_asks_anew(mode: Mode) -> None:
    static, dynamic = Provider(named("a")), Provider(named("b"), dynamic=True)
    agent = scripted(ScriptedModel([*say_and_call("a"), *say_and_call("b")]), tools=[static, dynamic])
    for _ in range(2):
        assert mode.drive(agent).answer.output == "Done"
    assert (len(static.asked), len(dynamic.asked)) == (2, 4)


def test_a_dynamic_provider_is_asked_before_every_request_and_what_it_gave_stays(mode: Mode) -> None:
    provider = Provider(named("d1"), named("d2"), None, [], dynamic=True)
    ended = mode.play(*say_and_call("own", "d2", "d1"), tools=[*named("own"), provider])
    assert offered(ended) == [["own", "d1"], *[["own", "d1", "d2"]] * 3]
    assert ended.results == [("own", "own", False), ("d2", "d2", False), ("d1", "d1", False)]


def test_a_tool_that_is_not_given_yet_is_unknown_and_can_be_called_later(mode: Mode) -> None:
    provider = Provider([], named("late"), dynamic=True)
    ended = mode.play(*say_and_call("late", "late"), tools=[*named("own"), provider])
    refused = "There is no tool named 'late'. The tools are ['own']."
    assert ended.results == [("late", refused, True), ("late", "late", False)]


def test_providers_that_are_asked_once_come_before_dynamic_ones(mode: Mode) -> None:
    dynamic, static = Provider(named("d"), dynamic=True), Provider(named("s"))
    assert offered(mode.play(say("Hi"), tools=[dynamic, static])) == [["s", "d"]]


def test_an_agent_may_have_nothing_but_a_provider_that_gives_nothing(mode: Mode) -> None:
    ended = mode.play(say("Hi"), tools=[Provider(None), Provider([], dynamic=True)])
    assert (ended.answer.output, offered(ended)) == ("Hi", [[]])


def test_what_a_provider_is_told(mode: Mode) -> None:
    provider = Provider(named("a"), dynamic=True)
    deps = object()
    options = {"deps": deps, "parameters": {"who": "ann"}}
    ended = mode.play(*say_and_call("a"), tools=[provider], instructions="Be brief.", run=options)
    first, second = provider.asked[:2]
    assert (first.run_id, first.memory_id, first.deps) == ("run-1", "default", deps)
    assert dict(first.parameters) == {"who": "ann"}
    assert first.user_message == second.user_message == UserMessage.of("Go")
    assert [request.messages for request in (first, second)] == [request.messages for request in ended.requests]
    assert first.messages == (SystemMessage("Be brief."), UserMessage.of("Go"))


def test_a_provider_sees_the_conversation_and_the_question_although_it_was_evicted(mode: Mode) -> None:
    provider = Provider(named("a"), dynamic=True)
    memory = MessageWindow(2)
    memory.add(UserMessage.of("Earlier"))
    ended = mode.play(*say_and_call("a", "a"), tools=[provider], memory=memory)
    requests = [request.messages for request in ended.requests]
    assert [request.messages for request in provider.asked[:3]] == requests
    assert [len(messages) for messages in requests] == [2, 2, 2]
    assert all(request.user_message == UserMessage.of("Go") for request in provider.asked)


# ---------------------------------------------------------------- forms and colours


def test_a_function_is_made_into_a_provider(mode: Mode) -> None:
    @tool_provider
    def once(request: ProviderRequest[Any]) -> list[Any]:
        return named(f"after_{len(request.messages)}")

    @tool_provider(dynamic=True)
    async def always(request: ProviderRequest[Any]) -> Iterable[Any]:
        await asyncio.sleep(0)
        return named(f"said_{len(request.messages)}")

    assert isinstance(once, ToolProvider) and repr(always) == "tool_provider(always)"
    ended = mode.play(*say_and_call("said_1"), tools=[once, always])
    assert offered(ended) == [["after_1", "said_1"], ["after_1", "said_1", "said_3"]]


def test_a_method_of_a_class_may_be_what_provides(sequential: Mode) -> None:
    class Static:
        @staticmethod
        def provide(request: ProviderRequest[Any]) -> list[Any]:
            return named("s")

    class Shared:
        @classmethod
        def provide(cls, request: ProviderRequest[Any]) -> list[Any]:
            return named("c")

    assert offered(sequential.play(say("Hi"), tools=[Static(), Shared()])) == [["s", "c"]]


def test_a_provider_may_give_whatever_tools_takes(mode: Mode) -> None:
    class Desk:
        @tool(repeat="safe")
        def ring(self) -> str:
            return "ring"

    def plain() -> str:
        return "plain"

    def given(request: Any) -> Any:
        yield Desk()
        yield plain
        yield (ToolSpec("pair"), lambda call, context: "pair")
        yield {ToolSpec("mapped"): lambda call, context: "mapped"}

    ended = mode.play(*say_and_call("ring", "plain", "pair", "mapped"), tools=[tool_provider(given)])
    assert [text for _, text, _ in ended.results] == ["ring", "plain", "pair", "mapped"]


class Both(Provider):
    """A provider with an awaitable twin."""

    colours: list[str]

    def provide(self, request: ProviderRequest[Any]) -> Any:
        self.colours = ["blocking"]
        return super().provide(request)

    async def aprovide(self, request: ProviderRequest[Any]) -> Any:
        self.colours = ["awaitable"]
        await asyncio.sleep(0)
        return super().provide(request)


def test_the_awaitable_twin_is_used_in_the_awaitable_modes(sequential: Mode) -> None:
    provider = Both(named("a"))
    assert offered(sequential.play(say("Hi"), tools=[provider])) == [["a"]]
    assert provider.colours == ["awaitable" if sequential.is_async else "blocking"]


def test_a_blocking_provider_never_blocks_an_event_loop_unless_it_says_that_it_does_not_block(mode: Mode) -> None:
    provider, inline = Provider(named("a"), dynamic=True), Provider(named("b"), dynamic=True)
    inline.inline = True  # type: ignore[attr-defined]
    mode.play(*say_and_call("a"), tools=[provider, inline])
    main = {threading.main_thread()}
    assert (provider.threads == main) is not mode.is_async
    assert inline.threads == main


def test_a_provider_bound_to_its_thread_is_refused_where_it_would_have_to_leave_it(mode: Mode) -> None:
    provider = Provider(named("a"))
    provider.offload = False  # type: ignore[attr-defined]
    ended = mode.play(say("Hi"), tools=[provider])
    if mode.is_async:
        assert isinstance(ended.error, AsyncNotSupportedError)
        assert str(ended.error) == (
            "Provider is bound to its thread (offload = False) and has no aprovide(); give it one, or use run() or "
            "stream()"
        )
    else:
        assert ended.answer.output == "Hi"


@pytest.mark.parametrize("form", ["provide", "aprovide"])
def test_a_run_is_cancelled_while_a_provider_takes_its_time(form: str) -> None:
    token, asked, over = CancelToken(), threading.Event(), threading.Event()
    returned: list[bool] = []

    async def wait(request: Any) -> list[Any]:
        asked.set()
        await asyncio.Event().wait()
        return []

    def block(request: Any) -> list[Any]:
        asked.set()
        returned.append(over.wait(10))
        return []

    provider = tool_provider(wait if form == "aprovide" else block)
    agent = scripted(ScriptedModel([say("Hi")]), tools=[provider])

    async def main() -> None:
        task = asyncio.ensure_future(agent.arun("Go", cancel=token))
        await asyncio.get_running_loop().run_in_executor(None, asked.wait)
        token.cancel()
        async with asyncio.timeout(10):
            await task

    with pytest.raises(RunCancelled):
        asyncio.run(main())
    assert returned == []  # it is still at it
    over.set()


def test_the_same_objects_are_made_into_tools_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Desk:
        @tool(repeat="safe")
        def ring(self) -> str:
            return "ring"

    desk, (other,), made = Desk(), named("other"), list[Any]()
    from surehand.tools import _collect

    real = _collect.collect_tools
    monkeypatch.setattr(_collect, "collect_tools", lambda objects: made.append(objects) or real(objects))
    agent = scripted(
        ScriptedModel([*say_and_call("ring", "other")]),
        tools=[tool_provider(lambda request: [desk.ring, other], dynamic=True)],
    )
    assert agent.run("Go").output == "Done"
    assert len(made) == 1


# ---------------------------------------------------------------- names that clash


def clash(provider: str, name: str) -> str:
    return (
        f"tool provider {provider!r} gives a tool named {name!r}, and there is one of that name already; give one of "
        "them another name"
    )


@pytest.mark.parametrize(
    "tools", [[*named("a"), Provider(named("b", "a"))], [Provider(named("a")), Provider(named("b", "a"))]]
)
def test_a_provider_that_is_asked_once_and_gives_a_known_name_fails_the_run(mode: Mode, tools: list[Any]) -> None:
    ended = mode.play(say("Hi"), tools=tools)
    assert (type(ended.error), str(ended.error)) == (UserError, clash("Provider", "a"))
    assert (ended.requests, len(ended.of(RunFailed))) == ((), 1)


def test_of_a_dynamic_provider_a_known_name_is_passed_over(mode: Mode, caplog: pytest.LogCaptureFixture) -> None:
    def other() -> str:
        return "another"

    provider = Provider([tool(name="own")(other), *named("d")], dynamic=True)
    with caplog.at_level(logging.DEBUG, "surehand"):
        ended = mode.play(*say_and_call("own"), tools=[*named("own"), provider])
    assert (offered(ended), ended.results) == ([["own", "d"]] * 2, [("own", "own", False)])
    assert "tool provider 'Provider' gives 'own', which is there already: the first stays" in caplog.messages


def test_names_that_one_provider_gives_twice_fail_the_run(mode: Mode) -> None:
    for dynamic in (False, True):
        ended = mode.play(say("Hi"), tools=[Provider(named("a", "a"), dynamic=dynamic)])
        assert type(ended.error) is UserError
        assert str(ended.error).startswith("tool provider 'Provider': two tools are named 'a'")


# ---------------------------------------------------------------- what fails


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", [OSError, StopIteration, TimeoutError])
def test_what_a_provider_raises_gives_the_run_up(mode: Mode, kind: type[Exception], dynamic: bool) -> None:
    memory = MessageWindow(10)

    class Down(Provider):
        def provide(self, request: ProviderRequest[Any]) -> Any:
            raise kind("down")

    ended = mode.play(say("Hi"), tools=[Down(dynamic=dynamic)], memory=memory)
    error = ended.error
    assert type(error) is (RuntimeError if kind is StopIteration else kind)
    assert memory.messages() == [UserMessage.of("Go")]
    assert ended.names == ["RunStarted", "RunFailed"]


def test_a_dynamic_provider_that_fails_later_has_everything_undone(mode: Mode) -> None:
    undone: list[str] = []

    def unbook(value: str) -> None:
        undone.append(value)

    @tool(undo=unbook)
    def book() -> str:
        return "seat"

    class Down(Provider):
        def provide(self, request: ProviderRequest[Any]) -> Any:
            if len(request.messages) > 1:
                raise OSError("down")
            return [book]

    ended = mode.play(*say_and_call("book"), tools=[Down(dynamic=True)])
    assert (str(ended.error), undone) == ("down", ["seat"])
    assert [execution.call.name for execution in ended.report.undone] == ["book"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("a", "gave 'a'; expected a list of tools, or None"),
        (7, "gave 7; expected a list of tools, or None"),
        ({}, "gave {}; expected a list of tools, or None"),
        ([7], "7 is no tool"),
        ([Provider()], "the tool provider 'Provider' gives no tools here; it belongs into tools=[…]"),
    ],
)
def test_what_is_no_list_of_tools_fails_the_run(sequential: Mode, given: Any, complaint: str) -> None:
    ended = sequential.play(say("Hi"), tools=[Provider(given)])
    assert type(ended.error) is UserError
    assert str(ended.error).startswith("tool provider 'Provider'") and complaint in str(ended.error)


def test_a_run_is_undone_by_default_as_soon_as_there_is_a_provider() -> None:
    for tools, policy in (([], UndoPolicy.OFF), ([Provider([])], UndoPolicy.ON_GIVE_UP)):
        assert scripted(ScriptedModel([]), tools=tools).service.settings.undo is policy


def test_a_tool_of_a_provider_can_end_the_run(mode: Mode) -> None:
    provider = Provider(named("now", returns=ReturnBehavior.IMMEDIATE))
    ended = mode.play(calls(call("now")), tools=[provider])
    assert ended.answer.immediate and ended.answer.executions[0].value == "now"


def test_runs_at_the_same_time_do_not_share_what_they_were_given() -> None:
    def given(request: ProviderRequest[Any]) -> list[Any]:
        return named(f"of_{request.user_message.text}")

    def reply(request: ChatRequest) -> Any:
        (spec,) = request.tools
        return say(spec.name)

    agent = scripted(ScriptedModel([reply] * 20), tools=[tool_provider(given)])

    async def main() -> list[Any]:
        return [result.output for result in await asyncio.gather(*(agent.arun(str(n)) for n in range(20)))]

    assert asyncio.run(main()) == [f"of_{n}" for n in range(20)]


# ---------------------------------------------------------------- refused when the agent is made


class Twin:
    async def aprovide(self, request: Any) -> None: ...


class Odd(Provider):
    dynamic: Any = 1

    def __init__(self) -> None: ...


class Mixed(Provider):
    @tool
    def act(self) -> None: ...


def without_parameter() -> list[Any]:
    return []


anything: Any = tool_provider


async def generates(request: Any) -> Any:
    yield 1


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "twin alone": (Twin, "has aprovide and no provide; `async def provide` works in every mode"),
    "dynamic": (Odd, "tool provider 'Odd': dynamic=1; expected True (asked before every request) or False"),
    "with tools": (Mixed, "has @tool methods, and a method provide, which makes it a tool provider"),
    "no parameter": (lambda: anything(without_parameter), "a function that can be called with (request), not"),
    "generator": (lambda: anything(generates), "provide is an async generator; give a list of tools instead"),
    "class": (lambda: Provider, "Provider is a class; give an instance of it: Provider()"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_provider_that_cannot_be_asked_is_refused_when_the_agent_is_made(name: str) -> None:
    make, complaint = REFUSED[name]
    with pytest.raises(UserError) as refused:
        scripted(ScriptedModel([]), tools=[make()])
    assert complaint in str(refused.value)


def test_an_object_whose_provide_is_a_tool_is_no_provider(mode: Mode) -> None:
    class Kitchen:
        @tool(repeat="safe")
        def provide(self) -> str:
            return "soup"

    ended = mode.play(*say_and_call("provide"), tools=[Kitchen()])
    assert ended.results == [("provide", "soup", False)]
