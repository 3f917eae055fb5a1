"""Scenarios that nobody has recorded, drawn at random in the words of the recordings."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["random_scenario"]

_THROWN = ("RuntimeException", "IllegalStateException", "IOException")
_ARGUMENTS = {
    "alpha": ("{}", '{"x":"1"}', '{"x":2}', "", "null", '{"x":'),
    "n": ('{"v":1}', '{"v":"7"}', '{"v":"x"}', '{"v":2.5}', "{}"),
    "flight": ('{"d":"A"}', '{"d":"B"}', "{}"),
    "hotel": ('{"d":"A"}',),
    "p": ("{}", '{"x":'),
    "last": ("{}",),
    "now": ("{}",),
    "nope": ("{}",),
}


def random_scenario(seed: int) -> dict[str, Any]:
    """A scenario; the same for the same seed."""
    draw = random.Random(seed)
    concurrent = draw.random() < 0.25
    config: dict[str, Any] = {"concurrent": True} if concurrent else {}
    if draw.random() < 0.6:
        config["memory"] = {"window": draw.choice([1, 2, 3, 4, 6, 50, 50, 50])}
    if draw.random() < 0.3:
        config["system"] = "be brief"
    if draw.random() < 0.5:
        config["compensate"] = True
    if draw.random() < 0.3:
        config["max_round_trips"] = draw.randrange(3)
    for kind in ("arguments", "execution"):
        if draw.random() < 0.5:
            does = draw.choice([{"text": "sorry"}, {"prefix": "E:"}, {"rethrow": True}, {"throw": _error(draw)}])
            config[f"{kind}_error_handler"] = does
    if draw.random() < 0.6:
        config["hallucinated"] = draw.choice([{"text": "no {name}"}, {"text": "no {name}", "is_error": False}])
    if draw.random() < 0.1:
        config[draw.choice(["after_hook", "before_hook"])] = {"tool": "alpha", "throw": _error(draw)}
    calls = [{"user": f"question {number}"} for number in range(draw.choice([1, 1, 2]))]
    scenario: dict[str, Any] = {
        "name": f"random_{seed}",
        "tools": _tools(draw, concurrent),
        "config": config,
        "model_script": _script(draw, len(calls), concurrent),
        "calls": calls,
        "return_type": draw.choice(["Result<String>", "Result<String>", "TokenStream"]),
    }
    if draw.random() < 0.5:
        _offer(draw, scenario)
    return scenario


def _offer(draw: random.Random, scenario: dict[str, Any]) -> None:
    """Tools that are not there from the beginning, or hidden, and calls of them."""
    config: dict[str, Any] = scenario["config"]
    if draw.random() < 0.7:
        config["providers"] = [_provider(draw) for _ in range(draw.choice([1, 1, 2]))]
    if draw.random() < 0.6:
        config["tool_search"] = {"max_results": draw.choice([1, 2, 5])}
        if draw.random() < 0.2:
            config["tool_search"]["throw_arguments_exceptions"] = True
        draw.choice(scenario["tools"])["searchBehavior"] = "ALWAYS_VISIBLE"
    for reply in scenario["model_script"]:
        if reply.get("tool_calls") and draw.random() < 0.7:
            name = draw.choice(["d1", "d2", "tool_search_tool", "tool_search_tool"])
            found = draw.choice(['["a"]', '["D"]', '["d1 hotel", 2]', '["zzz"]', '"a"', "[],"])
            arguments = f'{{"terms":{found}}}' if name == "tool_search_tool" else "{}"
            reply["tool_calls"].append({"id": f"{draw.randrange(10**6)}", "name": name, "arguments": arguments})


def _provider(draw: random.Random) -> dict[str, Any]:
    def given(name: str) -> dict[str, Any]:
        tool = {"kind": "spec", "name": name, "returnBehavior": "TO_LLM", "behaviour": {"return": name}}
        return tool | ({"description": "a hotel"} if draw.random() < 0.5 else {})

    def step() -> list[dict[str, Any]] | None:
        # A name that is there already: given up by a static provider, passed over by a dynamic one.
        names = draw.choice([[], ["d1"], ["d2"], ["d1", "d2"], ["d1", "alpha"] if draw.random() < 0.3 else ["d1"]])
        return [given(name) for name in names] if draw.random() < 0.9 else None

    throws = {"throw": _error(draw)} if draw.random() < 0.1 else {}
    dynamic = draw.random() < 0.6
    # One that is asked once gives the same to every run: a run that is told again asks it again.
    return {"dynamic": dynamic, "steps": [step() for _ in range(draw.choice([1, 2, 3]) if dynamic else 1)], **throws}


def _error(draw: random.Random) -> dict[str, Any]:
    error: dict[str, Any] = {"class": draw.choice(_THROWN), "message": draw.choice(["boom", "  ", None])}
    if draw.random() < 0.3:
        error["cause"] = {"class": "IllegalStateException", "message": "inner"}
    return error


def _behaviour(draw: random.Random, concurrent: bool) -> dict[str, Any]:
    # Which of two concurrent calls of one tool counts first is a race; all of them do the same, then.
    steady = [{"return": "fine"}, {"echo": True}, {"throw": _error(draw)}]
    counting = [{"count": True}, {"count": True}, {"steps": [{"throw": _error(draw)}, {"return": "at last"}]}]
    return draw.choice(steady if concurrent else steady + counting)


def _tools(draw: random.Random, concurrent: bool) -> list[dict[str, Any]]:
    def method(name: str, param: dict[str, Any], returns: str = "TO_LLM", undo: str | None = None) -> dict[str, Any]:
        tool = {"kind": "method", "name": name, "params": [param], "returns": "string", "returnBehavior": returns}
        tool["behaviour"] = _behaviour(draw, concurrent)
        if undo:
            fails = {"behaviour": {"throw": _error(draw)}} if draw.random() < 0.2 else {}
            tool["compensation"] = {"style": undo, **fails}
        return tool

    optional = {"name": "x", "type": "string", "required": False}
    required = {"name": "d", "type": "string", "required": True}
    return [
        method("alpha", optional),
        method("n", {"name": "v", "type": "int32", "required": True}),
        method("flight", required, undo="same_params"),
        method("hotel", required, undo="tool_execution"),
        method("last", optional, "IMMEDIATE_IF_LAST"),
        method("now", optional, "IMMEDIATE"),
        {"kind": "spec", "name": "p", "returnBehavior": "TO_LLM", "behaviour": _behaviour(draw, concurrent)},
    ]


def _script(draw: random.Random, answers: int, concurrent: bool) -> list[dict[str, Any]]:
    script: list[dict[str, Any]] = []
    for _ in range(answers):
        for _ in range(draw.randrange(4)):
            asked = [_call(draw, concurrent) for _ in range(draw.choice([1, 1, 2, 3]))]
            usage = draw.choice([None, [1, 2], [1, None]])
            silent = {"no_complete_tool_call_events": True} if draw.random() < 0.1 else {}
            script.append({"text": draw.choice([None, "let me see"]), "tool_calls": asked, "usage": usage, **silent})
        if draw.random() < 0.1:
            script.append({"error": {"class": "IllegalStateException", "message": "model down"}})
        else:
            script.append({"text": "all done", "usage": [3, 4]})
    return script


def _call(draw: random.Random, concurrent: bool) -> dict[str, Any]:
    name = draw.choice(list(_ARGUMENTS))
    # Equal ids are told apart by position; two calls that race must differ, or nobody could tell which is which.
    call_id = f"{draw.randrange(10**6)}" if concurrent else draw.choice(["1", "2", "3", None])
    return {"id": call_id, "name": name, "arguments": draw.choice(_ARGUMENTS[name])}
