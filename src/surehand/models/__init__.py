"""Models: the boundary, and how to name one."""

from __future__ import annotations

from ._base import ChatModel

__all__ = ["ChatModel", "from_name"]


def from_name(name: str) -> ChatModel:
    """The model with that name."""
    raise NotImplementedError(name)
