"""``surehand runs``, ``show`` and ``unknowns``: what is in a journal, read and not touched."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from surehand.cli import main
from surehand.durable import SQLiteJournal

from .conftest import ENVIRONMENT

READING = (
    ["runs"],
    ["show", "answered"],
    ["unknowns"],
    ["journal", "check"],
    ["journal", "prune", "--older-than", "0"],
)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def table(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line) for line in text.splitlines()]


def test_each_run_is_a_line_with_its_state_its_process_and_its_calls(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headings, *rows = table(told(capsys, "runs", "trips.db"))
    assert headings == ["RUN", "STATE", "BEGUN", "LAST CHANGE", "PROCESS", "CALLS"]
    assert [[row[0], row[1], *row[4:]] for row in rows] == [
        ["answered", "SUCCEEDED", "-", "2 done"],
        ["killed-reserving", "RUNNING", "gone", "1 begun"],
        ["killed-paying", "RUNNING", "gone", "1 done, 1 begun"],
        ["given-up", "STUCK", "-", "1 undone, 1 unknown"],
        ["stuck", "STUCK", "-", "1 done, 1 not undone, 1 unknown"],
    ]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", cell) for row in rows for cell in row[2:4])


def test_runs_are_chosen_by_state_and_the_newest_by_number(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = told(capsys, "runs", "trips.db", "--state", "STUCK", "--state", "SUCCEEDED", "--last", "2")
    assert [row[0] for row in table(chosen)] == ["RUN", "given-up", "stuck", "and 1 older ones; --last shows more"]
    assert told(capsys, "runs", "trips.db", "--state", "SUSPENDED") == "no runs in SUSPENDED\n"


def test_a_state_that_does_not_exist_is_an_error_that_names_those_that_do(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "trips.db", "--state", "DONE"]) == 1
    states = "RUNNING, SUSPENDED, DRAINING, UNDOING, SUCCEEDED, UNDONE, STUCK"
    assert capsys.readouterr() == ("", f"surehand: --state 'DONE': expected one of {states}\n")


def test_the_process_of_a_run_that_is_at_work_is_alive_and_its_run_is_not_touched(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(SQLiteJournal("trips.db")) as journal:
        claim = journal.start("live", journal.owner, [], state="RUNNING")
        assert table(told(capsys, "runs", "trips.db"))[-1][4:] == ["alive", "-"]
        assert f"its process {journal.owner} is alive" in told(capsys, "show", "trips.db", "live")
        journal.append(claim, [], state="SUCCEEDED").result()  # which a claim by somebody else would have made stale
    assert table(told(capsys, "runs", "trips.db"))[-1][1] == "SUCCEEDED"


def test_a_run_whose_history_is_damaged_is_said_to_be_so_and_the_others_are_listed(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect("trips.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM record WHERE run_id = 'given-up' AND seq = 2")
    rows = {row[0]: row[5] for row in table(told(capsys, "runs", "trips.db"))}
    assert (rows["given-up"], rows["answered"]) == ("damaged: see surehand journal check", "2 done")
    assert main(["show", "trips.db", "given-up"]) == 1
    assert capsys.readouterr().err.startswith("surehand: run 'given-up' in trips.db: record 2 is missing")


def test_the_story_of_a_run_tells_what_was_asked_what_came_of_it_and_why_it_was_given_up(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told_lines = told(capsys, "show", "trips.db", "stuck").splitlines()
    assert told_lines[0] == "run stuck: STUCK, it was given up, and something stands or may stand"
    assert re.fullmatch(r"begun .{19}, last change .{19}", told_lines[1])
    assert told_lines[2].startswith("begun by surehand")
    assert told_lines[3:] == [
        "asked: A room,",
        "       please \\x1b[31mnow.",
        "",
        "reply 1: (no text)",
        "  1.0 reserve(room=7): done",
        "      the model reads: 7",
        "      NOT undone, it still stands: OSError: the desk is \\x1b[31mclosed",
        "",
        "reply 2: (no text)",
        "  2.0 pay(euros=95): unknown",
        "      the model reads: This call of 'pay' may have happened; it is not known. Do not repeat it.",
        "      because of OSError: \\x1b[2J[bold]the line is dead[/bold]",
        "      nobody knows whether it happened. Its key is stuck:2.0: ask the service behind it, and tell:",
        "        surehand resolve module:agent stuck:2.0 --happened JSON    (what the tool would have returned)",
        "        surehand resolve module:agent stuck:2.0 --absent",
        "",
        "given up: OSError: \\x1b[2J[bold]the line is dead[/bold] (run_given_up)",
    ]


def test_the_story_of_a_run_that_died_in_a_call_says_where_and_what_goes_on_with_it(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story = told(capsys, "show", "trips.db", "killed-paying").splitlines()
    assert story[0] == (
        "run killed-paying: RUNNING, nobody is at work on it: `surehand recover module:agent` goes on with it"
    )
    assert story[-2:] == [
        "  2.0 pay(euros=95): begun",
        "      its process died here; resuming the run finds out by the tool's policy",
    ]


def test_the_records_are_shown_in_order_when_asked_for(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = told(capsys, "show", "trips.db", "given-up", "--records").split("\n\n")[-1]
    assert [line.split()[:4] for line in records.splitlines()] == [
        [str(number), "claim", "1", kind]
        for number, kind in enumerate(
            ("RUN_STARTED", "MODEL", "INTENT", "DONE", "MODEL", "INTENT", "IN_DOUBT", "GIVEN_UP", "UNDO_INTENT"), 1
        )
    ] + [["10", "claim", "1", "UNDONE"], ["11", "claim", "1", "RUN_ENDED"]]


def test_what_a_model_and_a_tool_wrote_cannot_control_the_terminal(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = [told(capsys, "runs", "trips.db"), told(capsys, "unknowns", "trips.db")]
    everything += [told(capsys, "show", "trips.db", run, "--records") for run in ("answered", "given-up", "stuck")]
    assert [c for text in everything for c in text if not c.isprintable() and c != "\n"] == []
    assert "Room 7 is yours.\n         \\x1b]0;a title\\x07Bye." in everything[2]


def test_a_run_that_is_not_there_is_named(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "trips.db", "nope"]) == 1
    message = "surehand: there is no run 'nope' in trips.db; `surehand runs trips.db` lists them\n"
    assert capsys.readouterr() == ("", message)


def test_unknown_calls_are_listed_with_their_keys(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert table(told(capsys, "unknowns", "trips.db")) == [
        ["KEY", "RUN IS", "FOR THIS", "CALL"],
        ["given-up:2.0", "STUCK", "-", "pay(euros=95)"],
        ["stuck:2.0", "STUCK", "-", "pay(euros=95)"],
    ]


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_file_that_is_not_there_is_an_error_and_is_not_made(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, at = tmp_path / "missing.db", 2 if command[0] == "journal" else 1
    assert main([*command[:at], str(path), *command[at:]]) == 1
    assert capsys.readouterr().err == (
        f"surehand: there is no file {str(path)!r}; give the path that Agent(journal=…) has\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_file_that_is_no_journal_is_an_error_and_stays_as_it_is(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    empty, other, text = tmp_path / "empty.db", tmp_path / "other.db", tmp_path / "text.db"
    empty.touch()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    text.write_text("text " * 1000)
    before = {path: path.read_bytes() for path in (empty, other, text)}
    at = 2 if command[0] == "journal" else 1
    for path, why in ((empty, "it is empty"), (other, "a database of something else"), (text, "damaged or no journal")):
        assert main([*command[:at], str(path), *command[at:]]) == 1
        captured = capsys.readouterr()
        assert why in captured.out + captured.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_old_runs_that_are_over_are_forgotten_and_others_stay(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prune = ["journal", "prune", "trips.db", "--older-than"]
    assert told(capsys, *prune, "1") == "0 runs forgotten\n"
    assert told(capsys, *prune, "0") == "1 run forgotten\n"  # the one with its answer
    assert told(capsys, *prune, "0", "--state", "STUCK") == "2 runs forgotten\n"
    assert [row[0] for row in table(told(capsys, "runs", "trips.db"))] == ["RUN", "killed-reserving", "killed-paying"]
    assert main([*prune, "0", "--state", "RUNNING"]) == 1
    assert "only runs that are over can be forgotten: SUCCEEDED, UNDONE, STUCK" in capsys.readouterr().err


def test_a_journal_is_listed_where_the_terminal_knows_ascii_alone(desk: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "surehand", "show", "trips.db", "given-up"],
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, b"")
