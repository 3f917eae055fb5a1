"""The token that cancels a run from elsewhere. It holds a flag and callbacks; what they do is the drivers' affair."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakSet

from msgspec import Struct, field

__all__ = ["CancelToken"]


class CancelToken(Struct, eq=False, weakref=True):
    """Cancels a run from another thread (spec 12.6): give it to ``run(cancel=…)``, call ``cancel()`` when you like.

    ``is_cancelled`` tells whether that has been done.
    """

    is_cancelled: bool = False
    has_parent: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _callbacks: list[Callable[[], None]] = []
    _children: WeakSet[CancelToken] | None = None

    def cancel(self) -> None:
        """Ask the run to stop: running tools finish, what was done is undone. Further calls change nothing."""
        with self._lock:
            callbacks, self._callbacks = ([] if self.is_cancelled else self._callbacks), []
            children = [] if self._children is None else list(self._children)
            self.is_cancelled = True
        for child in children:
            child.cancel()
        for callback in callbacks:
            callback()

    def forget(self, callback: Callable[[], None]) -> None:
        """Do not call it any more; a token may live longer than the run that waited for it."""
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def child(self) -> CancelToken:
        """A token that is cancelled when this one is, and not the other way round.

        Each run has one of its own below the caller's: leaving one run must not cancel the others that were given
        the same token, and a token that lives long must not keep every run alive.
        """
        child = CancelToken(has_parent=True)
        with self._lock:
            if not self.is_cancelled:
                self._children = WeakSet() if self._children is None else self._children
                self._children.add(child)
                return child
        child.cancel()
        return child

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call it when the token is cancelled; at once if it already is."""
        with self._lock:
            if not self.is_cancelled:
                self._callbacks.append(callback)
                return
        callback()
