"""Scripts in README.md and docs/ that kill their process: a suite cannot run them in its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import surehand

ROOT = Path(__file__).parents[1]


def block(language: str, *, page: str = "README.md", section: str = "Killed in the middle of a payment") -> str:
    """The first block of code in that language after that heading."""
    text = (ROOT / page).read_text("utf-8").partition(f"\n## {section}\n")[2]
    found = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def start(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(surehand.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}  # what is killed flushes nothing
    process = [sys.executable, *command]
    return subprocess.run(process, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_the_script_that_is_killed_while_it_pays_comes_back_and_pays_once(tmp_path: Path) -> None:
    (tmp_path / "order.py").write_text(block("python"))
    said = [part.splitlines()[1:] for part in block("text").split("$ ") if part.startswith("python")]
    starts = [start(tmp_path, "order.py") for _ in said]
    assert [run.returncode for run in starts] == [-signal.SIGKILL, 0, 0]
    assert [run.stderr for run in starts] == ["", "", ""]
    # The shell says the one word that the process does not.
    assert [run.stdout.splitlines() for run in starts] == [
        [line for line in lines if line != "Killed"] for lines in said
    ]
    assert (tmp_path / "bank.txt").read_text() == "order-7:1.0: 95 euros\n"


def test_the_script_that_is_killed_while_it_pays_has_at_most_25_lines() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 25


def test_the_crash_test_in_the_pages_on_durable_runs_passes_and_finds_a_key_that_is_ignored(tmp_path: Path) -> None:
    text = block("python", page="docs/durable.md", section="Testing your own agent")
    careless = text.replace("if not bank.exists() or ctx.idempotency_key not in bank.read_text().split():", "if True:")
    assert careless != text
    (tmp_path / "test_crash.py").write_text(text)
    (tmp_path / "test_careless.py").write_text(careless)
    ended = start(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_crash.py", "test_careless.py")
    assert re.search(r"^1 failed, 1 passed in ", ended.stdout, re.MULTILINE), ended.stdout
    assert "FAILED test_careless.py::test_a_payment_is_made_once_wherever_the_process_dies" in ended.stdout
