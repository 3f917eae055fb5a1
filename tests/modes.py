"""One test body in every mode: four ways to run, each with the tools of a round in sequence and side by side.

Besides, ``begin`` and ``abegin`` take the same run step by step. Each of these also with a journal. A run of such a
mode is told again once it has ended: that must say the same and do nothing (``play``).
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from surehand import (
    Agent,
    AssistantMessage,
    AsyncStepwiseRun,
    ChatRequest,
    ChatResponse,
    Event,
    FinishReason,
    Message,
    ProviderEventReceived,
    ReasoningDelta,
    RunGivenUp,
    RunResult,
    StepwiseRun,
    TextContent,
    TextDelta,
    ToolCall,
    ToolCallComplete,
    ToolCallDelta,
    ToolExecution,
    ToolMessage,
    ToolStarted,
    UndoReport,
    report_of,
)
from surehand.durable import Journal, MemoryJournal, SQLiteJournal
from surehand.models import ChatModel
from surehand.testing import FakeClock, Recorder, ScriptedModel
from surehand.tools._tool import UNSTORED

T = TypeVar("T")

WAYS = ("run", "stream", "arun", "astream")
# ``BY_HAND=1`` in the environment takes every run and arun step by step: they must come out the same.
_taken_by_hand = {"run": "begin", "arun": "abegin"} if os.environ.get("BY_HAND") else {}
PIECES = (TextDelta, ReasoningDelta, ToolCallDelta, ToolCallComplete, ProviderEventReceived)


@dataclass(frozen=True)
class Ended:
    """How a run ended: its result or what it raised, its events in order, and what the model was asked."""

    result: RunResult[Any] | None
    error: BaseException | None
    events: Sequence[Event]
    requests: Sequence[ChatRequest] = field(default=())

    @property
    def answer(self) -> RunResult[Any]:
        """The result; a run that failed raises here what it failed with."""
        if self.result is None:
            assert self.error is not None
            raise self.error
        return self.result

    @property
    def report(self) -> UndoReport:
        """What became of the effects, from the result or from the error."""
        report = self.result.undone if self.result is not None else report_of(self.error or BaseException())
        assert report is not None, f"{self.error!r} carries no report"
        return report

    @property
    def executions(self) -> Sequence[ToolExecution[Any]]:
        """Every call, also of a run that failed."""
        return self.report.executions

    @property
    def messages(self) -> Sequence[Message]:
        """What the run added to the conversation, also if it failed."""
        return self.report.messages

    def of(self, kind: type[T]) -> list[T]:
        """The events of one type."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def names(self) -> list[str]:
        """The types of the events, without the pieces that only streams have."""
        return [type(event).__name__ for event in self.events if not isinstance(event, PIECES)]

    @property
    def results(self) -> list[tuple[str, str, bool | None]]:
        """What the model reads of each call: tool, text, whether it is an error."""
        return [(m.tool_name, m.text, m.is_error) for m in self.messages if isinstance(m, ToolMessage)]


@dataclass(frozen=True)
class Mode:
    """A way to run, whether the tools of a round run side by side, and where runs are recorded, if they are.

    ``journal``: ``"memory"``, ``"sqlite"`` (a file of its own for each run), or nothing.
    """

    way: str
    parallel: bool
    journal: str = ""

    @property
    def is_async(self) -> bool:
        """Whether the run goes on inside an event loop."""
        return self.way in ("arun", "astream", "abegin")

    @property
    def streams(self) -> bool:
        """Whether the caller takes events."""
        return self.way in ("stream", "astream")

    def __str__(self) -> str:
        return "-".join(filter(None, (self.way, "parallel" if self.parallel else "", self.journal)))

    def drive(self, agent: Agent[Any, Any], prompt: Any = "Go", **options: Any) -> Ended:
        """Run the agent to its end."""
        recorder = Recorder()
        options = {"parallel": self.parallel, **options}
        options["listeners"] = [recorder, *options.get("listeners", ())]
        taken: list[Event] = []
        result, error = None, None
        try:
            match _taken_by_hand.get(self.way, self.way):
                case "run":
                    result = agent.run(prompt, **options)
                case "stream":
                    result = _streamed(agent, prompt, options, taken)
                case "begin":
                    result = _by_hand(agent, prompt, options)
                case "abegin":
                    result = asyncio.run(_aby_hand(agent, prompt, options))
                case "arun":
                    result = asyncio.run(agent.arun(prompt, **options))
                case _:
                    result = asyncio.run(_astreamed(agent, prompt, options, taken))
        except BaseException as raised:
            error = raised
        if self.streams:
            if "run_id" not in options:  # what is told again, listeners have heard
                assert Counter(map(id, taken)) == Counter(map(id, recorder.events)), "a stream and a listener differ"
            return Ended(result, error, taken)
        return Ended(result, error, recorder.events)

    def play(self, *replies: Any, prompt: Any = "Go", run: dict[str, Any] | None = None, **options: Any) -> Ended:
        """Make an agent whose model plays this script, run it, and tell how that ended. The clock stands still.

        With a journal, undos are tried once, as they are without one; and the run is told again, by an agent whose
        model cannot be asked: that has to end alike and to leave the journal and the memory as they are.
        """
        model, given = ScriptedModel(replies), run or {}
        with _journal(self.journal) as journal:
            if journal is not None:
                options = {"journal": journal, "undo_retries": 0, **options}
            ended = self.drive(scripted(model, **options), prompt, **given)
            ended = replace(ended, requests=tuple(model.requests))
            if journal is not None and journal.row("run-1") is not None:
                self._tell_again(ended, journal, prompt, given, options)
        return ended

    def _tell_again(self, ended: Ended, journal: Journal, prompt: Any, given: Any, options: Any) -> None:
        memory = options.get("memory")
        history, remembered = journal.records("run-1"), None if memory is None else memory.messages()
        spent = ScriptedModel(())
        given = {name: value for name, value in given.items() if name not in ("cancel", "listeners")}
        agent = scripted(spent, **{**options, "listeners": ()})
        again = self.drive(agent, prompt, run_id="run-1", **given)
        lost = {execution.key for execution in again.executions if execution.value is UNSTORED}
        assert retold(again, lost) == retold(ended, lost)
        assert (spent.requests, again.of(ToolStarted)) == ([], []), "a run that was told again did something"
        assert (again.result is None) == (ended.result is None) == isinstance(again.error, RunGivenUp)
        assert journal.records("run-1") == history
        assert memory is None or memory.messages() == remembered


