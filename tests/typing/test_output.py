"""Checked by pyright and mypy: the type that an agent is given is the type of what its runs give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from surehand import Agent, AsyncStream, RunResult, Stream
from surehand.testing import ScriptedModel, say


@dataclass
class Trip:
    city: str


@dataclass
class Refusal:
    why: str


def model() -> ScriptedModel:
    return ScriptedModel([say('{"city": "Rome"}')])


def test_an_agent_gives_what_it_was_told_to_give() -> None:
    agent = Agent(model(), output=Trip, output_mode="text")
    assert_type(agent, Agent[Any, Trip])
    result = agent.run("Go")
    assert_type(result, RunResult[Trip])
    assert_type(result.output, Trip | None)
    assert result.output == Trip("Rome")


def without_a_type_it_is_text() -> None:
    agent = Agent(model())
    assert_type(agent, Agent[Any, str])
    assert_type(agent.run("Go").output, str | None)


def with_deps_both_are_named() -> None:
    agent = Agent[int, Trip](model(), output=Trip)
    assert_type(agent.run("Go", deps=1).output, Trip | None)
    agent.run("Go", deps="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def generic_types_are_types_too() -> None:
    assert_type(Agent(model(), output=list[Trip]).run("Go").output, list[Trip] | None)
    assert_type(Agent(model(), output=int).run("Go").output, int | None)


def unions_are_named_where_the_agent_is_declared() -> None:
    agent: Agent[None, Trip | Refusal] = Agent(model(), output=Trip | Refusal)
    assert_type(agent.run("Go").output, Trip | Refusal | None)
    other = Agent[Any, Trip | Refusal](model(), output=Trip | Refusal)
    assert_type(other.run("Go").output, Trip | Refusal | None)


async def every_way_to_run_gives_it() -> None:
    agent = Agent(model(), output=Trip)
    assert_type(await agent.arun("Go"), RunResult[Trip])
    assert_type(agent.stream("Go"), Stream[Trip])
    assert_type(agent.astream("Go"), AsyncStream[Trip])
    assert_type(agent.resume("run-1"), RunResult[Trip])


def what_is_not_of_the_type_is_noticed() -> None:
    agent = Agent(model(), output=Trip)
    output = agent.run("Go").output
    assert output is None or output.town  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def deps_alone_may_be_named() -> None:
    agent = Agent[int](model())
    assert_type(agent, Agent[int, str])
    agent.run("Go", deps="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    other: Agent[int] = Agent(model())
    other.run("Go", deps="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
