"""A call that ended after its run had gone on without it is told again as what became of it then."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from surehand import ChatRequest, ToolContext, ToolError, ToolFinished, UndoPolicy, tool
from surehand.testing import call, calls, say

from ..modes import Mode
from .remains import RUN, Life, agent, every_mode


def slow_and_refuse(life: Life) -> tuple[list[Any], Any]:
    """Two tools and a listener: ``slow`` is given up waiting for, and has ended when ``refuse`` fails."""
    answered, may_end, has_ended = threading.Event(), threading.Event(), threading.Event()

    def cancel(ctx: ToolContext[Any]) -> None:
        life.log.append(f"cancel {ctx.idempotency_key}")

    @tool(repeat="with_key", timeout=0.01, undo=cancel)
    def slow(ctx: ToolContext[Any]) -> str:
        assert may_end.wait(20)
        return "slow"

    @tool
    def refuse() -> None:
        assert answered.wait(20)
        may_end.set()
        assert has_ended.wait(20)
        raise ToolError("no")

    def listen(event: Any) -> None:
        if isinstance(event, ToolFinished) and event.execution.call.name == "slow":
            (has_ended if event.late else answered).set()

    return [slow, refuse], listen


@every_mode
@pytest.mark.parametrize("in_one_round", [True, False])
def test_a_call_that_ended_late_and_was_undone_since_another_failed_is_told_again_as_that(
    mode: Mode, in_one_round: bool
) -> None:
    life = Life()
    tools, listen = slow_and_refuse(life)
    asks = [calls(call("slow"), call("refuse"))] if in_one_round else [calls(call("slow")), calls(call("refuse"))]

    def dies(request: ChatRequest) -> Any:
        life.dies()
        return say("Done")

    options: dict[str, Any] = {"tools": tools, "undo": UndoPolicy.ON_TOOL_ERROR}
    first = agent(life, *asks, calls(call("nothing")), dies, **options, listeners=[listen]).run("Go", run_id=RUN)
    life.next()
    ended = mode.drive(agent(life, say("Done"), **options), run_id=RUN)
    assert ended.error is None and ended.report == first.undone
    assert [e.key for e in ended.report.undone] == ["1.0"] and life.log == [f"cancel {RUN}:1.0"]
