"""Ctrl-C while a run is being given up: the next one waits until that is done, the one after ends the process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from ._books import Run

__all__ = ["held_interrupts"]


@contextmanager
def held_interrupts(run: Run) -> Generator[None]:
    """Hold an interrupt back inside the block; it becomes ``run.interrupt``, to be raised when all is done.

    Only Python's own handler is replaced: an application that handles SIGINT itself keeps its way.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def hold(number: int, frame: FrameType | None) -> None:
        if run.interrupt is None:
            run.interrupt = KeyboardInterrupt()
            return
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)

    previous = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
