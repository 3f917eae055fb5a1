"""What happened in a run, from its records, for people to read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .._recorded import Recorded
from .._records import CallEnd, Reply, Started
from ..messages import ToolCall
from ..tools._tool import Outcome
from ._text import block, call_line, contents_text, one_line

__all__ = ["counts", "fate_of", "story"]

_OPEN = "begun"
_FATES = ("done", "undone", "not undone", "failed", "rejected", "denied", "not_run", "unknown", _OPEN)
_WHAT_TO_DO = (
    "ask the service behind it, and tell:",
    "surehand resolve module:agent {key} --happened JSON    (what the tool would have returned)",
    "surehand resolve module:agent {key} --absent",
)


def fate_of(known: Recorded, key: str) -> str:
    """How that call stands, in a word: an outcome, or ``"begun"`` while its end is not known yet."""
    if key in known.late:
        return str(known.late[key].outcome.value)
    end, told = known.ends.get(key), known.resolved.get(key)
    if end is not None and end.outcome is not Outcome.UNKNOWN:
        return str(end.outcome.value)
    if key in known.unknown():
        return Outcome.UNKNOWN.value
    if told is not None and (end is not None or known.is_over):
        return Outcome.DONE.value if told.happened else Outcome.FAILED.value
    return Outcome.UNKNOWN.value if end is not None else _OPEN


def counts(known: Recorded) -> str:
    """How many calls came to what: ``"2 done, 1 undone"``."""
    keys = dict.fromkeys([*known.intents, *known.ends, *known.waiting])
    found = Counter("undone" if _is_undone(known, key) else fate_of(known, key) for key in keys)
    stuck = sum(end.error is not None for end in known.undos.values())
    found["not undone"] = stuck
    return ", ".join(f"{found[fate]} {fate}" for fate in _FATES if found[fate]) or "-"


def _is_undone(known: Recorded, key: str) -> bool:
    undo = known.undos.get(key)
    return undo is not None and undo.error is None


def story(run_id: str, known: Recorded, *, is_alive: bool) -> Iterable[str]:
    """The run from what was asked to how it ended. ``is_alive``: its process lives, and may be at work on it."""
    if known.started is not None:
        yield from _asked(known.started)
    for number in sorted({*known.replies, *(int(key.partition(".")[0]) for key in known.intents)}):
        yield from _round(run_id, known, number, is_alive=is_alive)
    if known.given_up is not None:
        yield ""
        yield from block("given up: ", f"{known.given_up.error} ({known.given_up.reason.value})")


def _asked(started: Started) -> Iterable[str]:
    yield from block("asked: ", contents_text(started.prompt.contents))
    if started.history:
        yield f"       after {len(started.history)} earlier messages"
    if started.memory_id != "default":
        yield f"       in the conversation {one_line(repr(started.memory_id))}"
    if started.parameters:
        yield f"       with the parameters {one_line(repr(started.parameters))}"


def _round(run_id: str, known: Recorded, number: int, *, is_alive: bool) -> Iterable[str]:
    reply = known.replies.get(number)
    yield ""
    if reply is None:
        yield f"reply {number}: not there yet; these calls were started while it arrived"
    else:
        yield from block(f"reply {number}: ", reply.response.message.text or "(no text)")
    for key, call in _calls_of(known, number, reply).items():
        yield from (f"  {line}" for line in _call(run_id, known, key, call, is_alive=is_alive))


def _calls_of(known: Recorded, number: int, reply: Reply | None) -> dict[str, ToolCall]:
    calls: dict[str, ToolCall] = {}
    if reply is not None:
        own = [call for call in reply.response.message.tool_calls if not call.executed_by_provider]
        calls = {f"{number}.{slot}": call for slot, call in zip(reply.slots, own, strict=False)}
    for key in [*known.calls_of(number), *(key for key in known.waiting if key.startswith(f"{number}."))]:
        about = known.intents.get(key) or known.ends.get(key) or known.waiting[key]
        calls[key] = about.call
    return calls


def _call(run_id: str, known: Recorded, key: str, call: ToolCall, *, is_alive: bool) -> Iterable[str]:
    begun = key in known.intents or key in known.ends or key in known.waiting
    fate = fate_of(known, key) if begun else "not run"
    yield f"{key} {call_line(call)}: {fate}"
    end = known.late.get(key) or known.ends.get(key)
    if end is not None:
        yield from _said(end)
    yield from (f"    step {one_line(name)}: taken" for name in known.steps.get(key, {}))
    told = known.resolved.get(key)
    if told is not None:
        yield f"    told: {'it happened' if told.happened else 'it did not happen'}"
    yield from _undo(known, key, is_alive=is_alive)
    if key in known.unknown():
        yield from _unknown(f"{run_id}:{key}")
    elif fate == _OPEN and not is_alive and told is None:
        yield "    its process died here; resuming the run finds out by the tool's policy"


def _said(end: CallEnd) -> Iterable[str]:
    text = contents_text(end.contents)
    if text:
        yield f"    the model reads: {one_line(text)}"
    if end.error is not None:
        yield f"    because of {one_line(end.error)}"


def _undo(known: Recorded, key: str, *, is_alive: bool) -> Iterable[str]:
    undo = known.undos.get(key)
    if undo is None:
        if key in known.begun_undos:
            yield f"    being undone{'' if is_alive else '; its process died here: resuming the run undoes it'}"
    elif undo.error is None:
        yield "    undone"
    else:
        yield f"    NOT undone, it still stands: {one_line(undo.error)}"


def _unknown(key: str) -> Iterable[str]:
    yield f"    nobody knows whether it happened. Its key is {one_line(key, None)}: {_WHAT_TO_DO[0]}"
    yield from (f"      {line.format(key=one_line(key, None))}" for line in _WHAT_TO_DO[1:])
