"""The command, as a shell sees it: exit codes, what goes where, and what it says when something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from surehand.cli import main
from surehand.models._weights import install, weights_path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def shell(*arguments: str, without: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own, where the module ``without`` cannot be imported."""
    block = f"import sys; sys.modules[{without!r}] = None; " if without else "import sys; "
    script = block + "from surehand.cli import main; sys.exit(main(sys.argv[1:]))"
    environment = {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "error", **variables}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, env=environment, timeout=120
    )


def test_version_tells_the_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    version = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["version"]
    assert (main(["--version"]), capsys.readouterr().out) == (0, f"surehand {version}\n")


def test_the_module_is_the_command() -> None:
    run = subprocess.run([sys.executable, "-m", "surehand", "--help"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0
    assert "Usage: surehand" in run.stdout


def test_a_command_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_says_how_to_get_it(missing: str) -> None:
    run = shell("--version", without=missing)
    assert (run.returncode, run.stdout) == (1, "")
    assert f"needs {missing!r}" in run.stderr
    assert "python -m pip install 'surehand[cli,local]'" in run.stderr


def test_demo_as_json_gives_the_facts_alone_on_the_standard_output() -> None:
    run = shell("demo", "--json", without="xllamacpp")
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout)
    assert (facts["model"], facts["ended_by"]) == (None, "No room is free in Lisbon.")
    assert [step["became"] for step in facts["steps"]] == ["read", "undone", "stands", "failed"]
    assert run.stderr.splitlines()[-1] == "demo: ok model=scripted tokens=0 right=3/3 undone=1 standing=1"


def test_demo_without_the_weights_says_how_to_get_them(tmp_path: Path) -> None:
    run = shell("demo", SUREHAND_HOME=str(tmp_path))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("surehand: the weights of the embedded model are not in ")
    assert "`surehand model install`" in run.stderr


def test_demo_without_the_runtime_says_so_and_scripts_both_acts() -> None:
    run = shell("demo", without="xllamacpp")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("The runtime of the embedded model cannot be used here (ModuleNotFoundError:")
    assert lines[-1] == "demo: ok model=scripted tokens=0 right=3/3 undone=1 standing=1"


def test_demo_that_nobody_watches_writes_plain_text() -> None:
    run = shell("demo", without="xllamacpp")
    assert run.stdout.isascii()
    assert "\x1b" not in run.stdout


def test_demo_runs_where_the_terminal_knows_ascii_alone() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['xllamacpp'] = None; import surehand.cli as c; c.main(['demo'])",
        ],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=60,
    )
    assert (run.returncode, run.stderr) == (0, b"")


def test_installing_the_model_again_fetches_nothing_and_says_where_it_is() -> None:
    install()
    path = weights_path()
    assert path is not None
    before = path.stat()
    run = shell("model", "install")
    assert (run.returncode, run.stdout, run.stderr) == (0, f"already there: {path} (98 MB)\n", "")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
