"""Who is alive, as processes that are killed, stopped and forked show it."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
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


FORK = """
import os
import sys
import time
from surehand import SQLiteJournal
journal = SQLiteJournal(sys.argv[1])
name = journal.owner
child = os.fork()
if child == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    time.sleep(60)
    os._exit(0)
print(name, child, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def held(journal: Path, script: str = HOLD) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(journal)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def test_a_process_that_was_killed_is_gone_though_a_fork_of_it_lives_on(journal: Path) -> None:
    process, said = held(journal, FORK)
    name, child = said.split()
    try:
        assert is_alive(journal, name)
        process.kill()
        ended(process)
        os.kill(int(child), 0)  # it lives
        assert not is_alive(journal, name)
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_files_of_processes_that_are_gone_are_removed(journal: Path) -> None:
    owner = Owner(journal)
    assert owner.name
    process, name = held(journal)
    process.kill()
    ended(process)
    assert sweep(journal) == [name]
    assert sweep(journal) == []
    assert is_alive(journal, owner.name)
    owner.close()


def test_taking_a_lock_removes_the_files_of_processes_that_are_gone_and_no_others(journal: Path) -> None:
    gone, gone_name = held(journal)
    live, live_name = held(journal)
    gone.kill()
    ended(gone)
    owner = Owner(journal)
    names = {owner.name, live_name}
    assert {path.name for path in Path(f"{journal}.owners").iterdir()} == names
    assert gone_name not in names
    owner.close()
    ended(live)


def test_those_who_come_while_others_sweep_all_keep_their_locks(journal: Path) -> None:
    owners = [Owner(journal) for _ in range(300)]
    waiting = queue.SimpleQueue[Owner]()
    for owner in owners:
        waiting.put(owner)

    def take() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                assert waiting.get_nowait().name

    def sweep_all() -> None:
        while not waiting.empty():
            sweep(journal)

    threads = [threading.Thread(target=action) for action in (take, take, sweep_all, sweep_all)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [is_alive(journal, owner.name) for owner in owners] == [True] * 300
    for owner in owners:
        owner.close()


def test_two_who_look_at_once_do_not_take_each_other_for_the_owner(journal: Path) -> None:
    process, name = held(journal)
    process.kill()
    ended(process)
    seen: list[bool] = []
    barrier = threading.Barrier(4)

    def look() -> None:
        barrier.wait()
        seen.extend(is_alive(journal, name) for _ in range(300))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [False] * 1200
