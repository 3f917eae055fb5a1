"""Where we promise something else than the reference does: rules, each with its number in the specification.

A rule has a predicate over the scenario, and a change: the switch of the same number in ``promise``. The change that
it makes to one scenario is the difference between what is promised without it and with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .normal import thrown_by
from .outputs import has_form
from .scenario import Scenario

__all__ = ["RULES", "Rule", "numbers_for"]


@dataclass(frozen=True)
class Rule:
    """One deviation."""

    number: str
    reason: str
    applies: Callable[[Scenario], bool]


def _replies(scenario: Scenario) -> Iterator[list[dict[str, Any]]]:
    for entry in scenario.script:
        if entry.get("tool_calls"):
            yield entry["tool_calls"]


def _asks_for_tools(scenario: Scenario) -> bool:
    return any(True for _ in _replies(scenario))


def _may_reach_a_limit(scenario: Scenario) -> bool:
    repeats = any(entry.get("repeat") for entry in scenario.script)
    return "max_round_trips" in scenario.config or repeats or len(list(_replies(scenario))) >= 100


def _confuses_calls(scenario: Scenario) -> bool:
    everything = [call for calls in _replies(scenario) for call in calls]
    equal = any(call in calls[:index] for calls in _replies(scenario) for index, call in enumerate(calls))
    ids = [call["id"] for call in everything]
    again = any(entry.get("repeat") for entry in scenario.script)
    return equal or (scenario.compensates and (again or None in ids or len(set(ids)) < len(ids)))


def _behaviours(scenario: Scenario) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for tool in scenario.tools:
        behaviour = tool.get("behaviour") or {}
        for step in behaviour.get("steps") or [behaviour]:
            yield tool, {**behaviour, **step}


def _gives_nothing_to_read(scenario: Scenario) -> bool:
    return any(
        behaviour.get("self_ref")
        or behaviour.get("opaque")
        or (tool["kind"] != "method" and behaviour.get("return_null"))
        for tool, behaviour in _behaviours(scenario)
    )


def _programmatic_error(scenario: Scenario) -> bool:
    return any(
        tool["kind"] != "method" and str(behaviour["throw"]["class"]).endswith("Error")
        for tool, behaviour in _behaviours(scenario)
        if "throw" in behaviour
    )


def _undo_fails(scenario: Scenario) -> bool:
    return any("throw" in ((tool.get("compensation") or {}).get("behaviour") or {}) for tool in scenario.tools)


def _has(*keys: str) -> Callable[[Scenario], bool]:
    return lambda scenario: any(scenario.config.get(key) is not None for key in keys)


def _takes_arguments(scenario: Scenario) -> bool:
    return any(tool.get("params") for tool in scenario.tools)


RULES = (
    Rule(
        "D-1",
        "the limit counts rounds in every mode, so a last answer is never refused; a negative limit is refused",
        _may_reach_a_limit,
    ),
    Rule(
        "D-2",
        "a reply and its results reach the memory together; when a run is given up, calls without a result get one",
        _asks_for_tools,
    ),
    Rule(
        "D-5",
        "calls are told apart by round and position: equal ones keep their own results, ids may be missing or repeated",
        _confuses_calls,
    ),
    Rule(
        "D-6",
        "a window drops whole exchanges, once for each batch, and keeps the latest one even if it is too large",
        lambda scenario: scenario.window is not None,
    ),
    Rule(
        "D-7",
        "a run that is given up first lets its calls settle, tells of each of them, and undoes what was done",
        _asks_for_tools,
    ),
    Rule(
        "D-8",
        "one table for arguments at every level: what is required must be there, whatever its type; JSON for text; "
        "containers inside of text; no silent zeros and cut fractions; null says that there are no arguments",
        _takes_arguments,
    ),
    Rule(
        "D-9",
        "numbers keep every digit as written, or are refused when they are beyond a float; strings are never altered "
        "by repairs, and a whole object in quotes is read as JSON says it",
        _takes_arguments,
    ),
    Rule(
        "D-10",
        "a name that occurs twice is a configuration error in every form of registration",
        lambda scenario: any(tool["kind"] == "map" for tool in scenario.tools),
    ),
    Rule(
        "D-12",
        "a search looks among the tools that are hidden at that moment, and only its own results show any",
        _has("tool_search"),
    ),
    Rule(
        "D-13",
        "a result that cannot be shown goes to the handler of failed bodies and gives nobody up; nothing is a success",
        _gives_nothing_to_read,
    ),
    Rule(
        "D-15",
        "the after hook hears of failed calls too; the callback 'before tool' says that a body starts",
        _asks_for_tools,
    ),
    Rule(
        "D-17",
        "streams: results are told in request order when the round has settled; calls without a signal are run as well",
        lambda scenario: scenario.streams and _asks_for_tools(scenario),
    ),
    Rule(
        "D-18",
        "streams: the listener hears of every failure, and a run ends in one way only",
        lambda scenario: scenario.streams and _has("complete_handler_throw", "stream_skip")(scenario),
    ),
    Rule(
        "D-24",
        "the answer to an unknown name keeps its flag and attributes, and is an error unless it says otherwise",
        _has("hallucinated"),
    ),
    Rule(
        "D-25",
        "an undo that cannot work is a configuration error, whether or not undoing is switched on",
        lambda scenario: any(tool.get("compensation") for tool in scenario.tools),
    ),
    Rule("D-27", "the model reads that undoing was tried and failed", _undo_fails),
    Rule(
        "D-29",
        "streams undo like any other run",
        lambda scenario: scenario.streams and scenario.compensates,
    ),
    Rule(
        "D-30",
        "the first request of a run keeps to the window as well",
        lambda scenario: scenario.window is not None,
    ),
    Rule(
        "D-34",
        "one table of defaults for all: whatever the body of a programmatic tool raises goes through it",
        _programmatic_error,
    ),
    Rule(
        "D-31",
        "the arguments of a search are read like those of any tool",
        lambda scenario: scenario.kind == "search" or scenario.config.get("tool_search") is not None,
    ),
    Rule("D-36", "the texts true and false, in any case, are booleans", _takes_arguments),
    Rule(
        "4.1.2",
        "arguments are one JSON object: text behind it is not passed over in silence, a byte order mark before it is",
        _takes_arguments,
    ),
    Rule(
        "3.4.9",
        "a Python parameter is optional by its default or its type, so the two cannot contradict (spec 3.4.9)",
        _takes_arguments,
    ),
    Rule(
        "5.1",
        "the value decides how it reads, not what was declared around it: text is text, nothing is null, decimals keep "
        "their digits, sets have an order (spec 5.1)",
        lambda scenario: scenario.kind == "returns",
    ),
    Rule(
        "D-35",
        "handlers, listeners and the caller get the exception as raised: neither its cause instead, nor in a wrapper",
        lambda scenario: any(True for _ in thrown_by(scenario.raw)),
    ),
    Rule(
        "17.10",
        "the form of the answer is told in the system message, where it does not change what the user has said",
        lambda scenario: has_form(scenario.return_type),
    ),
    Rule(
        "D-38",
        "streams: no call starts early past a limit",
        lambda scenario: scenario.streams and scenario.concurrent and _may_reach_a_limit(scenario),
    ),
)


def numbers_for(scenario: Scenario) -> frozenset[str]:
    """The deviations that apply to the scenario."""
    return frozenset(rule.number for rule in RULES if rule.applies(scenario))
