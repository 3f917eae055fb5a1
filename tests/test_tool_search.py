"""Tools that the model finds by searching: what it is shown, when, and for how long (spec 14)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from surehand import (
    AsyncNotSupportedError,
    ErrorPolicy,
    KeywordSearch,
    LimitWarning,
    MessageWindow,
    Outcome,
    SearchResult,
    TextContent,
    ToolCall,
    ToolContext,
    ToolExecution,
    ToolMessage,
    ToolResult,
    ToolSearch,
    ToolSpec,
    ToolStarted,
    UserError,
    abort,
    tool,
    tool_provider,
)
from surehand.service import ToolService
from surehand.testing import ScriptedModel, call, calls, say

from .modes import Mode, scripted
from .test_providers import Provider, named, offered, say_and_call

SEARCH = "tool_search_tool"
NOTHING = "No matching tools found, besides those that you have already."


def search(*terms: str) -> Any:
    return calls(call(SEARCH, {"terms": list(terms)}))


def described(**descriptions: str) -> list[Any]:
    return [made for name, text in descriptions.items() for made in named(name, description=text)]


WEATHER = described(weather="Rain or sun in a city", clock="The time in a city", mail="Sends an email")


def test_the_model_sees_a_tool_once_it_has_found_it(mode: Mode) -> None:
    ended = mode.play(search("weather"), *say_and_call("weather"), tools=WEATHER, tool_search=KeywordSearch())
    assert offered(ended) == [[SEARCH], [SEARCH, "weather"], [SEARCH, "weather"]]
    assert ended.results == [(SEARCH, "Tools found: weather", False), ("weather", "weather", False)]
    (found, _) = ended.executions
    assert (found.value, found.outcome) == (SearchResult(("weather",), "Tools found: weather"), Outcome.DONE)
    assert found.result.attributes == {"found_tools": ["weather"]}


def test_what_was_found_adds_up_and_is_not_found_again(mode: Mode) -> None:
    script = [search("city"), search("email", "city"), search("weather"), say("Done")]
    ended = mode.play(*script, tools=WEATHER, tool_search=KeywordSearch())
    both = [SEARCH, "weather", "clock"]
    assert offered(ended) == [[SEARCH], both, [*both, "mail"], [*both, "mail"]]
    assert [text for _, text, _ in ended.results] == ["Tools found: weather, clock", "Tools found: mail", NOTHING]


def test_searches_of_one_round_add_up_as_well(mode: Mode) -> None:
    both = calls(call(SEARCH, {"terms": ["email"]}), call(SEARCH, {"terms": ["city", "email"]}))
    ended = mode.play(both, say("Done"), tools=WEATHER, tool_search=KeywordSearch())
    assert offered(ended) == [[SEARCH], [SEARCH, "mail", "weather", "clock"]]


def test_tools_that_are_always_visible_come_first(mode: Mode) -> None:
    marked = ToolSpec("marked", metadata={"searchBehavior": "ALWAYS_VISIBLE"})
    open_ = ToolSpec("open", metadata={"searchBehavior": "SEARCHABLE"})
    pairs = [(spec, lambda call, context: "x") for spec in (marked, open_)]
    tools = [*named("hidden"), *pairs, *named("pinned", always_visible=True)]
    ended = mode.play(search("open"), say("Done"), tools=tools, tool_search=KeywordSearch())
    assert offered(ended) == [["marked", "pinned", SEARCH], ["marked", "pinned", SEARCH, "open"]]


def test_tools_of_providers_are_searched_if_they_are_asked_once_and_shown_at_once_if_not(mode: Mode) -> None:
    static = Provider([*described(st="weather"), *named("pinned", always_visible=True)])
    dynamic = Provider(described(dyn="weather"), dynamic=True)
    tools = [*WEATHER, static, dynamic]
    ended = mode.play(search("weather"), *say_and_call("st"), tools=tools, tool_search=KeywordSearch())
    first = ["pinned", SEARCH, "dyn"]
    assert offered(ended) == [first, [*first, "weather", "st"], [*first, "weather", "st"]]


def test_a_hidden_tool_can_be_called_by_a_guessed_name(mode: Mode) -> None:
    ended = mode.play(*say_and_call("mail", "mial"), tools=WEATHER, tool_search=KeywordSearch())
    # What is suggested for a name that is wrong is what the model sees.
    refused = f"There is no tool named 'mial'. The tools are [{SEARCH!r}]."
    assert ended.results == [("mail", "mail", False), ("mial", refused, True)]
    assert offered(ended) == [[SEARCH]] * 3


def test_an_agent_without_tools_may_search(mode: Mode) -> None:
    ended = mode.play(search("x"), say("Done"), tool_search=KeywordSearch())
    assert (offered(ended), ended.results) == ([[SEARCH]] * 2, [(SEARCH, NOTHING, False)])


# ---------------------------------------------------------------- over several runs


def test_what_was_found_stays_as_long_as_the_conversation_remembers_it(mode: Mode) -> None:
    memory = MessageWindow(4)
    model = ScriptedModel([search("weather"), say("one"), say("two"), say("three")])
    agent = scripted(model, tools=WEATHER, tool_search=KeywordSearch(), memory=memory)
    for prompt in ("a", "b", "c"):
        mode.drive(agent, prompt)
    shown = [[spec.name for spec in request.tools] for request in model.requests]
    assert shown == [[SEARCH], [SEARCH, "weather"], [SEARCH, "weather"], [SEARCH]]


def test_what_was_found_stays_with_the_history(mode: Mode) -> None:
    model = ScriptedModel([search("mail"), search("clock"), say("one"), say("two"), say("three")])
    agent = scripted(model, tools=WEATHER, tool_search=KeywordSearch())
    first = mode.drive(agent).answer
    mode.drive(agent, history=first.messages)
    mode.drive(agent)
    shown = [[spec.name for spec in request.tools] for request in model.requests]
    assert shown[2:] == [[SEARCH, "mail", "clock"], [SEARCH, "mail", "clock"], [SEARCH]]


def result_of(name: str, *found: Any, is_error: bool = False, key: str = "found_tools") -> ToolMessage:
    return ToolMessage(None, name, (TextContent("x"),), is_error, {key: list(found)})


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (result_of(SEARCH, "mail", "gone", 7, "mail"), [SEARCH, "mail"]),
        (result_of("other", "mail"), [SEARCH]),
        (result_of(SEARCH, "mail", is_error=True), [SEARCH]),
        (ToolMessage(None, SEARCH, (TextContent("x"),), False, {"found_tools": "mail"}), [SEARCH]),
    ],
)
def test_only_results_of_searches_in_the_history_show_tools(
    sequential: Mode, message: ToolMessage, shown: list[str]
) -> None:
    ended = sequential.play(say("Hi"), tools=WEATHER, tool_search=KeywordSearch(), run={"history": [message]})
    assert offered(ended) == [shown]
    assert ended.of(LimitWarning) == []


# ---------------------------------------------------------------- what may show tools


class Fixed:
    """A search that gives what it is told to, whatever it is asked."""

    specs = (ToolSpec("find", "Finds tools", {"type": "object"}), ToolSpec("look"))

    def __init__(self, *found: Any) -> None:
        self._found = list(found)
        self.asked: list[tuple[ToolCall, list[str]]] = []
        self.threads: set[threading.Thread] = set()

    def search(self, call: ToolCall, searchable: Sequence[ToolSpec], context: ToolContext[Any], /) -> Any:
        self.asked.append((call, [spec.name for spec in searchable]))
        self.threads.add(threading.current_thread())
        found = self._found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def test_a_search_of_ones_own_may_have_several_tools(mode: Mode) -> None:
    mine = Fixed(SearchResult(("mail",), "one"), SearchResult(["clock", "weather"], "two"))  # type: ignore[arg-type]
    assert isinstance(mine, ToolSearch)
    script = [calls(call("find", '{"any": 1', id="a")), calls(call("look", "", id="b")), say("Done")]
    ended = mode.play(*script, tools=WEATHER, tool_search=mine)
    assert offered(ended) == [
        ["find", "look"],
        ["find", "look", "mail"],
        ["find", "look", "mail", "clock", "weather"],
    ]
    # The search reads its arguments itself, and is asked about what is still hidden.
    assert mine.asked == [
        (ToolCall("a", "find", '{"any": 1'), ["weather", "clock", "mail"]),
        (ToolCall("b", "look", ""), ["weather", "clock"]),
    ]
    on_main = threading.main_thread() in mine.threads
    assert not on_main if mode.is_async else on_main or mode.parallel


def test_a_search_may_be_async_or_have_an_awaitable_twin(mode: Mode) -> None:
    class Async:
        specs = (ToolSpec("find"),)

        async def search(self, call: Any, searchable: Any, context: Any, /) -> SearchResult:
            await asyncio.sleep(0)
            return SearchResult(("mail",), "async")

    class Twin(Fixed):
        async def asearch(self, call: Any, searchable: Any, context: Any, /) -> SearchResult:
            await asyncio.sleep(0)
            return SearchResult(("mail",), "twin")

    for mine, text in ((Async(), "async"), (Twin(SearchResult(("mail",), "plain")), "plain")):
        ended = mode.play(*say_and_call("find"), tools=WEATHER, tool_search=mine)
        assert offered(ended)[1][-1] == "mail"
        twin = text == "plain" and mode.is_async
        assert ended.results == [("find", "twin" if twin else text, False)]


def test_a_search_bound_to_its_thread_is_refused_where_it_would_have_to_leave_it(mode: Mode) -> None:
    mine = Fixed(SearchResult((), "none"))
    mine.offload = False  # type: ignore[attr-defined]
    ended = mode.play(*say_and_call("find"), tool_search=mine)
    assert isinstance(ended.error, AsyncNotSupportedError) if mode.is_async else ended.answer.output == "Done"


def test_names_that_no_tool_has_are_passed_over_with_a_warning(mode: Mode) -> None:
    mine = Fixed(SearchResult(("gone", "mail", "gone"), "two"))
    ended = mode.play(*say_and_call("find"), tools=WEATHER, tool_search=mine)
    assert offered(ended)[1] == ["find", "look", "mail"]
    text = "a tool search found ['gone'], which are no tools of this run: they are ignored"
    assert [event.text for event in ended.of(LimitWarning)] == [text]


def test_another_tool_cannot_show_hidden_ones(mode: Mode) -> None:
    @tool(repeat="safe", always_visible=True)
    def remote() -> ToolResult:
        return ToolResult.of("x", attributes={"found_tools": ["mail"]})

    ended = mode.play(*say_and_call("remote"), tools=[*WEATHER, remote], tool_search=KeywordSearch())
    assert offered(ended) == [["remote", SEARCH]] * 2


def test_a_search_that_fails_tells_the_model_and_shows_nothing(mode: Mode) -> None:
    mine = Fixed(OSError("secret"), 7)
    ended = mode.play(*say_and_call("find", "look"), tools=WEATHER, tool_search=mine)
    assert offered(ended) == [["find", "look"]] * 3
    (_, first, _), (_, second, is_error) = ended.results
    assert first == "Tool 'find' failed with OSError."
    assert is_error and second.startswith("Tool 'look' did run, but its result cannot be shown")


def test_a_search_is_a_call_like_any_other(mode: Mode) -> None:
    heard: list[str] = []

    def before(context: ToolContext[Any]) -> None:
        heard.append(f"before {context.call.name}")

    def after(execution: ToolExecution[Any], context: ToolContext[Any]) -> None:
        heard.append(f"after {execution.value.names}")

    def authorise(context: ToolContext[Any], arguments: dict[str, Any]) -> bool:
        heard.append(f"may {arguments}")
        return True

    options: dict[str, Any] = {"before_tool": before, "after_tool": after, "authorise": authorise}
    ended = mode.play(search("mail"), say("Done"), tools=WEATHER, tool_search=KeywordSearch(), **options)
    assert heard == [f"before {SEARCH}", "may {'terms': ['mail']}", "after ('mail',)"]
    assert [event.call.name for event in ended.of(ToolStarted)] == [SEARCH]


# ---------------------------------------------------------------- arguments that do not fit


@pytest.mark.parametrize("arguments", ['{"query": "x"}', '{"terms": "x"}', "{", "null", "", "[]"])
def test_arguments_that_do_not_fit_are_told_to_the_model(sequential: Mode, arguments: str) -> None:
    for argument_errors, outcome in ((False, Outcome.FAILED), (True, Outcome.REJECTED)):
        mine = KeywordSearch(argument_errors=argument_errors)
        ended = sequential.play(calls(call(SEARCH, arguments)), say("Done"), tools=WEATHER, tool_search=mine)
        ((_, text, is_error),) = ended.results
        assert is_error and "terms" in text and SEARCH in text
        assert [execution.outcome for execution in ended.executions] == [outcome]


def test_which_row_of_the_policy_decides_about_them_can_be_chosen(mode: Mode) -> None:
    policy = ErrorPolicy(arguments=abort)
    for argument_errors in (False, True):
        mine = KeywordSearch(argument_errors=argument_errors)
        ended = mode.play(calls(call(SEARCH)), say("Done"), tools=WEATHER, tool_search=mine, on_error=policy)
        assert (ended.result is None) is argument_errors


# ---------------------------------------------------------------- refused when the agent is made


def test_a_tool_with_the_name_of_the_search_tool_is_refused_as_soon_as_it_is_known(mode: Mode) -> None:
    clash = f"two tools are named {SEARCH!r}: one of yours and the search tool; give one another name"
    with pytest.raises(UserError) as refused:
        ToolService(named(SEARCH), tool_search=KeywordSearch())
    assert str(refused.value) == clash
    ended = mode.play(say("Hi"), tools=[Provider(named(SEARCH))], tool_search=KeywordSearch())
    assert type(ended.error) is UserError and repr(SEARCH) in str(ended.error)
    dynamic = Provider(named(SEARCH), dynamic=True)
    assert offered(mode.play(say("Hi"), tools=[dynamic], tool_search=KeywordSearch())) == [[SEARCH]]


class Nameless(Fixed):
    specs = ()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (KeywordSearch, "expected a ToolSearch such as KeywordSearch(), or None"),
        (7, "expected a ToolSearch such as KeywordSearch(), or None"),
        (Nameless(), "specs=(); expected at least one ToolSpec"),
    ],
)
def test_what_is_no_search_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        scripted(ScriptedModel([]), tool_search=given)
    assert complaint in str(refused.value)


def test_a_search_behavior_that_does_not_exist_is_refused() -> None:
    odd = (ToolSpec("odd", metadata={"searchBehavior": "hidden"}), lambda call, context: "x")
    with pytest.raises(UserError) as refused:
        scripted(ScriptedModel([]), tools=[odd], tool_search=KeywordSearch())
    assert "'odd': metadata 'searchBehavior' is 'hidden'; expected 'ALWAYS_VISIBLE' or 'SEARCHABLE'" in str(
        refused.value
    )
    scripted(ScriptedModel([]), tools=[odd])  # nobody reads it there


def test_a_provider_may_give_the_tools_for_what_was_found_in_another_run(mode: Mode) -> None:
    provider = tool_provider(lambda request: described(st="weather"))
    model = ScriptedModel([search("weather"), say("one"), say("two")])
    agent = scripted(model, tools=[provider], tool_search=KeywordSearch(), memory=MessageWindow(9))
    for _ in range(2):
        mode.drive(agent)
    assert [[spec.name for spec in request.tools] for request in model.requests][1:] == [[SEARCH, "st"]] * 2
