"""The world that the tools of the tests change: the only source of truth about what happened.

Every call carries a number of its own, ``n``. The world keeps, for each number, how often its body was entered,
whether its effect stands, and how often somebody tried to undo it. Nothing in here looks at surehand's books.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surehand import Absent, Happened, Tool, ToolContext, ToolError, Unknown, tool
from surehand.tools._collect import collect_tools

BODY_ERRORS: dict[str, Callable[[str], BaseException]] = {
    "error": ValueError,
    "exit": SystemExit,
    "leave": GeneratorExit,
    "cancel": asyncio.CancelledError,
    "interrupt": KeyboardInterrupt,
    "stop": StopIteration,
}


@dataclass(frozen=True)
class Plan:
    """How one call's body behaves.

    ``acts``: one per attempt, the last one again and again: ``ok``, ``tool_error``, or a key of ``BODY_ERRORS``,
    with ``before:`` in front if it fails before its effect. ``waits``: ``no``; ``timeout`` (until the test lets it
    go, for tools with a timeout); ``stuck`` (asks for the run to be cancelled, then the same). ``undo``: ``ok`` or
    a key of ``BODY_ERRORS``.
    """

    acts: tuple[str, ...] = ("ok",)
    pauses: int = 0
    waits: str = "no"
    probe: str = "unknown"
    undo: str = "ok"


@dataclass
class World:
    """Effects and who is at work on them; thread-safe."""

    plans: dict[int, Plan] = field(default_factory=dict[int, Plan])
    names: dict[int, str] = field(default_factory=dict[int, str])
    cancel: Callable[[], None] = lambda: None
    cancel_at_step: int | None = None
    entered: Counter[int] = field(default_factory=Counter[int])
    effects: dict[int, int] = field(default_factory=dict[int, int])
    undo_tries: list[int] = field(default_factory=list[int])
    undone: Counter[int] = field(default_factory=Counter[int])
    completed: list[int] = field(default_factory=list[int])
    raised: list[BaseException] = field(default_factory=list[BaseException])
    running: Counter[int] = field(default_factory=Counter[int])
    keys: dict[str, int] = field(default_factory=dict[str, int])
    steps: int = 0
    may_wait: bool = True
    release: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def step(self) -> None:
        """Something begins; at the chosen step the run is asked to stop."""
        with self.lock:
            self.steps += 1
            hit = self.steps == self.cancel_at_step
        if hit:
            self.cancel()

    def enter(self, n: int) -> str:
        """A body begins; gives what it is to do."""
        self.step()
        with self.lock:
            self.entered[n] += 1
            self.running[n] += 1
            acts = self.plans[n].acts
            return acts[min(self.entered[n], len(acts)) - 1]

    def leave(self, n: int) -> None:
        """A body or an undo ends."""
        with self.lock:
            self.running[n] -= 1
            if not self.running[n]:
                del self.running[n]

    def act(self, n: int, act: str, repeat: str, key: str) -> int:
        """The effect itself, unless the act is to fail before; services behind keys and reads do things once."""
        kind = act.removeprefix("before:")
        if kind == "tool_error":
            raise ToolError("not today")
        if not act.startswith("before:"):
            with self.lock:
                once = repeat == "safe" or (repeat == "with_key" and key in self.keys)
                self.effects[n] = 1 if once else self.effects.get(n, 0) + 1
                self.keys[key] = n
        if kind != "ok":
            raise self.made(kind, n)
        with self.lock:
            self.completed.append(n)
        return n

    def made(self, kind: str, n: int) -> BaseException:
        """An exception of that kind, remembered."""
        error = BODY_ERRORS[kind](f"call {n}")
        with self.lock:
            self.raised.append(error)
        return error

    def take_back(self, n: int) -> None:
        """Undo the effect of a call, or fail to."""
        kind = self.plans[n].undo
        with self.lock:
            self.undo_tries.append(n)
        if kind != "ok":
            raise self.made(kind, n)
        with self.lock:
            self.undone[n] += 1

    def holds(self, n: int) -> bool:
        """Whether the body has to wait for the test."""
        return self.may_wait and self.plans[n].waits != "no"

    def probe(self, n: int) -> Any:
        """A truthful answer, or none."""
        match self.plans[n].probe:
            case "raises":
                raise self.made("error", n)
            case "tells":
                # Of a body that is still at work, nobody can say that it will not have happened.
                if self.effects.get(n):
                    return Happened(n)
                return Unknown() if n in self.running else Absent()
            case _:
                return Unknown()

    @property
    def standing(self) -> set[int]:
        """Numbers of the calls whose effect is there now."""
        return {n for n, count in self.effects.items() if count > self.undone[n]}


# ---------------------------------------------------------------- the tools


def make_tools(world: World) -> list[Tool]:
    """Tools of both colours, each way to repeat, with and without undo, some with a timeout, one exclusive."""
    made: list[Any] = []
    for colour in ("sync", "async", "inline"):
        for repeat in ("safe", "with_key", "never"):
            for undo in (True, False):
                made.append(_tool(world, colour, repeat, undo))
    made.append(_tool(world, "sync", "never", True, timeout=0.015))
    made.append(_tool(world, "async", "with_key", True, timeout=0.015))
    made.append(_tool(world, "sync", "safe", True, timeout=0.015))
    made.append(_tool(world, "async", "never", True, exclusive=True))
    return collect_tools(made)


def _tool(world: World, colour: str, repeat: str, undo: bool, **options: Any) -> Any:
    async def body_async(n: int, ctx: ToolContext[Any]) -> int:
        """Change the world."""
        act = world.enter(n)
        try:
            for _ in range(world.plans[n].pauses):
                await asyncio.sleep(0)
            if world.holds(n):
                _ask_to_stop(world, n)
                while not world.release.is_set():
                    await asyncio.sleep(0.001)
            return world.act(n, act, repeat, ctx.idempotency_key)
        finally:
            world.leave(n)

    def body(n: int, ctx: ToolContext[Any]) -> int:
        """Change the world."""
        act = world.enter(n)
        try:
            if colour == "sync":
                time.sleep(0.0003 * world.plans[n].pauses)  # jitter, nothing waits for it
                if world.holds(n):
                    _ask_to_stop(world, n)
                    world.release.wait(10)
            return world.act(n, act, repeat, ctx.idempotency_key)
        finally:
            world.leave(n)

    async def undo_async(value: int) -> None:
        await asyncio.sleep(0)
        world.take_back(value)

    def undo_sync(n: int) -> None:
        world.take_back(n)

    def probe(context: ToolContext[Any], arguments: dict[str, Any]) -> Any:
        return world.probe(arguments["n"])

    options |= {"repeat": repeat, "probe": probe, "name": name_of(colour, repeat, undo, options)}
    if repeat != "never":
        options["retries"] = 1
    if colour == "inline":
        options["inline"] = True
    if undo:
        options["undo"] = undo_async if colour == "async" else undo_sync
    return tool(**options)(body_async if colour == "async" else body)


def _ask_to_stop(world: World, n: int) -> None:
    if world.plans[n].waits == "stuck":
        world.cancel()


def name_of(colour: str, repeat: str, undo: bool, options: dict[str, Any]) -> str:
    """The tool's name, which tells what it is."""
    extra = "_timed" if "timeout" in options else "_alone" if "exclusive" in options else ""
    return f"{colour}_{repeat}_{'undo' if undo else 'plain'}{extra}"
