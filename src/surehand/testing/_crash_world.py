"""What a crash test is about: the scenario that its user writes, and the values that its processes hand each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ..durable._unknowns import UnknownCall
from ..messages import Message
from ..models import ChatModel
from ..tools._tool import Absent, Happened

__all__ = ["RUN_ID", "Case", "Effect", "Kill", "Learned", "Note", "Plan", "Scenario", "Verdict"]

RUN_ID = "crash-test"
"""The id of the run of every case, so that keys are the same in each of them: ``"crash-test:1.0"``."""

Way = Literal["run", "arun", "stream", "astream"]


class Effect(Struct, frozen=True):
    """One thing that happened outside: an effect (``"done"``), or that it was taken back (``"undone"``).

    ``key`` is the idempotency key that the service outside saw: ``ctx.idempotency_key`` of the call, in its tool as in
    its undo. A service that was asked twice with the same key and did it once has one effect.
    """

    key: str
    kind: Literal["done", "undone"] = "done"


class Scenario(Struct, frozen=True, kw_only=True):
    """One run to be killed again and again, and how to see what it did.

    Every function is given the folder that is the scenario's world outside: it is empty at first, and what is in it
    survives the kills. All of them are called in other processes, so they have to stand at the top of a module.

    ``prompt`` and ``options`` go to the agent (``options={"memory_id": "ann"}``), whose run is made in the way of
    ``mode``. ``effects(folder)`` tells all that happened outside, in order, from the service's own records.
    ``model(folder)`` makes the model, ``deps(folder)`` the dependencies; without ``model`` the agent's own is used.
    It must answer by what it is asked, as a real one does: each process makes its own, which begins anew.
    ``memory(folder)`` gives the conversation as it is kept outside, to see that it stays whole.
    ``answer(folder, unknown)`` is somebody's word on a call of which nobody knows whether it happened; without it,
    a run that waits for that word may stay as it is.
    """

    prompt: Any
    effects: Callable[[Path], Iterable[Effect]]
    model: Callable[[Path], ChatModel] | None = None
    deps: Callable[[Path], Any] | None = None
    mode: Way = "run"
    options: Mapping[str, Any] = {}
    memory: Callable[[Path], Iterable[Message]] | None = None
    answer: Callable[[Path, UnknownCall], Happened[Any] | Absent] | None = None
    name: str = ""


class Plan(Struct, frozen=True):
    """What the processes of all cases need to know. ``timeout``: seconds after which one of them hangs."""

    agent: Any  # "module:name", or a function of the folder
    scenario: Scenario
    timeout: float


class Kill(Struct, frozen=True):
    """Where a process is killed: at the moment of that name, at its ``nth`` moment, or ``after`` so many seconds."""

    moment: str | None = None
    nth: int | None = None
    after: float | None = None


class Learned(Struct, frozen=True):
    """What the undisturbed run was like: its moments, its seconds, how it ended, and what it did outside.

    ``effects``: keys whose call is done and happened once. ``foreign``: effects under keys that are no call's.
    """

    moments: tuple[str, ...] = ()
    seconds: float = 0.0
    ended: str = ""
    effects: frozenset[str] = frozenset()
    foreign: int = 0
    messages: int = 0


class Case(Struct, frozen=True):
    """One run in a folder of its own: where each of its processes is killed. The last one is not."""

    number: int
    folder: Path
    kills: tuple[Kill, ...] = ()
    learned: Learned | None = None


class Note(Struct, frozen=True, omit_defaults=True):
    """One line of a case's diary, which its processes write as they go on, and which survives them.

    ``kind``: ``began``, ``moment``, ``kept`` (the journal has acknowledged a record), ``found``
    (a process finds it there when it begins), ``looked`` (that was all), ``entered`` and ``undoing``
    (a body and an undo begins), ``asked`` (the model), ``killed``, ``told`` (what recovery came to).
    """

    process: int
    kind: str
    text: str = ""
    step: str = ""
    key: str = ""


class Verdict(Struct, frozen=True):
    """What came of a case: what is wrong (nothing if all is well), the story, and what it teaches."""

    problems: tuple[str, ...]
    story: str
    learned: Learned
    killed: int = 0
    is_broken: bool = False  # whether the case could not be played at all: then the problem is the user's
