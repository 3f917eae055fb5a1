"""A travel desk whose process can be killed at a named moment: a module such as users give to the shell.

``python desk.py RUN_ID`` runs it; ``KILLED`` in the environment names the moment, ``BROKEN`` what fails.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from surehand import Agent, AssistantMessage, ChatRequest, ToolContext, tool, undoes
from surehand.messages import ChatResponse
from surehand.testing import ScriptedModel, call, calls, say

BANK = Path("bank.txt")
BROKEN = os.environ.get("BROKEN", "")


@dataclass(frozen=True)
class Receipt:
    euros: int


def note(text: str) -> None:
    with BANK.open("a") as file:
        file.write(f"{text}\n")


def dies(moment: str) -> None:
    if os.environ.get("KILLED") == moment:
        os.kill(os.getpid(), signal.SIGKILL)


@tool(repeat="with_key")
def reserve(room: int, ctx: ToolContext) -> int:
    """Reserve a room."""
    note(f"reserve {ctx.idempotency_key}")
    dies("reserve")
    return room


@undoes(reserve)
def free(room: int) -> None:
    if "free" in BROKEN:
        raise OSError("the desk is \x1b[31mclosed")
    note(f"free {room}")


@tool
def pay(euros: int) -> Receipt:
    """Pay."""
    note(f"pay {euros}")
    dies("pay")
    if "pay" in BROKEN:
        raise OSError("\x1b[2J[bold]the line is dead[/bold]")
    return Receipt(euros)


REPLIES = (
    calls(call("reserve", {"room": 7})),
    calls(call("pay", {"euros": 95})),
    say("Room 7 is yours.\n\x1b]0;a title\x07Bye."),
)


def reply(request: ChatRequest) -> ChatResponse:
    return REPLIES[sum(isinstance(message, AssistantMessage) for message in request.messages)]


agent = Agent(ScriptedModel([reply] * 10), tools=[reserve, pay], journal="trips.db", undo_retries=0)
nothing = 5


def make() -> Agent:
    return agent


def deps() -> str:
    note("deps were made")
    return "deps"


async def later() -> str:
    return "deps"


def fails() -> None:
    raise KeyError("TOKEN")


if __name__ == "__main__":
    with agent:
        agent.run("A room,\nplease \x1b[31mnow.", run_id=sys.argv[1])
