"""Each thing that must be true after a crash is told when it is not, and nothing is told when all is well."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from surehand import AssistantMessage, Message, TextContent, ToolCall, ToolMessage, UserMessage
from surehand.testing import Effect
from surehand.testing._crash_checks import CallFact, Facts, learned_from, problems_of
from surehand.testing._crash_world import Note

KEY = "crash-test:1.0"
BOOKED = CallFact("1.0", "book", KEY, "done")
RECORDS = (("RUN_STARTED", ""), ("MODEL", "1"), ("INTENT", "1.0"), ("DONE", "1.0"), ("MODEL", "2"), ("RUN_ENDED", ""))
ASKED = AssistantMessage(None, (ToolCall("a", "book", "{}"), ToolCall("b", "look", "{}")))
WHOLE = (
    UserMessage((TextContent("Go"),)),
    ASKED,
    ToolMessage("a", "book", (TextContent("booked"),)),
    ToolMessage("b", "look", (TextContent("seen"),)),
    AssistantMessage("Done."),
)


def kept(process: int = 1) -> list[Note]:
    return [Note(process, "kept", kind, step, KEY if kind == "INTENT" else "") for kind, step in RECORDS]


def notes() -> list[Note]:
    """A run that books something, as its diary tells it."""
    records = kept()
    asked = [Note(1, "asked", f"request {n} to the model", key=f"digest {n}") for n in (1, 2)]
    entered = Note(1, "entered", "book", "1.0", KEY)
    return [records[0], asked[0], records[1], records[2], entered, records[3], asked[1], records[4], records[5]]


GOOD = Facts(
    "succeeded", RECORDS, (BOOKED,), frozenset(), (Effect(KEY),), tuple(notes()), frozenset({"book"}), messages=WHOLE
)
UNDISTURBED = learned_from(GOOD, (), 0.0)


def wrong(facts: Facts = GOOD, **changes: Any) -> list[str]:
    return problems_of(replace(facts, **changes), UNDISTURBED)


def test_a_run_in_which_all_is_well_has_no_problems() -> None:
    assert wrong() == []


def test_effects_outside_are_compared_with_the_report() -> None:
    undone = replace(BOOKED, undo="undone")
    failed = replace(BOOKED, outcome="failed")
    here, gone = Effect(KEY), Effect(KEY, "undone")
    name = "call 1.0 (book)"
    assert wrong(effects=()) == [f"the report says that {name} is done and stands, and outside it is not there"]
    assert wrong(effects=(here, gone)) == [
        f"the report says that {name} is done and stands, and outside it is not there"
    ]
    assert wrong(effects=(here, here, here)) == [
        f"the effect of {name} happened 3 times: repeated, and its key ignored"
    ]
    assert wrong(calls=(undone,)) == [f"the effect of {name} stands outside, and the report says: undone"]
    assert wrong(calls=(failed,)) == [f"the effect of {name} stands outside, and the report says: failed"]
    assert wrong(calls=()) == [f"the effect of {KEY!r} (book) stands outside, and no report names it"]
    assert wrong(calls=(undone,), effects=(here, gone)) == []
    assert wrong(calls=(undone,), effects=(gone,)) == [f"{name} was undone outside, and had never happened"]
    assert wrong(calls=(undone,), effects=(here, gone, gone)) == [
        f"{name} was undone twice: its undo is not idempotent"
    ]


def test_what_could_not_be_undone_may_stand_or_not() -> None:
    stuck = (replace(BOOKED, undo="failed to undo"),)
    assert wrong(calls=stuck) == wrong(calls=stuck, effects=(Effect(KEY), Effect(KEY, "undone"))) == []


def test_an_unknown_call_may_have_happened_or_not_but_has_to_be_named() -> None:
    lost = (replace(BOOKED, outcome="unknown"),)
    assert wrong(calls=lost, unknowns=frozenset({KEY})) == []
    assert wrong(calls=lost, unknowns=frozenset({KEY}), effects=()) == []
    assert wrong(calls=lost) == ["the report calls call 1.0 (book) unknown, and agent.unknowns() does not name it"]
    assert wrong(unknowns=frozenset({KEY})) == [
        f"agent.unknowns() names {KEY!r}, and the report does not call it unknown"
    ]


def test_effects_under_other_keys_must_not_become_more() -> None:
    assert wrong(effects=(Effect(KEY), Effect("x"), Effect("x", "undone"))) == []
    assert wrong(effects=(Effect(KEY), Effect("x"))) == [
        "effects stand outside under keys that are no call's: 1 ('x'), and 0 after the undisturbed run: "
        "a tool ignores its key, so its effect was repeated"
    ]


def test_a_run_that_was_given_up_has_to_be_undone() -> None:
    left = (replace(BOOKED, must_be_undone=True),)
    given_up = replace(GOOD, ended="was given up", calls=left)
    nobody = "the run was given up, and nobody tried to undo call 1.0 (book)"
    assert problems_of(given_up, learned_from(given_up, (), 0.0)) == [nobody]
    assert wrong(given_up) == [nobody, "the undisturbed run succeeded; this one was given up"]
    assert wrong(calls=left) == []


def test_a_run_may_end_otherwise_only_if_something_of_it_is_unknown() -> None:
    assert wrong(ended="was given up") == ["the undisturbed run succeeded; this one was given up"]
    assert wrong(ended="was given up", records=(*RECORDS, ("DEAD_LETTER", "1.0"))) == []
    assert wrong(ended="waits") == []


def test_a_run_that_left_nothing_must_have_been_promised_nothing() -> None:
    nothing = {"ended": "left nothing in the journal", "calls": (), "effects": (), "messages": ()}
    lost = [f"the journal had acknowledged the record {kind} {step}".rstrip() for kind, step in RECORDS]
    assert wrong(**nothing, records=(), notes=()) == []
    assert [problem.partition(",")[0] for problem in wrong(**nothing, records=())] == [
        *lost[:2],
        "the body of call 1.0 was entered before its intent was on disk: an intent after the effect",
        *lost[2:],
        "the journal had acknowledged the run's records",
    ]


def test_what_was_recorded_is_neither_run_nor_asked_nor_undone_again() -> None:
    undone = [Note(1, "kept", "UNDONE", "1.0"), Note(2, "undoing", "book", "1.0", KEY)]
    assert wrong(notes=(*notes(), Note(2, "entered", "book", "1.0", KEY))) == [
        "call 1.0 (book) was run again in process 2, although its end was recorded: a doubled step"
    ]
    assert wrong(notes=(*notes(), Note(2, "asked", "request 1 to the model", key="digest 2"))) == [
        "process 2 asked the model again for a reply that was recorded (request 1 to the model)"
    ]
    assert wrong(notes=(*notes(), *undone), records=(*RECORDS, ("UNDONE", "1.0"))) == [
        "process 2 undid call 1.0 (book) again, although that was recorded"
    ]


def test_a_record_that_only_a_later_process_finds_counts_from_then_on() -> None:
    found = [Note(2, "found", "DONE", "1.0"), Note(2, "entered", "book", "1.0", KEY)]
    silent = [note for note in notes() if note.text != "DONE"]
    assert wrong(notes=(*silent, *found)) == [
        "call 1.0 (book) was run again in process 2, although its end was recorded: a doubled step"
    ]


def test_a_body_that_is_entered_without_an_intent_is_told_unless_it_is_safe() -> None:
    early = [note for note in notes() if note.text != "INTENT"]
    assert wrong(notes=tuple(early)) == [
        "the body of call 1.0 (book) was entered before its intent was on disk: an intent after the effect"
    ]
    assert wrong(notes=tuple(early), with_intent=frozenset()) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (WHOLE[1:], "the conversation begins with AssistantMessage"),
        (WHOLE[:3], "the calls [('b', 'look')] have no result at the end of the conversation"),
        ((*WHOLE[:3], *WHOLE[4:]), "the calls [('b', 'look')] have no result right after their reply"),
        ((*WHOLE[:3], WHOLE[2], *WHOLE[3:]), "a result of 'book' stands where no call of it was made"),
        ((*WHOLE, WHOLE[-1]), "the conversation has 6 messages, and after the undisturbed run 5"),
    ],
)
def test_a_conversation_that_is_not_whole_is_told(messages: tuple[Message, ...], problem: str) -> None:
    assert wrong(messages=messages)[0].startswith(problem)


def test_what_recovery_could_not_do_comes_first() -> None:
    assert wrong(failures=("recovery failed with JournalError",), effects=())[0] == "recovery failed with JournalError"
