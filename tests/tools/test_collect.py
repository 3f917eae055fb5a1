"""Which tools are found in what the user registers, and what is refused at registration (spec 3.1, 3.2, 6.1)."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import pytest

from surehand.errors import UserError
from surehand.messages import ToolCall, ToolSpec
from surehand.tools._collect import collect_tools
from surehand.tools._declare import tool
from surehand.tools._executor import programmatic_tool
from surehand.tools._tool import ReturnBehavior, Tool, ToolContext, ToolResult

from .helpers import context, one

SPEC = ToolSpec("echo", "Echoes.", {"type": "object", "properties": {"x": {"type": "string"}}})
WITHOUT_PARAMETERS = ToolSpec("echo", "Echoes.")


def names(*objects: Any) -> list[str]:
    return [made.name for made in collect_tools(objects)]


class Base:
    @tool
    def overridden(self) -> str:
        return "base"

    @tool
    def dropped(self) -> str:
        return "base"

    @tool
    def inherited(self) -> str:
        return "base"


class Derived(Base):
    @tool
    def overridden(self) -> str:
        return "derived"

    def dropped(self) -> str:
        return "derived"

    @tool
    def _hidden(self) -> str:
        return "hidden"

    @tool
    def __private(self) -> str:
        return "private"


def call(made: Tool) -> Any:
    return made.body.call({}, None)


# ---------------------------------------------------------------- objects


def test_a_plain_function_is_a_tool_that_is_never_repeated() -> None:
    def act() -> None: ...

    assert one(act).repeat == "never"


def test_an_object_gives_its_marked_methods_the_most_derived_ones_first() -> None:
    made = collect_tools([Derived()])
    assert [(entry.name, call(entry)) for entry in made] == [
        ("overridden", "derived"),
        ("_hidden", "hidden"),
        ("__private", "private"),
        ("inherited", "base"),
    ]


def test_a_mixin_contributes_its_tools() -> None:
    class Mixin:
        @tool
        def mixed(self) -> None: ...

    class Whole(Mixin, Base):
        pass

    assert names(Whole()) == ["mixed", "overridden", "dropped", "inherited"]


def test_an_abstract_method_is_no_tool_and_its_implementation_is() -> None:
    class Contract(abc.ABC):
        @tool
        @abc.abstractmethod
        def act(self) -> str: ...

    class Silent(Contract):
        def act(self) -> str:
            return "silent"

    class Marked(Contract):
        @tool
        def act(self) -> str:
            return "marked"

    assert call(one(Marked())) == "marked"
    with pytest.raises(UserError, match="Silent"):
        collect_tools([Silent()])


def test_bound_class_and_static_methods_show_neither_self_nor_cls() -> None:
    class Things:
        @tool
        def bound(self, q: str) -> str:
            return f"bound {q}"

        @tool
        @classmethod
        def inner(cls, q: str) -> str:
            return f"{cls.__name__} {q}"

        @classmethod
        @tool
        def outer(cls, q: str) -> str:
            return f"{cls.__name__} {q}"

        @staticmethod
        @tool
        def still(q: str) -> str:
            return f"still {q}"

    made = collect_tools([Things()])
    shown = [list((entry.spec.parameters or {})["properties"]) for entry in made]
    assert shown == [["q"]] * 4
    assert [entry.body.call({"q": "x"}, None) for entry in made] == ["bound x", "Things x", "Things x", "still x"]
    singly = collect_tools([Things().bound, Things.inner, Things.outer, Things.still])
    assert [entry.body.call({"q": "x"}, None) for entry in singly] == ["bound x", "Things x", "Things x", "still x"]


def test_two_objects_of_one_type_keep_their_own_state() -> None:
    class Counter:
        def __init__(self, start: int) -> None:
            self.start = start

        @tool
        def value(self) -> int:
            return self.start

    assert [call(one(Counter(1))), call(one(Counter(2)))] == [1, 2]


def test_a_mock_like_object_has_no_tools_by_accident() -> None:
    class Everything:
        def __getattr__(self, name: str) -> Any:
            return Everything()

    with pytest.raises(UserError, match="Everything"):
        collect_tools([Everything()])


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (Derived, ["Derived", "class", "Derived()"]),
        ([len], ["list", "unpack"]),
        ((len, len), ["tuple", "unpack"]),
        ({len}, ["set", "unpack"]),
        ({"a": len}, ["dict", "unpack"]),
        (object(), ["object", "@tool"]),
        (ToolCall("1", "n"), ["ToolCall", "@tool"]),
        ("name", ["'name'", "function"]),
        (None, ["None", "function"]),
        (5, ["5", "function"]),
        (SPEC, ["'echo'", "(spec, executor)"]),
        ((SPEC, 5), ["'echo'", "int", "execute"]),
        ((SPEC, Derived), ["'echo'", "Derived", "instance"]),
        (Base.inherited, ["Base.inherited", "Base().inherited"]),
    ],
    ids=lambda value: type(value).__name__,  # ids must not hold addresses: they differ between worker processes
)
def test_what_is_no_tool_is_refused_with_its_type_and_the_remedy(entry: Any, words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        collect_tools([entry])
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_single_function_instead_of_a_list_is_refused() -> None:
    untyped: Any = one
    with pytest.raises(UserError, match=r"\[one\]"):
        collect_tools(untyped)


@pytest.mark.parametrize(
    "second",
    [
        lambda: programmatic_tool(SPEC, lambda c, x: ""),
        lambda: (SPEC, lambda c, x: ""),
        lambda: {SPEC: lambda c, x: ""},
    ],
)
def test_equal_names_are_refused_in_every_form(second: Callable[[], Any]) -> None:
    with pytest.raises(UserError, match="'echo'"):
        collect_tools([programmatic_tool(SPEC, lambda call, context: ""), second()])


# ---------------------------------------------------------------- executors


class Both:
    def execute(self, call: ToolCall, context: ToolContext[Any]) -> str:
        return f"blocking {call.arguments}"

    async def execute_async(self, call: ToolCall, context: ToolContext[Any]) -> str:
        return f"awaitable {call.arguments}"


class OnlyAsync:
    async def execute_async(self, call: ToolCall, context: ToolContext[Any]) -> str:
        return call.arguments


class ThreadBound:
    offload = False

    def execute(self, call: ToolCall, context: ToolContext[Any]) -> str:
        return call.arguments


async def awaitable(call: ToolCall, context: ToolContext[Any]) -> str:
    return call.arguments


def blocking(call: ToolCall, context: ToolContext[Any]) -> str:
    return call.arguments


@pytest.mark.parametrize(
    ("executor", "is_async", "has_async_form", "offload"),
    [
        (Both(), False, True, True),
        (OnlyAsync(), True, True, True),
        (ThreadBound(), False, False, False),
        (awaitable, True, True, True),
        (blocking, False, False, True),
    ],
)
def test_the_forms_of_an_executor_are_told_apart(
    executor: Any, is_async: bool, has_async_form: bool, offload: bool
) -> None:
    body = programmatic_tool(SPEC, executor).body
    assert (body.is_async, body.has_async_form, body.offload) == (is_async, has_async_form, offload)
    assert (body.wants_context, body.raises_argument_errors) == (True, True)


@pytest.mark.parametrize("text", ["not json", '{"x": 1}', "", '{"x":'])
def test_an_executor_gets_the_raw_call_if_its_specification_has_no_parameters(text: str) -> None:
    body = programmatic_tool(WITHOUT_PARAMETERS, blocking).body
    arguments, _ = body.decode(text)
    assert body.call(arguments, context(call=ToolCall("1", "echo", text))) == text


def test_an_executors_arguments_are_readable_as_far_as_they_go() -> None:
    decode = programmatic_tool(WITHOUT_PARAMETERS, blocking).body.decode
    assert [decode(text)[0] for text in ('{"x": 1}', "", "null", "oops", "[1]")] == [
        {"x": 1}, {}, {}, {"": "oops"}, {"": [1]},
    ]  # fmt: skip


def test_an_executors_text_or_result_is_what_the_model_reads() -> None:
    body = programmatic_tool(SPEC, blocking).body
    result = ToolResult.error("no")
    assert body.encode(result) is result
    assert (body.encode("yes").text, body.encode("yes").value) == ("yes", "yes")


def test_the_awaitable_form_is_used_where_asked_for() -> None:
    body = programmatic_tool(SPEC, Both()).body
    given = context(call=ToolCall("1", "echo", "a"))
    assert body.call({}, given) == "blocking a"
    coroutine: Any = body.call_async({}, given)
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == "awaitable a"


def test_pairs_mappings_and_options_make_tools() -> None:
    other = ToolSpec("other")
    made = programmatic_tool(ToolSpec("third"), blocking, repeat="safe", retries=2, returns=ReturnBehavior.IMMEDIATE)
    assert names((SPEC, blocking), {other: Both()}, made) == ["echo", "other", "third"]
    assert (made.repeat, made.retries, made.returns) == ("safe", 2, ReturnBehavior.IMMEDIATE)


def test_bad_options_of_a_programmatic_tool_are_refused() -> None:
    with pytest.raises(UserError, match=r"'echo'.*retries=1"):
        programmatic_tool(SPEC, blocking, retries=1)
