"""What surehand tells a tool that asks for it, and what a tool may ask of surehand (spec 3.5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from ..errors import UserError
from ..messages import ToolCall
from ._parameter import MISSING
from ._steps import Steps, run_step

if TYPE_CHECKING:
    from ._toolset import Toolset

__all__ = ["Parameters", "ToolContext"]

T = TypeVar("T")
DepsT = TypeVar("DepsT", default=Any)


class Parameters(MutableMapping[str, Any]):
    """The caller's own bag of values for one run, seen by tools and never by the model (spec 2.8.4). Thread-safe.

    A run with a journal cannot write into it: what is in it must be the same when the run is resumed (design 5).
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, read_only: bool = False) -> None:
        self._values: dict[str, Any] = dict(values) if values else {}
        self._lock = threading.Lock()
        self._read_only = read_only

    def __getitem__(self, key: str) -> Any:
        with self._lock:
            return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._check(key)
        with self._lock:
            self._values[key] = value

    def __delitem__(self, key: str) -> None:
        self._check(key)
        with self._lock:
            del self._values[key]

    def _check(self, key: str) -> None:
        if self._read_only:
            raise UserError(
                f"parameters[{key!r}]: the parameters of a run with a journal are read-only, so that it can be resumed "
                "with the same; what a tool must remember it does in ctx.step(name, fn)"
            )

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Parameters({self._values!r})"


def _ignore(_: Any) -> None:
    return None


class ToolContext(Struct, Generic[DepsT], frozen=True, kw_only=True, eq=False):
    """What surehand tells a tool that has a parameter of this type; the model neither sees nor sets it (spec 3.5).

    ``idempotency_key`` is the same for every attempt at this call: give it to the service behind the tool.
    ``attempt`` counts from 1. ``deadline`` is when the attempt times out, in seconds since the epoch. ``steps`` is
    where ``step`` records; without it, as in a context that a test makes, nothing is recorded.
    """

    deps: DepsT
    call: ToolCall
    run_id: str
    memory_id: Any
    parameters: Parameters
    idempotency_key: str
    attempt: int = 1
    deadline: float | None = None
    report: Callable[[Any], object] = _ignore
    steps: Steps | None = None
    taken: set[str] | None = None  # names of the steps of this attempt, for ``step`` alone
    toolset: Toolset | None = None  # what the run has now, for searches alone

    def progress(self, value: Any) -> None:
        """Tell listeners how far the tool is, as a ``ToolProgress`` event; the value may be anything."""
        self.report(value)

    def step(self, name: str, fn: Callable[[], T], *, type: Any = MISSING) -> T:
        """What ``fn()`` gives, recorded under this call: when the body runs again, ``fn`` does not.

        The body runs again when the call is retried, or when its run is resumed after a crash; what is recorded is
        then given back at once. So a body that reserves and then pays does not reserve twice::

            held = ctx.step("reserve", lambda: hotel.reserve(room))
            ctx.step("pay", lambda: bank.pay(held["price"], key=ctx.idempotency_key))

        If ``fn`` is async or gives an awaitable, so does this: ``await ctx.step("reserve", reserve)``. An async tool
        should give such a function, since the other form waits in place until the record is on disk.

        ``type`` is the type of the value, for what is more than plain data (text, numbers, ``None``, lists and dicts
        of them): it comes back as that type. Raises ``UserError`` if the value cannot be stored (``fn`` has run then),
        and if one attempt uses a name twice. What ``fn`` raises is passed on and nothing is recorded. A process that
        dies between ``fn`` and the record runs ``fn`` again.
        """
        if not name or not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"step({name!r}): expected a name that says what the step does, such as 'reserve'")
        if not callable(fn):
            raise UserError(f"step {name!r}: {fn!r} cannot be called; give a function: step({name!r}, lambda: …)")
        if self.steps is None:
            return fn()
        self._take(name)
        value: T = run_step(self.steps, name, fn, type)
        return value

    def _take(self, name: str) -> None:
        # In here, not in ``steps``: the names are those of one attempt, and what is recorded is that of the call.
        with _lock:
            if self.taken is None:
                msgspec.structs.force_setattr(self, "taken", set())
            taken: Any = self.taken
            is_new = name not in taken
            taken.add(name)
        if not is_new:
            raise UserError(
                f"step {name!r} is there twice in one attempt of the tool {self.call.name!r}, so the second would be "
                f"given what the first one gave; give each step a name of its own, as in f'{name}-{{number}}'"
            )


_lock = threading.Lock()  # a body may run its steps on several threads
