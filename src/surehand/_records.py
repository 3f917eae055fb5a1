"""What a run's records say, one by one: pure values, JSON through the one codec (design 5).

A journal keeps them without reading them; ``_recorded`` says what they mean together. A step is named by its meaning,
never by a counter: ``"2"`` is the second request, ``"2.0"`` the first call of its reply, ``"2.0:reserve"`` a step that
this call took. If that call runs an agent, ``"2.0/1"`` is the agent's first request, and ``"2.0/1.0"`` its first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ._codec import to_json
from .contents import Content
from .events import UndoReason
from .messages import ChatParameters, ChatResponse, Message, ToolCall, UserMessage
from .tools._tool import Outcome

__all__ = [
    "DEAD_LETTER",
    "DONE",
    "FAILED",
    "GIVEN_UP",
    "INTENT",
    "IN_DOUBT",
    "MODEL",
    "OVER",
    "PROBED",
    "RESOLVED",
    "RUN_ENDED",
    "RUN_STARTED",
    "STEP",
    "UNDONE",
    "UNDO_FAILED",
    "UNDO_INTENT",
    "UNFINISHED",
    "Answered",
    "CallEnd",
    "Draft",
    "GivenUp",
    "Intent",
    "Record",
    "Reply",
    "RunEnd",
    "Started",
    "State",
    "UndoEnd",
    "draft",
]

RUN_STARTED = "RUN_STARTED"
MODEL = "MODEL"
INTENT = "INTENT"
DONE = "DONE"
FAILED = "FAILED"
IN_DOUBT = "IN_DOUBT"
PROBED = "PROBED"
RESOLVED = "RESOLVED"
STEP = "STEP"
GIVEN_UP = "GIVEN_UP"
UNDO_INTENT = "UNDO_INTENT"
UNDONE = "UNDONE"
UNDO_FAILED = "UNDO_FAILED"
DEAD_LETTER = "DEAD_LETTER"
RUN_ENDED = "RUN_ENDED"

_ONCE = frozenset({RUN_STARTED, MODEL, DONE, FAILED, STEP, UNDONE, UNDO_FAILED})


class State:
    """Where a run stands."""

    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"  # waits for somebody's word
    DRAINING = "DRAINING"  # given up; running tools finish
    UNDOING = "UNDOING"
    SUCCEEDED = "SUCCEEDED"
    UNDONE = "UNDONE"  # given up, and nothing stands that has an undo
    STUCK = "STUCK"  # given up, and something stands that could not be undone, or may stand


UNFINISHED = (State.RUNNING, State.DRAINING, State.UNDOING)
"""States of runs that have to be gone on with if their process has died."""

OVER = (State.SUCCEEDED, State.UNDONE, State.STUCK)
"""States of runs in which nothing more happens by itself."""


class Draft(Struct, frozen=True):
    """A record before it is written. Of those with ``once`` there is at most one of a kind for each step of a run."""

    kind: str
    step: str
    body: bytes
    once: bool = False


class Record(Struct, frozen=True):
    """One line of a run's history. ``seq`` counts from 1; ``epoch`` tells which claim wrote it."""

    seq: int
    epoch: int
    kind: str
    step: str
    body: bytes
    digest: bytes


# ---------------------------------------------------------------- bodies


class Started(Struct, frozen=True, omit_defaults=True):
    """``RUN_STARTED``: what the caller asked for, which is all that a resumed run is told but ``deps``.

    ``has_deps`` tells that its tools were given ``deps``, which it must not be gone on with without. ``code`` is the
    version of surehand that began it, for people.
    """

    prompt: UserMessage
    history: tuple[Message, ...] = ()
    memory_id: Any = "default"
    parameters: dict[str, Any] = {}
    chat_parameters: ChatParameters | None = None
    has_deps: bool = False
    code: str = ""


class Reply(Struct, frozen=True, omit_defaults=True):
    """``MODEL``: a reply that was paid for. ``said`` has a digest per message that was new to the request, each of all
    messages up to it; ``slots`` tells the slot of each call."""

    response: ChatResponse
    said: tuple[str, ...]
    slots: tuple[int, ...] = ()


class Intent(Struct, frozen=True, omit_defaults=True):
    """``INTENT``: the body is about to be entered, with these arguments in canonical form.

    There is another one if somebody has told that the call did not happen, and it is made after all. ``is_run``: an
    agent is called, whose own records tell how far it got.
    """

    call: ToolCall
    arguments: str
    key: str
    is_run: bool = False


class CallEnd(Struct, frozen=True, omit_defaults=True):
    """``DONE``, ``FAILED`` or ``IN_DOUBT``: how a call ended, whole. ``value`` is JSON, absent if it has none.

    ``failure`` says what gave the run up because of it. ``waits``: the run was suspended until somebody tells.
    ``is_harmless``: the tool only reads, so that nobody needs to know whether it happened.
    """

    call: ToolCall
    outcome: Outcome
    contents: tuple[Content, ...]
    is_error: bool = False
    attributes: Mapping[str, Any] = {}
    value: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    same_as: str | None = None
    error: str | None = None
    failure: str | None = None
    can_undo: bool = False
    waits: bool = False
    is_harmless: bool = False


class Answered(Struct, frozen=True, omit_defaults=True):
    """``PROBED`` or ``RESOLVED``: whether a call happened (``None``: the probe cannot tell), with its value as JSON."""

    happened: bool | None
    value: str | None = None


class GivenUp(Struct, frozen=True):
    """``GIVEN_UP``: why the run will have no answer. What it did is undone from here on."""

    reason: UndoReason
    error: str


class UndoEnd(Struct, frozen=True, omit_defaults=True):
    """``UNDONE``, ``UNDO_FAILED`` or ``DEAD_LETTER``: what became of undoing a call, and which call that was."""

    tool: str
    error: str | None = None
    finished_at: float | None = None


class RunEnd(Struct, frozen=True):
    """``RUN_ENDED``: the state in which the run was left."""

    state: str


_NOTHING = b"{}"


def draft(kind: str, step: str = "", body: Struct | None = None) -> Draft:
    """A record of that kind for that step."""
    return Draft(kind, step, _NOTHING if body is None else to_json(body), kind in _ONCE)
