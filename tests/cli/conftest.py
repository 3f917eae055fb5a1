"""A folder with an agent's module and the journal that its processes left, some of which were killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import surehand

# Each run with what its process was told, and how that process ends.
RUNS = {
    "answered": ({}, 0),
    "killed-reserving": ({"KILLED": "reserve"}, -signal.SIGKILL),
    "killed-paying": ({"KILLED": "pay"}, -signal.SIGKILL),
    "given-up": ({"BROKEN": "pay"}, 1),
    "stuck": ({"BROKEN": "pay free"}, 1),
}
# As an absolute path: these processes have another current folder.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(surehand.__file__).parents[1])}


@pytest.fixture(scope="session")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    shutil.copy(Path(__file__).with_name("desk.py"), folder)
    for run_id, (told, code) in RUNS.items():
        command, environment = [sys.executable, "desk.py", run_id], {**ENVIRONMENT, **told}
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=60)
        assert ended.returncode == code, ended.stderr
    return folder


@pytest.fixture
def desk(left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the current folder; ``desk`` can be imported there."""
    folder = tmp_path / "desk"
    shutil.copytree(left_behind, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "desk", None)  # so that what a test imports is taken out again
    del sys.modules["desk"]
    return folder
