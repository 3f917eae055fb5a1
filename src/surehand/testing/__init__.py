"""What tests of agents need: a scripted model, an event recorder, a clock that stands still, and crashes."""

from __future__ import annotations

from .crash import CrashReport, CrashTestFailed, Effect, Scenario, crash_test
from .recorder import FakeClock, Recorder
from .scripted import Reply, ScriptedModel, call, calls, say

__all__ = [
    "CrashReport",
    "CrashTestFailed",
    "Effect",
    "FakeClock",
    "Recorder",
    "Reply",
    "Scenario",
    "ScriptedModel",
    "call",
    "calls",
    "crash_test",
    "say",
]
