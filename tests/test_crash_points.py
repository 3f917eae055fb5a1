"""Killed anywhere, an agent comes back: nothing is done twice, nothing is lost, and the report is true (design 5).

``CRASH_KILLS`` in the environment is the number of random kills for each scenario, besides one at every crash point.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from surehand.testing import Scenario, crash_test

from .testing import agents, delegating
from .testing.office import Office, conversation, effects

IN_FILES = {"options": {"memory_id": "ann"}, "memory": conversation}
SCENARIOS = {
    "run": (agents.traveller, {}),
    "arun, side by side": (agents.side_by_side, {"mode": "arun"}),
    "stream, safe calls start early": (agents.side_by_side, {"mode": "stream"}),
    "stream, all calls start early": (agents.eager, {"mode": "stream"}),
    "astream, safe calls start early": (agents.traveller, {"mode": "astream"}),
    "astream, all calls start early": (agents.eager, {"mode": "astream"}),
    "memory in a file": (agents.remembering, {"mode": "arun", **IN_FILES}),
    "memory in a file, run": (agents.remembering, IN_FILES),
    "a call that times out once": (agents.patient, {}),
    "a call that times out once, arun": (agents.patient, {"mode": "arun"}),
    "a call that is asked for again while nobody knows of it": (agents.impatient, {}),
    "given up": (agents.unlucky, {}),
    "given up, astream": (agents.unlucky, {"mode": "astream"}),
    "given up, with a memory": (agents.unlucky_and_remembering, IN_FILES),
    "given up while other calls run": (agents.unlucky_in_the_middle, {"mode": "astream", **IN_FILES}),
    "an undo that fails once": (agents.stubborn, {"mode": "arun"}),
    "an undo that always fails": (agents.stuck, {}),
    "undone because a tool failed": (agents.cautious, IN_FILES),
    "never, and the probe knows": (agents.payer_with_probe, {}),
    "never, and nobody knows": (agents.payer, {"mode": "stream"}),
    "never, and somebody tells": (agents.payer, {"mode": "arun", "answer": agents.word_of_the_office}),
    "never, undone if nobody knows": (agents.payer_who_undoes, {}),
    "never, a dead letter if nobody knows": (agents.payer_who_reports, {"mode": "arun"}),
    "tools of a provider, given up": (agents.provided, {}),
    "tools of a provider, given up, astream": (agents.provided, {"mode": "astream"}),
    "tools that are searched for": (agents.searching, {"mode": "arun"}),
    "an agent of a provider, given up": (delegating.provided, {"mode": "arun"}),
    "steps of a call": (agents.mover, {}),
    "warned and rationed": (agents.rationed, {}),
    "warned and rationed, astream": (agents.rationed, {"mode": "astream"}),
    "rationed and given up": (agents.rationed_and_unlucky, {"mode": "arun"}),
    "an agent asks another": (delegating.delegating, {}),
    "an agent asks another, astream": (delegating.delegating, {"mode": "astream"}),
    "agents asked side by side": (delegating.side_by_side, {"mode": "arun"}),
    "agents asked side by side, run": (delegating.side_by_side, {}),
    "an agent is asked early": (delegating.eager, {"mode": "stream"}),
    "an agent is asked in vain": (delegating.in_vain, {}),
    "given up with all that agents did for each other": (delegating.unlucky, {"mode": "arun", **IN_FILES}),
    "given up with two conversations of an agent": (delegating.twice, IN_FILES),
    "undone because a tool failed, with what an agent did": (delegating.cautious, IN_FILES),
    "calls of an agent that time out": (delegating.patient, {"mode": "arun"}),
    "an agent pays, and somebody tells": (delegating.paying, {"answer": agents.word_of_the_office}),
    "an answer of a type": (agents.answering, {}),
    "an answer of a type, astream": (agents.answering, {"mode": "astream"}),
    "an answer of a type, with a memory": (agents.answering_and_remembering, IN_FILES),
    "an answer that never fits": (agents.never_answering, IN_FILES),
}
THOROUGH = ("run", "astream, all calls start early", "given up")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_survives_every_crash(name: str) -> None:
    agent, options = SCENARIOS[name]
    given: dict[str, Any] = {"prompt": "Go", "deps": Office, "effects": effects, "name": name, **options}
    kills = int(os.environ.get("CRASH_KILLS", 20 if name in THOROUGH else 3))
    report = crash_test(agent, Scenario(**given), kills=kills)
    assert report.killed >= len(report.points) - 2, report  # where calls overlap, a moment may not come again
