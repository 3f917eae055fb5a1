"""The floor: a loop as one would write it by hand, with json, pydantic and a call, and the tools both sides use."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter
from typing_extensions import TypedDict


class Arguments(TypedDict):
    """What the tools take."""

    a: int
    b: int


ARGUMENTS = '{"a": 1, "b": 2}'
_validate = TypeAdapter(Arguments).validate_json


def sadd(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def ssleep(a: int, b: int) -> int:
    """Add two integers slowly."""
    time.sleep(0.05)
    return a + b


async def asleep(a: int, b: int) -> int:
    """Add two integers slowly."""
    await asyncio.sleep(0.05)
    return a + b


FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (sadd, add, ssleep, asleep)}


def next_round(last_id: str | None) -> int:
    """Which round follows the result with that id."""
    return int(last_id[1 : last_id.index("_")]) + 1 if last_id else 0


def _reply(messages: list[dict[str, Any]], rounds: int, width: int, name: str) -> dict[str, Any]:
    number = next_round(messages[-1].get("tool_call_id"))
    if number >= rounds:
        return {"role": "assistant", "content": "done"}
    calls = [
        {"id": f"c{number}_{i}", "type": "function", "function": {"name": name, "arguments": ARGUMENTS}}
        for i in range(width)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(call: dict[str, Any], value: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(value)}


def run(rounds: int, width: int, name: str = "sadd") -> str:
    """The blocking loop."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    while True:
        reply = _reply(messages, rounds, width, name)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply["content"]
        for call in reply["tool_calls"]:
            function = call["function"]
            value = FUNCTIONS[function["name"]](**_validate(function["arguments"]))
            messages.append(_result(call, value))


async def _areply(
    messages: list[dict[str, Any]], rounds: int, width: int, name: str, pause: float | None
) -> dict[str, Any]:
    if pause is not None:
        await asyncio.sleep(pause)
    return _reply(messages, rounds, width, name)


async def _acall(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return _result(call, await FUNCTIONS[function["name"]](**_validate(function["arguments"])))


async def arun(rounds: int, width: int, name: str = "add", *, pause: float | None = None) -> str:
    """The awaitable loop; its model takes ``pause`` seconds for a reply."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    while True:
        reply = await _areply(messages, rounds, width, name, pause)
        messages.append(reply)
        calls = reply.get("tool_calls")
        if not calls:
            return reply["content"]
        if len(calls) == 1:
            messages.append(await _acall(calls[0]))
        else:
            messages.extend(await asyncio.gather(*[_acall(call) for call in calls]))
