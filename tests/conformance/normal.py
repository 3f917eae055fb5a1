"""Both sides in one form, so that they can be compared whole.

Texts that a framework writes and names of its exception classes become tokens. What a mode cannot show at the same
place, or what the recordings have no word for, is a named projection (``PROJECTIONS``): it is printed with the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from .scenario import Scenario, way_of

__all__ = ["PROJECTIONS", "normal", "tokens"]

PROJECTIONS = {
    "unrecorded": "events that the recordings have no word for (TextDelta, ToolStarted, ToolFinished, ToolUndone, "
    "ArgumentRepaired, LimitWarning, …) are not compared as listener events",
    "callbacks": "stream, astream: callbacks come when the consumer pulls, so they are compared in their own order, "
    "apart from what the run does meanwhile",
    "concurrent": "concurrent scenarios: events of tools and undos between two others are compared in sorted order",
    "early": "stream, astream of concurrent scenarios: calls that start early race with the end of the reply, so the "
    "events of a round's tools are compared as one group behind it",
    "missing": "no arguments, name or usage (null, empty, or all counts null) are the same",
    "refusals": "arguments of one tool alone, or of a search: an error is compared by its kind (not JSON, missing, not "
    "convertible, non-integer, out of range, no member, unknown property, not a list), and the parser's own words are "
    "not looked at",
    "numbers": "arguments of one tool alone: numbers are compared exactly, 2 and 2.0 being one; float32, which Python "
    "has not, after rounding; the members of a set in sorted order",
    "causes": "an exception of the scenario's is compared with the cause that the scenario gave it",
}

TOOL_EVENTS = frozenset(
    {
        "before_tool",
        "after_tool",
        "tool_invoked",
        "stream_before_tool",
        "stream_tool_executed",
        "arguments_error_handler",
        "execution_error_handler",
        "compensate",
    }
)

# ---------------------------------------------------------------- tokens for texts

_UNFIT = "<arguments do not fit>"
_TEXTS = (
    # of the recordings
    (r"(.*)\nYou must answer strictly in the following (?:JSON )?format: .*", r"\1<the form of the answer>"),
    (r"Tool '(.*?)' was executed .* was rolled back due to failure of tool '(.*?)'", r"<\1 undone: \2 failed>"),
    (r"(?:[a-z][\w$]*\.)+(\w+(?:Exception|Error))", r"<failed with \1>"),
    (r"(?:[a-z][\w$]*\.)+(\w+(?:Exception|Error)): (.*)", r"<\1: \2>"),
    (r"(Missing required tool argument|Tool argument '.*' must be|Failed to parse tool search arguments).*", _UNFIT),
    (r"No matching tools found(, besides those that you have already\.)?", "<nothing found>"),
    # ours
    (r"([Tt]he argument '\w+'|arguments) of '.*?' (is missing|is not a list|are not JSON).*; expected .*", _UNFIT),
    (r"(.*?)(?:\n\n)?Give your final answer as JSON alone, that fits this .*", r"\1<the form of the answer>"),
    (r"Tool '(.*?)' had succeeded, but it was undone because tool '(.*?)' failed\.", r"<\1 undone: \2 failed>"),
    (r"Tool '(.*?)' had succeeded, but it was undone because the run was given up\.", r"<\1 undone: given up>"),
    (r"Tool '(.*?)' had succeeded\. Undoing it because .* was attempted and failed: .*", r"<\1 not undone>"),
    (r"Tool '.*?' failed with (\w+)\.", r"<failed with \1>"),
    (r"The run was given up while '(.*?)' was called\.", r"<\1 gave the run up>"),
    (r"This call of '(.*?)' was not run: .*", r"<\1 not run>"),
    (r"Tool '(.*?)' did run, but it returned .*, which has no JSON form .*", r"<result of \1 cannot be shown>"),
    (r"Tool '(.*?)' did run, but its result cannot be shown: .*", r"<result of \1 cannot be shown>"),
)  # fmt: skip
_COMPILED = [(re.compile(pattern, re.DOTALL), token) for pattern, token in _TEXTS]

# ---------------------------------------------------------------- tokens for the reference's own exceptions

_ERRORS = (
    (r"trying to execute the '(.*?)' tool, but no such tool exists", r"<no tool \1>"),
    (r"exceeded (-?\d+) tool calling round trips", r"<limit of \1 rounds>"),
    (r"errorHandlerResult\" is null|toolResultMessage\" is null|text cannot be null", "<a handler gave nothing>"),
    (r"messages cannot be null or empty", "<no messages to send>"),
    (r"Failed to parse \"", "<the answer does not fit>"),
    (r"Either text or contents must be provided", "<a result without contents>"),
    (r"ToolExecutionResultMessage\.id\(\)\" is null", "<a result without an id>"),
    (r"\"argumentsMap\" is null", "<arguments are null>"),
    (r"Missing required tool argument|Tool argument '.*' must be|Failed to parse tool search arguments", _UNFIT),
)
_ARGUMENTS = re.compile(r"(Argument \"|Required parameter \"|.*is not (convertable|a valid enum value))", re.DOTALL)
_JSON = re.compile(r"^(Json\w*|MismatchedInputException|InvalidFormatException|UnrecognizedPropertyException)$")


def _error_token(error: Mapping[str, Any]) -> str | None:
    name, message = str(error.get("class")), str(error.get("message"))
    for pattern, token in _ERRORS:
        found = re.search(pattern, message)
        if found:
            return found.expand(token)
    if name == "IllegalConfigurationException":
        return "<configuration error>"
    if name == "InvalidDefinitionException" or "InvalidDefinitionException" in message:
        return "<result cannot be shown>"
    cause = error.get("cause") or {}
    if _JSON.match(name) or _JSON.match(str(cause.get("class"))) or _ARGUMENTS.match(message):
        return "<arguments do not fit>"
    return None


def _is_own(error: Mapping[str, Any], own: set[tuple[str, Any]]) -> bool:
    return (str(error.get("class")), error.get("message")) in own


def thrown_by(value: Any) -> Iterable[Mapping[str, Any]]:
    """Every exception that a scenario asks for, with their causes."""
    if isinstance(value, Mapping):
        if "class" in value and "message" in value:
            yield value
        for inner in value.values():
            yield from thrown_by(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from thrown_by(inner)


def tokens(value: Any, own: set[tuple[str, Any]]) -> Any:
    """The value with the framework's texts and exceptions as tokens; ``own`` are the scenario's exceptions."""
    if isinstance(value, Mapping):
        if "class" in value and "message" in value:
            token = None if _is_own(value, own) else _error_token(value)
            if token is not None:
                return {"class": token, "message": token}
            cause = value.get("cause")
            message = value["message"]
            kept = {"class": value["class"], "message": _text(message) if isinstance(message, str) else message}
            return kept | ({"cause": tokens(cause, own)} if cause else {})
        return {key: _field(key, inner, own) for key, inner in value.items()}
    if isinstance(value, list):
        return [tokens(inner, own) for inner in value]
    return _text(value) if isinstance(value, str) else value


def _quoted(value: Any, messages: set[str]) -> Any:
    """The value with these messages as tokens wherever a text quotes them: a handler may put words around them."""
    if isinstance(value, dict):
        return {key: _quoted(inner, messages) for key, inner in value.items()}
    if isinstance(value, list):
        return [_quoted(inner, messages) for inner in value]
    if isinstance(value, str):
        for message in messages:
            value = value.replace(message, "<arguments do not fit>")
    return value


def _argument_messages(value: Any, own: set[tuple[str, Any]]) -> set[str]:
    errors = [error for error in thrown_by(value) if not _is_own(error, own)]
    return {str(error["message"]) for error in errors if _error_token(error) == "<arguments do not fit>"}


def _field(key: str, value: Any, own: set[tuple[str, Any]]) -> Any:
    if key in ("arguments", "raw_arguments", "name") and not isinstance(value, Mapping | list):
        return value or None
    if key in ("usage", "token_usage", "final_response_usage") and isinstance(value, Mapping):
        return None if all(count is None for count in value.values()) else dict(value)
    return tokens(value, own)


@lru_cache(maxsize=4096)
def _text(text: str) -> str:
    for pattern, token in _COMPILED:
        found = pattern.fullmatch(text)
        if found:
            return found.expand(token)
    return "<arguments do not fit>" if text.startswith(('Argument "', 'Required parameter "')) else text


# ---------------------------------------------------------------- order


def normal(scenario: Scenario, observed: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """The recording, or what we did, in the one form."""
    own = {(str(error["class"]), error["message"]) for error in thrown_by(scenario.raw)}
    messages = _argument_messages(observed.get("trace", []), own) - {"<arguments do not fit>"}
    value = tokens(dict(observed), own)
    if messages:
        value = _quoted(value, messages)
    trace = value.pop("trace", [])
    if scenario.streams and way_of(mode) in ("stream", "astream"):
        callbacks = [event for event in trace if event["ev"].startswith("stream_")]
        trace = [event for event in trace if not event["ev"].startswith("stream_")]
        value["callbacks"] = _settled(scenario, callbacks, {"stream_partial", "stream_intermediate"})
    starts_early = way_of(mode) in ("stream", "astream")
    value["trace"] = _settled(scenario, trace, {"listener:ResponseReceived"} if starts_early else set())
    return value


def _settled(scenario: Scenario, trace: list[dict[str, Any]], passed: set[str]) -> list[dict[str, Any]]:
    return _sorted_tools(_tools_last(trace, passed)) if scenario.concurrent else trace


def _word(event: Mapping[str, Any]) -> str:
    return f"listener:{event['type']}" if event["ev"] == "listener" else event["ev"]


def _tools_last(trace: list[dict[str, Any]], passed: set[str]) -> list[dict[str, Any]]:
    """Tool events moved behind the events in ``passed`` that directly follow them."""
    result: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for event in trace:
        if event["ev"] in TOOL_EVENTS:
            waiting.append(event)
        elif _word(event) in passed:
            result.append(event)
        else:
            result += [*waiting, event]
            waiting = []
    return result + waiting


def _sorted_tools(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    group: list[dict[str, Any]] = []
    for event in [*trace, None]:
        if event is not None and event["ev"] in TOOL_EVENTS:
            group.append(event)
            continue
        result += sorted(group, key=lambda each: json.dumps(each, sort_keys=True))
        group = []
        if event is not None:
            result.append(event)
    return result
