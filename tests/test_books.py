"""Never twice, never lost, always accounted for: random runs in every mode against a world that keeps count.

The mutants at the end take one promise away each, and the same check has to find that out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from .machine.checks import Broken, check
from .machine.scripts import MODES, Script, scripts

EXAMPLES = 120


def property_of(mode: str, *, examples: int = EXAMPLES, shrinks: bool = True) -> Callable[[], None]:
    """A test of random scripts in that mode, the same ones every time."""
    phases = (Phase.explicit, Phase.generate, Phase.shrink) if shrinks else (Phase.generate,)

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(scripts(mode))
    def holds(script: Script) -> None:
        check(script, mode)

    return holds


@pytest.mark.parametrize("mode", MODES)
def test_no_call_is_lost_doubled_or_misreported_whatever_befalls_the_run(mode: str) -> None:
    property_of(mode)()
