"""The scenario about the search alone: what it finds for a text of arguments, in a catalogue of tools.

Each case is a run of an agent of ours whose model searches once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .live import Player, build
from .modes import drive
from .normal import tokens
from .offering import FOUND, SEARCH, found_in, found_text, terms_of
from .reading import Refused
from .record import Trace
from .scenario import Scenario

__all__ = ["normal_search", "observe_search", "promised_search"]

_REFUSED = {"threw": "<arguments do not fit>"}


def observe_search(scenario: Scenario, mode: str) -> dict[str, Any]:
    """What the product finds in that mode."""
    return {"cases": [_observed(scenario, case, mode) for case in scenario.raw["cases"]]}


def _observed(scenario: Scenario, case: Mapping[str, Any], mode: str) -> dict[str, Any]:
    options = {name: value for name, value in case.items() if name != "arguments"}
    call = {"id": "0", "name": SEARCH, "arguments": case["arguments"]}
    catalogue = [{"kind": "spec", "returnBehavior": "TO_LLM", **tool} for tool in scenario.raw["catalogue"]]
    played = Scenario(
        {
            "name": scenario.name,
            "tools": catalogue,
            "config": {"listeners": False, "tool_search": options},
            "model_script": [{"tool_calls": [call]}, {"text": "done"}],
            "calls": [{"user": "go"}],
        }
    )
    trace = Trace()
    drive(build(played, trace, Player(played, trace), {}), mode)
    (after,) = [event for event in trace.events if event["ev"] == "after_tool"]
    if after["has_failed"]:
        return {"threw": after["result_text"]}
    return {"found": after["attributes"][FOUND], "text": after["result_text"]}


def promised_search(scenario: Scenario, on: frozenset[str]) -> dict[str, Any]:
    """What the model says that is found."""
    return {"cases": [_promised(scenario, case, on) for case in scenario.raw["cases"]]}


def _promised(scenario: Scenario, case: Mapping[str, Any], on: frozenset[str]) -> dict[str, Any]:
    try:
        found = found_in(scenario.raw["catalogue"], terms_of(case["arguments"], on), case)
    except Refused:
        return dict(_REFUSED)
    return {"found": found, "text": found_text(found)}


def normal_search(value: Mapping[str, Any]) -> dict[str, Any]:
    """In the one form: a refusal is one, whatever its words."""
    return {"cases": [dict(_REFUSED) if "threw" in case else tokens(case, set()) for case in value["cases"]]}
