"""The tools of one object, for who wants them without an agent or a service (spec 3.2)."""

from __future__ import annotations

from typing import Any

from ._tool import Tool

__all__ = ["find_tools"]


def find_tools(source: Any) -> list[Tool]:
    """The tools of an object with ``@tool`` methods, or of whatever else ``tools=[…]`` takes (spec 3.1).

    Raises ``UserError`` for a class, for a list of objects, for an object on which nothing is marked, and for every
    tool that cannot be kept.
    """
    from ._collect import collect_tools  # loads pydantic's machinery for schemas

    return collect_tools([source])
