"""Who is alive, as processes that are killed, stopped and forked show it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from surehand.durable._owners import Owner, is_alive, sweep

HOLD = """
import sys
from pathlib import Path
from surehand.durable._owners import Owner
owner = Owner(Path(sys.argv[1]))
print(owner.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def held(journal: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=20)


def test_a_process_is_alive_until_it_is_killed(journal: Path) -> None:
    process, name = held(journal)
    assert is_alive(journal, name)
    process.kill()
    ended(process)
    assert not is_alive(journal, name)


def test_a_process_that_was_stopped_is_alive(journal: Path) -> None:
    process, name = held(journal)
    process.send_signal(signal.SIGSTOP)
    assert is_alive(journal, name)
    process.send_signal(signal.SIGCONT)
    ended(process)
    assert not is_alive(journal, name)


def test_this_process_is_alive_and_looking_does_not_take_its_lock(journal: Path) -> None:
    owner = Owner(journal)
    name = owner.name
    assert [is_alive(journal, name), is_alive(journal, name), owner.name == name] == [True, True, True]
    owner.close()
    assert not is_alive(journal, name)
    assert owner.name != name
    owner.close()


def test_nobody_is_not_alive(journal: Path) -> None:
    assert not is_alive(journal, "1-00")


def test_a_fork_is_somebody_else_and_its_death_says_nothing_of_its_parent(journal: Path) -> None:
    owner = Owner(journal)
    name = owner.name
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, owner.name.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    child = os.read(read, 100).decode()
    os.close(read)
    os.close(write)
    assert child not in ("", name)
    assert [is_alive(journal, child), is_alive(journal, name)] == [False, True]
    owner.close()


def test_files_of_processes_that_are_gone_are_removed(journal: Path) -> None:
    owner = Owner(journal)
    process, name = held(journal)
    process.kill()
    ended(process)
    assert owner.name
    assert sweep(journal) == [name]
    assert sweep(journal) == []
    assert is_alive(journal, owner.name)
    owner.close()
