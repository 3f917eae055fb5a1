"""What ``@tool`` and ``@undoes`` were told, checked at once, and where they leave it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from msgspec import Struct

from .._checks import is_count
from ..budgets import REPEATED_CALLS, Amount, Budget, RepeatedCalls, is_amount
from ..errors import UserError
from ._tool import Decoding, Repeat, ReturnBehavior, WhenUnknown

__all__ = [
    "ALWAYS_VISIBLE",
    "DECODINGS",
    "SEARCH_BEHAVIOR",
    "TOOL_ATTRIBUTE",
    "UNDO_ATTRIBUTE",
    "ToolOptions",
    "ToolRecord",
    "UndoRecord",
    "attach",
    "check_options",
    "check_seconds",
    "record_of",
    "undo_record_of",
]

TOOL_ATTRIBUTE = "__surehand_tool__"
UNDO_ATTRIBUTE = "__surehand_undo__"
SEARCH_BEHAVIOR, ALWAYS_VISIBLE = "searchBehavior", "ALWAYS_VISIBLE"
"""The key in a specification's metadata that says whether a tool search hides the tool, and what keeps it shown."""
DECODINGS: tuple[Decoding, ...] = get_args(Decoding)


class ToolOptions(Struct, frozen=True, kw_only=True, eq=False):
    """The options of ``@tool``; see there."""

    name: str | None = None
    description: str | None = None
    repeat: Repeat = "never"
    timeout: float | None = None
    retries: int = 0
    exclusive: bool = False
    inline: bool = False
    max_parallel: int | None = None
    returns: ReturnBehavior = ReturnBehavior.TO_MODEL
    decoding: Decoding | None = None
    max_result: int | None = None
    metadata: Mapping[str, Any] = {}
    always_visible: bool = False
    strict: bool | None = None
    undo: Callable[..., Any] | None = None
    undo_timeout: float | None = None
    probe: Callable[..., Any] | None = None
    authorise: Callable[..., Any] | None = None
    unknown: WhenUnknown = "ask"
    limits: Budget | None = None
    soft_limits: Budget | None = None
    cost: Amount = 0
    repeated_calls: RepeatedCalls | None = None


class ToolRecord(Struct, eq=False):
    """What is attached to a function by ``@tool``. ``undo`` is set later, by ``@undoes``.

    It does not hold the function: a decorator around it copies the record, and then the outer function is the tool.
    """

    options: ToolOptions
    names: Mapping[str, Any]
    undo: Callable[..., Any] | None = None


class UndoRecord(Struct, frozen=True, eq=False):
    """What is attached to a function by ``@undoes``: the record, or else the model-visible name, of its tool."""

    target: ToolRecord | str
    target_name: str
    timeout: float | None
    names: Mapping[str, Any]


def record_of(function: Any) -> ToolRecord | None:
    """What ``@tool`` attached, also through static and class methods and bound ones."""
    found = _attached(function, TOOL_ATTRIBUTE)
    return found if isinstance(found, ToolRecord) else None  # a mock has every attribute


def undo_record_of(function: Any) -> UndoRecord | None:
    """What ``@undoes`` attached."""
    found = _attached(function, UNDO_ATTRIBUTE)
    return found if isinstance(found, UndoRecord) else None


def _attached(function: Any, attribute: str) -> object:
    try:
        return getattr(getattr(function, "__func__", function), attribute, None)
    except Exception:  # a proxy that cannot answer is not a tool
        return None


def attach(function: Any, attribute: str, record: Any) -> None:
    """Leave the record on the function; raises ``UserError`` if it takes no attributes."""
    try:
        setattr(getattr(function, "__func__", function), attribute, record)
    except AttributeError as error:
        raise UserError(
            f"{function!r} takes no attributes; wrap it in a function of your own and decorate that"
        ) from error


# ---------------------------------------------------------------- checks


