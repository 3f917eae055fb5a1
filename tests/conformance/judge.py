"""Judging a vector: the recording, what the rules make of it, and what we do, all compared whole."""

from __future__ import annotations

import difflib
import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from surehand import ReturnBehavior
from surehand.policies import returns_immediately

from .alone import normal_alone, observe_alone, promised_alone
from .deviations import RULES, Rule, numbers_for
from .modes import observe
from .normal import normal
from .promise import promise
from .scenario import ALONE, Vector

__all__ = ["Case", "difference"]


def lines_of(value: Any, head: str = "") -> list[str]:
    """The value as lines, one for each event, outcome or message."""
    if isinstance(value, Mapping) and not head:
        return [line for key in sorted(value) for line in lines_of(value[key], f"{key}")]
    if isinstance(value, list) and head:
        return [f"{head}: {json.dumps(each, sort_keys=True, ensure_ascii=False)}" for each in value] or [f"{head}: []"]
    if isinstance(value, Mapping):
        return [line for key in value for line in lines_of(value[key], f"{head} of {key}")] or [f"{head}: {{}}"]
    return [f"{head}: {json.dumps(value, sort_keys=True, ensure_ascii=False)}"]


def difference(before: Any, after: Any, before_name: str, after_name: str) -> list[str]:
    """What is different, in lines that begin with ``-`` or ``+``; nothing when nothing is."""
    if before == after:
        return []
    found = difflib.unified_diff(lines_of(before), lines_of(after), before_name, after_name, lineterm="", n=0)
    return [line for line in found if not line.startswith("@@")]


@dataclass(frozen=True)
class Pinned:
    """A deviation at work in one vector."""

    rule: Rule
    diff: list[str]
    cases: int  # how many of the vector's cases it changes; a vector about a service is one case


class Case:
    """One vector; what is worked out for one mode is kept for the others."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.scenario = vector.scenario

    @cached_property
    def _active(self) -> frozenset[str]:
        return numbers_for(self.scenario)

    @cached_property
    def _promised(self) -> dict[str, Any]:
        return self._promise(self._active)

    def _promise(self, on: frozenset[str]) -> dict[str, Any]:
        alone = self.scenario.kind in ALONE
        return normal_alone(self.scenario, promised_alone(self.scenario, on)) if alone else promise(self.scenario, on)

    @cached_property
    def pinned(self) -> list[Pinned]:
        """The deviations that change this vector, each with what it changes given all the others."""
        if self.scenario.kind not in ("service", *ALONE):
            return []
        found: list[Pinned] = []
        for rule in RULES:
            if rule.number in self._active:
                without = self._promise(self._active - {rule.number})
                before, after = self._by_case(without), self._by_case(self._promised)
                diff = difference(before, after, "without", f"with {rule.number}")
                changed = sum(before[case] != after[case] for case in after)
                found += [Pinned(rule, diff, changed if self.scenario.kind in ALONE else 1)] if diff else []
        return found

    def failure(self, mode: str) -> list[str]:
        """Why the vector does not pass in that mode, as lines of a diff; nothing when it does."""
        try:
            if self.scenario.kind == "should_return_immediately":
                return difference(self.vector.expected, self._table(), "recorded", "ours")
            return self._failure_alone(mode) if self.scenario.kind in ALONE else self._failure(mode)
        except Exception:  # a scenario that this runner cannot play is a failure with a reason, not the end of the run
            return traceback.format_exc().splitlines()

    def _failure_alone(self, mode: str) -> list[str]:
        recorded = self._by_case(normal_alone(self.scenario, self.vector.expected))
        ours = self._by_case(normal_alone(self.scenario, observe_alone(self.scenario, mode)))
        again, promised = self._by_case(self._promise(frozenset())), self._by_case(self._promised)
        why: list[str] = []
        for case in {**recorded, **ours}:
            # A case that the model of the reference does not know passes only if we do what was recorded.
            is_known = case in recorded and recorded[case] == again.get(case)
            wanted = promised if is_known else recorded
            if case in recorded and wanted[case] == ours.get(case):
                continue
            if not is_known:
                why += ["no rule explains this: the model of the reference does not say what was recorded"]
                why += difference({case: recorded.get(case)}, {case: again.get(case)}, "recorded", "model")
            why += difference({case: wanted.get(case)}, {case: ours.get(case)}, "promised", "ours")
        return why

    def _by_case(self, value: Mapping[str, Any]) -> dict[str, Any]:
        if self.scenario.kind not in ALONE:
            return dict(value)
        if "cases" not in value:
            return {"the tool": value}
        texts = self.scenario.raw["cases"]
        return {f"case {number} {json.dumps(texts[number])}": case for number, case in enumerate(value["cases"])}

    def _failure(self, mode: str) -> list[str]:
        recorded = normal(self.scenario, self.vector.expected, mode)
        ours = normal(self.scenario, observe(self.scenario, mode), mode)
        again = normal(self.scenario, promise(self.scenario, frozenset()), mode)
        if self._comparable(recorded) == self._comparable(again):
            promised = normal(self.scenario, self._promised, mode)
            return difference(promised, ours, "promised", "ours")
        if ours == recorded:
            return []
        why = ["no rule explains this: the model of the reference does not say what was recorded"]
        why += difference(recorded, again, "recorded", "model")
        return why + difference(recorded, ours, "recorded", "ours")

    def _comparable(self, value: Mapping[str, Any]) -> Mapping[str, Any]:
        # A recording that came out differently from run to run is compared without the order of its events.
        if self.vector.deterministic:
            return value
        return {
            key: sorted(lines_of(inner, key)) if key in ("trace", "callbacks") else inner
            for key, inner in value.items()
        }

    def _table(self) -> dict[str, Any]:
        behaviors = {each.name: each for each in ReturnBehavior} | {"TO_LLM": ReturnBehavior.TO_MODEL}
        cases = self.scenario.raw["cases"]
        return {
            "cases": [
                returns_immediately(case["any_errored"], [behaviors[name] for name in case["behaviors"]])
                for case in cases
            ]
        }
