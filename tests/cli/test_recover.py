"""``surehand recover``, ``resume`` and ``resolve``: runs are gone on with from the shell."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from surehand import cli
from surehand.durable import SQLiteJournal

ANSWER = "succeeded: Room 7 is yours.\\n\\x1b]0;a title\\x07Bye.\n"


def main(arguments: list[str]) -> int:
    """The command, as in a process of its own: it has closed the agent's journal when it ends."""
    sys.modules.pop("desk", None)
    return cli.main(arguments)


def states(*run_ids: str) -> list[str]:
    with closing(SQLiteJournal("trips.db")) as journal:
        return [row.state for row in journal.rows() if row.run_id in run_ids]


def bank(desk: Path, since: int) -> list[str]:
    return (desk / "bank.txt").read_text().splitlines()[since:]


def test_what_was_left_is_gone_on_with_and_each_run_is_told(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(bank(desk, 0))
    assert main(["recover", "desk:agent", "--deps", "desk:deps"]) == 0
    assert capsys.readouterr().out == (
        f"killed-reserving: {ANSWER}killed-paying: waits for somebody's word on killed-paying:2.0 pay(euros=95)\n"
    )
    assert bank(desk, before) == ["deps were made", "reserve killed-reserving:1.0", "pay 95"]
    assert main(["recover", "desk:make"]) == 0
    waiting = "nothing to recover; 1 call of which somebody has to tell: see `surehand unknowns`\n"
    assert capsys.readouterr() == (waiting, "")


def test_a_word_on_an_unknown_call_lets_its_run_go_on(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "desk:agent", "killed-paying"]) == 0
    capsys.readouterr()
    before = len(bank(desk, 0))
    assert main(["resolve", "desk:agent", "killed-paying:2.0", "--happened", '{"euros": 95}']) == 0
    assert capsys.readouterr().out == "noted; `surehand recover desk:agent` goes on with the run\n"
    assert main(["recover", "desk:agent"]) == 0
    assert capsys.readouterr().out == f"killed-reserving: {ANSWER}killed-paying: {ANSWER}"
    assert bank(desk, before) == ["reserve killed-reserving:1.0", "pay 95"]  # of the other run: this one has paid


def test_a_run_whose_call_did_not_happen_makes_it_now(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "desk:agent", "killed-paying"]) == 0
    assert main(["resolve", "desk:agent", "killed-paying:2.0", "--absent"]) == 0
    before = len(bank(desk, 0))
    capsys.readouterr()
    assert main(["resume", "desk:agent", "killed-paying"]) == 0
    assert (capsys.readouterr().out, bank(desk, before)) == (f"killed-paying: {ANSWER}", ["pay 95"])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (
            ["--happened", '{"euros": "many"}'],
            "is not what 'pay' returns, as JSON: euros: Input should be a valid integer",
        ),
        (["--happened", '{"euros'], "is not what 'pay' returns, as JSON: Invalid JSON: EOF while parsing"),
        (
            ["--happened", "paid"],
            "JSON: expected value at line 1 column 1; text is written with its quotes: --happened '\"…\"'",
        ),
        ([], "give either --happened JSON or --absent"),
        (["--absent", "--happened", "1"], "give either --happened JSON or --absent"),
    ],
)
def test_a_word_that_cannot_be_is_refused_and_nothing_is_noted(
    desk: Path, told: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resolve", "desk:agent", "given-up:2.0", *told]) == 1
    assert why in capsys.readouterr().err
    assert main(["unknowns", "trips.db"]) == 0
    assert "given-up:2.0" in capsys.readouterr().out


def test_a_run_that_was_given_up_is_told_with_what_stands(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "desk:agent", "stuck"]) == 0
    why = "run 'stuck' was given up because of OSError: \\x1b[2J[bold]the line is dead[/bold]"
    assert capsys.readouterr().out == f"stuck: given up: {why}; not undone: reserve; unknown: pay\n"


def test_a_run_that_cannot_be_gone_on_with_is_told_and_the_others_are_gone_on_with(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "other.py").write_text((desk / "desk.py").read_text().replace("def pay(euros", "def pay(dollars"))
    assert main(["recover", "other:agent"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"killed-reserving: {ANSWER}".rstrip()
    assert lines[1].startswith(
        "killed-paying: could not be gone on with: ReplayMismatch: call 2.0 of run 'killed-paying'"
    )
    assert lines[2:] == []
    assert states("killed-reserving", "killed-paying") == ["SUCCEEDED", "RUNNING"]


def test_a_run_at_work_elsewhere_is_left_alone_unless_it_is_taken_over(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(SQLiteJournal("trips.db")) as elsewhere:
        row = elsewhere.row("killed-reserving")
        assert row is not None
        elsewhere.claim(row.run_id, elsewhere.owner, epoch=row.epoch)
        assert main(["resume", "desk:agent", row.run_id]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"surehand: run 'killed-reserving' is at work in {elsewhere.owner!r}")
        assert main(["resume", "desk:agent", row.run_id, "--take-over"]) == 0
    assert capsys.readouterr().out == f"killed-reserving: {ANSWER}"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("desk", "'desk': expected MODULE:NAME, such as 'shop:agent' for `agent` in shop.py"),
        (
            "nope:agent",
            "'nope:agent': the module 'nope' cannot be imported: ModuleNotFoundError: No module named 'nope'; it is "
            "looked for in the current folder, {folder!r}, first",
        ),
        (
            "desk.py:agent",
            "'desk.py:agent': expected the name of a module and not of a file, such as 'shop:agent' for shop.py",
        ),
        ("desk:nope", "'desk:nope': 'desk' has no 'nope'"),
        ("desk:nothing", "'desk:nothing' is 5; expected an Agent, or a function that makes one"),
    ],
)
def test_what_is_no_agent_is_named(desk: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recover", name]) == 1
    assert capsys.readouterr() == ("", f"surehand: {why.format(folder=str(desk))}\n")


def test_a_module_or_a_function_that_fails_is_told_with_its_line(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "broken.py").write_text("x = 1\nx.y\n")
    assert main(["recover", "broken:agent"]) == 1
    why = "AttributeError: 'int' object has no attribute 'y'"
    place = f"({desk / 'broken.py'}, line 2)"
    assert capsys.readouterr().err == (
        f"surehand: 'broken:agent': the module 'broken' cannot be imported: {why} {place}\n"
    )
    assert main(["recover", "desk:agent", "--deps", "desk:fails"]) == 1
    assert capsys.readouterr().err.startswith("surehand: 'desk:fails' was called and raised KeyError: 'TOKEN' (")
    assert states("killed-reserving") == ["RUNNING"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("desk:nothing", "--deps 'desk:nothing' is 5; expected a function without parameters that gives the deps"),
        ("desk:later", "which has to be awaited; expected a function that gives the deps"),
    ],
)
def test_deps_that_no_function_gives_are_refused_and_no_run_is_touched(
    desk: Path, name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover", "desk:agent", "--deps", name]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(f"{why}\n")
    assert states("killed-reserving") == ["RUNNING"]