def check_options(given: Mapping[str, Any], label: str) -> ToolOptions:
    """The options, or a ``UserError`` that names the tool, the option, what was expected and what to do."""
    _check_texts(given, label)
    for option in ("timeout", "undo_timeout"):
        check_seconds(given.get(option), option, label)
    for option in ("exclusive", "inline", "always_visible"):
        if not isinstance(given.get(option, False), bool):
            raise UserError(f"{label}: {option}={given[option]!r}; expected True or False")
    for option in ("undo", "probe", "authorise"):
        value = getattr(given.get(option), "__func__", given.get(option))
        if value is not None and not callable(value):
            raise UserError(f"{label}: {option}={value!r} cannot be called; give a function")
    _check_repeat(given, label)
    _check_unknown(given, label)
    _check_counts(given, label)
    _check_budgets(given, label)
    if not isinstance(given.get("returns", ReturnBehavior.TO_MODEL), ReturnBehavior):
        names = ", ".join(f"ReturnBehavior.{entry.name}" for entry in ReturnBehavior)
        raise UserError(f"{label}: returns={given['returns']!r}; expected one of {names}")
    if given.get("decoding") not in (None, *DECODINGS):
        raise UserError(f"{label}: decoding={given['decoding']!r}; expected one of {DECODINGS!r}, or None")
    if given.get("strict") not in (None, True, False):
        raise UserError(f"{label}: strict={given['strict']!r}; expected True, False or None (the provider's default)")
    metadata = _metadata(given.get("metadata"), label)
    if given.get("always_visible"):
        metadata[SEARCH_BEHAVIOR] = ALWAYS_VISIBLE
    merged: dict[str, Any] = {**given, "metadata": metadata}
    return ToolOptions(**merged)


def _check_texts(given: Mapping[str, Any], label: str) -> None:
    for option in ("name", "description"):
        value = given.get(option)
        if value is not None and not isinstance(value, str):
            raise UserError(f"{label}: {option}={value!r}; expected text")


def check_seconds(value: Any, option: str, label: str) -> None:
    """Raise ``UserError`` unless it is ``None`` or a positive, finite number of seconds."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise UserError(f"{label}: {option}={value!r}; expected a positive number of seconds, or None for no limit")


def _check_repeat(given: Mapping[str, Any], label: str) -> None:
    repeat = given.get("repeat", "never")
    if repeat not in ("safe", "with_key", "never"):
        raise UserError(
            f"{label}: repeat={repeat!r}; expected 'safe' (repeating does no harm), 'with_key' (the service behind it "
            "takes an idempotency key) or 'never'"
        )


def _check_unknown(given: Mapping[str, Any], label: str) -> None:
    unknown, repeat = given.get("unknown", "ask"), given.get("repeat", "never")
    if unknown not in ("ask", "undo", "dead_letter"):
        raise UserError(
            f"{label}: unknown={unknown!r}; expected 'ask' (the run waits for someone's word), 'undo' (the call is "
            "undone with the rest) or 'dead_letter' (the run is given up and the call is named)"
        )
    if unknown != "ask" and repeat != "never":
        raise UserError(
            f"{label}: unknown={unknown!r} needs repeat='never', since a call with repeat={repeat!r} is repeated after "
            "a crash; remove one of them"
        )


def _check_counts(given: Mapping[str, Any], label: str) -> None:
    retries = given.get("retries", 0)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise UserError(f"{label}: retries={retries!r}; expected how many further attempts: 0 or more")
    if retries and given.get("repeat", "never") == "never":
        raise UserError(
            f"{label}: retries={retries!r} needs repeat='safe' or repeat='with_key', since a tool with repeat='never' "
            "is not run again when it may have happened"
        )
    for option, otherwise in (("max_parallel", "no limit"), ("max_result", "what the agent says")):
        most = given.get(option)
        if most is not None and not is_count(most):
            raise UserError(f"{label}: {option}={most!r}; expected 1 or more, or None for {otherwise}")


def _check_budgets(given: Mapping[str, Any], label: str) -> None:
    for option in ("limits", "soft_limits"):
        value = given.get(option)
        if value is not None and not isinstance(value, Budget):
            raise UserError(f"{label}: {option}={value!r}; expected a Budget(…), or None for no limit")
    cost = given.get("cost", 0)
    if not is_amount(cost) or not 0 <= cost < math.inf:
        raise UserError(f"{label}: cost={cost!r}; expected what a call costs: a number of at least 0")
    policy = given.get("repeated_calls")
    if policy is not None and policy not in REPEATED_CALLS:
        raise UserError(f"{label}: repeated_calls={policy!r}; expected one of {REPEATED_CALLS!r}, or None")


def _metadata(value: Any, label: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UserError(f"{label}: metadata is not JSON ({error}); give a dict") from error
    if value is None:
        return {}
    entries: Any = value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in entries):
        raise UserError(f"{label}: metadata={entries!r}; expected a dict with text keys")
    return dict(entries)
