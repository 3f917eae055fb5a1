"""Who is alive: each process holds a lock on a file of its own beside the journal, which its death releases (design 5).

No clock and no heartbeat: a process that was merely stopped still holds its lock, and one that died never does.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
import threading
from pathlib import Path
from typing import IO

__all__ = ["Driven", "Owner", "is_alive", "sweep"]

_NAME = re.compile("[0-9]+-[0-9a-f]+")


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _hold(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)

    def _is_held(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return True
        return False

    def _remove_if_free(path: Path) -> bool:
        path.unlink()  # refused while somebody has the file open
        return True
else:
    import fcntl

    def _hold(file: IO[bytes]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)

    def _is_held(file: IO[bytes]) -> bool:
        # Shared, so that two who look at once do not take each other for the owner.
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def _remove_if_free(path: Path) -> bool:
        with path.open("rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            path.unlink()  # under the lock: whoever has just created the file sees that it is gone, see Owner
            return True


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
        self.after_fork()
        self._folder.mkdir(exist_ok=True)
        _swept(self._folder)
        file = None
        while file is None:
            self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
            file = _created(self._folder / self._name)
        self._file, self._pid = file, os.getpid()

    def after_fork(self) -> None:
        """In the child: let go of the inherited file, which would hold the parent's lock for as long as this one lives.

        Closing it here does not release the lock there.
        """
        if self._file is not None:
            self._file.close()
        self._file, self._pid = None, -1

    def close(self) -> None:
        """Let go: whoever looks from now on sees a process that is gone."""
        with self._guard:
            if self._file is not None and self._pid == os.getpid():
                path = self._folder / self._name
                with contextlib.suppress(OSError):
                    path.unlink()
                self._file.close()
            self._file, self._pid = None, -1


def _created(path: Path) -> IO[bytes] | None:
    """A new file whose lock is held; None if somebody swept it before it was."""
    file = path.open("xb")
    _hold(file)
    if path.exists():
        return file
    file.close()
    return None


def is_alive(journal: Path, name: str) -> bool:
    """Whether the process of that name still runs. The name of nobody is not alive."""
    if _NAME.fullmatch(name) is None:
        return False  # and never open another file: closing it would release SQLite's own locks on it
    try:
        file = (_folder_of(journal) / name).open("rb")
    except FileNotFoundError:
        return False
    with file:
        return _is_held(file)


def sweep(journal: Path) -> list[str]:
    """Remove the files of processes that are gone; gives their names."""
    return _swept(_folder_of(journal))


def _swept(folder: Path) -> list[str]:
    gone: list[str] = []
    for path in sorted(folder.glob("*-*")):
        with contextlib.suppress(OSError):
            if _remove_if_free(path):
                gone.append(path.name)
    return gone


class Driven:
    """The runs that this process drives now; empty again after a fork.

    Every operation is one step of a dict, so that a fork can never inherit a lock that nobody holds any more.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[int, str], tuple[object, object]] = {}

    def add(self, run_id: str, driver: object = None, *, take_over: bool = False) -> bool:
        """Whether it was not driven before; ``take_over`` makes it that driver's even if it was."""
        key, mark = (os.getpid(), run_id), (driver, object())
        is_first = self._runs.setdefault(key, mark) is mark
        if take_over:
            self._runs[key] = mark
        return is_first

    def remove(self, run_id: str, driver: object = None) -> None:
        """That driver drives it no more; nothing changes if another has taken it over."""
        key = (os.getpid(), run_id)
        if self._runs.get(key, (None,))[0] is driver:
            self._runs.pop(key, None)

    def __contains__(self, run_id: str) -> bool:
        return (os.getpid(), run_id) in self._runs


def _folder_of(journal: Path) -> Path:
    return journal.with_name(journal.name + ".owners")
