"""Return types of a service method other than ``Result<String>``: what they stand for, and what a method gives.

The reference adds the form that it wants to the user's message; we tell it in the system message (rule 17.10).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .kinds import FIELDS, hint_of, kind_of

__all__ = [
    "FORM",
    "Misfit",
    "Unclear",
    "answered",
    "has_form",
    "hint_of_return",
    "is_known",
    "is_typed",
    "is_wrapper",
    "returned",
]

FORM = "<the form of the answer>"
_KINDS = {"void": "void", "String": "string", "int": "int32", "Person": "object:Person"}


class Misfit(Exception):
    """The answer is not of the type."""


class Unclear(Exception):
    """Nobody can say which of the values that tools returned is meant."""


def is_wrapper(return_type: str) -> bool:
    """Whether the method gives everything about the run, not only the answer."""
    return return_type.startswith("Result<")


def _wanted(return_type: str) -> str:
    return return_type.removeprefix("Result<").removesuffix(">")


def is_known(return_type: str) -> bool:
    """Whether this runner knows the type."""
    return _wanted(return_type) in _KINDS


def is_typed(return_type: str) -> bool:
    """Whether it says more than that any text will do, with everything about the run."""
    return is_known(return_type) and return_type != "Result<String>"


def has_form(return_type: str) -> bool:
    """Whether the model is told in which form to answer."""
    return _wanted(return_type) in ("int", "Person")


def hint_of_return(return_type: str) -> Any:
    """The Python type that an agent is told to answer with."""
    if _wanted(return_type) == "int":
        return int
    return hint_of(kind_of(_KINDS[_wanted(return_type)]))


def answered(return_type: str, text: str | None) -> Any:
    """What the method makes of an answer in words; raises ``Misfit``."""
    match _wanted(return_type):
        case "void":
            return None
        case "String":
            return text
        case "int":
            if re.fullmatch(r"\s*[+-]?\d+\s*", text or "") is None:
                raise Misfit
            return int(text or "")
        case name:
            return _record(name, text)


def _record(name: str, text: str | None) -> dict[str, Any]:
    try:
        data = json.loads(text or "")
    except ValueError as error:
        raise Misfit from error
    if not isinstance(data, dict):
        raise Misfit
    return {field: data.get(field) for field in FIELDS[name]}


def returned(return_type: str, tools: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> Any:
    """What the method makes of a round of tools that ended the run (spec 7.9.4); raises ``Unclear``."""
    wanted = _wanted(return_type)
    if wanted == "void":
        return None
    there = [(tool, value) for tool, value in zip(tools, values, strict=True) if value is not None]
    if any(tool.get("returnBehavior", "TO_LLM") == "TO_LLM" for tool in tools) or len(there) > 1:
        raise Unclear
    if not there:
        return None
    ((tool, value),) = there
    if tool.get("returns", "string") != _KINDS[wanted]:
        raise Unclear
    return value
