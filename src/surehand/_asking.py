"""One request and its reply (spec 7.7): what is sent, which calls may start early, which names are meant. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ._books import Round, Run
from ._call import execute
from ._catching_up import catch_up
from ._checks import checked_call, checked_response, is_awaitable
from ._effects import Await, CallModel, Core, Use
from ._guards import pay
from ._keeping import keep_reply
from ._limits import check_going_on, may_start_early, spend_reply
from ._recalling import look_again, recall_reply, reclaim
from ._toolbox import equip
from .errors import UserError
from .events import ArgumentRepaired, RequestIssued, ResponseReceived
from .messages import AssistantMessage, ChatRequest, ChatResponse, Message, ToolCall
from .tools._tool import Repair, Tool

__all__ = ["ask"]


def ask(run: Run) -> Core[ChatResponse]:
    """The next reply, with its calls in the run's round: from the model, or from the journal if it was paid for."""
    number = run.requests_made + 1
    return _recalled(run, number) if run.replays else _asked(run, number)


async def _recalled(run: Run, number: int) -> ChatResponse:
    response = recall_reply(run, number)
    while response is None and run.follows:
        await look_again(run)
        response = recall_reply(run, number)
    if response is None:
        return await _asked(run, number)
    run.requests_made = number
    spend_reply(run, response)
    if run.price is not None or run.has_soft:
        pay(run, response)
    run.check_cancelled()
    return response


async def _asked(run: Run, number: int) -> ChatResponse:
    round_ = Round(number, run.prefix)
    if run.log is not None:
        run.round = round_
        await reclaim(run, round_)
    if run.is_behind:
        await catch_up(run)
    messages = (*run.history, *run.messages) if run.memory is None else await Use(run.memory, "messages")
    if (run.settings.providers or run.settings.search) and messages:
        await equip(run, messages)
    request = _request(run, messages)
    if run.settings.transform_request is not None:
        request = await _transformed(run, run.settings.transform_request, request)
    check_going_on(run)
    run.requests_made, run.round = number, round_
    if run.listening:
        run.emit(RequestIssued(run_id=run.run_id, path=run.path, number=number, request=request))
    answer = await CallModel(request, partial(_start_early, run, round_) if run.starts_early else _starts_none)
    response = checked_response(answer)
    spend_reply(run, response)
    message = _with_known_names(run, response.message)
    if message is not response.message:
        response = replace(response, message=message)
    round_.receive(message)
    if run.log is not None:
        await keep_reply(run, response)
    if run.listening:
        event = ResponseReceived(run_id=run.run_id, path=run.path, number=number, request=request, response=response)
        run.emit(event)
    if run.price is not None or run.has_soft:
        pay(run, response)
    run.check_cancelled()
    return response


def _request(run: Run, messages: Sequence[Message]) -> ChatRequest:
    if not messages:
        raise UserError(f"memory={run.memory!r} gave {messages!r} as its messages; expected what was added, or a part")
    return ChatRequest(tuple(messages), run.request_parameters)


async def _transformed(run: Run, transform: Callable[..., Any], request: ChatRequest) -> ChatRequest:
    """The request to be sent; it is forgotten then, so that edits do not pile up (spec 7.7.2)."""
    run.untransformed = request
    answer = transform(request, run.memory_id)
    if is_awaitable(answer):
        answer = await Await(answer)
    if not isinstance(answer, ChatRequest):
        raise UserError(f"transform_request={transform!r} returned {answer!r}; expected the ChatRequest to be sent")
    return answer


def _starts_none(index: int, call: ToolCall) -> None:
    """For runs in which no call starts before its reply is complete."""


def _start_early(run: Run, round_: Round, index: int, call: ToolCall) -> Core[None] | None:
    """A core for a call of a reply that is still going on, if it may start now (design 3)."""
    name = _known_name(run, checked_call(call).name)
    if name != call.name:
        call = replace(call, name=name)
    tool = run.toolset.tools.get(name)
    may_start = (
        not call.executed_by_provider
        and (run.settings.early_start == "all" or (tool is not None and tool.repeat == "safe"))
        and (tool is None or not tool.exclusive)
        and may_start_early(run, round_, tool)
        and _may_run_beside(run, round_, tool)
        and not run.token.is_cancelled
        and index not in round_.calls
    )
    if not may_start:
        return None
    round_.calls[index] = call
    round_.started.add(index)
    return execute(run, round_, index)


def _may_run_beside(run: Run, round_: Round, tool: Tool | None) -> bool:
    """Whether one more call may run beside those that do: no more of the run, and of the tool, than are allowed."""
    if run.parallel is True and (tool is None or tool.max_parallel is None):
        return True
    running = [round_.calls[slot].name for slot in round_.started if slot not in round_.records]
    if run.parallel is not True and len(running) >= run.parallel:
        return False
    return tool is None or tool.max_parallel is None or running.count(tool.name) < tool.max_parallel


def _known_name(run: Run, name: str) -> str:
    """The tool that the model means, if only white space, a prefix or a special token differs (spec 10.1)."""
    tools = run.toolset.tools
    if name in tools:
        return name
    if not name:
        return ""  # some models leave it out, and history must still be valid
    bare = name.split("<|", 1)[0].strip()
    for candidate in (bare, bare.removeprefix("functions."), bare.removeprefix("tools.")):
        if candidate in tools:
            return candidate
    return name


def _with_known_names(run: Run, message: AssistantMessage) -> AssistantMessage:
    # The repaired name is what history keeps, or a stray newline would grow with every turn.
    for call in message.tool_calls:
        if call.name not in run.toolset.tools:
            break
    else:
        return message
    calls: list[ToolCall] = []
    for call in message.tool_calls:
        name = _known_name(run, call.name)
        if name != call.name and not call.executed_by_provider:
            fixed = replace(call, name=name)
            if run.listening:
                repair = Repair("name", call.name, name)
                run.emit(ArgumentRepaired(run_id=run.run_id, path=run.path, call=fixed, repair=repair))
            call = fixed
        calls.append(call)
    return message if tuple(calls) == message.tool_calls else replace(message, tool_calls=tuple(calls))
