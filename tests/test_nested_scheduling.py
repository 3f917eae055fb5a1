"""When an agent that is called may start: beside others, alone, or before the reply that asks for it is complete."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from surehand import ToolStarted, tool
from surehand.testing import call, say

from .durable.remains import Held
from .modes import Mode, ask, scripted
from .nested import to, travel
from .shop import Shop, book

PATIENCE = 20.0
STREAMS = pytest.mark.parametrize("way", ["stream", "astream"])


class Peak:
    """How many calls of its tool were running at once, at most."""

    def __init__(self) -> None:
        self.most = self._now = 0
        self._lock = threading.Lock()

    def tool(self, **options: Any) -> Any:
        @tool(repeat="safe", **options)
        def look() -> str:
            """Look."""
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            time.sleep(0.03)
            with self._lock:
                self._now -= 1
            return "there"

        return look


def looking(peak: Peak, **options: Any) -> Any:
    """An agent that looks once each time that it is asked, and remembers nothing."""

    def reply(request: Any) -> Any:
        return ask(call("look", id="x")) if len(request.messages) == 1 else say("ok")

    return travel(*[reply] * 20, tools=[peak.tool()], **options)


def test_agents_of_one_round_run_side_by_side(concurrent: Mode) -> None:
    peak = Peak()
    concurrent.play(ask(*(to(id=str(n)) for n in range(3))), say("Done"), tools=[looking(peak)])
    assert peak.most == 3


@pytest.mark.parametrize(
    ("options", "most"), [({"max_parallel": 1}, 1), ({"max_parallel": 2}, 2), ({"exclusive": True}, 1)]
)
def test_as_tool_may_say_how_many_calls_of_the_agent_run_at_once(concurrent: Mode, options: Any, most: int) -> None:
    peak = Peak()
    asked = looking(peak).as_tool(**options)
    concurrent.play(ask(*(to(id=str(n)) for n in range(4))), say("Done"), tools=[asked])
    assert peak.most == most


def test_nothing_runs_beside_an_exclusive_agent(concurrent: Mode) -> None:
    peak = Peak()
    look = peak.tool()
    asked = looking(peak).as_tool(exclusive=True)
    calls = [call("look", id="a"), to(), call("look", id="b"), call("look", id="c")]
    ended = concurrent.play(ask(*calls), say("Done"), tools=[asked, look], early_start="off")
    started = [(event.path, event.call.name) for event in ended.of(ToolStarted)]
    assert started.index(("1.1", "look")) == started.index(("", "travel")) + 1
    assert peak.most == 2  # the two that come after it


# ---------------------------------------------------------------- early starts


@STREAMS
@pytest.mark.parametrize("early", ["off", "safe", "all"])
def test_an_agent_starts_before_the_reply_is_complete_only_if_all_calls_may(way: str, early: Any) -> None:
    shop, deadline = Shop(), time.monotonic() + (PATIENCE if early == "all" else 0.1)
    seen: list[int] = []

    def may_go_on() -> bool:
        seen.append(len(shop.log))
        return bool(shop.log) or time.monotonic() > deadline

    inner = travel(ask(book("a")), say("ok"), tools=[shop])
    model = Held([ask(to()), say("Done")], may_go_on)
    ended = Mode(way, True).drive(scripted(model, tools=[inner], early_start=early))
    assert (ended.answer.output, shop.log) == ("Done", ["book a"])
    assert seen[-1] == (1 if early == "all" else 0)


@STREAMS
@pytest.mark.parametrize("width", [True, 2])
@pytest.mark.parametrize("most", [None, 1])
def test_what_starts_early_keeps_to_the_width_of_the_run_and_to_max_parallel(way: str, width: Any, most: Any) -> None:
    peak = Peak()
    looks = [call("look", id=str(n)) for n in range(4)]
    Mode(way, True).play(
        ask(*looks), say("Done"), tools=[peak.tool(max_parallel=most)], run={"parallel": width}, early_start="safe"
    )
    assert peak.most == (1 if most else 4 if width is True else 2)


# ---------------------------------------------------------------- Ctrl-C

_PROGRAM = """
import os, signal, sys
from surehand import Agent, report_of, tool
from surehand.testing import ScriptedModel, call, calls, say

signal.signal(signal.SIGINT, signal.default_int_handler)

def ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)

def undo(value):
    if sys.argv[2] == "again":
        ctrl_c()
    print("undone", value, flush=True)

@tool(undo=undo)
def book(what: str) -> str:
    return what

@tool
def slow() -> None:
    ctrl_c()
    for _ in range(1_000_000): pass
    print("not interrupted", flush=True)

inner = Agent(ScriptedModel([calls(call("book", {"what": "b"})), calls(call("slow")), say("x")]), tools=[book, slow],
              name="travel", description="Books.")
outer = Agent(ScriptedModel([calls(call("book", {"what": "a"})), calls(call("travel", {"prompt": "go"})), say("x")]),
              tools=[book, inner])
try:
    if sys.argv[1] == "run":
        outer.run("go")
    else:
        with outer.stream("go") as run:
            for _ in run: pass
except KeyboardInterrupt as error:
    report = report_of(error)
    print([e.key for e in report.undone], [e.key for e in report.unknown], flush=True)
"""


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("times", ["once", "again"])
def test_ctrl_c_in_a_tool_of_an_agent_undoes_everything_and_a_second_one_waits_for_that(way: str, times: str) -> None:
    source = str(Path(sys.modules["surehand"].__file__ or "").parents[1])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, way, times], capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "PYTHONPATH": source},
    )  # fmt: skip
    said = ["undone b", "undone a", "['1.0', '2.0/1.0'] ['2.0/2.0']"]
    assert (done.returncode, done.stdout.splitlines()) == (0, said), done.stderr
