"""Runs a scenario in one mode; gives what happened in the form in which the recordings say it."""

from __future__ import annotations

import asyncio
from typing import Any

from surehand import MemoryJournal, MessageWindow, RunGivenUp, UserError

from .live import Player, build, settle
from .outputs import is_wrapper
from .record import Trace, error_of, exception_of, execution_of, message_of, object_of, result_of
from .scenario import Scenario, is_recorded, way_of

__all__ = ["drive", "observe"]


def observe(scenario: Scenario, mode: str) -> dict[str, Any]:
    """The trace, the outcomes and the memories of the scenario, run in that mode."""
    trace, memories = Trace(), dict[Any, MessageWindow]()
    player, way = Player(scenario, trace), way_of(mode)
    journal = MemoryJournal() if is_recorded(mode) else None
    try:
        agent = build(scenario, trace, player, memories, journal)
    except UserError as error:
        outcomes: list[dict[str, Any]] = [{"stage": "build", "threw": error_of(error)}]
    else:
        if way in ("run", "stream"):
            outcomes = [_blocking(scenario, way, agent, trace, call) for call in scenario.calls]
        else:
            outcomes = asyncio.run(_all_async(scenario, way, agent, trace))
        settle(scenario)
        if journal is not None:
            told = len(trace.events)
            _tell_again(scenario, agent, journal, outcomes)
            # Providers are asked for the tools whose calls are told, so that their values come back as they were.
            trace.events[told:] = [event for event in trace.events[told:] if event["ev"] != "provider_called"]
    observed: dict[str, Any] = {"model_calls": player.requests, "trace": trace.events, "outcomes": outcomes}
    if scenario.window is not None:
        observed["memory_after"] = {
            str(memory_id): [message_of(message) for message in memory.messages()]
            for memory_id, memory in memories.items()
        }
    return observed


def _tell_again(scenario: Scenario, agent: Any, journal: MemoryJournal, outcomes: list[dict[str, Any]]) -> None:
    """Let the journal tell every run again: it says the same, and whatever it did besides would show in the trace."""
    told: list[dict[str, Any]] = []
    for row in journal.rows():
        try:
            told.append(_given(scenario, agent.resume(row.run_id)))
        except RunGivenUp:
            assert row.state in ("UNDONE", "STUCK")
    if any("stream_finished" in outcome for outcome in outcomes):
        return  # of a stream with callbacks the trace tells everything
    given = [{key: each for key, each in outcome.items() if key != "stage"} for outcome in outcomes]
    assert told == [_without_lost(outcome, told) for outcome in given if "threw" not in outcome]


def _given(scenario: Scenario, result: Any) -> dict[str, Any]:
    """What the service method gives: everything about the run, or the answer alone."""
    if is_wrapper(scenario.return_type) or scenario.streams:
        return {"result": result_of(result)}
    if scenario.return_type == "void":
        return {"returned_void": True}
    return {"returned": object_of(result.output)}


def _without_lost(given: dict[str, Any], told: list[dict[str, Any]]) -> dict[str, Any]:
    """The result without the values that have no JSON form, which end with the process."""
    if "result" not in given:
        return given
    result, results = given["result"], [again["result"] for again in told if "result" in again]
    lost = {each["id"] for again in results for each in again["tool_executions"] if each.get("result_object") == _LOST}
    executions = [{**e, "result_object": _LOST} if e["id"] in lost else e for e in result["tool_executions"]]
    return {"result": {**result, "tool_executions": executions}}


_LOST = "<Unstored>"


async def _all_async(scenario: Scenario, mode: str, agent: Any, trace: Trace) -> list[dict[str, Any]]:
    return [await _awaitable(scenario, mode, agent, trace, call) for call in scenario.calls]


def _options(call: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if call.get("memory_id") is not None:
        options["memory_id"] = call["memory_id"]
    if call.get("invocation_params") is not None:
        options["parameters"] = call["invocation_params"]
    return options


def _blocking(scenario: Scenario, mode: str, agent: Any, trace: Trace, call: dict[str, Any]) -> dict[str, Any]:
    try:
        if mode == "run":
            return _ended(_given(scenario, agent.run(call["user"], **_options(call))), trace)
        stream = agent.stream(call["user"], **_options(call))
        if scenario.streams:
            finished = _register(scenario, stream, trace)
            stream.start()
            return _ended({"stream_finished": bool(finished)}, trace)
        with stream:
            for _ in stream:
                pass
            return _ended(_given(scenario, stream.result), trace)
    except Exception as error:
        return _ended({"threw": error_of(error)}, trace)


async def _awaitable(scenario: Scenario, mode: str, agent: Any, trace: Trace, call: dict[str, Any]) -> dict[str, Any]:
    try:
        if mode == "arun":
            return _ended(_given(scenario, await agent.arun(call["user"], **_options(call))), trace)
        stream = agent.astream(call["user"], **_options(call))
        if scenario.streams:
            finished = _register(scenario, stream, trace)
            await stream.start()
            return _ended({"stream_finished": bool(finished)}, trace)
        async with stream:
            async for _ in stream:
                pass
            return _ended(_given(scenario, stream.result), trace)
    except Exception as error:
        return _ended({"threw": error_of(error)}, trace)


def _ended(outcome: dict[str, Any], trace: Trace) -> dict[str, Any]:
    trace.note("call_end")
    return {"stage": "call", **outcome}


def _register(scenario: Scenario, stream: Any, trace: Trace) -> list[str]:
    """The callbacks of a stream; gives a list that is filled once the stream has ended in one of its two ways."""
    finished: list[str] = []
    skipped = scenario.config.get("stream_skip") or {}

    def complete(response: Any) -> None:
        finished.append("complete")
        trace.complete(response)
        if scenario.config.get("complete_handler_throw"):
            raise exception_of(scenario.config["complete_handler_throw"])

    def failed(error: BaseException) -> None:
        finished.append("error")
        trace.note("stream_error", error=error_of(error))

    stream.on_text(lambda text: trace.note("stream_partial", text=text))
    stream.on_intermediate_response(trace.intermediate)
    stream.on_before_tool(lambda call: trace.note("stream_before_tool", id=call.id, name=call.name))
    stream.on_tool_executed(lambda execution: trace.note("stream_tool_executed", **execution_of(execution)))
    stream.on_complete(complete)
    if skipped.get("on_error"):
        stream.ignore_errors()
    else:
        stream.on_error(failed)
    return finished


# ---------------------------------------------------------------- one run to its end


def drive(agent: Any, mode: str) -> None:
    """One run of the agent in that mode."""
    if mode == "run":
        agent.run("go")
    elif mode == "stream":
        with agent.stream("go") as stream:
            for _ in stream:
                pass
            _ = stream.result
    else:
        asyncio.run(_drive_async(agent, mode))


async def _drive_async(agent: Any, mode: str) -> None:
    if mode == "arun":
        await agent.arun("go")
        return
    async with agent.astream("go") as stream:
        async for _ in stream:
            pass
        _ = stream.result
