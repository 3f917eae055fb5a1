"""What tests of agents need: a scripted model, an event recorder, a clock that stands still."""

from __future__ import annotations

from .recorder import FakeClock, Recorder
from .scripted import Reply, ScriptedModel, call, calls, say

__all__ = ["FakeClock", "Recorder", "Reply", "ScriptedModel", "call", "calls", "say"]
