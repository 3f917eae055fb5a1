"""Runs killed at any record, and again while they are resumed, end with all done once, undone once, or named."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..machine.crashes import Crash, survive
from ..machine.scripts import MODES, Script, scripts

# Runs of agents that ask agents, and answers that are sent back, take minutes: `make crash` plays them.
FOCUSES = ("", "nested", "output") if "CRASH_KILLS" in os.environ else ("",)
CRASHES = st.builds(Crash, st.integers(1, 24), st.booleans())


@pytest.mark.parametrize("focus", FOCUSES)
@pytest.mark.parametrize("mode", MODES)
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
)
@given(st.data())
def test_a_run_that_dies_anywhere_comes_back_and_is_accounted_for(mode: str, focus: str, data: st.DataObject) -> None:
    script: Script = data.draw(scripts(mode, focus))
    first, again = data.draw(CRASHES), data.draw(st.lists(CRASHES, max_size=2))
    survive(script, mode, first, again, forgets=data.draw(st.booleans()))
