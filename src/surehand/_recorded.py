"""What a run's records say together: which steps have been taken, and how they ended. A pure index (design 5).

The loop asks it before it does anything: what is recorded is not done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from . import _records
from ._codec import from_json
from ._records import (
    OVER,
    Answered,
    CallEnd,
    GivenUp,
    Intent,
    Record,
    Reply,
    RunEnd,
    Started,
    State,
    UndoEnd,
)
from .tools._tool import Outcome

__all__ = ["NOTHING_RECORDED", "Recorded", "path_of", "recorded", "round_of", "slot_of"]

T = TypeVar("T")


class Recorded(Struct, frozen=True, eq=False):
    """The records of one run by what they are about. Calls go by their key, replies by their number.

    ``ends`` tells how calls ended as the run saw it then, in the order in which they did; ``late`` what became known of
    those in doubt afterwards. ``undos`` are those of all runs that are part of one. ``undone_in`` has the reply that
    was the latest when an undo began in a run that went on. ``parts`` are the records of the runs that are part of it.
    """

    state: str = State.RUNNING
    started: Started | None = None
    given_up: GivenUp | None = None
    replies: dict[int, Reply] = {}
    intents: dict[str, Intent] = {}
    ends: dict[str, CallEnd] = {}
    late: dict[str, CallEnd] = {}
    waiting: dict[str, CallEnd] = {}
    resolved: dict[str, Answered] = {}
    steps: dict[str, dict[str, bytes]] = {}
    begun_undos: set[str] = set()
    undos: dict[str, UndoEnd] = {}
    undone_in: dict[str, int] = {}
    begun: dict[int, dict[str, None]] = {}
    ended: dict[int, dict[str, None]] = {}
    parts: Mapping[str, Recorded] = {}

    @property
    def is_over(self) -> bool:
        """Whether everything has been said: nothing more happens in this run by itself."""
        return self.state in OVER

    @property
    def is_empty(self) -> bool:
        """Whether nothing is recorded of it."""
        return not (self.replies or self.begun or self.given_up)

    def part(self, path: str) -> Recorded:
        """What is recorded of the run that is that call of this one, or of a part of it."""
        return self.parts.get(path, NOTHING_RECORDED)

    def calls_of(self, number: int) -> list[str]:
        """Keys of the calls of that reply of which anything is recorded, in that order."""
        return list(self.begun.get(number, ()))

    def ends_of(self, number: int) -> list[str]:
        """Keys of the calls of that reply that have ended, in the order in which they did."""
        return list(self.ended.get(number, ()))

    def waits(self, key: str) -> bool:
        """Whether the run waits for somebody's word on that call, its own or one of an agent that it called."""
        return any(key in each.waiting for each in (self, *self.parts.values()))

    def unknown(self) -> dict[str, CallEnd | Intent]:
        """Calls of which nobody can tell whether they happened: in doubt, or begun in a run that does not go on.

        For a whole run: the calls of the agents that it called are among them.
        """
        every = (self, *self.parts.values())
        return {key: about for each in every for key, about in each._unknown(is_over=self.is_over).items()}

    def _unknown(self, *, is_over: bool) -> dict[str, CallEnd | Intent]:
        doubtful: dict[str, CallEnd | Intent] = {**self.waiting}
        doubtful |= {
            key: end for key, end in self.ends.items() if end.outcome is Outcome.UNKNOWN and not end.is_harmless
        }
        if is_over:
            begun = {key: intent for key, intent in self.intents.items() if not intent.is_run}
            doubtful |= {key: intent for key, intent in begun.items() if key not in self.ends}
        settled = {*self.late, *self.resolved}
        return {key: about for key, about in doubtful.items() if key not in settled and key not in self.undos}


NOTHING_RECORDED = Recorded()
"""For runs that begin, and for runs without a journal. Nobody writes to it."""


