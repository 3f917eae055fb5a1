"""Every vector that can be judged, in every mode that fits."""

from __future__ import annotations

import pytest

from .judge import Case
from .scenario import VECTORS, modes_of, read_vectors, why_not_judged

CASES = {vector.name: Case(vector) for vector in read_vectors(VECTORS) if why_not_judged(vector.scenario) is None}
RUNS = [(name, mode) for name, case in CASES.items() for mode in modes_of(case.scenario)]


@pytest.mark.parametrize(("name", "mode"), RUNS)
def test_a_run_is_what_was_recorded_and_the_deviations_make_of_it(name: str, mode: str) -> None:
    assert CASES[name].failure(mode) == []
