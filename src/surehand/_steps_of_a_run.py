"""The steps of a run whose caller takes them one by one: which may come when, and what each gives (spec 19.1).

The loop is that of every run. It stops where its caller is to act; a step has it go on to the next such place. The
steps are generators that know no colour: how one goes on is in ``_stepwise``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar, cast

from ._books import Round, Run
from ._by_hand import Place
from ._call import execute
from ._checks import is_whole
from ._effects import CallModel, Core, Stop
from ._giveup import not_finished
from ._reading import Unread, read
from ._report import UndoReport
from ._results import RunResult
from ._started import Started, noted
from ._step_values import CombinedResults, NextRequest, RoundOutcome, Undoable
from .errors import RunCancelled, RunGivenUp, UserError
from .events import UndoReason
from .messages import ChatRequest, ChatResponse, Message, ToolCall, ToolSpec
from .policies import UndoPolicy
from .tools._tool import ToolExecution

__all__ = ["ByHand", "Steps", "throwable"]

T = TypeVar("T")
StartedT = TypeVar("StartedT", bound=Started)
Steps = Generator[Any, "Place | None", T]
"""Yields what the run is told, and is sent where it stands then: nowhere once it has ended."""

# What each step is called, and when it is its turn.
_REQUEST, _RECEIVE, _COMBINE, _SETTLE = "request()", "receive(response)", "combine()", "settle()"


class ByHand:
    """What both kinds of handles have in common."""

    def __init__(self, run: Run) -> None:
        run.by_hand = True
        run.starts_early = run.parallel is not False and run.settings.early_start != "off"
        self._run = run
        self._turn: tuple[str, ...] = (_REQUEST,)  # the steps that may be taken now
        self._entered = self._busy = self._over = False
        self._result: RunResult[Any] | None = None
        self._asked: CallModel | None = None
        self._round: Round | None = None
        self._calls: dict[int, Started] = {}  # those that were started, by slot
        self._combined = CombinedResults()
        self._undone: set[str] = set()  # keys of the calls that earlier rounds have told of

    # ------------------------------------------------------------ what can be read at any time

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    @property
    def result(self) -> RunResult[str]:
        """The run's result, once ``request()`` has given ``None``; before that, or without one, a ``UserError``."""
        if self._result is None:
            raise UserError(
                f"run {self.run_id!r} has no result: take its steps until request() gives None; .undone tells what "
                "became of it if it was given up"
            )
        return self._result

    @property
    def undone(self) -> UndoReport:
        """What became of the run's effects, as known now."""
        return self._run.report()

    @property
    def undoable(self) -> tuple[Undoable, ...]:
        """The finished calls that can still be undone, in the order in which they would be: newest first (spec 11.2).

        A run that has its answer, or was given up, has none.
        """
        waiting = self._run.ledger.waiting()
        return tuple([Undoable(entry.execution, _message_of(entry.run, entry.execution)) for entry in waiting])

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the run has added to the conversation so far, from the user's message on."""
        return read(tuple(self._run.messages))

    @property
    def executions(self) -> tuple[ToolExecution[Any], ...]:
        """Every call so far, by round, in request order."""
        return tuple(self._run.executions)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What the model is shown now (spec 6.4): the service's own, what providers have given, what was found."""
        return self._run.toolset.specs

    @property
    def prepared(self) -> NextRequest:
        """The latest request, with what it was built from; before the first one a ``UserError``."""
        if self._asked is None:
            raise UserError("no request has been prepared yet; take request() first")
        run, request = self._run, self._asked.request
        plain = request if run.settings.transform_request is None else run.untransformed or request
        return NextRequest(request, plain.messages, plain.parameters, run.toolset.specs)

    # ------------------------------------------------------------ the steps, without a colour

    def _expect(self, step: str) -> None:
        if not self._entered:
            raise UserError(f"{step}: take the steps inside a `with` block, which sees to it that nothing is left open")
        if self._busy:
            raise UserError(f"{step}: another step of run {self.run_id!r} is still going on; take one after the other")
        if self._over and self._result is None:
            raise UserError(f"{step}: run {self.run_id!r} was given up or left; .undone tells what became of it")
        if step not in self._turn:
            raise UserError(f"{step}: now it is the turn of {' or '.join(self._turn)}")

    def _request_steps(self) -> Steps[ChatRequest | None]:
        self._expect(_REQUEST)
        place = None if self._over else (yield None)
        while place is not None and not isinstance(place, CallModel):
            place = yield None
        if place is None:
            return None
        self._asked, self._turn = place, (_RECEIVE,)
        self._round, self._calls, self._combined = self._run.round, {}, CombinedResults()
        return place.request

    def _receive_steps(self, response: ChatResponse) -> Steps[tuple[ToolCall, ...]]:
        self._expect(_RECEIVE)
        place = yield response
        round_ = self._run.round
        if round_ is None or not isinstance(place, Stop) or place.before != "calls":
            self._round, self._turn = None, (_REQUEST, _COMBINE, _SETTLE)
            return ()
        self._round, self._turn = round_, (_COMBINE, _SETTLE)
        return tuple([round_.calls[slot] for slot in round_.order])

    def _combine_steps(self) -> Steps[CombinedResults]:
        self._expect(_COMBINE)
        round_ = self._round
        if round_ is None:
            return CombinedResults()
        yield None
        executions = [round_.records.get(slot) or not_finished(round_, slot) for slot in round_.order]
        self._combined, self._turn = CombinedResults(tuple(executions), round_.first_failure), (_SETTLE,)
        return self._combined

    def _settle_steps(self) -> Steps[RoundOutcome]:
        self._expect(_SETTLE)
        if _COMBINE in self._turn:
            yield from self._combine_steps()
        round_ = self._round
        if round_ is None:
            return RoundOutcome(returns=self._over)
        if not self._over:  # else it waits for somebody's word on one of the calls
            yield None
        self._round, self._turn = None, (_REQUEST,)
        return self._outcome(round_)

    def _outcome(self, round_: Round) -> RoundOutcome:
        run = self._run
        executions = _latest(run, [execution.key for execution in self._combined.executions])
        undone: tuple[ToolExecution[Any], ...] = ()
        if run.settings.undo is UndoPolicy.ON_TOOL_ERROR:
            undone = tuple([e for e in run.executions if e.undo is not None and e.key not in self._undone])
            self._undone |= {execution.key for execution in undone}
        return RoundOutcome(
            any_errored=any(execution.result.is_error for execution in executions),
            behaviors=tuple([run.toolset.returns(execution.call.name) for execution in executions]),
            unread=tuple([_message_of(run, execution) for execution in executions]),
            executions=executions,
            undone=undone,
            returns=self._over,
        )

    # ------------------------------------------------------------ calls that start before the others

    def _begin(self, round_: Round, slot: int, core: Core[None]) -> None:
        """Run the core beside everything else."""
        raise NotImplementedError

    def _started(self, index: int, kind: type[StartedT]) -> StartedT:
        round_, slot = self._slot_of(index)
        if slot not in self._calls:
            if round_.stopped or self._run.token.is_cancelled:
                self._calls[slot] = kind(round_, slot)
                self._calls[slot].done.set_result(None)
            else:
                self._refuse_beside(round_, slot)
                round_.started.add(slot)
                self._start(round_, slot, execute(self._run, round_, slot), kind)
        return cast(StartedT, self._calls[slot])

    def _started_early(self, index: int, call: ToolCall, kind: type[StartedT]) -> StartedT | None:
        self._expect(_RECEIVE)
        round_, asked = self._round, self._asked
        if round_ is None or asked is None:
            return None
        if index not in self._calls:
            core = asked.start(index, call)
            if core is None:
                return None
            self._start(round_, index, core, kind)
        return cast(StartedT, self._calls[index])

    def _start(self, round_: Round, slot: int, core: Core[None], kind: type[Started]) -> None:
        call = self._calls[slot] = kind(round_, slot)
        self._begin(round_, slot, noted(core, call.done))

    def _slot_of(self, index: int) -> tuple[Round, int]:
        self._expect(_COMBINE)
        round_ = self._round
        order: list[int] = [] if round_ is None else round_.order
        if round_ is None or not is_whole(index) or index >= len(order):
            raise UserError(f"start({index!r}): the reply asks for {len(order)} calls, which count from 0")
        return round_, order[index]

    def _refuse_beside(self, round_: Round, slot: int) -> None:
        """A call that may have to wait for others is started by ``combine()``, which knows when."""
        name = round_.calls[slot].name
        tool = self._run.toolset.tools.get(name)
        if tool is None:
            return
        beside = sum(round_.calls[other].name == name for other in self._calls)
        if tool.exclusive:
            raise UserError(f"start(): tool {name!r} is exclusive, so nothing may run beside it; leave it to combine()")
        if tool.max_parallel is not None and beside >= tool.max_parallel:
            raise UserError(
                f"start(): {beside} calls of tool {name!r} were started, and max_parallel={tool.max_parallel}; leave "
                "this one to combine()"
            )

    # ------------------------------------------------------------ the end

    def _ending(self, reason: UndoReason) -> BaseException:
        """What is raised inside a run that its caller ends."""
        if reason is UndoReason.RUN_CANCELLED:
            self._run.token.cancel()
            return RunCancelled(f"run {self.run_id!r} was cancelled")
        if reason is UndoReason.RUN_GIVEN_UP:
            why = "its caller gave it up"
            return RunGivenUp(f"run {self.run_id!r} was given up: {why}", because=why)
        raise UserError(
            f"undo({reason!r}): expected UndoReason.RUN_GIVEN_UP or RUN_CANCELLED; after a failed tool, settle() "
            "undoes what was done if undo=UndoPolicy.ON_TOOL_ERROR"
        )

    def _enter(self) -> None:
        if self._entered:
            raise UserError(f"run {self.run_id!r} was begun already; each block needs one of its own: service.begin(…)")
        self._entered = True


def _latest(run: Run, keys: list[str]) -> tuple[ToolExecution[Any], ...]:
    """These calls as the books have them now; those of the latest round are near the end."""
    found: dict[str, ToolExecution[Any]] = {}
    for execution in reversed(run.executions):
        if execution.key in keys:
            found[execution.key] = execution
        if len(found) == len(keys):
            break
    return tuple([found[key] for key in keys if key in found])


def _message_of(run: Run, execution: ToolExecution[Any]) -> Any:
    place = run.places.get(execution.key)
    return Unread(execution, execution.call) if place is None else run.messages[place]


def throwable(error: BaseException) -> BaseException:
    """The error, or one that stands for it: those of iterators cannot be thrown into a generator or a future."""
    if isinstance(error, StopIteration | StopAsyncIteration | GeneratorExit):
        return RunCancelled(f"the block was left by {type(error).__name__}")
    return error
