"""The demonstration: a small model chooses tools for real; then a trip fails half-way and is taken back."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence

from msgspec.structs import replace

from .. import (
    Agent,
    ChatModel,
    ErrorPolicy,
    Limits,
    Outcome,
    ResponseReceived,
    ReturnBehavior,
    SurehandError,
    TextDelta,
    ToolCallDelta,
    ToolExecution,
    ToolFinished,
    ToolUndone,
    UndoReport,
    abort,
    report_of,
)
from .._streams import Stream
from ..testing import ScriptedModel, call, calls
from ..tools._collect import collect_tools
from ._demo_report import Asked, DemoReport, Step
from ._demo_screen import Screen, Thinking, call_text
from ._demo_world import TravelDesk

__all__ = ["run_demo", "why_no_runtime"]

# What is asked, the tool that a careful reader would choose, and the call for platforms without the runtime.
_REQUESTS = (
    ("What is the weather in Lisbon?", "get_weather", '{"city": "Lisbon"}'),
    ("Please book a flight to Oslo for me.", "book_flight", '{"city": "Oslo"}'),
    ("I need a hotel room in Rome.", "book_hotel", '{"city": "Rome"}'),
)

_TRIP = "Get me to Lisbon on Friday: a flight, a message that I am coming, and a hotel."


def why_no_runtime() -> str | None:
    """Why the embedded model cannot run here; nothing if it can."""
    try:
        importlib.import_module("xllamacpp")
    except Exception as error:  # a wheel for another machine fails in ways of its own
        return f"{type(error).__name__}: {error}"
    return None


def run_demo(screen: Screen, model: ChatModel | None, *, delay: float = 0.0) -> DemoReport:
    """Both acts, shown on the screen; gives what was done.

    ``model`` chooses the tools of act one; without one, that act is scripted too. ``delay``: seconds that each
    action of the travel desk takes.
    """
    screen.say("A travel desk with five tools: weather, flights, two kinds of bookings, which can")
    screen.say("be undone, and messages, which cannot. The desk is in memory; the rules are real.")
    asked = _act_one(screen, model)
    return _act_two(screen, None if model is None else model.name, asked, delay)


# ---------------------------------------------------------------- act one: the model chooses


def _act_one(screen: Screen, model: ChatModel | None) -> tuple[Asked, ...]:
    if model is None:
        screen.heading("Act one, scripted: three requests, and the calls that a model would make")
    else:
        screen.heading(f"Act one: {model.name}, on this machine, chooses a tool for each of three requests")
    desk = TravelDesk()
    asked: list[Asked] = []
    for request, expected, arguments in _REQUESTS:
        chooser = model or ScriptedModel([calls(call(expected, arguments))])
        asked.append(_ask(screen, chooser, desk, request=request, expected=expected))
    right = sum(entry.is_right for entry in asked)
    screen.say("")
    if model is not None:
        tokens, seconds = sum(entry.tokens for entry in asked), sum(entry.seconds for entry in asked)
        screen.say(
            f"{right} of {len(asked)} as a careful reader would have chosen; {tokens} tokens in {seconds:.1f} s."
        )
        if right < len(asked):
            screen.say("A model this small errs; that is shown as it is. What it does is accounted for all the same.")
    return tuple(asked)


def _ask(screen: Screen, model: ChatModel, desk: TravelDesk, *, request: str, expected: str) -> Asked:
    # The tool's result is the answer: a model this small has nothing to add to it.
    tools = [replace(tool, returns=ReturnBehavior.IMMEDIATE) for tool in collect_tools([desk])]
    agent = Agent(model, tools=tools, limits=Limits(rounds=1, consecutive_errors=1))
    screen.say("")
    screen.say(f"> {request}", style="cyan")
    with screen.thinking("thinking") as thinking, agent.stream(request) as run:
        tokens, text, failure = _watch(run, thinking)
        seconds = thinking.seconds
        executions = run.undone.executions
    chosen = executions[0] if executions else None
    result = failure or text if chosen is None else _result_text(chosen)
    entry = Asked(
        request=request,
        expected=expected,
        chosen=None if chosen is None else chosen.call.name,
        calls=tuple(call_text(execution.call) for execution in executions),
        outcome=None if chosen is None else chosen.outcome.value,
        result=result,
        tokens=0 if isinstance(model, ScriptedModel) else tokens,
        seconds=seconds,
    )
    _show_asked(screen, entry)
    return entry


def _watch(run: Stream[str], thinking: Thinking) -> tuple[int, str, str]:
    """Follow the run to its end: tokens generated, the text of the answer, and what gave it up, if something did."""
    tokens, text = 0, ""
    try:
        for event in run:
            match event:
                case TextDelta():
                    text += event.text
                    thinking.piece(event.text)
                case ToolCallDelta():
                    thinking.piece(event.arguments or event.name)
                case ResponseReceived():
                    tokens += (event.response.usage.output or 0) if event.response.usage else 0
                case _:
                    pass
    except SurehandError as error:
        return tokens, text, f"{type(error).__name__}: {error}"
    return tokens, text, ""


def _result_text(execution: ToolExecution[object]) -> str:
    return " ".join(str(getattr(part, "text", part)) for part in execution.result.contents)


def _show_asked(screen: Screen, entry: Asked) -> None:
    spent = f"   ({entry.tokens} tokens, {entry.seconds:.1f} s)" if entry.tokens else ""
    if not entry.calls:
        screen.say(f"  no tool was called{spent}: {entry.result}", style="yellow")
        return
    for text in entry.calls:
        screen.say(f"  {text}{spent}", style="bold")
    screen.say(f"  {entry.outcome}: {entry.result}", style="green" if entry.outcome == "done" else "yellow")
    if entry.chosen != entry.expected:
        screen.say(f"  a wrong choice: {entry.expected} was meant", style="yellow")


# ---------------------------------------------------------------- act two: a trip that fails


def _act_two(screen: Screen, model: str | None, asked: tuple[Asked, ...], delay: float) -> DemoReport:
    screen.heading("Act two, scripted since a model this small plans no trips: one fails half-way")
    screen.say("")
    screen.say(f"> {_TRIP}", style="cyan")
    desk = TravelDesk(full=("Lisbon",), delay=delay)
    # A trip is all or nothing: a tool that says no ends the run. By default the model would be told, and go on.
    agent = Agent(_script(), tools=[desk], on_error=ErrorPolicy(tool_error=abort))
    began = time.time()
    ended_by = ""
    with agent.stream(_TRIP) as run:
        try:
            for event in run:
                _show_event(screen, event, began)
            report = run.undone
        except SurehandError as error:
            ended_by = str(error)
            screen.say(f"  The run was given up: {ended_by}", style="red")
            report = report_of(error) or run.undone
    steps = tuple(_step(execution, report, began) for execution in report.executions)
    _show_books(screen, steps, desk)
    return DemoReport(
        model=model,
        asked=asked,
        steps=steps,
        ended_by=ended_by,
        bookings=tuple(desk.bookings),
        messages=tuple(desk.messages),
    )


def _script() -> ScriptedModel:
    return ScriptedModel(
        [
            calls(call("find_flights", '{"city": "Lisbon"}')),
            calls(call("book_flight", '{"city": "Lisbon"}')),
            calls(call("send_message", '{"text": "On my way."}')),
            calls(call("book_hotel", '{"city": "Lisbon"}')),
        ]
    )


def _show_event(screen: Screen, event: object, began: float) -> None:
    match event:
        case ToolFinished(execution=execution):
            at = _clock(_since(execution.finished_at, began))
            style = "green" if execution.outcome is Outcome.DONE else "red"
            screen.say(f"  {at}  {call_text(execution.call)}  {execution.outcome.value}", style=style)
        case ToolUndone(execution=execution) if execution.undo is not None:
            at = _clock(_since(execution.undo.finished_at, began))
            screen.say(f"  {at}  {call_text(execution.call)}  undone", style="magenta")
        case _:
            pass


def _since(at: float | None, began: float) -> float | None:
    return None if at is None else round(at - began, 3)


def _clock(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f} s"


_BECAME = {
    "read": "done: changes nothing",
    "undone": "done, UNDONE at {undone}",
    "stands": "done, STANDS: has no undo",
    "failed": "failed: did nothing",
    "unknown": "UNKNOWN: may have happened",
}
_STYLES = {"read": "dim", "undone": "magenta", "stands": "yellow", "failed": "red", "unknown": "red"}


def _step(execution: ToolExecution[object], report: UndoReport, began: float) -> Step:
    undo = execution.undo
    return Step(
        call=call_text(execution.call),
        outcome=execution.outcome.value,
        became=_became(execution, report),
        started=_since(execution.started_at, began),
        finished=_since(execution.finished_at, began),
        undone=_since(undo.finished_at, began) if undo is not None and undo.is_undone else None,
    )


def _became(execution: ToolExecution[object], report: UndoReport) -> str:
    if execution.outcome is Outcome.UNKNOWN:
        return "unknown"
    if execution.outcome is not Outcome.DONE:
        return "failed"
    if execution.undo is not None and execution.undo.is_undone:
        return "undone"
    standing = {entry.key for entry in report.standing}
    return "stands" if execution.key in standing else "read"


def _show_books(screen: Screen, steps: Sequence[Step], desk: TravelDesk) -> None:
    screen.heading("The books, call by call")
    rows = [
        (
            (
                _clock(step.started),
                _clock(step.finished),
                step.call,
                _BECAME[step.became].format(undone=_clock(step.undone)),
            ),
            _STYLES[step.became],
        )
        for step in steps
    ]
    screen.table(("from", "to", "call", "what became of it"), rows)
    screen.say("")
    screen.say(f"The travel desk's own books: bookings {list(desk.bookings)}, messages {desk.messages}.")
