"""The model's half that offers tools: what providers give, and what searches find (spec 6.3 to 6.5, 14)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .reading import Refused, java_text, read_arguments
from .story import Call, Failed, thrown
from .teller import Teller

__all__ = ["ARGUMENT", "FOUND", "SEARCH", "Offer", "found_in", "found_text", "terms_of"]

SEARCH, ARGUMENT, FOUND = "tool_search_tool", "terms", "found_tools"


class Offer:
    """The tools of one invocation: those that can be called, and the names of those that the model is shown."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._begun = False
        self._frozen: list[str] = []
        self._new: Sequence[Call] = ()
        self._searches = teller.config.get("tool_search")
        self.known: dict[str, Mapping[str, Any]] = dict(teller.tools)
        self.shown: list[str] = [tool["name"] for tool in teller.scenario.tools]

    @property
    def has_search(self) -> bool:
        return self._searches is not None

    def prepare(self, user: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """What is done before a request."""
        if not self._begun:
            self._begun = True
            for tool in self._given(False, user, messages):
                if tool["name"] in self.known:
                    raise Failed(thrown("<configuration error>"))
                self._add(tool)
            if self.has_search:
                self._hide(messages)
        for tool in self._given(True, user, messages):
            if tool["name"] not in self.known:
                self._add(tool)
        if self.has_search:
            self._show(call.message() for call in self._new)
        self._new = ()

    def _given(self, dynamic: bool, user: str, messages: Sequence[Any]) -> Iterable[Mapping[str, Any]]:
        for index, provider in enumerate(self._teller.config.get("providers") or []):
            if bool(provider.get("dynamic")) is dynamic:
                yield from self._teller.provided(index, provider, user, len(messages))

    def _add(self, tool: Mapping[str, Any]) -> None:
        self.known[tool["name"]] = tool
        self.shown.append(tool["name"])

    # ------------------------------------------------------------ searching

    def _hide(self, messages: Sequence[Mapping[str, Any]]) -> None:
        visible = [name for name in self.shown if self.known[name].get("searchBehavior") == "ALWAYS_VISIBLE"]
        self.shown = [*visible, SEARCH]
        self._show(messages)
        self._frozen = [name for name in self.known if name not in self.shown]

    def _show(self, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            # The recorded system believes any result that says it has found something.
            if message["role"] == "tool" and ("D-12" not in self._teller.on or message["name"] == SEARCH):
                for name in (message.get("attributes") or {}).get(FOUND, ()):
                    if name in self.known and name not in self.shown:
                        self.shown.append(name)

    def settled(self, calls: Sequence[Call]) -> None:
        """The round with these calls is over."""
        self._new = calls

    def find(self, text: str | None) -> list[str]:
        """What a search with these arguments finds; raises ``Refused``."""
        on = self._teller.on
        names = [name for name in self.known if name not in self.shown] if "D-12" in on else self._frozen
        return found_in([self.known[name] for name in names], terms_of(text, on), self._searches or {})


def terms_of(text: str | None, on: frozenset[str]) -> list[str]:
    """The words that the arguments ask for; raises ``Refused``."""
    given = read_arguments(text, on | {"D-8", "D-9", "4.1.2"}) if "D-31" in on else _strictly(text)
    if ARGUMENT not in given:
        raise Refused("missing")
    terms = given[ARGUMENT]
    if not isinstance(terms, list):
        raise Refused("not a list")
    words = [word for term in terms if term is not None for word in java_text(term).split()]
    return list(dict.fromkeys(word.lower() for word in words))


def _strictly(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except ValueError as error:
        raise Refused("not JSON") from error
    if not isinstance(found, dict):
        raise Refused("not JSON")
    return found


def found_in(catalogue: Iterable[Mapping[str, Any]], terms: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """The names of the tools that fit best."""
    scores: list[tuple[int, str]] = []
    for tool in catalogue:
        name, description = tool["name"].lower(), (tool.get("description") or "").lower()
        score = sum(2 * (term in name) + (term in description) for term in terms)
        if score >= options.get("min_score", 1):
            scores.append((score, tool["name"]))
    scores.sort(key=lambda entry: -entry[0])
    return [name for _, name in scores][: options.get("max_results", 5)]


def found_text(names: Sequence[str]) -> str:
    """What the model reads of it."""
    return f"Tools found: {', '.join(names)}" if names else "<nothing found>"
