"""A stream that is left while an agent is about to be asked, at work or done: its run is over, and so is its part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from surehand import Agent, MemoryJournal
from surehand.testing import ScriptedModel, calls, say

from ..nested import to, travel
from ..shop import Shop, book


async def leave(agent: Agent[Any, Any], after: int) -> str:
    async with agent.astream("Go") as run:
        taken = 0
        async for _ in run:
            taken += 1
            if taken > after:
                break
    return run.run_id


@pytest.mark.parametrize("after", range(24))
def test_a_stream_left_at_any_event_leaves_a_run_that_is_over(after: int) -> None:
    shop, journal = Shop(), MemoryJournal()
    inner = travel(calls(book("b")), say("ok"), tools=[shop])
    model = ScriptedModel([calls(book("a"), to()), say("Done")])
    agent = Agent(model, tools=[shop, inner], journal=journal, stream_buffer=1, parallel=False)
    row = journal.row(asyncio.run(leave(agent, after)))
    assert row is not None
    booked, cancelled = ([entry for entry in shop.log if entry.startswith(word)] for word in ("book", "cancel"))
    match row.state:
        case "SUCCEEDED":
            assert shop.log == ["book a", "book b"]
        case "UNDONE":
            assert cancelled == [f"cancel booked {entry[-1]}" for entry in reversed(booked)]
        case state:
            pytest.fail(f"the run is {state}")
