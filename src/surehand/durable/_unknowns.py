"""Calls of which nobody knows whether they happened, and somebody's word on them (design 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from .._codec import require_json, to_json
from .._recorded import Recorded, recorded
from .._records import IN_DOUBT, OVER, RESOLVED, Answered, CallEnd, Intent, State, draft
from ..errors import RunInProgress, StaleClaim, UnknownRun, UserError
from ..messages import ToolCall
from ..tools._tool import Absent, Happened, Tool
from ._journal import Journal, RunRow
from ._opening import NOBODY, is_free

__all__ = ["UnknownCall", "resolve", "tool_called", "unknown_calls"]


class UnknownCall(Struct, frozen=True):
    """A call of which nobody knows whether it happened.

    ``key`` is its idempotency key: ask the service behind the tool for it, and tell ``agent.resolve(key, …)``.
    ``waits``: its run goes on as soon as somebody has told and it is resumed. ``state`` is the run's.
    """

    key: str
    run_id: str
    call: ToolCall
    state: str
    waits: bool


def unknown_calls(journal: Journal) -> list[UnknownCall]:
    """All of them, oldest run first."""
    doubtful = {*journal.having(IN_DOUBT), *(row.run_id for row in journal.rows({State.UNDONE, State.STUCK}))}
    return [
        UnknownCall(f"{row.run_id}:{step}", row.run_id, about.call, row.state, known.waits(step))
        for row in journal.rows()
        if row.run_id in doubtful
        for known in [_recorded(journal, row)]
        for step, about in known.unknown().items()
    ]


def resolve(journal: Journal, tools: Mapping[str, Tool], key: str, answer: Happened[Any] | Absent) -> None:
    """Write down whether that call happened. The run has to be resumed then, if it waits or was given up.

    Raises ``UserError`` for a call that is not unknown, ``RunInProgress`` while its run is at work.
    """
    if not isinstance(answer, Happened | Absent):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"resolve({key!r}, {answer!r}): expected Happened(value) or Absent()")
    if ":" not in str(key) or not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnknownRun(
            f"resolve({key!r}): there is no run in that key; expected one such as 'order-1:2.0', which is the run's id "
            "and the call's step; agent.unknowns() has the keys"
        )
    run_id, _, step = key.rpartition(":")
    row = journal.row(run_id)
    if row is None:
        raise UnknownRun(f"resolve({key!r}): there is no run {run_id!r} in this journal; agent.unknowns() has the keys")
    known = _recorded(journal, row)
    about = known.unknown().get(step)
    if about is None:
        first = "" if row.state in OVER else "; those of a run that is unfinished are settled when it is recovered"
        raise UserError(f"resolve({key!r}): that call is not unknown; agent.unknowns() tells which are{first}")
    if row.state not in (State.SUCCEEDED, State.UNDONE, State.STUCK) and not is_free(journal, row):
        raise RunInProgress(f"resolve({key!r}): run {run_id!r} is at work; tell once it has ended or waits")
    told = Answered(isinstance(answer, Happened), _stored(_tool_behind(tools, known, step), about, key, answer))
    try:
        claim = journal.claim(run_id, NOBODY, epoch=row.epoch)  # nobody's: whoever recovers runs goes on with it
        if step not in _recorded(journal, row).unknown():  # from here on nobody else can tell, or go on with it
            raise UserError(f"resolve({key!r}): somebody else has told of that call in this very moment")
        journal.append(claim, [draft(RESOLVED, step, told)], state=_next_state(row.state)).result()
    except StaleClaim as error:
        raise RunInProgress(
            f"resolve({key!r}): somebody else has told of a call of run {run_id!r}, or gone on with it, in this very "
            "moment; agent.unknowns() tells whether the call is still unknown"
        ) from error


def _recorded(journal: Journal, row: RunRow) -> Recorded:
    return recorded(journal.records(row.run_id), row.state)


def tool_called(journal: Journal, tools: Mapping[str, Tool], key: str) -> Tool | None:
    """The tool of the call with that idempotency key, if it is in the journal and there is one of that name now."""
    run_id, _, step = key.rpartition(":")
    row = journal.row(run_id)
    return None if row is None else _tool_behind(tools, _recorded(journal, row), step)


def _tool_behind(tools: Mapping[str, Tool], known: Recorded, step: str) -> Tool | None:
    """The same by the call's step: of an agent's own tools, if the call is one that an agent has made."""
    outer = step.rpartition("/")[0]
    if outer:
        agent = _tool_behind(tools, known, outer)
        tools = {} if agent is None or agent.nested is None else agent.nested.tools
    own = known.part(outer) if outer else known
    about = own.intents.get(step) or own.ends.get(step)
    return None if about is None else tools.get(about.call.name)


def _stored(tool: Tool | None, about: CallEnd | Intent, key: str, answer: Happened[Any] | Absent) -> str | None:
    if isinstance(answer, Absent):
        return None
    if tool is None:
        require_json(answer.value)
        return to_json(answer.value).decode()
    data = tool.body.values.dump(answer.value)
    if data is None:
        raise UserError(
            f"resolve({key!r}, {answer!r}): the value cannot be stored; give what {about.call.name!r} returns"
        )
    return data.decode()


def _next_state(state: str) -> str:
    if state == State.SUSPENDED:
        return State.RUNNING
    # What a given-up run turns out to have done has to be undone.
    return State.UNDOING if state in (State.UNDONE, State.STUCK) else state
