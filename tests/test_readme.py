"""The script in README.md that is killed while it pays: a suite cannot run it in its own process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import surehand

ROOT = Path(__file__).parents[1]
SECTION = (ROOT / "README.md").read_text("utf-8").partition("## Killed in the middle of a payment")[2]


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


def start(folder: Path) -> subprocess.CompletedProcess[str]:
    source = str(Path(surehand.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}  # what is killed flushes nothing
    command = [sys.executable, "order.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def test_the_script_that_is_killed_while_it_pays_comes_back_and_pays_once(tmp_path: Path) -> None:
    (tmp_path / "order.py").write_text(block("python"))
    said = [part.splitlines()[1:] for part in block("text").split("$ ") if part.startswith("python")]
    starts = [start(tmp_path) for _ in said]
    assert [run.returncode for run in starts] == [-signal.SIGKILL, 0, 0]
    assert [run.stderr for run in starts] == ["", "", ""]
    # The shell says the one word that the process does not.
    assert [run.stdout.splitlines() for run in starts] == [
        [line for line in lines if line != "Killed"] for lines in said
    ]
    assert (tmp_path / "bank.txt").read_text() == "order-7:1.0: 95 euros\n"


def test_the_script_that_is_killed_while_it_pays_has_at_most_25_lines() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 25
