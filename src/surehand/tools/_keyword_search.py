"""Searching for tools by words in their names and descriptions (spec 14.5). No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._checks import is_whole, misfit
from ..errors import ToolArgumentsError, ToolError, UserError
from ..messages import ToolCall, ToolSpec
from ._json_text import NotJson, is_array, is_object, read_json
from ._search import SearchResult
from ._tool import ToolContext

__all__ = ["KeywordSearch"]


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "No matching tools found, besides those that you have already."
    return f"Tools found: {', '.join(names)}"


class KeywordSearch:
    """Finds the tools whose names (2 points) and descriptions (1 point) contain the terms, whatever their case.

    ``name`` and ``description`` are those of the search tool, ``argument`` and ``argument_description`` those of its
    one parameter, a list of terms. At most ``max_results`` tools are found, each with ``min_score`` points or more; the
    best first, equal ones in the order in which they were registered. ``text(names)`` gives what the model reads.
    Arguments that cannot be used are a ``ToolError``, or with ``argument_errors`` a ``ToolArgumentsError``: so you
    choose which row of the ``ErrorPolicy`` decides about them.
    """

    inline = True  # nothing in it blocks

    def __init__(
        self,
        name: str = "tool_search_tool",
        *,
        description: str = "Finds tools that can be called. Use it when you need a tool that you do not have.",
        argument: str = "terms",
        argument_description: str = "Words to look for in the names and descriptions of tools",
        max_results: int = 5,
        min_score: int = 1,
        argument_errors: bool = False,
        text: Callable[[Sequence[str]], str] = _listed,
    ) -> None:
        names: dict[str, Any] = {"name": name, "argument": argument}
        counts = {"max_results": max_results, "min_score": min_score}
        for option, value in names.items():
            if not isinstance(value, str) or not value.strip():
                raise UserError(f"KeywordSearch({option}={value!r}): expected a name")
        for option, count in counts.items():
            if not is_whole(count):
                raise UserError(f"KeywordSearch({option}={count!r}): expected a whole number of at least 0")
        expected = misfit(text, "names", may_be_async=False)
        if expected is not None:
            raise UserError(f"KeywordSearch(text={text!r}): expected {expected}")
        self._argument, self._text = argument, text
        self._max_results, self._min_score = max_results, min_score
        self._error: type[ToolError | ToolArgumentsError] = ToolArgumentsError if argument_errors else ToolError
        self._specs = (ToolSpec(name, description, _parameters(argument, argument_description)),)

    @property
    def specs(self) -> Sequence[ToolSpec]:
        """The one search tool."""
        return self._specs

    def search(self, call: ToolCall, searchable: Sequence[ToolSpec], context: ToolContext[Any], /) -> SearchResult:
        """The tools that fit the call's terms."""
        terms = self._terms(call)
        scores = [(_score(spec, terms), spec.name) for spec in searchable]
        good = [entry for entry in scores if entry[0] >= self._min_score]
        good.sort(key=lambda entry: -entry[0])  # stable, so equal ones keep their order
        names = tuple(name for _, name in good[: self._max_results])
        return SearchResult(names, self._text(names))

    def _terms(self, call: ToolCall) -> list[str]:
        try:
            given, _ = read_json(call.arguments or "")
        except NotJson as error:
            raise self._error(f"arguments of {call.name!r} are not JSON: {error}; {self._expected}") from error
        if not is_object(given) or self._argument not in given:
            raise self._error(f"the argument {self._argument!r} of {call.name!r} is missing; {self._expected}")
        terms = given[self._argument]
        if not is_array(terms):
            raise self._error(f"the argument {self._argument!r} of {call.name!r} is not a list; {self._expected}")
        words = [word for term in terms if term is not None for word in _words(term)]
        return list(dict.fromkeys(words))

    @property
    def _expected(self) -> str:
        return f'expected {{"{self._argument}": ["a word", "another"]}}'


def _words(term: Any) -> list[str]:
    text = {True: "true", False: "false"}[term] if isinstance(term, bool) else str(term)
    return text.lower().split()


def _score(spec: ToolSpec, terms: Sequence[str]) -> int:
    name, description = spec.name.lower(), (spec.description or "").lower()
    return sum(2 * (term in name) + (term in description) for term in terms)


def _parameters(argument: str, description: str) -> dict[str, Any]:
    terms = {"type": "array", "items": {"type": "string"}, "description": description}
    return {"type": "object", "properties": {argument: terms}, "required": [argument], "additionalProperties": False}