def _by_hand(agent: Agent[Any, Any], prompt: Any, options: dict[str, Any]) -> RunResult[Any]:
    """The same run as the agent's, each step of it taken here."""
    given: Any = dict(options)
    model = agent._model
    with StepwiseRun(agent._open(prompt, given.pop("deps", None), given, is_async=False, streams=False), model) as run:
        while (request := run.request()) is not None:
            run.receive(model.generate(request))
            run.combine()
            run.settle()
        return run.result


async def _aby_hand(agent: Agent[Any, Any], prompt: Any, options: dict[str, Any]) -> RunResult[Any]:
    given: Any = dict(options)
    model = agent._model
    opened = agent._open(prompt, given.pop("deps", None), given, is_async=True, streams=False)
    async with AsyncStepwiseRun(opened, model) as run:
        while (request := await run.request()) is not None:
            await run.receive(await model.agenerate(request))
            await run.combine()
            await run.settle()
        return run.result


def retold(ended: Ended, lost: Collection[str] = ()) -> dict[str, Any]:
    """What must be the same when a run that has ended is told again; ``lost`` names calls whose values have no JSON."""
    report, result = ended.report, ended.result
    said: dict[str, Any] = {"messages": report.messages, "cost": report.cost}
    for name in ("executions", "done", "undone", "failed_to_undo", "unknown", "no_undo", "standing"):
        said[name] = [_without_value(e) if e.key in lost else e for e in getattr(report, name)]
    if result is not None:
        names = ("output", "immediate", "response", "usage", "cost", "intermediate")
        said |= {name: getattr(result, name) for name in names}
    return said


def _without_value(execution: ToolExecution[Any]) -> ToolExecution[Any]:
    return msgspec.structs.replace(execution, result=msgspec.structs.replace(execution.result, value=UNSTORED))


@contextmanager
def _journal(kind: str) -> Iterator[Journal | None]:
    if kind != "sqlite":
        yield MemoryJournal() if kind else None
        return
    with tempfile.TemporaryDirectory() as folder:
        journal = SQLiteJournal(Path(folder) / "runs.db", sync="normal")
        yield journal
        journal.close()


def _streamed(agent: Agent[Any, Any], prompt: Any, options: Any, taken: list[Event]) -> RunResult[Any]:
    with agent.stream(prompt, **options) as run:
        taken.extend(run)
        return run.result


async def _astreamed(agent: Agent[Any, Any], prompt: Any, options: Any, taken: list[Event]) -> RunResult[Any]:
    async with agent.astream(prompt, **options) as run:
        async for event in run:
            taken.append(event)
        return run.result


IN_SEQUENCE = [Mode(way, False) for way in WAYS]
SIDE_BY_SIDE = [Mode(way, True) for way in WAYS]
ALL_MODES = IN_SEQUENCE + SIDE_BY_SIDE
RECORDED = [replace(mode, journal="memory") for mode in ALL_MODES]
IN_A_FILE = [Mode(way, way.startswith("a"), "sqlite") for way in WAYS]


def scripted(model: ChatModel, **options: Any) -> Agent[Any, Any]:
    """An agent with a clock that stands still and one name for all its runs: so whole values can be compared."""
    still: dict[str, Any] = {"clock": FakeClock(1000.0), "new_id": lambda: "run-1", **options}
    return Agent(model, **still)


def ask(*calls: ToolCall, text: str | None = None) -> ChatResponse:
    """A reply that asks for exactly these calls, with whatever ids they have or lack."""
    return ChatResponse(AssistantMessage(text, calls), None, FinishReason.TOOL_EXECUTION)


def answer_of(call: ToolCall, text: str, *, is_error: bool = False) -> ToolMessage:
    """The message that answers a call with one text."""
    return ToolMessage(call.id, call.name, (TextContent(text),), is_error)
