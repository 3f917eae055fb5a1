"""From what a caller asks for to a run that has not begun: checked, with everything that it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ._books import Run
from ._cancel import CancelToken
from ._options import RUN_DEFAULTS, AgentChoices, RunChoices, RunOptions, checked, hooks_of, parallel_of
from ._recovery import beginning
from .durable._opening import Opening
from .errors import UserError
from .events import Event, Listeners
from .memory._base import ChatMemory
from .messages import ChatParameters, Content, Message, SystemMessage, TextContent, UserMessage
from .models import ChatModel
from .tools._tool import Parameters

if TYPE_CHECKING:
    from .service import ToolService
    from .tools._output_type import OutputPlan  # loads pydantic's machinery for schemas

__all__ = [
    "Conversation",
    "Prompt",
    "choices_of",
    "new_part",
    "new_run",
    "parameters_of",
    "plan_of",
    "recorded_run",
    "streamed",
    "user_message",
]

Prompt = str | UserMessage | Sequence[Content]

_OPTIONS = ("deps", *RunOptions.__annotations__)


class Conversation(Struct, frozen=True, eq=False):
    """What an agent brings to a run besides its tools: the memory, the system message, the requests' parameters.

    And what the answer has to be, if not any text.
    """

    memory: ChatMemory | None
    system: SystemMessage | None
    parameters: ChatParameters
    output: OutputPlan | None = None


def plan_of(output: Any, chosen: AgentChoices, model: ChatModel) -> OutputPlan:
    """How answers of that type are come by. Raises ``UserError`` for what cannot be asked for."""
    from .tools._output_type import output_plan  # loads pydantic's machinery for schemas, so not at import

    if chosen.chat_parameters.response_format is not UNSET:
        raise UserError("chat_parameters.response_format: with output=, the form of answers is output_mode='…'")
    return output_plan(
        output,
        chosen.output_mode,
        chosen.output_retries,
        skips=chosen.beside_output == "skip",
        supports_schema=model.supports_json_schema,
    )


def choices_of(service: ToolService, options: RunOptions) -> RunChoices:
    """The options of a run, checked."""
    if not options:
        return RUN_DEFAULTS
    checked(options, _OPTIONS, "run()")
    given = RunChoices(**options)
    if given.run_id is not None:
        service.require_journal()
    return given


def new_run(
    service: ToolService,
    prompt: Prompt,
    given: RunChoices,
    *,
    deps: Any,
    conversation: Conversation,
    is_async: bool,
    streams: bool,
) -> Run:
    """A run that has not begun. Raises ``UserError`` for what cannot be run."""
    settings, output, parallel = service.settings, conversation.output, given.parallel
    toolset = settings.toolset if output is None else output.added_to(settings.toolset)
    listeners = service.listeners.with_more(given.listeners) if given.listeners else service.listeners
    may_overlap = parallel_of(service.parallel if parallel is None else parallel, is_async=is_async)
    run = Run(
        settings=settings,
        toolset=toolset,
        run_id=given.run_id or service.new_id(),
        history=_history(given.history, conversation),
        messages=[user_message(prompt)],
        system=conversation.system,
        request_parameters=parameters_of(conversation, given.chat_parameters, toolset.specs),
        parallel=may_overlap,
        is_async=is_async,
        deps=deps,
        memory=conversation.memory,
        memory_id=given.memory_id,
        parameters=_bag(given.parameters),
        hooks=hooks_of(given.before_tool, given.after_tool, settings.hooks),
        token=CancelToken() if given.cancel is None else given.cancel.child(),
        now=service.now,
        emit=listeners.tell,
        listening=streams or bool(listeners),
        starts_early=streams and may_overlap is not False and settings.early_start != "off",
        started_at=service.now(),
        streams=streams,
        output=output,
        has_soft=settings.soft is not None,
    )
    return run


def recorded_run(run: Run, service: ToolService, given: RunChoices) -> Run:
    """Have the run opened in the journal, if there is one, before it begins.

    Raises ``UserError`` for what cannot be recorded.
    """
    if service.journal is not None:
        started = beginning(run.messages[0], given, has_deps=run.deps is not None)
        run.parameters = Parameters(started.parameters, read_only=True)
        run.opening = Opening(service.journal, started, is_new=given.run_id is None)
    return run


def new_part(service: ToolService, prompt: str, outer: Run, key: str, conversation: Conversation) -> Run:
    """The run that call ``key`` of another run is: it shares what is that run's, and has its own policies."""
    listeners = service.listeners
    part = new_run(
        service,
        prompt,
        RunChoices(memory_id=outer.memory_id, cancel=outer.token, parameters=outer.parameters, run_id=outer.run_id),
        deps=outer.deps,
        conversation=conversation,
        is_async=outer.is_async,
        streams=outer.streams,
    )
    part.opening, part.log, part.parameters = None, outer.log, outer.parameters
    part.path, part.parent, part.has_soft = key, outer, part.has_soft or outer.has_soft
    part.ledger, part.unknown_calls = outer.ledger.part(f"{key}/"), outer.unknown_calls
    part.listening = bool(listeners) or outer.listening
    part.emit = _told_both(listeners, outer) if listeners else outer.emit
    return part


