"""The agent: a model, tools and policies, put together once and run as often as you like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, overload

from msgspec import UNSET
from typing_extensions import TypeVar, Unpack

from ._agent_tool import AgentToolOptions, agent_tool
from ._aperform import Awaiting
from ._books import Run
from ._memories import Memories
from ._new_run import Conversation, Prompt, choices_of, new_part, new_run, plan_of, recorded_run, streamed
from ._options import AgentChoices, AgentOptions, ResumeOptions, RunOptions, checked
from ._perform import Blocking
from ._records import UNFINISHED
from ._recovery import Recovered, arecovered, asked, off_loop, orphaned, recovered
from ._results import RunResult
from ._running import run_here, run_on_loop
from ._streams import AsyncStream, Stream
from .durable._opening import Opening, started_of
from .durable._unknowns import UnknownCall
from .errors import UserError
from .messages import ChatParameters, SystemMessage
from .models import ChatModel, from_name
from .models._base import colours_checked
from .service import ToolService
from .tools._tool import Absent, Happened, Tool

__all__ = ["Agent"]

DepsT = TypeVar("DepsT", default=Any)
OutputT = TypeVar("OutputT", default=str)

_RECOVERING = partial(Opening, is_new=False, joins=False, only=UNFINISHED)
_OPTIONS_OF_RECOVERY = ("deps", *ResumeOptions.__annotations__)
_OPTIONS_OF_RESUMING = ("take_over", *_OPTIONS_OF_RECOVERY)


class Agent(Generic[DepsT, OutputT]):
    """Runs a model with tools. Frozen once made; may be used from many threads and tasks at once.

    ``model``: a ``ChatModel`` or a name such as ``"openai:gpt-5"`` or ``"local"``. ``tools``: functions, bound
    methods, objects with ``@tool`` methods, ``Tool``s, pairs of a ``ToolSpec`` and an executor, ``ToolProvider``s.
    ``tool_search``: how the model finds tools that it is not shown, such as ``KeywordSearch()``. ``instructions``: the
    system message. ``memory``: a ``ChatMemory``, or a function that makes one for a memory id.
    ``chat_parameters``: parameters of every request. ``name`` and ``description``: what another agent is told that has
    this one among its tools. ``output``: the type of the answer, ``str`` by default; ``output_mode``
    (``OutputMode``), how the model is made to give it; ``output_retries``, how often an answer that does not fit is
    sent back; ``beside_output``, whether calls beside a final answer are ``"run"`` first or left out (``"skip"``).

    What a run may do: ``limits``; ``parallel`` (``True``, ``False`` or a number of calls at once; by default
    blocking modes run tools one after another and awaitable modes at the same time); ``early_start``;
    ``authorise(context, arguments)``, which gives ``True``, ``False`` or a reason why not;
    ``relax_tool_choice``, whether a forced tool choice is relaxed after the first round. ``repeated_calls``: what is
    done about calls that come again with the same arguments: ``"warn"``, ``"refuse"``, ``"stop"`` or ``"allow"``
    (``RepeatedCalls``); ``repeats_allowed``: how often they may before that (1). ``price(response)``: what a reply
    costs, for ``Limits(cost=…)`` and ``result.cost``.

    What happens on failure: ``on_error`` (an ``ErrorPolicy``, or one handler for failed bodies); ``undo`` (an
    ``UndoPolicy``, by default ``ON_GIVE_UP`` as soon as a tool has an undo or there is a provider);
    ``undo_when(execution)`` refines ``ON_TOOL_ERROR``; ``undo_timeout`` and ``drain_timeout`` in seconds;
    ``on_abort``, ``"complete"`` or ``"discard"``, says what history keeps of a round that was given up;
    ``on_tool_error(context)`` is told of each round in which a call failed. ``decoding``: what is done about arguments
    that do not fit (``Decoding``). ``max_result``: how many characters of a result's text the model reads (200,000;
    ``None``: all); values are kept whole.

    Watching and changing: ``before_tool(context)`` may return another ``ToolCall`` or a ``ToolResult``;
    ``after_tool(execution, context)``; ``listeners``; ``transform_request(request, memory_id)``.
    ``journal``: a path, ``SQLiteJournal(…)`` or ``MemoryJournal()``: each run is recorded there, and comes back after a
    crash (``resume``, ``recover``). ``undo_retries``: how often an undo that failed is tried again (3 with a journal,
    else never).
    ``stream_buffer``: how many events may wait for a slow consumer. ``clock`` and ``new_id`` are for tests.
    Raises ``UserError`` for any configuration that cannot work.
    """

    @overload
    def __init__(self, model: ChatModel | str, **options: Unpack[AgentOptions]) -> None: ...

    @overload
    def __init__(self, model: ChatModel | str, *, output: type[OutputT], **options: Unpack[AgentOptions]) -> None: ...

    @overload  # what is no class, such as a union, has no type for the checkers: Agent[Deps, A | B](…, output=A | B)
    def __init__(self, model: ChatModel | str, *, output: Any, **options: Unpack[AgentOptions]) -> None: ...

    def __init__(self, model: ChatModel | str, *, output: Any = UNSET, **options: Unpack[AgentOptions]) -> None:
        checked(options, AgentOptions.__annotations__, "Agent()")
        given: dict[str, Any] = dict(options)
        chosen = AgentChoices(**{name: given.pop(name) for name in AgentChoices.__struct_fields__ if name in given})
        self._model = from_name(model) if isinstance(model, str) else model
        if not isinstance(self._model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"model={model!r}: expected a ChatModel or a name such as 'openai:gpt-5' or 'local'")
        colours_checked(self._model)
        self._service = ToolService(chosen.tools, **given)
        self._output = None if output is UNSET else plan_of(output, chosen, self._model)
        instructions, parameters, toolset = chosen.instructions, chosen.chat_parameters, self._service.settings.toolset
        if self._output is not None:
            instructions, parameters = self._output.instructions(instructions), self._output.asked(parameters)
            toolset = self._output.added_to(toolset)
        self._system = None if not instructions else SystemMessage(instructions)
        self._chat_parameters = parameters.override_with(ChatParameters(tools=toolset.specs))
        self._memories = Memories(chosen.memory)
        self._name, self._description = chosen.name, chosen.description
        self._price = chosen.price

    def __setattr__(self, name: str, value: Any) -> None:
        # What a run reads is settled when the agent is made: an assignment would look as if it did something.
        if not name.startswith("_"):
            raise UserError(f"an Agent cannot be changed; make another: Agent(…, {name}=…)")
        super().__setattr__(name, value)

    @property
    def service(self) -> ToolService:
        """Its tools and policies, without the model."""
        return self._service

    # ------------------------------------------------------------ four ways to run

    def run(self, prompt: Prompt, *, deps: DepsT | None = None, **options: Unpack[RunOptions]) -> RunResult[OutputT]:
        """The result, blocking.

        ``prompt``: text, a ``UserMessage``, or contents. ``deps``: given to tools as ``ctx.deps``. ``memory_id``:
        which conversation. ``history``: earlier messages, for agents without a memory. ``parameters``: a bag that
        tools may read and write (only read, with a journal). ``chat_parameters``: override the agent's for this run.
        ``parallel``, ``before_tool``, ``after_tool``, ``listeners``: for this run. ``cancel``: a ``CancelToken``.
        ``run_id`` (with a journal): begin that run at most once; the same id and input give its result again, wait for
        it while it is at work, or go on with it if its process is gone.

        If the run is given up, raises what ended it, with a note; ``report_of(error)`` gives the ``UndoReport``.
        """
        return run_here(self._open(prompt, deps, options, is_async=False, streams=False), self._model)

    async def arun(
        self, prompt: Prompt, *, deps: DepsT | None = None, **options: Unpack[RunOptions]
    ) -> RunResult[OutputT]:
        """The result, awaitable; takes what ``run`` takes.

        When the caller is cancelled, running tools finish and everything is dealt with before that is raised.
        """
        return await run_on_loop(self._open(prompt, deps, options, is_async=True, streams=False), self._model)

    def stream(self, prompt: Prompt, *, deps: DepsT | None = None, **options: Unpack[RunOptions]) -> Stream[OutputT]:
        """The run as a blocking iterator of events, inside a ``with`` block; takes what ``run`` takes."""
        run = self._open(prompt, deps, options, is_async=False, streams=True)
        io = Blocking(run, self._model, outbox_size=self._service.stream_buffer)
        assert io.outbox is not None
        run.emit = streamed(run, io.outbox.put)
        return Stream(run, io)

    def astream(
        self, prompt: Prompt, *, deps: DepsT | None = None, **options: Unpack[RunOptions]
    ) -> AsyncStream[OutputT]:
        """The run as an asynchronous iterator of events, inside ``async with``; takes what ``run`` takes."""
        run = self._open(prompt, deps, options, is_async=True, streams=True)

        def make_io() -> Awaiting:
            io = Awaiting(run, self._model, outbox_size=self._service.stream_buffer)
            assert io.outbox is not None
            run.emit = streamed(run, io.outbox.put)
            return io

        return AsyncStream(run, make_io)

    # ------------------------------------------------------------ going on with a run (design 5)

    def resume(
        self, run_id: str, *, deps: DepsT | None = None, take_over: bool = False, **options: Unpack[ResumeOptions]
    ) -> RunResult[OutputT]:
        """The result of a run in the journal, gone on with from where it stands; what is finished is not repeated.

        What its caller asked for is in the journal; ``deps`` are given anew. A run that has ended gives its result
        again; one that waits and cannot go on gives a result with ``pending`` calls. Raises ``RunGivenUp`` for a run
        that was given up, once everything is undone; ``RunInProgress`` if it is at work elsewhere, unless ``take_over``
        takes it away from there; ``UnknownRun``; ``ReplayMismatch`` if it would do something else now than it did.
        """
        opening = partial(Opening, is_new=False, joins=False, take_over=take_over)
        return run_here(self._reopen(run_id, deps, opening, options, is_async=False), self._model)

    async def aresume(
        self, run_id: str, *, deps: DepsT | None = None, take_over: bool = False, **options: Unpack[ResumeOptions]
    ) -> RunResult[OutputT]:
        """The awaitable form of ``resume``."""
        opening = partial(Opening, is_new=False, joins=False, take_over=take_over)
        return await self._resumed_on_loop(run_id, deps, opening, options)

    async def _resumed_on_loop(
        self, run_id: str, deps: Any, opening: Callable[..., Opening], options: ResumeOptions
    ) -> RunResult[OutputT]:
        run = await off_loop(lambda: self._reopen(run_id, deps, opening, options, is_async=True))
        return await run_on_loop(run, self._model)

    def recover(self, *, deps: DepsT | None = None, **options: Unpack[ResumeOptions]) -> list[Recovered]:
        """Go on with every unfinished run of the journal whose process is gone; what became of each, oldest first.

        Runs that are at work, here or in another process, are left alone, and so are those that wait for somebody.
        """

        checked(options, _OPTIONS_OF_RECOVERY, "recover()")

        def resume(run_id: str) -> RunResult[OutputT]:
            return run_here(self._reopen(run_id, deps, _RECOVERING, options, is_async=False), self._model)

        outcomes = [recovered(run_id, resume) for run_id in orphaned(self._service.require_journal())]
        return [outcome for outcome in outcomes if outcome is not None]

    async def arecover(self, *, deps: DepsT | None = None, **options: Unpack[ResumeOptions]) -> list[Recovered]:
        """The awaitable form of ``recover``."""
        checked(options, _OPTIONS_OF_RECOVERY, "recover()")
        outcomes: list[Recovered] = []
        for run_id in await off_loop(lambda: orphaned(self._service.require_journal())):
            outcome = await arecovered(run_id, self._resumed_on_loop(run_id, deps, _RECOVERING, options))
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def unknowns(self) -> list[UnknownCall]:
        """The calls in the journal of which nobody knows whether they happened."""
        return self._service.unknowns()

    def resolve(self, key: str, answer: Happened[Any] | Absent) -> None:
        """Tell whether a call happened: ``Happened(what it returned)`` or ``Absent()``.

        ``key`` is one of ``unknowns()``. The run goes on with it when it is resumed or recovered next.
        """
        self._service.resolve(key, answer)

    def _reopen(
        self, run_id: str, deps: Any, opening: Callable[..., Opening], options: ResumeOptions, *, is_async: bool
    ) -> Run:
        checked(options, _OPTIONS_OF_RESUMING, "resume()")
        journal = self._service.require_journal()
        begun = started_of(journal, run_id)
        given: RunOptions = {**options, "run_id": run_id, **asked(begun)}
        run = self._open(begun.prompt, deps, given, is_async=is_async, streams=False)
        run.opening = opening(journal, begun)
        return run

    # ------------------------------------------------------------ opening a run

    def _open(self, prompt: Prompt, deps: Any, options: RunOptions, *, is_async: bool, streams: bool) -> Run:
        given = choices_of(self._service, options)
        run = new_run(
            self._service,
            prompt,
            given,
            deps=deps,
            conversation=self._conversation(given.memory_id),
            is_async=is_async,
            streams=streams,
        )
        run.price = self._price
        return recorded_run(run, self._service, given)

    @property
    def output_type(self) -> Any:
        """What its answers are, as given with ``output=``; ``Any`` for one whose answers are any text."""
        plan = self._output
        return Any if plan is None or plan.type is None else plan.hint

    def as_tool(
        self, *, name: str | None = None, description: str | None = None, **options: Unpack[AgentToolOptions]
    ) -> Tool:
        """This agent as a tool of another, which asks it by a ``prompt`` and reads what it answers (spec 11.8, 17.14).

        Its run is part of the run that calls it: one ledger, one pool of limits and usage, one journal, one stream of
        events, one cancellation. If it is given up, what it did is undone, and its caller reads what still stands.
        ``tools=[agent]`` does this with the agent's own ``name`` and ``description``. Other options: those of ``@tool``
        that have nothing to do with a body.
        """
        remembers = self._memories.are_there
        return agent_tool(self, name or self._name, description or self._description, options, remembers=remembers)

    def _part(self, outer: Run, key: str, prompt: str) -> tuple[Run, ChatModel]:
        """The run that call ``key`` of another run is, not begun yet, and the model that it asks."""
        part = new_part(self._service, prompt, outer, key, self._conversation(outer.memory_id))
        part.price = self._price or outer.price
        return part, self._model

    def _conversation(self, memory_id: Any) -> Conversation:
        return Conversation(self._memories.of(memory_id), self._system, self._chat_parameters, self._output)

    # ------------------------------------------------------------ life

    def close(self) -> None:
        """Release the model's connections, and the journal if it was given as a path."""
        self._model.close()
        self._service.close()

    async def aclose(self) -> None:
        """Release the model's connections and the journal; the awaitable form of ``close``."""
        await self._model.aclose()
        await self._service.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
