"""The tool service: tools and policies without a model, put together once (spec 6, 19.1)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from typing_extensions import Unpack

from ._books import Run
from ._checks import checked_call
from ._invoked import Invoked
from ._new_run import Conversation, Prompt, choices_of, new_run, recorded_run
from ._one_call import one_call
from ._options import CallOptions, RunOptions, ServiceChoices, ServiceOptions, checked, is_memory, settings_of
from ._recovery import off_loop, opened
from ._results import RunResult
from ._running import core_here, core_on_loop, run_here, run_on_loop
from ._settings import Hooks, Settings
from ._stepwise import AsyncStepwiseRun, StepwiseRun
from .durable._journal import Journal
from .durable._unknowns import UnknownCall, resolve, tool_called, unknown_calls
from .errors import UserError
from .events import Listeners
from .memory._base import ChatMemory
from .messages import ChatParameters, ChatRequest, ChatResponse, ToolCall, ToolSpec
from .models._base import ChatModel
from .policies import ErrorPolicy, Limits, UndoPolicy
from .tools._tool import Absent, Happened, ReturnBehavior, Tool, ToolExecution

__all__ = ["ToolService"]

_NO_MODEL = ChatModel()  # for what asks none; if anything does, it says so


class ToolService:
    """Tools and how their calls are run, without a model. Frozen once made; may be used from many threads and tasks.

    ``execute`` runs one call, ``loop`` a whole run with a function that asks a model, and ``begin`` gives a run of
    which the caller takes each step; ``aexecute``, ``aloop`` and ``abegin`` are awaitable.

    ``tools``: functions, bound methods, objects with ``@tool`` methods, ``Tool``s, pairs of a ``ToolSpec`` and an
    executor, ``ToolProvider``s. The options are those of ``Agent`` which have nothing to do with a model.
    Raises ``UserError`` for any configuration that cannot work.
    """

    def __init__(self, tools: Iterable[Any] = (), **options: Unpack[ServiceOptions]) -> None:
        checked(options, ServiceOptions.__annotations__, "ToolService()")
        chosen = ServiceChoices(**options)
        from .tools._collect import collect  # loads pydantic's machinery for schemas, so not at import

        self._settings = settings_of(chosen, *collect(tools))
        self._chosen = chosen
        self._owns_journal = isinstance(chosen.journal, str | os.PathLike)
        self._journal = opened(chosen.journal)
        listeners = chosen.listeners
        self._listeners = listeners if isinstance(listeners, Listeners) else Listeners(*(listeners or ()))

    def __setattr__(self, name: str, value: Any) -> None:
        # What a run reads is settled when the service is made: an assignment would look as if it did something.
        if not name.startswith("_"):
            raise UserError(f"a ToolService cannot be changed; make another: ToolService(…, {name}=…)")
        super().__setattr__(name, value)

    # ------------------------------------------------------------ one call

    def execute(
        self, call: ToolCall, *, deps: Any = None, prompt: Prompt | None = None, **options: Unpack[CallOptions]
    ) -> ToolExecution[Any]:
        """Run one call, blocking, and tell what became of it (spec 7.4).

        By the rules of every call: hooks, lookup, the handler of unknown names, decoding, ``authorise``, attempts, and
        what errors mean; a failure that would give a run up is raised. ``deps``, ``memory_id``, ``parameters``: what
        the tool is told. ``prompt``: what the user said; with it, providers of tools are asked first. ``before_tool``,
        ``after_tool``, ``listeners``, ``cancel``: for this call. It is no run: nothing of it is recorded in a journal,
        and its effect stands.
        """
        run = self._call_alone(call, deps, prompt, options, is_async=False)
        return core_here(run, _NO_MODEL, one_call(run, call), _stands)

    async def aexecute(
        self, call: ToolCall, *, deps: Any = None, prompt: Prompt | None = None, **options: Unpack[CallOptions]
    ) -> ToolExecution[Any]:
        """The awaitable form of ``execute``: if the caller is cancelled, the tool finishes, and is undone if it can."""
        run = self._call_alone(call, deps, prompt, options, is_async=True)
        return await core_on_loop(run, _NO_MODEL, one_call(run, call), _stands)

    def _call_alone(
        self, call: ToolCall, deps: Any, prompt: Prompt | None, options: CallOptions, *, is_async: bool
    ) -> Run:
        checked(options, CallOptions.__annotations__, "execute()")
        if checked_call(call).executed_by_provider:
            raise UserError(f"execute({call!r}): the model's provider has run that call itself")
        given = cast(RunOptions, options)
        run = self._run(prompt or "", deps, None, given, is_async=is_async, is_recorded=False)
        if prompt is None:
            run.messages.clear()
        return run

    # ------------------------------------------------------------ runs with a model of the caller's

    def loop(
        self,
        invoke: Callable[[ChatRequest], ChatResponse | Awaitable[ChatResponse]],
        prompt: Prompt,
        *,
        first: ChatResponse | None = None,
        memory: ChatMemory | None = None,
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[str]:
        """Run the whole loop with a function that asks a model, blocking (spec 7.1); gives what ``Agent.run`` gives.

        ``invoke(request)`` gives the reply, or an awaitable of it. ``first``: a reply to the first request that the
        caller has already. ``memory``: the conversation, which gets the prompt as well; without one, ``history``.
        ``deps`` and the other options are those of ``Agent.run``.
        """
        model = Invoked(invoke, first)
        return run_here(self._run(prompt, deps, memory, options, is_async=False), model)

    async def aloop(
        self,
        invoke: Callable[[ChatRequest], ChatResponse | Awaitable[ChatResponse]],
        prompt: Prompt,
        *,
        first: ChatResponse | None = None,
        memory: ChatMemory | None = None,
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[str]:
        """The awaitable form of ``loop``; an ``invoke`` that is no ``async def`` runs on a worker thread.

        When the caller is cancelled, running tools finish and everything is dealt with before that is raised.
        """
        model = Invoked(invoke, first)
        return await run_on_loop(self._run(prompt, deps, memory, options, is_async=True), model)

    def begin(
        self,
        prompt: Prompt,
        *,
        memory: ChatMemory | None = None,
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> StepwiseRun:
        """A run of which the caller takes each step, in a ``with`` block. The options are those of ``loop``.

        With a journal it is recorded like any other. ``run_id`` begins that run at most once, and goes on with it if
        its process is gone: what is recorded is not asked, run or undone again.
        """
        return StepwiseRun(self._run(prompt, deps, memory, options, is_async=False), _NO_MODEL)

    def abegin(
        self,
        prompt: Prompt,
        *,
        memory: ChatMemory | None = None,
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> AsyncStepwiseRun:
        """The same with awaitable steps, in an ``async with`` block."""
        return AsyncStepwiseRun(self._run(prompt, deps, memory, options, is_async=True), _NO_MODEL)

    def _run(
        self,
        prompt: Prompt,
        deps: Any,
        memory: Any,
        options: RunOptions,
        *,
        is_async: bool,
        is_recorded: bool = True,
    ) -> Run:
        if memory is not None and not is_memory(memory):
            raise UserError(f"memory={memory!r}; expected a ChatMemory, the memory of this conversation, or None")
        given = choices_of(self, options)
        conversation = Conversation(memory, None, ChatParameters(tools=self.specs))
        run = new_run(self, prompt, given, deps=deps, conversation=conversation, is_async=is_async, streams=False)
        return recorded_run(run, self, given) if is_recorded else run

    # ------------------------------------------------------------ what it was made of

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Its own tools by name, in order, each with what runs it as ``body`` (spec 6.1.4)."""
        return MappingProxyType(dict(self._settings.toolset.tools))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is shown of them, in order."""
        return self._settings.toolset.specs

    def returns(self, name: str) -> ReturnBehavior:
        """What happens after a round with that tool; ``TO_MODEL`` for names that it does not know (spec 3.7)."""
        return self._settings.toolset.returns(name)

    @property
    def providers(self) -> tuple[Any, ...]:
        """What gives its runs more tools, in the order in which it is asked (spec 6.3)."""
        return tuple([source.provider for source in self._settings.providers])

    @property
    def limits(self) -> Limits:
        """What each of its runs may spend."""
        return self._settings.limits

    @property
    def errors(self) -> ErrorPolicy:
        """Its error handlers, the same in blocking and awaitable modes (spec 9.6)."""
        return self._settings.errors

    @property
    def undo_policy(self) -> UndoPolicy:
        """When what was done is undone."""
        return self._settings.undo

    @property
    def hooks(self) -> Hooks:
        """The functions around each call: ``before`` and ``after``, each a tuple (spec 7.4)."""
        return self._settings.hooks

    @property
    def settings(self) -> Settings:
        """The tools and every policy, as values."""
        return self._settings

    @property
    def listeners(self) -> Listeners:
        """Who hears of what happens in its runs."""
        return self._listeners

    @property
    def journal(self) -> Journal | None:
        """Where its runs are recorded, if they are."""
        return self._journal

    @property
    def parallel(self) -> bool | int | None:
        """How many calls of a round may run at once, as it was given."""
        return self._chosen.parallel

    @property
    def stream_buffer(self) -> int:
        """How many events may wait for a slow consumer."""
        return self._chosen.stream_buffer

    @property
    def now(self) -> Callable[[], float]:
        """Its clock: seconds since the epoch."""
        return self._chosen.clock

    @property
    def new_id(self) -> Callable[[], str]:
        """What makes the ids of runs."""
        return self._chosen.new_id

    # ------------------------------------------------------------ its journal

    def require_journal(self) -> Journal:
        """Its journal; raises ``UserError`` if there is none."""
        if self._journal is None:
            raise UserError("this agent has no journal: its runs end with their process; give Agent(journal='runs.db')")
        return self._journal

    def unknowns(self) -> list[UnknownCall]:
        """The calls in the journal of which nobody knows whether they happened."""
        return unknown_calls(self.require_journal())

    def resolve(self, key: str, answer: Happened[Any] | Absent) -> None:
        """Tell whether a call happened: ``Happened(what it returned)`` or ``Absent()``.

        ``key`` is one of ``unknowns()``. The run goes on with it when it is resumed or recovered next.
        """
        resolve(self.require_journal(), self._settings.toolset.tools, key, answer)

    def tool_called(self, key: str) -> Tool | None:
        """The tool behind a call in the journal, by its idempotency key; it may be one of an agent that was called."""
        return tool_called(self.require_journal(), self._settings.toolset.tools, key)

    def close(self) -> None:
        """Release the journal, if it was given as a path."""
        if self._owns_journal and self._journal is not None:
            self._journal.close()

    async def aclose(self) -> None:
        """The awaitable form of ``close``."""
        if self._owns_journal and self._journal is not None:
            await off_loop(self._journal.close)


def _stands(run: Run, execution: ToolExecution[Any]) -> ToolExecution[Any]:
    """The caller has it: no cancellation can take it back any more."""
    run.ledger.close()
    run.is_over = True
    return execution
