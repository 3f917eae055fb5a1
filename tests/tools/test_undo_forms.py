"""How an undo finds its tool and what it is called with (spec 11.1)."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import pytest

from surehand.errors import UserError
from surehand.messages import ToolCall, ToolSpec
from surehand.tools._collect import collect_tools
from surehand.tools._declare import tool, undoes
from surehand.tools._executor import programmatic_tool
from surehand.tools._signature import MemoryId
from surehand.tools._tool import Parameters, Tool, ToolContext, ToolExecution, Undo

from .helpers import context, execution, one

ARGUMENTS = '{"to": "LIS", "day": "2031-05-03"}'
DAY = datetime.date(2031, 5, 3)


class Booking:
    def __init__(self, reference: str) -> None:
        self.reference = reference


def undo_of(made: Tool) -> Undo:
    assert made.undo is not None
    return made.undo


def undone(function: Any, value: Any = "value", given: ToolContext[Any] | None = None) -> Any:
    """What the undo of a tool ``book(to, day, seats=1)`` is called with."""

    @tool(undo=function)
    def book(to: str, day: datetime.date, ctx: ToolContext, seats: int = 1) -> Booking: ...  # type: ignore[empty-body]

    made = one(book)
    return undo_of(made).call(execution(value), made.body.decode(ARGUMENTS)[0], given or context())


# ---------------------------------------------------------------- forms


def test_one_parameter_gets_what_the_tool_returned() -> None:
    booking = Booking("r")

    def cancel(booking: Booking) -> Any:
        return booking

    assert undone(cancel, booking) is booking


def test_an_execution_parameter_gets_the_record() -> None:
    def plain(it: ToolExecution) -> Any:
        return it

    def typed(it: ToolExecution[Booking], ctx: ToolContext) -> Any:
        return it

    assert undone(plain, 5) == execution(5)
    assert undone(typed, 5) == execution(5)


def test_parameters_with_the_tools_names_get_its_arguments_decoded() -> None:
    def cancel(day: datetime.date, to: str) -> Any:
        return to, day

    def partly(seats: int) -> Any:
        return seats

    assert undone(cancel) == ("LIS", DAY)
    assert undone(partly) == 1


def test_no_parameter_is_fine() -> None:
    def cancel() -> Any:
        return "done"

    assert undone(cancel) == "done"


def test_what_surehand_fills_may_be_added_to_every_form() -> None:
    def by_value(ctx: ToolContext, value: Any, /) -> Any:
        return value, ctx

    def by_arguments(to: str, ctx: ToolContext, bag: Parameters, who: Annotated[str, MemoryId]) -> Any:
        return to, ctx, bag, who

    def by_nothing(ctx: ToolContext) -> Any:
        return ctx

    given = context()
    assert undone(by_value, 5, given) == (5, given)
    assert undone(by_arguments, 5, given) == ("LIS", given, given.parameters, "m1")
    assert undone(by_nothing, 5, given) is given


def test_a_further_parameter_with_a_default_is_left_alone() -> None:
    def cancel(booking: Booking, *, force: bool = False) -> Any:
        return booking, force

    assert undone(cancel, 5) == (5, False)


def test_an_undo_tells_whether_it_is_async_and_how_long_it_may_take() -> None:
    @tool
    def act() -> None: ...

    @undoes(act, timeout=3)
    async def back() -> None: ...

    undo = undo_of(one(act))
    assert (undo.is_async, undo.timeout) == (True, 3)


def test_the_option_of_the_tool_gives_the_timeout_too() -> None:
    def back() -> None: ...

    @tool(undo=back, undo_timeout=4)
    def act() -> None: ...

    assert undo_of(one(act)).timeout == 4


@pytest.mark.parametrize("parameters", ["a, b", "to, reference", "it: ToolExecution, to: str", "*values", "**values"])
def test_anything_else_is_refused(parameters: str) -> None:
    scope: dict[str, Any] = {"ToolExecution": ToolExecution}
    exec(f"def cancel({parameters}): ...", scope)
    with pytest.raises(UserError, match=r"undo of the tool 'book' \(cancel\)"):
        undone(scope["cancel"])


def test_a_refusal_names_what_does_not_fit_and_the_tools_parameters() -> None:
    def cancel(to: str, reference: str) -> None: ...

    with pytest.raises(UserError, match=r"no parameter 'reference'.*'to', 'day', 'seats'"):
        undone(cancel)


def test_an_argument_name_with_the_type_of_the_result_is_refused_as_ambiguous() -> None:
    def cancel(to: Booking) -> None: ...

    with pytest.raises(UserError, match="'to' is the name of a parameter of 'book' but has the type that it returns"):
        undone(cancel)


# ---------------------------------------------------------------- finding


def test_the_function_is_given_back_unchanged() -> None:
    @tool
    def act() -> None: ...

    def back() -> None: ...

    assert undoes(act)(back) is back


def test_an_undo_is_found_through_its_function_alone() -> None:
    @tool
    def act() -> int:
        return 1

    @undoes(act)
    def back(value: int) -> str:
        return f"undone {value}"

    for objects in ([act], [act, back], [back, act]):
        (made,) = collect_tools(objects)
        assert undo_of(made).call(execution(1), {}, context()) == "undone 1"


def test_an_undo_may_name_its_tool_and_come_in_any_order() -> None:
    @tool(name="shown")
    def act() -> None: ...

    @undoes("shown")
    def back() -> str:
        return "undone"

    for objects in ([act, back], [back, act]):
        (made,) = collect_tools(objects)
        assert undo_of(made).call(execution(None), {}, context()) == "undone"
    assert one(act).undo is None


class Desk:
    def __init__(self, name: str) -> None:
        self.name = name

    @tool
    def book(self, to: str) -> str:
        return to

    @undoes(book)
    def cancel(self, reference: str) -> str:
        return f"{self.name} cancelled {reference}"

    @tool(name="pay")
    def charge(self) -> None: ...

    @undoes("pay")
    def refund(self) -> str:
        return f"{self.name} refunded"


class OtherDesk(Desk):
    @undoes("book")
    def cancel(self, reference: str) -> str:
        return f"other {self.name} cancelled {reference}"


@pytest.mark.parametrize(
    ("desk", "expected"),
    [(Desk("a"), ["a cancelled r", "a refunded"]), (OtherDesk("b"), ["other b cancelled r", "b refunded"])],
)
def test_methods_are_undone_by_methods_of_the_same_object(desk: Desk, expected: list[str]) -> None:
    given = context()
    assert [undo_of(made).call(execution("r"), {}, given) for made in collect_tools([desk])] == expected
    singly = [one(desk.book), one(desk.charge)]
    assert [undo_of(made).call(execution("r"), {}, given) for made in singly] == expected


def test_an_undo_that_an_override_does_not_mark_is_none() -> None:
    class Silent(Desk):
        def cancel(self, reference: str) -> str:
            return reference

    assert [made.undo is None for made in collect_tools([Silent("a")])] == [True, False]


def test_an_option_may_name_a_method_of_the_class_body() -> None:
    class Till:
        def back(self, value: int) -> Any:
            return self, value

        @tool(undo=back)
        def pay(self) -> int:
            return 1

    till = Till()
    assert undo_of(one(till)).call(execution(1), {}, context()) == (till, 1)
    assert undo_of(one(till.pay)).call(execution(1), {}, context()) == (till, 1)


def test_an_object_may_hold_undos_only() -> None:
    @tool
    def act() -> None: ...

    class Undos:
        @undoes("act")
        def back(self) -> str:
            return "undone"

    (made,) = collect_tools([Undos(), act])
    assert undo_of(made).call(execution(None), {}, context()) == "undone"


def test_a_programmatic_tool_can_be_undone_in_every_form() -> None:
    spec = ToolSpec("act", None, {"type": "object", "properties": {"x": {"type": "integer"}}})

    def run(call: ToolCall, context: ToolContext) -> str:
        return "x"

    def by_argument(x: int) -> Any:
        return x

    def by_value(value: Any) -> Any:
        return value

    made = programmatic_tool(spec, run, undo=by_argument, undo_timeout=2)
    assert undo_of(made).timeout == 2
    assert undo_of(made).call(execution("v"), made.body.decode('{"x": 3}')[0], context()) == 3
    (other,) = collect_tools([(spec, run), undoes("act")(by_value)])
    assert undo_of(other).call(execution("v"), {}, context()) == "v"


# ---------------------------------------------------------------- undoing what may have happened


def by_value(value: str) -> None: ...


def by_execution(it: ToolExecution) -> None: ...


def by_arguments(to: str, ctx: ToolContext) -> None: ...


def by_nothing(ctx: ToolContext) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"), [(by_value, True), (by_execution, True), (by_arguments, False), (by_nothing, False)]
)
def test_an_undo_tells_whether_it_needs_what_the_tool_returned(function: Any, expected: bool) -> None:
    @tool(undo=function)
    def book(to: str) -> str:
        return to

    assert undo_of(one(book)).needs_value is expected


@pytest.mark.parametrize("function", [by_arguments, by_nothing])
def test_a_call_that_may_have_happened_is_undone_by_its_arguments_or_by_nothing(function: Any) -> None:
    @tool(unknown="undo")
    def book(to: str) -> str:
        return to

    (made,) = collect_tools([book, undoes(book)(function)])
    assert (made.unknown, undo_of(made).needs_value) == ("undo", False)


@pytest.mark.parametrize("function", [by_value, by_execution])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_call_that_may_have_happened_cannot_be_undone_by_its_value(function: Any, is_named: bool) -> None:
    @tool(unknown="undo")
    def book(to: str) -> str:
        return to

    undo = undoes("book" if is_named else book)(function)
    with pytest.raises(UserError, match=r"'book': unknown='undo', but its undo takes what the tool returned.*@undoes"):
        collect_tools([book, undo])


def test_a_programmatic_tool_keeps_to_the_same_rule() -> None:
    spec = ToolSpec("book", None, {"type": "object", "properties": {"to": {"type": "string"}}})

    def run(call: ToolCall, context: ToolContext) -> str:
        return "x"

    def back(to: str) -> None: ...

    made = programmatic_tool(spec, run, unknown="undo", undo=back)
    assert one(made) is made
    for refused in (
        programmatic_tool(spec, run, unknown="undo"),
        programmatic_tool(spec, run, unknown="undo", undo=by_value),
    ):
        with pytest.raises(UserError, match=r"'book': unknown='undo'"):
            collect_tools([refused])


# ---------------------------------------------------------------- what is refused


def test_two_undos_by_function_are_refused_at_once() -> None:
    @tool
    def act() -> None: ...

    @undoes(act)
    def first() -> None: ...

    with pytest.raises(UserError, match=r"'second'.*'act' has an undo already, 'first'"):

        @undoes(act)
        def second() -> None: ...


def test_two_undos_by_name_are_refused_when_collected() -> None:
    def back() -> None: ...

    @tool(undo=back)
    def act() -> None: ...

    @undoes("act")
    def other() -> None: ...

    with pytest.raises(UserError, match=r"'act'.*'back'.*'other'"):
        collect_tools([act, other])


def test_an_undo_of_a_tool_that_is_not_there_is_refused() -> None:
    @tool
    def act() -> None: ...

    @undoes("buy")
    def back() -> None: ...

    with pytest.raises(UserError, match=r"'back' undoes the tool 'buy'.*'act'"):
        collect_tools([act, back])


def test_only_a_tool_can_be_undone() -> None:
    def act() -> None: ...

    with pytest.raises(UserError, match=r"act.*@tool"):

        @undoes(act)
        def back() -> None: ...


def test_a_timeout_that_is_none_is_refused() -> None:
    @tool
    def act() -> None: ...

    with pytest.raises(UserError, match="timeout=0"):

        @undoes(act, timeout=0)
        def back() -> None: ...


def test_a_tool_cannot_take_an_execution() -> None:
    @tool
    def act(it: ToolExecution) -> None: ...

    with pytest.raises(UserError, match=r"'act'.*'it'.*undo"):
        collect_tools([act])
