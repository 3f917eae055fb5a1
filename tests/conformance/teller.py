"""The model of the reference: who tells what happens, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .scenario import Scenario
from .story import Conversation, Failed

__all__ = ["Teller"]

_MORE = 10**9


class Teller:
    """Tells what happens, call by call."""

    def __init__(self, scenario: Scenario, on: frozenset[str]) -> None:
        self.scenario, self.on, self.config = scenario, on, scenario.config
        self.trace: list[dict[str, Any]] = []
        self.late: list[dict[str, Any]] = []
        self.requests = 0
        self.counts: dict[str, int] = {}
        self.asked: dict[int, int] = {}
        self.conversations: dict[Any, Conversation] = {}
        self.tools = {tool["name"]: tool for tool in scenario.tools}
        self.undos = self._undos()
        limit = self.config.get("max_round_trips", 100)
        self.limit = _MORE if limit < 0 else limit

    def _undos(self) -> dict[str, Mapping[str, Any]]:
        undos: dict[str, Mapping[str, Any]] = {}
        for tool in self.scenario.tools:
            wanted = tool.get("compensation")
            if wanted and wanted["style"] in ("same_params", "tool_execution"):
                undos[wanted.get("for", tool["name"])] = wanted
        return undos

    def provided(self, index: int, provider: Mapping[str, Any], user: str, messages: int) -> Sequence[Any]:
        """What the provider gives when it is asked once more."""
        number = self.asked[index] = self.asked.get(index, 0) + 1
        self.note("provider_called", provider=index, call=number, user_message=user, messages=messages)
        if provider.get("throw"):
            raise Failed(provider["throw"])
        steps = provider["steps"]
        return steps[min(number, len(steps)) - 1] or ()

    # ------------------------------------------------------------ words

    def note(self, event: str, **fields: Any) -> None:
        self.trace.append({"ev": event, **fields})

    def listen(self, kind: str, **fields: Any) -> None:
        if self.scenario.listeners:
            self.note("listener", type=kind, **fields)

    def callback(self, event: str, **fields: Any) -> None:
        if self.scenario.streams:
            self.note(event, **fields)
