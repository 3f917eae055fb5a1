"""What must be true after a crash and its recovery. Pure: facts in, sentences about what is wrong out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from .._records import DONE, FAILED, INTENT, MODEL, UNDO_FAILED, UNDONE
from ..messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from ._crash_world import RUN_ID, Effect, Learned, Note

__all__ = ["CallFact", "Facts", "learned_from", "problems_of"]

SUCCEEDED, GIVEN_UP, WAITS, NOTHING = "succeeded", "was given up", "waits", "left nothing in the journal"


class CallFact(Struct, frozen=True):
    """What the report says of one call. ``undo``: ``"undone"``, ``"failed"`` or nothing."""

    step: str
    tool: str
    key: str
    outcome: str
    undo: str = ""
    must_be_undone: bool = False  # whether it has to be, if it is done and the run was given up
    has_intent: bool = True  # whether its body must not be entered before its intent is on disk


class Facts(Struct, frozen=True):
    """What is there once nothing is unfinished any more: in the journal, in the report, and outside."""

    ended: str
    records: tuple[tuple[str, str], ...]  # kind and step
    calls: tuple[CallFact, ...]
    unknowns: frozenset[str]
    effects: tuple[Effect, ...]
    notes: tuple[Note, ...]
    with_intent: frozenset[str]  # tools whose bodies must not be entered before an intent is on disk
    messages: tuple[Message, ...] | None = None
    failures: tuple[str, ...] = ()  # what recovery could not do


def learned_from(facts: Facts, moments: Sequence[str], seconds: float) -> Learned:
    """What the undisturbed run teaches about all others."""
    done, _, foreign = _counted(facts)
    certain = {call.key for call in facts.calls if call.outcome == "done" and done[call.key] == 1}
    messages = len(facts.messages or ())
    return Learned(
        tuple(moments), seconds, facts.ended, frozenset(certain), sum(n > 0 for n in foreign.values()), messages
    )


def problems_of(facts: Facts, learned: Learned | None) -> list[str]:
    """Everything that is wrong, the effects outside first."""
    checks = (_effects_happen_once, _the_report_is_true, _the_journal_keeps_its_word, _nothing_is_repeated,
              _unknown_calls_are_named, _the_memory_is_whole)  # fmt: skip
    found = [*facts.failures, *(problem for check in checks for problem in check(facts))]
    if learned is not None:
        found += [*_ends_like_the_undisturbed_run(facts, learned), *_effects_are_as_reported(facts, learned)]
    return list(dict.fromkeys(found))


def _counted(facts: Facts) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """How often each key was done and undone, and what stands under keys that are no call's."""
    done = Counter(effect.key for effect in facts.effects if effect.kind == "done")
    undone = Counter(effect.key for effect in facts.effects if effect.kind == "undone")
    foreign = Counter({key: n - undone[key] for key, n in done.items() if not key.startswith(f"{RUN_ID}:")})
    return done, undone, foreign


def _name(facts: Facts, key: str) -> str:
    for call in facts.calls:
        if call.key == key:
            return f"call {call.step} ({call.tool})"
    tools = {note.key: note.text for note in facts.notes if note.kind in ("entered", "undoing")}
    return f"{key!r} ({tools[key]})" if key in tools else repr(key)


# ---------------------------------------------------------------- the effects outside


def _effects_happen_once(facts: Facts) -> Iterator[str]:
    done, undone, _ = _counted(facts)
    for key in dict.fromkeys([*done, *undone]):
        if done[key] > 1:
            yield f"the effect of {_name(facts, key)} happened {_times(done[key])}: repeated, and its key ignored"
        if undone[key] > 1:
            yield f"{_name(facts, key)} was undone {_times(undone[key])}: its undo is not idempotent"
        elif undone[key] > done[key]:
            yield f"{_name(facts, key)} was undone outside, and had never happened"


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


def _effects_are_as_reported(facts: Facts, learned: Learned) -> Iterator[str]:
    done, undone, foreign = _counted(facts)
    for call in facts.calls:
        is_done = call.outcome == "done" and not call.undo
        if is_done and call.key in learned.effects and done[call.key] - undone[call.key] < 1:
            yield f"the report says that {_name(facts, call.key)} is done and stands, and outside it is not there"
    standing = [key for key in foreign if foreign[key] > 0]
    if len(standing) > learned.foreign:
        yield (
            f"effects stand outside under keys that are no call's: {len(standing)} ({', '.join(map(repr, standing))}), "
            f"and {learned.foreign} after the undisturbed run: a tool ignores its key, so its effect was repeated"
        )


def _the_report_is_true(facts: Facts) -> Iterator[str]:
    done, undone, _ = _counted(facts)
    said: dict[str, set[str]] = {}
    for call in facts.calls:
        said.setdefault(call.key, set()).add(call.undo or call.outcome)
    for key in done:
        if done[key] > undone[key] and key.startswith(f"{RUN_ID}:"):
            says = said.get(key, set())
            if not says:
                yield f"the effect of {_name(facts, key)} stands outside, and no report names it"
            elif not says & {"done", "failed to undo", "unknown"}:
                yield f"the effect of {_name(facts, key)} stands outside, and the report says: {', '.join(says)}"
    for call in facts.calls:
        if facts.ended == GIVEN_UP and call.must_be_undone and call.outcome == "done" and not call.undo:
            yield f"the run was given up, and nobody tried to undo {_name(facts, call.key)}"