def recorded(records: Sequence[Record], state: str) -> Recorded:
    """The index of a run's records; ``state`` is where the journal says that the run stands."""
    by_path: dict[str, list[Record]] = {"": []}
    for record in records:
        by_path.setdefault(path_of(record), []).append(record)
    undos: dict[str, UndoEnd] = {}
    parts: dict[str, Recorded] = {}
    whole = _index(by_path.pop(""), state, undos, parts)
    parts |= {path: _index(own, _state_of(own, whole), undos, parts) for path, own in by_path.items()}
    return whole


def path_of(record: Record) -> str:
    """Which run the record is about: the key of the call that it is, empty for the one that is part of no other."""
    return record.step.partition(":")[0].rpartition("/")[0]


def _state_of(records: Sequence[Record], whole: Recorded) -> str:
    """Where a run stands that is part of another: it has no state of its own in the journal."""
    end = _last(records, _records.RUN_ENDED, RunEnd)
    if end is not None:
        return end.state
    if whole.is_over:
        return whole.state
    return State.RUNNING if _last(records, _records.GIVEN_UP, GivenUp) is None else State.UNDOING


def _index(records: Sequence[Record], state: str, undos: dict[str, UndoEnd], parts: Mapping[str, Recorded]) -> Recorded:
    index = Recorded(
        state=state,
        started=_last(records, _records.RUN_STARTED, Started),
        given_up=_last(records, _records.GIVEN_UP, GivenUp),
        undos=undos,
        parts=parts,
    )
    for record in records:
        _enter(index, record)
    index.undone_in.update(_undone_in(records))
    return index


def _undone_in(records: Sequence[Record]) -> dict[str, int]:
    found: dict[str, int] = {}
    number = 0
    for record in records:
        if record.kind == _records.GIVEN_UP:
            break
        if record.kind == _records.MODEL:
            number = _number(record.step)
        elif record.kind in (_records.UNDO_INTENT, _records.UNDONE, _records.UNDO_FAILED):
            found.setdefault(record.step, number)
    return found


def _last(records: Sequence[Record], kind: str, type: type[T]) -> T | None:
    bodies = [record.body for record in records if record.kind == kind]
    return from_json(bodies[-1], type) if bodies else None


def _enter(index: Recorded, record: Record) -> None:
    step, body = record.step, record.body
    match record.kind:
        case _records.MODEL:
            index.replies[_number(step)] = from_json(body, Reply)
        case _records.INTENT:
            index.intents[step] = from_json(body, Intent)
            index.waiting.pop(step, None)  # begun again, once somebody had told that it did not happen:
            index.resolved.pop(step, None)  # of what has become of it since, nobody has told yet
            index.begun.setdefault(round_of(step), {})[step] = None
        case _records.DONE | _records.FAILED | _records.IN_DOUBT:
            _enter_end(index, step, from_json(body, CallEnd))
        case _records.RESOLVED:
            index.resolved[step] = from_json(body, Answered)
        case _records.STEP:
            key, _, name = step.partition(":")
            index.steps.setdefault(key, {})[name] = body
        case _records.UNDO_INTENT:
            index.begun_undos.add(step)
        case _records.UNDONE | _records.UNDO_FAILED:
            index.undos[step] = from_json(body, UndoEnd)
        case _:
            pass  # told for people; nothing follows from it


def _enter_end(index: Recorded, key: str, end: CallEnd) -> None:
    if end.waits:
        index.waiting[key] = end
        return
    index.waiting.pop(key, None)
    if key in index.ends:
        index.late[key] = end
        return
    index.ends[key] = end
    index.begun.setdefault(round_of(key), {})[key] = None
    index.ended.setdefault(round_of(key), {})[key] = None


def round_of(key: str) -> int:
    """The number of the reply that asked for the call with this key."""
    return int(key.rpartition("/")[2].partition(".")[0])


def slot_of(key: str) -> int:
    """The slot in a call's key."""
    return int(key.rpartition(".")[2])


def _number(step: str) -> int:
    return int(step.rpartition("/")[2])
