"""Memories of conversations."""

from __future__ import annotations

from ._base import ChatMemory, InProcessStore, MessageStore
from ._window import MessageWindow

__all__ = ["ChatMemory", "InProcessStore", "MessageStore", "MessageWindow"]
