"""What a search for words finds, and which of its options can be kept (spec 14.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from surehand import KeywordSearch, SearchResult, ToolCall, ToolSpec, UserError
from surehand.testing import call

CATALOGUE = [
    ToolSpec("get_weather", "The Weather in a city"),
    ToolSpec("get_time", "The time in a CITY"),
    ToolSpec("weather_history"),
    ToolSpec("mail", "Weather by mail"),
]
CONTEXT: Any = None  # nothing in it is looked at


def found(*terms: Any, **options: Any) -> tuple[str, ...]:
    asked = call("tool_search_tool", {"terms": list(terms)})
    return KeywordSearch(**options).search(asked, CATALOGUE, CONTEXT).names


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        (["weather"], ("get_weather", "weather_history", "mail")),  # 3, 2 and 1 points
        (["WEATHER", "city"], ("get_weather", "weather_history", "get_time", "mail")),
        (["  weather\tcity "], ("get_weather", "weather_history", "get_time", "mail")),
        (["weather", "weather"], ("get_weather", "weather_history", "mail")),
        (["time", "time", "mail"], ("get_time", "mail")),  # the same points: in the order of registration
        ([None, True, 5, ""], ()),
        ([], ()),
    ],
)
def test_names_count_two_and_descriptions_one_for_each_term(terms: list[Any], names: tuple[str, ...]) -> None:
    assert found(*terms) == names


def test_how_many_points_and_results_are_wanted() -> None:
    assert found("weather", min_score=3) == ("get_weather",)
    assert found("weather", min_score=2, max_results=1) == ("get_weather",)
    assert found("weather", max_results=0) == ()
    assert found("nothing", min_score=0, max_results=3) == ("get_weather", "get_time", "weather_history")


def test_the_search_tool_is_called_and_described_as_one_likes() -> None:
    def told(names: Sequence[str]) -> str:
        return f"{len(names)} found"

    search = KeywordSearch("find", description="Finds.", argument="words", argument_description="Words", text=told)
    (spec,) = search.specs
    terms = {"type": "array", "items": {"type": "string"}, "description": "Words"}
    assert spec == ToolSpec(
        "find",
        "Finds.",
        {"type": "object", "properties": {"words": terms}, "required": ["words"], "additionalProperties": False},
    )
    asked = ToolCall(None, "find", '{"words": ["mail"],}')
    assert search.search(asked, CATALOGUE, CONTEXT) == SearchResult(("mail",), "1 found")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"name": " "}, "KeywordSearch(name=' '): expected a name"),
        ({"argument": 1}, "KeywordSearch(argument=1): expected a name"),
        ({"max_results": -1}, "KeywordSearch(max_results=-1): expected a whole number of at least 0"),
        ({"min_score": 0.5}, "KeywordSearch(min_score=0.5): expected a whole number of at least 0"),
        ({"text": "x"}, "KeywordSearch(text='x'): expected a function of (names)"),
    ],
)
def test_an_option_that_cannot_be_kept_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as refused:
        KeywordSearch(**options)
    assert str(refused.value) == complaint


def test_a_result_is_names_and_a_text() -> None:
    assert SearchResult(["a"], "x") == SearchResult(("a",), "x")  # type: ignore[arg-type]
    for names, text in (("a", "x"), ([1], "x"), ((), None)):
        with pytest.raises(UserError):
            SearchResult(names, text)  # type: ignore[arg-type]
