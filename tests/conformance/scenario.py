"""Reading vectors, and which of them can be judged: rules over what a scenario says, never over its name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .behaviour import BEHAVIOURS
from .kinds import kind_of, unknown_types
from .outputs import is_known

__all__ = [
    "ALONE",
    "MODES",
    "VECTORS",
    "Scenario",
    "Vector",
    "is_recorded",
    "modes_of",
    "read_vectors",
    "way_of",
    "why_not_judged",
]

VECTORS = Path(__file__).parent / "vectors"
MODES = ("run", "arun", "stream", "astream")
_JOURNAL = "+journal"

ALONE = ("coercion", "returns", "search")  # kinds of scenarios about one tool alone
_ORDER = {"spec": 1, "map": 2}
DEFAULT_RETURN_TYPE = "Result<String>"


@dataclass(frozen=True)
class Scenario:
    """What drives a run, with defaults filled in."""

    raw: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.raw["name"]

    @property
    def kind(self) -> str:
        return self.raw.get("kind") or "service"

    @property
    def return_type(self) -> str:
        return self.raw.get("return_type") or DEFAULT_RETURN_TYPE

    @property
    def streams(self) -> bool:
        """Whether the service method gives a stream with callbacks."""
        return self.return_type.startswith("TokenStream")

    @cached_property
    def config(self) -> dict[str, Any]:
        return dict(self.raw.get("config") or {})

    @cached_property
    def tools(self) -> list[dict[str, Any]]:
        """In the order in which the reference registers them: objects, then programmatic tools, then maps."""
        if "tool" in self.raw:
            return [self.raw["tool"]]
        return sorted(self.raw.get("tools") or [], key=lambda tool: _ORDER.get(tool["kind"], 0))

    @cached_property
    def script(self) -> list[dict[str, Any]]:
        return list(self.raw.get("model_script") or [])

    @cached_property
    def calls(self) -> list[dict[str, Any]]:
        return list(self.raw.get("calls") or [])

    @property
    def concurrent(self) -> bool:
        return bool(self.config.get("concurrent"))

    @property
    def compensates(self) -> bool:
        return bool(self.config.get("compensate") or self.config.get("compensate_before_tools"))

    @property
    def hooks(self) -> bool:
        return self.config.get("hooks", True)

    @property
    def listeners(self) -> bool:
        return self.config.get("listeners", True)

    @property
    def window(self) -> int | None:
        memory = self.config.get("memory")
        return None if not memory else memory["window"]

    def reply(self, number: int) -> dict[str, Any] | None:
        """The entry of the script for the n-th request, counted from 0; none when the script is at its end."""
        for index, entry in enumerate(self.script):
            if index == number or entry.get("repeat"):
                return entry
        return None


@dataclass(frozen=True)
class Vector:
    """One file: a scenario and what was recorded of it."""

    name: str
    deterministic: bool
    scenario: Scenario
    expected: Mapping[str, Any]


def read_vectors(directory: Path) -> Iterator[Vector]:
    """Every vector in the directory, in the order of their names."""
    for path in sorted(directory.glob("*.json")):
        value = json.loads(path.read_text("utf-8"))
        if isinstance(value, dict) and "scenario" in value:
            scenario = Scenario(value["scenario"])
            yield Vector(path.stem, value.get("deterministic", True), scenario, value["expected"])


def modes_of(scenario: Scenario) -> tuple[str, ...]:
    """The modes in which a scenario is run.

    A stream with callbacks is run in both streaming modes. Anything else is run in all four: a run has one trace
    and one result, whether or not somebody takes its events. Scenarios of whole runs are run with a journal too
    (``run+journal``): what is recorded must not change what happens.
    """
    if scenario.kind not in ("service", *ALONE):
        return ("call",)
    ways = MODES[2:] if scenario.streams else MODES
    return ways if scenario.kind in ALONE else (*ways, *(way + _JOURNAL for way in ways))


def way_of(mode: str) -> str:
    """Which of the four ways to run it is, with or without a journal."""
    return mode.removesuffix(_JOURNAL)


def is_recorded(mode: str) -> bool:
    """Whether its runs have a journal."""
    return mode.endswith(_JOURNAL)


# What a rule looks at -> the group under which such vectors are reported until they can be judged.
_RESULT = re.compile(r"(Result<String>|TokenStream)(\+\w+)*")


def why_not_judged(scenario: Scenario) -> str | None:
    """Why this scenario cannot be judged yet, as the name of its group; nothing when it can."""
    if scenario.kind not in ("service", "should_return_immediately", *ALONE):
        return f"kind {scenario.kind!r}"
    if scenario.kind in ALONE:
        unknown = sorted(_unknown_words_alone(scenario))
        return f"this runner does not know {unknown[0]!r}" if unknown else None
    if not _RESULT.fullmatch(scenario.return_type) and not is_known(scenario.return_type):
        return f"return type {scenario.return_type!r}"
    unknown = sorted(_unknown_words(scenario))
    return f"this runner does not know {unknown[0]!r}" if unknown else None


_ALONE = frozenset({"name", "about", "kind", "tool", "cases"})
_TOOL = frozenset({"kind", "name", "description", "params", "returns", "returnBehavior", "behaviour"})
_PARAM = frozenset({"name", "type", "required", "default", "description"})
_SHOWN_AS = frozenset({"content", "contents", "image", "opaque", "self_ref", "optional", "void"})


_SEARCH = frozenset({"name", "about", "kind", "catalogue", "cases"})
_SEARCHED = frozenset({"arguments", "max_results", "min_score"})


def _unknown_words_alone(scenario: Scenario) -> Iterator[str]:
    if scenario.kind == "search":
        yield from set(scenario.raw) - _SEARCH
        for case in scenario.raw["cases"]:
            yield from set(case) - _SEARCHED
        return
    tool = scenario.raw["tool"]
    yield from set(scenario.raw) - _ALONE
    yield from set(tool) - _TOOL
    yield from {tool["kind"]} - {"method"}
    for param in tool.get("params") or []:
        yield from set(param) - _PARAM
        yield from unknown_types(kind_of(param["type"]))
        if param["type"].startswith("inject:"):
            yield param["type"]  # nobody says what a tool that is called alone would get
    if scenario.kind == "returns":
        behaviour = tool.get("behaviour") or {}
        yield from set(behaviour) - BEHAVIOURS
        if tool.get("returns", "string") not in _SHOWN_AS:
            yield from unknown_types(kind_of(tool["returns"]))
        if "raw" in (behaviour.get("contents") or [{}])[0]:
            yield "raw"  # contents behind something else: the recorded system's text for those is its own


_CONFIG = frozenset(
    {
        *("memory", "system", "concurrent", "stagger_ms", "settle_ms", "max_round_trips", "hooks", "listeners"),
        *("compensate", "compensate_before_tools", "arguments_error_handler", "execution_error_handler"),
        *("hallucinated", "before_hook", "after_hook", "stream_skip", "complete_handler_throw"),
        *("providers", "tool_search"),
    }
)
_SEARCHING = frozenset({"max_results", "min_score", "throw_arguments_exceptions"})
_PROVIDER = frozenset({"dynamic", "steps", "throw"})
_KINDS = frozenset({"method", "spec", "map", "nested_list", "not_a_tool"})
_ENTRY = frozenset({"text", "tool_calls", "usage", "error", "repeat", "no_complete_tool_call_events"})
_CALL = frozenset({"user", "memory_id", "invocation_params"})


def _unknown_words(scenario: Scenario) -> Iterator[str]:
    """What the scenario says that this runner would pass over: to judge it nevertheless would be a guess."""
    yield from set(scenario.config) - _CONFIG
    yield from set(scenario.config.get("tool_search") or {}) - _SEARCHING
    for provider in scenario.config.get("providers") or []:
        yield from set(provider) - _PROVIDER
    yield from set(scenario.config.get("stream_skip") or {}) - {"on_error"}
    for tool in [*scenario.tools, *_provided(scenario)]:
        yield from {tool["kind"]} - _KINDS
        for param in tool.get("params") or []:
            yield from unknown_types(kind_of(param["type"]))
        behaviour = tool.get("behaviour") or {}
        for step in (behaviour, *(behaviour.get("steps") or [])):
            yield from set(step) - BEHAVIOURS
    for entries, known in ((scenario.script, _ENTRY), (scenario.calls, _CALL)):
        for entry in entries:
            yield from set(entry) - known


def _provided(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Every tool that a provider of the scenario may give."""
    for provider in scenario.config.get("providers") or []:
        for step in provider["steps"]:
            yield from step or ()
