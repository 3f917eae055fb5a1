"""The scenario about the search alone: what it finds for a text of arguments, in a catalogue of tools.

Each case is a run of an agent of ours whose model searches once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .live import Player, build
from .modes import drive
from .normal import tokens
from .offering import FOUND, SEARCH, found_in, found_text, terms_of
from .reading import Refused
from .record import Trace
from .scenario import Scenario

__all__ = ["normal_search", "observe_search", "promised_search"]

_RECORDED = (
    (r"Missing required tool argument 'terms'", "missing"),
    (r"Tool argument 'terms' must be an array of strings", "not a list"),
    (r"Failed to parse tool search arguments: '.*' \(base64: '.*'\)", "not JSON"),
)
_OURS = (
    (r"the argument 'terms' of 'tool_search_tool' is (missing|not a list); expected .*", r"\1"),
    (r"arguments of 'tool_search_tool' are not JSON: .*; expected .*", "not JSON"),
)


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
        return {"threw": _kind(after["result_text"], _OURS)}
    return {"found": after["attributes"][FOUND], "text": after["result_text"]}


def promised_search(scenario: Scenario, on: frozenset[str]) -> dict[str, Any]:
    """What the model says that is found."""
    return {"cases": [_promised(scenario, case, on) for case in scenario.raw["cases"]]}


def _promised(scenario: Scenario, case: Mapping[str, Any], on: frozenset[str]) -> dict[str, Any]:
    try:
        found = found_in(scenario.raw["catalogue"], terms_of(case["arguments"], on), case)
    except Refused as refused:
        return {"threw": refused.kind}
    return {"found": found, "text": found_text(found)}


def normal_search(value: Mapping[str, Any]) -> dict[str, Any]:
    """In the one form: a refusal is one of a few kinds, whatever its words."""
    return {"cases": [_normal_case(case) for case in value["cases"]]}


def _normal_case(case: Mapping[str, Any]) -> dict[str, Any]:
    error = case.get("threw")
    if not isinstance(error, Mapping):
        return tokens(case, set())
    is_known = error["class"] == "ToolExecutionException" and _is_caused(error["message"], error["cause"])
    return {"threw": _kind(error["message"], _RECORDED) if is_known else error}


def _is_caused(message: str, cause: Mapping[str, Any]) -> bool:
    """Whether the error is as the recorded system raises it: with the same error inside, or with that of its parser."""
    if cause == {"class": "RuntimeException", "message": message}:
        return True
    parser = cause.get("cause")
    if parser is None:
        return cause == {"class": "IllegalArgumentException", "message": 'argument "content" is null'}
    told = cause["message"].endswith(f".{parser['class']}: {parser['message']}")
    return cause["class"] == "RuntimeException" and told


def _kind(text: str, kinds: Iterable[tuple[str, str]]) -> str:
    for pattern, kind in kinds:
        found = re.fullmatch(pattern, text, re.DOTALL)
        if found:
            return found.expand(kind)
    return text
