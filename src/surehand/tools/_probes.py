"""What a probe may answer when it is asked: did this call happen?"""

from __future__ import annotations

from typing import Any, Generic, TypeAlias

from msgspec import Struct
from typing_extensions import TypeVar

__all__ = ["Absent", "Happened", "Probe", "Unknown"]

T = TypeVar("T", default=Any)


class Happened(Struct, Generic[T], frozen=True):
    """A probe's answer: the call did happen, and this is what it returned."""

    value: T


class Absent(Struct, frozen=True):
    """A probe's answer: the call did not happen."""


class Unknown(Struct, frozen=True):
    """A probe's answer: I cannot tell."""


Probe: TypeAlias = Happened[Any] | Absent | Unknown
"""What a probe may answer."""
