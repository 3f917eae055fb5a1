"""The runner itself: it must see what is wrong, say it, and count it; and its model must agree with the engine."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from .__main__ import main
from .deviations import RULES, numbers_for
from .judge import Case, difference
from .modes import observe
from .normal import normal
from .promise import promise
from .random_scenarios import random_scenario
from .scenario import VECTORS, Scenario, Vector, modes_of, read_vectors, why_not_judged


def vector(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


def case_of(value: dict[str, Any]) -> Case:
    return Case(Vector("changed", value["deterministic"], Scenario(value["scenario"]), value["expected"]))


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the leaves are."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in paths_in(inner, (*path, key))]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in paths_in(inner, (*path, index))]
    return [path]


@pytest.mark.parametrize(
    "name", ["basic_three_rounds", "comp_across_rounds", "stream_single_round", "halluc_default", "prov_dynamic"]
)
def test_a_recording_with_any_one_value_changed_fails(name: str) -> None:
    unchanged = vector(name)
    mode = modes_of(Scenario(unchanged["scenario"]))[0]
    assert case_of(unchanged).failure(mode) == []
    unseen = []
    for path in paths_in(unchanged["expected"]):
        changed = copy.deepcopy(unchanged)
        holder = changed["expected"]
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = "something else"
        if case_of(changed).failure(mode) == []:
            unseen.append(path)
    # Names of the framework's own exception classes are tokens; everything else is seen.
    assert unseen == [path for path in paths_in(unchanged["expected"]) if path[-1] == "class"]


@pytest.mark.parametrize(
    "name", ["basic_three_rounds", "comp_across_rounds", "stream_single_round", "halluc_default", "prov_dynamic"]
)
def test_a_recording_without_one_of_its_events_fails(name: str) -> None:
    unchanged = vector(name)
    mode = modes_of(Scenario(unchanged["scenario"]))[0]
    for index in range(len(unchanged["expected"]["trace"])):
        changed = copy.deepcopy(unchanged)
        del changed["expected"]["trace"][index]
        assert case_of(changed).failure(mode) != []


BEYOND_A_LIMIT = Scenario(
    {
        "name": "a call that would start early, beyond the limit",
        "tools": [{"kind": "spec", "name": "p", "returnBehavior": "TO_LLM", "behaviour": {"return": "r"}}],
        "config": {"concurrent": True, "max_round_trips": 0},
        "model_script": [{"tool_calls": [{"id": "1", "name": "p", "arguments": "{}"}]}],
        "calls": [{"user": "hi"}],
        "return_type": "TokenStream",
    }
)


def test_every_deviation_changes_a_scenario() -> None:
    cases = [Case(each) for each in read_vectors(VECTORS) if why_not_judged(each.scenario) is None]
    cases.append(Case(Vector("beyond", True, BEYOND_A_LIMIT, {})))
    numbers = {pinned.rule.number for case in cases for pinned in case.pinned}
    assert numbers == {rule.number for rule in RULES}


@pytest.mark.parametrize("seed", range(60))
def test_the_model_and_the_engine_agree_on_scenarios_that_nobody_recorded(seed: int) -> None:
    scenario = Scenario(random_scenario(seed))
    promised = promise(scenario, numbers_for(scenario))
    for mode in modes_of(scenario):
        ours = observe(scenario, mode)
        assert difference(normal(scenario, promised, mode), normal(scenario, ours, mode), "promised", mode) == []


def test_the_command_counts_and_names_what_fails_and_what_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad, later = vector("basic_no_tool_call"), vector("basic_no_tools"), vector("basic_no_tools")
    later["scenario"]["config"] = {"unheard_of": 1}
    bad["expected"]["outcomes"][0]["result"]["content"] = "goodbye"
    for name, value in (("good", good), ("bad", bad), ("later", later)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value), "utf-8")
    (tmp_path / "INDEX.json").write_text("[]", "utf-8")
    assert main([str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("FAILED")] == [
        f"FAILED bad [{way}{journal}]" for journal in ("", "+journal") for way in ("run", "arun", "stream", "astream")
    ]
    assert [line for line in lines if line.startswith("not judged yet")] == [
        "not judged yet: this runner does not know 'unheard_of' (1)"
    ]
    assert lines[-1] == "1 passed, 1 failed"


def test_the_command_refuses_a_directory_that_does_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'missing'}: no such directory\n"
