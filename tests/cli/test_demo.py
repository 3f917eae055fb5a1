"""The demonstration, as values and as what a person reads."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.console import Console

from surehand import Agent, ChatRequest, ChatResponse, NetworkError
from surehand.cli._demo import run_demo
from surehand.cli._demo_report import Asked, DemoReport, Step
from surehand.cli._demo_screen import Screen, call_text
from surehand.cli._demo_world import TravelDesk
from surehand.models import ChatModel
from surehand.testing import ScriptedModel, call, calls, say


def told(model: ChatModel | None) -> tuple[DemoReport, str]:
    """The report, and the text on a screen that nobody watches."""
    out = io.StringIO()
    report = run_demo(Screen(Console(file=out, color_system=None), plain=True), model)
    return report, out.getvalue()


def scripted() -> list[Asked]:
    return [
        Asked(
            request="What is the weather in Lisbon?",
            expected="get_weather",
            chosen="get_weather",
            calls=("get_weather(city='Lisbon')",),
            outcome="done",
            result="sunny, 24 degrees",
        ),
        Asked(
            request="Please book a flight to Oslo for me.",
            expected="book_flight",
            chosen="book_flight",
            calls=("book_flight(city='Oslo')",),
            outcome="done",
            result='{"reference":"F101","kind":"flight","city":"Oslo"}',
        ),
        Asked(
            request="I need a hotel room in Rome.",
            expected="book_hotel",
            chosen="book_hotel",
            calls=("book_hotel(city='Rome')",),
            outcome="done",
            result='{"reference":"H102","kind":"hotel","city":"Rome"}',
        ),
    ]


def test_without_a_runtime_both_acts_are_scripted_and_no_token_is_claimed() -> None:
    report, text = told(None)
    timeless = [replace(asked, seconds=0.0) for asked in report.asked]
    assert timeless == scripted()
    assert (report.model, report.tokens) == (None, 0)
    assert "Act one, scripted:" in text


def test_the_trip_is_undone_and_what_stands_is_named() -> None:
    report, text = told(None)
    assert [(step.call, step.outcome, step.became) for step in report.steps] == [
        ("find_flights(city='Lisbon')", "done", "read"),
        ("book_flight(city='Lisbon')", "done", "undone"),
        ("send_message(text='On my way.')", "done", "stands"),
        ("book_hotel(city='Lisbon')", "failed", "failed"),
    ]
    assert (report.ended_by, report.bookings, report.messages) == (
        "No room is free in Lisbon.",
        (),
        ("On my way.",),
    )
    assert "The run was given up: No room is free in Lisbon." in text


def test_the_times_in_the_books_are_in_the_order_of_what_happened() -> None:
    report, _ = told(None)
    times = [time for step in report.steps for time in (step.started, step.finished)]
    undone = [step.undone for step in report.steps]
    assert times == sorted(times, key=lambda time: time or 0.0)
    assert [time is None for time in undone] == [True, False, True, True]
    assert (undone[1] or 0.0) >= (report.steps[3].finished or 0.0)


def test_a_wrong_choice_is_shown_as_one() -> None:
    wrong = calls(call("get_weather", '{"city": "Rome"}'))
    report, text = told(ScriptedModel([wrong, wrong, wrong]))
    assert [asked.is_right for asked in report.asked] == [True, False, False]
    assert text.count("a wrong choice: ") == 2
    assert "1 of 3 as a careful reader would have chosen" in text


def test_a_model_that_calls_no_tool_is_quoted() -> None:
    report, text = told(ScriptedModel([say("I like trains.")] * 3))
    assert [(asked.chosen, asked.result) for asked in report.asked] == [(None, "I like trains.")] * 3
    assert text.count("no tool was called: I like trains.") == 3


def test_a_failing_call_is_shown_with_what_the_tool_said() -> None:
    unknown = calls(call("book_flight", '{"city": "Atlantis"}'))
    report, text = told(ScriptedModel([unknown, unknown, unknown]))
    assert {(asked.outcome, asked.is_right) for asked in report.asked} == {("failed", False)}
    assert "failed: This desk knows Lisbon, Oslo, Rome, but not 'Atlantis'." in text


class Broken(ChatModel):
    name = "broken"

    def generate(self, request: ChatRequest) -> ChatResponse:
        raise NetworkError("no line")


def test_a_model_that_fails_is_reported_and_act_two_goes_on() -> None:
    report, _ = told(Broken())
    assert [asked.result for asked in report.asked] == ["NetworkError: no line"] * 3
    assert [step.became for step in report.steps] == ["read", "undone", "stands", "failed"]


def test_the_last_line_gives_the_facts() -> None:
    step = Step(call="pay()", outcome="done", became="stands", started=0.0, finished=0.1)
    asked = Asked(request="?", expected="pay", chosen="pay", outcome="done", tokens=7)
    report = DemoReport(
        model="tiny", asked=(asked,), steps=(step, step), ended_by="x", bookings=(), messages=("On my way.",)
    )
    assert report.line == "demo: ok model=tiny tokens=7 right=1/1 undone=0 standing=2"


def test_a_screen_with_a_person_before_it_shows_progress_and_takes_it_away() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, force_terminal=True, width=100), plain=False)
    with screen.thinking("thinking") as thinking:
        thinking.piece("Lis")
        thinking.piece("bon")
    assert thinking.pieces == 2
    assert "2 pieces  Lisbon" in out.getvalue()


def test_brackets_in_what_a_model_says_are_shown_as_they_are() -> None:
    out = io.StringIO()
    Screen(Console(file=out, color_system=None), plain=True).say("[red]not a colour[/nor an end]")
    assert out.getvalue() == "[red]not a colour[/nor an end]\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [('{"city": "Rome", "n": 2}', "go(city='Rome', n=2)"), ("", "go()"), ("[1]", "go([1])"), ("{oops", "go({oops)")],
)
def test_a_call_is_written_as_a_person_would(arguments: str, text: str) -> None:
    assert call_text(call("go", arguments)) == text


def test_the_desk_takes_cancelled_bookings_out_of_its_books() -> None:
    desk = TravelDesk()
    script = ScriptedModel([calls(call("book_hotel", '{"city": "rome "}')), NetworkError("no line")])
    with pytest.raises(NetworkError):
        Agent(script, tools=[desk]).run("A room in Rome.")
    assert desk.bookings == {}
