"""Functions such as people write them, each with a valid call and what has to arrive, or with the refusal expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["CASES", "REFUSALS", "Case", "Refusal", "case", "refused"]

AnyFunction = TypeVar("AnyFunction", bound=Any)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A function, a valid call of it, and the values of its parameters in that call."""

    function: Any
    text: str
    expected: dict[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Refusal:
    """A function that is refused, and words of the message: the parameter and the remedy."""

    function: Any
    words: tuple[str, ...]


CASES: list[Case] = []
REFUSALS: list[Refusal] = []


def case(text: str, /, **expected: Any) -> Callable[[AnyFunction], AnyFunction]:
    """Register the function, which returns its ``locals()``, with a call and what arrives."""

    def mark(function: AnyFunction) -> AnyFunction:
        CASES.append(Case(function, text, expected))
        return function

    return mark


def refused(*words: str) -> Callable[[AnyFunction], AnyFunction]:
    """Register the function as one that is refused with these words."""

    def mark(function: AnyFunction) -> AnyFunction:
        REFUSALS.append(Refusal(function, words))
        return function

    return mark