def _told_both(listeners: Listeners, outer: Run) -> Callable[[Event], None]:
    def emit(event: Event) -> None:
        if not outer.replays:  # what is only told again, listeners have heard
            listeners.tell(event)
        outer.emit(event)

    return emit


def _bag(given: Any) -> Parameters:
    return given if isinstance(given, Parameters) else Parameters(given)


def _history(given: Any, conversation: Conversation) -> tuple[Message, ...]:
    history, system = _messages_of(given), conversation.system
    if conversation.memory is None:
        return history if system is None else (system, *history)
    if history:
        raise UserError("history= is for agents without a memory; this agent's memory holds the conversation")
    return ()


def parameters_of(conversation: Conversation, given: ChatParameters | None, specs: Any) -> ChatParameters:
    """The parameters of a run's requests: the agent's, the run's, and the tools."""
    own = conversation.parameters
    if given is None:
        return own
    if given.tools is not UNSET:
        raise UserError("chat_parameters.tools: tools are given to Agent(tools=…), so that their calls can be run")
    if given.response_format is not UNSET and conversation.output is not None:
        raise UserError("chat_parameters.response_format: the form of this agent's answers is given as Agent(output=…)")
    return replace(own.override_with(given), tools=specs)


def streamed(run: Run, put: Callable[[Event], None]) -> Callable[[Event], None]:
    """How a run that streams tells of events: its listeners first, then whoever takes them."""
    listen = run.emit

    def emit(event: Event) -> None:
        if not run.replays:  # what is only told again, listeners have heard
            listen(event)
        put(event)

    return emit


def _messages_of(history: Any) -> tuple[Message, ...]:
    if history == ():
        return ()
    if not isinstance(history, Iterable):
        raise UserError(f"history={history!r}: expected a list of messages, such as result.messages")
    messages = tuple(cast("Iterable[object]", history))
    for message in messages:
        if not isinstance(message, Message):
            raise UserError(f"history: {message!r} is no message; expected a list of messages, such as result.messages")
    return cast("tuple[Message, ...]", messages)


def user_message(prompt: Any) -> UserMessage:
    """The prompt as a message."""
    if isinstance(prompt, str):
        return UserMessage((TextContent(prompt),))
    if isinstance(prompt, UserMessage):
        return prompt
    if isinstance(prompt, list | tuple) and all(isinstance(part, Content) for part in cast(Sequence[Any], prompt)):
        return UserMessage(tuple(cast(Sequence[Content], prompt)))
    raise UserError(f"prompt={prompt!r}: expected text, a UserMessage, or a list of contents")
