"""A crash test finds what it is there to find, names it, and says what it cannot work with."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

from surehand import UserError
from surehand.testing import CrashReport, CrashTestFailed, Effect, Scenario, crash_test

from . import agents, faults
from .office import Office, conversation, effects


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def scenario(**options: Any) -> Scenario:
    return Scenario(**{"prompt": "Go", "deps": Office, "effects": effects, **options})


def story(agent: Any, given: Scenario | None = None, **options: Any) -> str:
    with pytest.raises(CrashTestFailed) as failed:
        crash_test(agent, given or scenario(), **{"kills": 0, **options})
    return str(failed.value)


# ---------------------------------------------------------------- planted faults


def test_an_undo_that_is_not_idempotent_is_found() -> None:
    assert "its undo is not idempotent" in story(faults.undo_is_not_idempotent)
    text = story(faults.undo_is_not_idempotent, only="after the undo of call 1.0 (hire) had returned")
    assert "1. call 1.0 (hire) was undone twice: its undo is not idempotent" in text


def test_a_service_that_ignores_the_key_is_found() -> None:
    assert "repeated, and its key ignored" in story(faults.service_ignores_the_key)
    text = story(faults.service_ignores_the_key, only="after the body of call 1.0 (order) had returned")
    assert "1. the effect of call 1.0 (order) happened twice: repeated, and its key ignored" in text


def test_a_tool_that_ignores_its_key_is_found() -> None:
    assert "a tool ignores its key, so its effect was repeated" in story(faults.tool_ignores_its_key)
    text = story(faults.tool_ignores_its_key, only="after the body of call 1.0 (order_anew) had returned")
    assert "1. effects stand outside under keys that are no call's: 2 (" in text


def test_a_lost_record_is_found() -> None:
    text = story(faults.record_is_lost)
    assert "undisturbed" in text
    assert "the journal had acknowledged the record DONE 1.0, and does not have it: a lost record" in text


def test_an_intent_after_the_effect_is_found() -> None:
    lost = "the journal had acknowledged the record INTENT 1.0, and does not have it: a lost record"
    assert f"1. {lost}" in story(faults.intent_comes_late)
    text = story(faults.intent_comes_late, only="after the body of call 1.0")
    assert "the body of call 1.0 was entered before its intent was on disk: an intent after the effect" in text


def test_a_doubled_step_is_found() -> None:
    text = story(faults.step_is_doubled, only="after DONE of call 1.0")
    assert "call 1.0 (book) was run again in process 2, although its end was recorded: a doubled step" in text


def test_a_reply_that_is_paid_for_twice_is_found() -> None:
    text = story(faults.reply_is_paid_again, only="after MODEL 1")
    assert "process 2 asked the model again for a reply that was recorded (request 1 to the model)" in text


def test_a_report_that_is_not_true_is_found() -> None:
    text = story(faults.undo_does_nothing)
    assert "the effect of call 1.0 (lend) stands outside, and the report says: undone" in text


def test_a_process_that_hangs_is_found() -> None:
    text = story(faults.hangs_when_recovered, only="after the body of call 1.0", timeout=1.0)
    assert "process 2 of the case did not end within 1.0 s" in text
    assert "2 entered hang 1.0" in text


def test_a_conversation_with_holes_is_found() -> None:
    given = scenario(options={"memory_id": "ann"}, memory=conversation)
    text = story(faults.memory_loses_results, given)
    assert "the calls [('c0', 'book'), ('c1', 'book')] have no result right after their reply: UserMessage" in text


def test_a_conversation_that_grows_when_a_run_is_recovered_is_found() -> None:
    given = scenario(options={"memory_id": "ann"}, memory=conversation)
    text = story(faults.memory_doubles, given)
    assert re.search(r"the conversation has \d+ messages, and after the undisturbed run 8: UserMessage, ", text)


# ---------------------------------------------------------------- what it tells


def test_a_story_tells_what_happened_what_is_there_and_what_is_wrong() -> None:
    point = "after the body of call 1.0 (order) had returned"
    text = story(faults.service_ignores_the_key, only=point)
    folder = text.rpartition(" ")[2]
    assert text.splitlines() == [
        f"crash test of tests.testing.faults:service_ignores_the_key (run), case 1, killed {point}:",
        "",
        "Process 1 entered the body of call 1.0 (order).",
        f"Process 1 ran the scenario and was killed {point}.",
        "Process 2 entered the body of call 1.0 (order).",
        "Process 2 recovered: recovery gave RunResult(output='Done.', calls=1, usage=None), UndoReport(done=['order'], "
        "no_undo=['order']).",
        "Process 2 recovered: asked again: the run succeeded, UndoReport(done=['order'], no_undo=['order']).",
        "",
        "The journal holds:",
        "  RUN_STARTED",
        "  MODEL 1",
        "  INTENT 1.0 (order)",
        "  INTENT 1.0 (order)",
        "  DONE 1.0 (order)",
        "  MODEL 2",
        "  RUN_ENDED",
        "",
        "Outside there is:",
        "  crash-test:1.0: done",
        "  crash-test:1.0: done",
        "",
        "The report says:",
        "  the run succeeded",
        "  call 1.0 (order), key crash-test:1.0: done",
        "",
        "What is wrong:",
        "  1. the effect of call 1.0 (order) happened twice: repeated, and its key ignored",
        "",
        f"Everything that it left is in {folder}",
    ]
    assert (Path(folder) / "world" / "office").read_text() == "crash-test:1.0 done\n" * 2


def _wrong_once_killed_from_outside(folder: Path) -> list[Effect]:
    told = (folder.parent / "diary").read_text()
    return [Effect("crash-test:9.9")] if "from outside" in told and '"after DONE of call 1.0' in told else []


def test_a_story_tells_when_a_process_was_killed_from_outside_and_what_it_had_passed() -> None:
    text = story(agents.traveller, scenario(effects=_wrong_once_killed_from_outside), kills=50)
    assert re.search(r"case \d+, killed at random, [\d.]+ ms after its start:\n", text)
    assert re.search(
        r"\nProcess 1 ran the scenario and was killed from outside, [\d.]+ ms after its start; "
        r"the last that it had passed: (before|after) .+\.\n",
        text,
    )
    assert "1. the effect of 'crash-test:9.9' stands outside, and no report names it" in text


def test_a_report_tells_where_the_run_was_killed_and_that_it_survived() -> None:
    report = crash_test("tests.testing.faults:booker", scenario(name="a booking"), kills=2)
    assert report == CrashReport(
        "a booking",
        (
            "before RUN_STARTED was written",
            "after RUN_STARTED was on disk",
            "after request 1 to the model was answered",
            "after MODEL 1 was on disk",
            "after INTENT of call 1.0 (book) was on disk, before its body was entered",
            "after the body of call 1.0 (book) had returned",
            "after DONE of call 1.0 (book) was on disk",
            "after request 2 to the model was answered",
            "after MODEL 2 was on disk",
            "after RUN_ENDED was on disk",
        ),
        13,
        report.killed,
        report.seconds,
    )
    assert report.killed >= 10
    assert str(report).startswith(f"a booking: survived {report.killed} kills in 13 cases, at 10 crash points and at ")


def test_the_same_seed_kills_at_the_same_parts_of_the_run() -> None:
    from surehand.testing import crash
    from surehand.testing._crash_world import Learned

    first, again, other = (
        [(case.kills, what) for case, what in crash._cases(Path(), ["p"], 5, crash.random.Random(seed), Learned())]
        for seed in (1, 1, 2)
    )
    assert first == again != other


# ---------------------------------------------------------------- what it cannot work with


def _no_effects(folder: Path) -> list[Effect]:
    return []


def _lines(folder: Path) -> list[Any]:
    return ["crash-test:1.0"]


def _nothing(folder: Path) -> Any:
    return None


def _breaks(folder: Path) -> list[Effect]:
    raise LookupError("the books are closed")


@pytest.mark.parametrize(
    ("agent", "given", "message"),
    [
        (faults.booker, scenario(), "name it as 'module:name'"),
        ("tests.testing.faults", scenario(), "expected 'module:name', such as 'trips:agent'"),
        ("tests.testing.faults:nothing", scenario(), "has no attribute 'nothing'"),
        ("no_such_module:agent", scenario(), "No module named 'no_such_module'"),
        (faults.no_agent, scenario(), "gave 'an agent'; expected an Agent"),
        (faults.journal_in_memory, scenario(), "a MemoryJournal dies with its process"),
        (faults.journal_elsewhere, scenario(), "elsewhere.db lies outside of the scenario's folder"),
        (lambda folder: faults.booker, scenario(), "stand at the top of a module"),
        (agents.traveller, scenario(effects=lambda folder: []), "stand at the top of a module"),
        (agents.traveller, "Go", "expected a Scenario"),
        (
            agents.traveller,
            scenario(effects=_lines),
            "effects gave 'crash-test:1.0'; expected an iterable of Effect(key)",
        ),
        (agents.traveller, scenario(effects=_nothing), "effects gave None; expected an iterable of Effect(key)"),
        (agents.traveller, scenario(effects=_breaks), "LookupError: the books are closed"),
        (agents.traveller, scenario(effects=_no_effects, deps=int), "crash test of tests.testing.agents:traveller"),
    ],
)
def test_what_cannot_be_tested_is_a_user_error(agent: Any, given: Any, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        crash_test(agent, given)


def test_a_crash_point_that_does_not_exist_is_a_user_error() -> None:
    with pytest.raises(UserError, match="no crash point begins so; there are"):
        crash_test("tests.testing.faults:booker", scenario(), only="after lunch")
