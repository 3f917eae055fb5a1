"""Who is alive: each process holds a lock on a file of its own beside the journal, which its death releases (design 5).

No clock and no heartbeat: a process that was merely stopped still holds its lock, and one that died never does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from pathlib import Path
from typing import IO

__all__ = ["Owner", "is_alive", "sweep"]


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class Owner:
    """This process as far as one journal is concerned. ``name`` is new for every process, also after a fork."""

    def __init__(self, journal: Path) -> None:
        self._folder = _folder_of(journal)
        self._guard = threading.Lock()
        self._pid = -1
        self._name = ""
        self._file: IO[bytes] | None = None

    @property
    def name(self) -> str:
        """The name under which runs are claimed; the lock is held from the first time it is asked for."""
        with self._guard:
            if self._pid != os.getpid():
                self._take()
            return self._name

    def _take(self) -> None:
        # What a fork inherits is its parent's lock: it is left alone, and closing it here would not release it there.
        self._folder.mkdir(exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(8)}"
        path = self._folder / name
        file = path.open("xb")
        os.set_inheritable(file.fileno(), False)
        _lock(file)
        self._name, self._file, self._pid = name, file, os.getpid()

    def close(self) -> None:
        """Let go: whoever looks from now on sees a process that is gone."""
        with self._guard:
            if self._file is not None and self._pid == os.getpid():
                path = self._folder / self._name
                with contextlib.suppress(OSError):
                    path.unlink()
                self._file.close()
            self._file, self._pid = None, -1


def is_alive(journal: Path, name: str) -> bool:
    """Whether the process of that name still runs. The name of nobody is not alive."""
    path = _folder_of(journal) / name
    try:
        file = path.open("rb+")
    except FileNotFoundError:
        return False
    with file:
        try:
            _lock(file)
        except OSError:
            return True
    return False


def sweep(journal: Path) -> list[str]:
    """Remove the files of processes that are gone; gives their names."""
    gone: list[str] = []
    for path in sorted(_folder_of(journal).glob("*-*")):
        if not is_alive(journal, path.name):
            with contextlib.suppress(OSError):
                path.unlink()
            gone.append(path.name)
    return gone


def _folder_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".owners")