# ---------------------------------------------------------------- the journal, and what it is for


def _the_journal_keeps_its_word(facts: Facts) -> Iterator[str]:
    kept: dict[tuple[str, str], None] = {}
    found: set[tuple[str, str]] = set()
    entered: set[str] = set()
    for note in facts.notes:
        match note.kind:
            case "kept":
                kept[note.text, note.step] = None
            case "entered":
                entered.add(note.step)
            case "found":
                found.add((note.text, note.step))
            case "looked":
                yield from _lost(kept, found, entered)
                found = set()
            case _:
                pass
    yield from _lost(kept, set(facts.records), entered)


def _lost(kept: Collection[tuple[str, str]], there: Collection[tuple[str, str]], entered: set[str]) -> Iterator[str]:
    for kind, step in kept:
        if (kind, step) in there:
            continue
        if kind == INTENT and step in entered:
            yield f"the body of call {step} was entered before its intent was on disk: an intent after the effect"
        yield (
            f"the journal had acknowledged the record {kind} {step}".rstrip() + ", and does not have it: a lost record"
        )


def _nothing_is_repeated(facts: Facts) -> Iterator[str]:
    ended: set[str] = set()
    undone: set[str] = set()
    begun: dict[str, set[str]] = {}  # the steps of each key: several where a model asked again for a call in doubt
    replied: set[str] = set()
    asked: dict[int, Note] = {}
    for note in facts.notes:
        match note.kind:
            case "kept" | "found":
                ended |= {note.step} if note.text in (DONE, FAILED) else set()
                undone |= {note.step} if note.text in (UNDONE, UNDO_FAILED) else set()
                if note.text == INTENT:
                    begun.setdefault(note.key, set()).add(note.step)
                # Agents that are asked may be asked the same again. For them the journal refuses a second reply.
                if note.kind == "kept" and note.text == MODEL and "/" not in note.step and note.process in asked:
                    replied.add(asked[note.process].key)
            case "entered":
                yield from _entered(note, ended, begun, facts)
            case "undoing" if note.step in undone:
                yield f"process {note.process} undid call {note.step} ({note.text}) again, although that was recorded"
            case "asked":
                asked[note.process] = note
                if note.key in replied:
                    yield f"process {note.process} asked the model again for a reply that was recorded ({note.text})"
            case _:
                pass


def _entered(note: Note, ended: set[str], begun: dict[str, set[str]], facts: Facts) -> Iterator[str]:
    who = f"call {note.step} ({note.text})"
    if note.step in ended and len(begun.get(note.key, ())) <= 1:
        yield f"{who} was run again in process {note.process}, although its end was recorded: a doubled step"
    if note.text in facts.with_intent and note.key not in begun:
        yield f"the body of {who} was entered before its intent was on disk: an intent after the effect"


def _unknown_calls_are_named(facts: Facts) -> Iterator[str]:
    for call in facts.calls:
        if call.outcome == "unknown" and not call.undo and f"{RUN_ID}:{call.step}" not in facts.unknowns:
            yield f"the report calls {_name(facts, call.key)} unknown, and agent.unknowns() does not name it"
    known = {f"{RUN_ID}:{call.step}" for call in facts.calls if call.outcome == "unknown"}
    for key in sorted(facts.unknowns - known):
        yield f"agent.unknowns() names {key!r}, and the report does not call it unknown"


def _ends_like_the_undisturbed_run(facts: Facts, learned: Learned) -> Iterator[str]:
    # A call in doubt, or one that somebody has to see to, is reason enough to end otherwise.
    may_differ = facts.ended == WAITS or any(kind in ("IN_DOUBT", "DEAD_LETTER") for kind, _ in facts.records)
    may_differ |= any(call.outcome == "unknown" for call in facts.calls)
    if facts.ended == NOTHING:
        if facts.records or any(note.kind == "kept" for note in facts.notes):
            yield "the journal had acknowledged the run's records, and has no such run: they are lost"
    elif facts.ended != learned.ended and not may_differ:
        yield f"the undisturbed run {learned.ended}; this one {facts.ended}"
    elif facts.messages is not None and len(facts.messages) != learned.messages and not may_differ:
        yield (
            f"the conversation has {len(facts.messages)} messages, and after the undisturbed run {learned.messages}: "
            f"{_outline(facts.messages)}"
        )


# ---------------------------------------------------------------- the conversation


def _the_memory_is_whole(facts: Facts) -> Iterator[str]:
    messages = facts.messages or ()
    if messages and not isinstance(messages[0], SystemMessage | UserMessage):
        yield f"the conversation begins with {_kind(messages[0])}"
    expected: list[tuple[str | None, str]] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            answered = (message.call_id, message.tool_name)
            if answered in expected:
                expected.remove(answered)
            else:
                yield f"a result of {message.tool_name!r} stands where no call of it was made: {_outline(messages)}"
            continue
        if expected:
            yield f"the calls {expected} have no result right after their reply: {_outline(messages)}"
        calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
        expected = [(call.id, call.name) for call in calls if not call.executed_by_provider]
    if expected:
        yield f"the calls {expected} have no result at the end of the conversation: {_outline(messages)}"


def _kind(message: Message) -> str:
    return type(message).__name__


def _outline(messages: Sequence[Message]) -> str:
    return ", ".join(map(_kind, messages))
