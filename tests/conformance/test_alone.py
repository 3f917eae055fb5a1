"""The runner's half for one tool alone: it sees what is wrong, and its model and the product agree everywhere."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest

from .alone import normal_alone, observe_alone, promised_alone
from .deviations import RULES, numbers_for
from .judge import Case
from .kinds import kind_of, unknown_types
from .scenario import ALONE, VECTORS, Scenario, Vector, read_vectors, why_not_judged

RECORDED = {
    vector.name: json.loads((VECTORS / f"{vector.name}.json").read_text("utf-8"))
    for vector in read_vectors(VECTORS)
    if vector.scenario.kind in ALONE
}


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the leaves are; an empty container is one."""
    if isinstance(value, dict | list) and value:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, inner in entries for found in paths_in(inner, (*path, key))]
    return [path]


def holder_of(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        value = value[key]
    return value


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_with_any_one_value_changed_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unchanged = RECORDED[name]
    scenario = Scenario(unchanged["scenario"])
    ours = observe_alone(scenario, "run")
    # What we do does not depend on what was recorded, so it need not be done anew for each changed value.
    monkeypatch.setattr("tests.conformance.judge.observe_alone", lambda scenario, mode: ours)
    assert Case(Vector(name, True, scenario, unchanged["expected"])).failure("run") == []
    unseen = []
    for path in paths_in(unchanged["expected"]):
        changed = copy.deepcopy(unchanged["expected"])
        holder_of(changed, path)[path[-1]] = "something else"
        if Case(Vector(name, True, scenario, changed)).failure("run") == []:
            unseen.append(path)
    assert [path for path in unseen if not is_loose_text(unchanged["expected"], path)] == []


def is_loose_text(expected: Mapping[str, Any], path: tuple[Any, ...]) -> bool:
    """Whether it is the text of the recorded system's parser of JSON, or the wording of a configuration error."""
    name = str(holder_of(expected, path).get("class"))
    return path[-1] == "message" and name.startswith(("JsonParse", "JsonEOF", "IllegalConfiguration"))


def test_every_deviation_of_one_tool_alone_changes_a_scenario() -> None:
    cases = [Case(each) for each in read_vectors(VECTORS) if each.scenario.kind in ALONE]
    numbers = {pinned.rule.number for case in cases for pinned in case.pinned}
    assert numbers == {"D-8", "D-9", "D-13", "D-31", "D-36", "4.1.2", "3.4.9", "5.1"}
    assert numbers <= {rule.number for rule in RULES}


# ---------------------------------------------------------------- types and values that nobody recorded

SCALARS = ("string", "char", "bool", "int8", "int16", "int32", "int64", "bigint", "float32", "float64", "decimal")
TEXTS = ("enum:Color", "uuid", "date", "time", "datetime", "any")
OBJECTS = ("object:Person", "object:Address")
CONTAINERS = ("list<int32>", "list<string>", "set<int8>", "array<bool>", "map<string,int32>", "map", "list<list<char>>")
MAYBE = ("int32?", "string?", "enum:Color?", "list<int32>?", "optional<int32>", "optional<object:Person>")
NESTED = ("list<object:Address>", "map<string,list<decimal>>", "set<enum:Color>", "list<optional<int32>>")
KINDS = SCALARS + TEXTS + OBJECTS + CONTAINERS + MAYBE + NESTED

VALUES = (
    *("null", "true", "false", "0", "7", "-1", "127", "128", "300", "2.0", "1.5", "1e3", "-0.0", "9007199254740993"),
    *("9223372036854775808", "0.1", "1e300", "1e400", '"7"', '" 7 "', '"7.0"', '"7.5"', '"1e3"', '"+7"', '"1_000"'),
    *('""', '" "', '"a"', '"abc"', '"é"', '"true"', '"FALSE"', '"yes"', '"NaN"', '"Infinity"', '"0x10"', '"1f"'),
    *('"RED"', '"red"', '"BLUE"', '"purple"', '"2031-05-03"', '"2031-05-03T10:00:00"', '"10:00:00"'),
    *('"00000000-0000-0000-0000-000000000001"', "[]", "[1]", '["a"]', '["RED","red"]', "[1,1]", "[null]", "[[1]]"),
    *('[true]', "[1.5]", '["1"]', '"[1,2]"', '"[]"', '"{}"', "{}", '{"a":1}', '{"a":null}', '{"a":[1.25]}'),
    *('{"city":"X"}', '{"city":"X","zip":9}', '{"city":"X","bad":1}', '{"city":null}', '[{"city":"X"}]'),
    *('{"name":"A","age":3}', '{"name":5,"age":"3"}', '{"name":"A","age":3.7}', '{"name":"A"}', "NaN", "1,}", '"a"}}'),
    *('"00000000000000000000000000000001"', '"1-1-1-1-1"', '"00000000-0000-0000-0000-00000000000A"', '"7 apples"'),
    *('"2031-13-01"', '"2031-05-03T00:00:00"', '"10:00"', '{"hour":1,"minute":2}', '"null"', '"nullx"', '"7}"'),
    *('"\\"a\\""', '"{\\"city\\":\\"X\\"}"', '"{\\"a\\":1}"', '{"year":2031,"month":5,"day":3}'),
)  # fmt: skip

WHOLE = ("{}", "", None, "null", "[]", '"{}"', '"a"', "5", '{"V":7}', '{"v":7,"w":8}', '{"v":7,"v":8}', '{"v":')

LONG = 'a "q"\n b'


def grid(kind: str, **options: Any) -> Scenario:
    tool = {
        "kind": "method",
        "name": "t",
        "params": [{"name": "v", "type": kind, "required": True, **options}],
        "returns": "string",
        "returnBehavior": "TO_LLM",
    }
    cases = [f'{{"v":{value}}}' for value in VALUES]
    return Scenario({"name": kind, "kind": "coercion", "tool": tool, "cases": [*cases, *WHOLE]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("required", [True, False])
def test_the_model_and_the_product_agree_on_types_and_values_that_nobody_recorded(kind: str, required: bool) -> None:
    scenario = grid(kind, required=required)
    assert why_not_judged(scenario) is None
    promised = normal_alone(scenario, promised_alone(scenario, numbers_for(scenario)))["cases"]
    ours = normal_alone(scenario, observe_alone(scenario, "run"))["cases"]
    texts = scenario.raw["cases"]
    different = [each for each in zip(texts, promised, ours, strict=True) if each[1] != each[2]]
    assert different == []


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        *(
            ("int32", "7"),
            ("int32", '"7"'),
            ("int32", "x"),
            ("int8", "300"),
            ("int32", "null"),
            ("int32?", "null"),
            ("int32?", "7"),
        ),
        *(
            ("enum:Color", "red"),
            ("enum:Color", "purple"),
            ("list<int32>", "[1,2]"),
            ("list<int32>", "[1"),
            ("bool", "true"),
        ),
        *(
            ("string", "x"),
            ("string", ""),
            ("decimal", "1.10"),
            ("float64", "2"),
            ("date", '"2031-05-03"'),
            ("char", "ab"),
        ),
        *(
            ("optional<int32>", "1"),
            ("object:Address", '{"city":"X"}'),
            ("object:Address", "{}"),
            ("map<string,int32>", "5"),
        ),
    ],
)
def test_the_model_and_the_product_agree_on_defaults_that_nobody_recorded(kind: str, default: str) -> None:
    scenario = Scenario({**grid(kind, default=default).raw, "cases": ["{}", '{"v":null}', '{"v":{"no":1}}']})
    promised = normal_alone(scenario, promised_alone(scenario, numbers_for(scenario)))
    assert normal_alone(scenario, observe_alone(scenario, "run")) == promised


def test_the_model_of_the_reference_has_a_word_for_every_type_and_value() -> None:
    for kind, required in itertools.product(KINDS, [True, False]):
        scenario = grid(kind, required=required)
        outcomes = normal_alone(scenario, promised_alone(scenario, frozenset()))["cases"]
        assert len(outcomes) == len(scenario.raw["cases"])


@pytest.mark.parametrize(
    ("returns", "behaviour"),
    [
        *(("string", {"return": LONG}), ("string", {}), ("string", {"count": True}), ("any", {"return": {"a": [1]}})),
        *(("void", {}), ("int64", {"return": 2**60}), ("int32", {"return_null": True}), ("bool", {"return": False})),
        *(
            ("enum:Color", {"return": "blue"}),
            ("list<enum:Color>", {"return": ["RED", "blue"]}),
            ("map", {"return": {}}),
        ),
        *(("set<string>", {"return": ["b", "a"]}), ("decimal", {"return": 1.5}), ("list<decimal>", {"return": [1.5]})),
        *(("date", {"return": "2031-05-03"}), ("uuid", {"return": "00000000-0000-0000-0000-000000000001"})),
        *(("optional", {"optional": "x"}), ("optional<int32>", {"optional": 5}), ("optional", {"optional": None})),
        *(("string", {"error_result": "no"}), ("content", {"content_text": "hey"}), ("opaque", {"opaque": True})),
        *(("contents", {"contents": [{"text": "a"}, {"raw": "b"}]}), ("image", {"image_url": "http://e.x/i.png"})),
        *(("object:Address", {"return": {"city": "X"}}), ("map<string,int32>", {"return": {"a": 1}})),
        ("string", {"throw": {"class": "IllegalStateException", "message": "boom"}}),
    ],
)
def test_the_model_and_the_product_agree_on_results_that_nobody_recorded(
    returns: str, behaviour: dict[str, Any]
) -> None:
    tool = {"kind": "method", "name": "t", "params": [], "returns": returns, "returnBehavior": "TO_LLM"}
    scenario = Scenario({"name": returns, "kind": "returns", "tool": {**tool, "behaviour": behaviour}})
    assert why_not_judged(scenario) is None
    promised = normal_alone(scenario, promised_alone(scenario, numbers_for(scenario)))
    for mode in ("run", "arun", "stream", "astream"):
        assert normal_alone(scenario, observe_alone(scenario, mode)) == promised


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("int24", ["int24"]),
        ("list<whatever>", ["whatever"]),
        ("map<string,enum:Shape>", ["enum:Shape"]),
        ("map<string>", ["map"]),
        ("string<int32>", ["string"]),
        ("list<map<string,int32?>>?", []),
    ],
)
def test_a_type_without_meaning_is_named(name: str, expected: list[str]) -> None:
    assert list(unknown_types(kind_of(name))) == expected


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"tool": {"params": [{"name": "v", "type": "object:Ghost"}]}}, "object:Ghost"),
        ({"tool": {"params": [{"name": "v", "type": "int32", "pattern": "x"}]}}, "pattern"),
        ({"tool": {"params": [{"name": "v", "type": "inject:memory_id"}]}}, "inject:memory_id"),
        ({"tool": {"kind": "spec"}}, "spec"),
        ({"twice": True}, "twice"),
    ],
)
def test_what_a_scenario_says_and_nobody_knows_is_named(change: dict[str, Any], word: str) -> None:
    scenario = copy.deepcopy(dict(grid("int32").raw))
    scenario["tool"] |= change.pop("tool", {})
    assert why_not_judged(Scenario({**scenario, **change})) == f"this runner does not know {word!r}"
