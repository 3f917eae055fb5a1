"""Models: the boundary, and how to name one."""

from __future__ import annotations

from ._base import ChatModel
from ._names import from_name

__all__ = ["ChatModel", "from_name"]
