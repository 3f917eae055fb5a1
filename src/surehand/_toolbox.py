"""The tools of a run while it goes on: what providers give, and what the model has found (spec 6.4, 6.5, 14). No I/O.

A run of an agent without providers and without a search never comes here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ._books import Round, Run
from ._effects import Ask, Offload, Use, unwrapped
from ._keeping import halt
from ._reading import read
from .events import LimitWarning
from .messages import Message, UserMessage
from .tools._providers import ProviderRequest, Source
from .tools._search import found_in, searchable_toolset
from .tools._tool import Outcome, Tool
from .tools._toolset import Toolset

__all__ = ["equip", "learn"]


class Toolbox(Struct, eq=False):
    """What has been done for the tools of one run."""

    has_asked: bool = False  # the providers that are asked once per run
    has_looked: bool = False  # for tools that were found, in the conversation of before
    looked_at: int = 0  # how many of the run's own messages were
    sought: set[tuple[int, str]] = set()  # tools that were asked for while the round of that number was told again


def _toolbox(run: Run) -> Toolbox:
    run.toolbox = run.toolbox or Toolbox()
    return cast(Toolbox, run.toolbox)


async def equip(run: Run, messages: Sequence[Message]) -> None:
    """Before a request with these messages: bring the run's tools up to date, and what the model sees of them."""
    before, box = run.toolset, _toolbox(run)
    if not box.has_asked:
        await _ask_once(run, box, messages)
    if not box.has_looked:
        box.has_looked, run.toolset = True, run.toolset.showing(found_in(messages, run.settings.search))
    await _ask_dynamic(run, messages)
    _show_found(run, box)
    _offer(run, before)


async def learn(run: Run, round_: Round) -> None:
    """While a recorded round is told again: ask the providers if one of its calls needs a tool that is not known here.

    If they fail, the run is halted: without the tool nobody could undo the call.
    """
    before, box = run.toolset, _toolbox(run)
    sought = {(round_.number, name) for name in _unknown(run, round_)}
    if not sought <= box.sought:
        box.sought |= sought
        messages = (*run.history, *read(run.messages))
        try:
            if not box.has_asked:
                await _ask_once(run, box, messages)
            if _unknown(run, round_):
                await _ask_dynamic(run, messages)
        except BaseException as raised:
            raise halt(run, unwrapped(raised))  # noqa: B904  (nothing was done, and it can be resumed)
    if box.has_asked or not run.settings.providers:  # else what was found may be theirs, and is looked at later
        _show_found(run, box)
    _offer(run, before)


def _unknown(run: Run, round_: Round) -> set[str]:
    tools = run.toolset.tools
    unknown = {slot: call.name for slot, call in round_.calls.items() if call.name not in tools}
    return {name for slot, name in unknown.items() if _needs_tool(run, round_.key(slot))}


def _needs_tool(run: Run, key: str) -> bool:
    """Whether the call is to be run, may have to be undone, or has a value of its tool's type."""
    end = run.recorded.ends.get(key)
    if end is None or key in run.recorded.parts:
        return True
    return end.can_undo or end.outcome in (Outcome.DONE, Outcome.UNKNOWN)


def _offer(run: Run, before: Toolset) -> None:
    if run.toolset is not before:
        run.request_parameters = replace(run.request_parameters, tools=run.toolset.specs)


# ---------------------------------------------------------------- providers


async def _ask_once(run: Run, box: Toolbox, messages: Sequence[Message]) -> None:
    """Ask those providers that are asked once per run; then, with a search, hide what waits to be found."""
    settings, given = run.settings, dict[str, Tool]()
    for source in settings.providers:
        if not source.dynamic:
            tools = await _given_by(run, source, messages)
            given.update(source.added_to({**run.toolset.tools, **given}, tools))
    box.has_asked = True
    if given and settings.search:
        searches = {tool.name for tool in settings.search}
        if run.output is not None and run.output.tool is not None:
            searches.add(run.output.tool.name)  # not to be searched for either
        own = {name: tool for name, tool in run.toolset.tools.items() if name not in searches}
        run.toolset = searchable_toolset({**own, **given}, settings.search)
        if run.output is not None:
            run.toolset = run.output.added_to(run.toolset)
    else:
        run.toolset = run.toolset.with_more(given.values())


async def _ask_dynamic(run: Run, messages: Sequence[Message]) -> None:
    """Ask the others. What they give is shown at once, also with a search (spec 6.4.3), and stays (spec 6.5.3)."""
    for source in run.settings.providers:
        if source.dynamic:
            tools = await _given_by(run, source, messages)
            run.toolset = run.toolset.with_more(source.added_to(run.toolset.tools, tools).values())


async def _given_by(run: Run, source: Source, messages: Sequence[Message]) -> Iterable[Tool]:
    request = ProviderRequest(
        run_id=run.run_id,
        memory_id=run.memory_id,
        user_message=cast(UserMessage, run.messages[0]),
        messages=tuple(messages),
        parameters=run.parameters,
        deps=run.deps,
    )
    # What is told again is told to its end: no cancellation may break it off.
    ask = Use if run.replays else Ask
    given: Any = await ask(source.provider, "provide", (request,))
    if given is None:
        return ()
    tools = source.made_before(given)
    return await Offload(source.made, (given,)) if tools is None else tools  # making them takes a while


# ---------------------------------------------------------------- what was found


def _show_found(run: Run, box: Toolbox) -> None:
    """Show what this run's searches have found since; names that no tool has are left out (spec 14.4)."""
    if run.settings.search and box.looked_at < len(run.messages):
        names = found_in(run.messages[box.looked_at :], run.settings.search)
        box.looked_at = len(run.messages)
        run.toolset = run.toolset.showing(names)
        unknown = [name for name in dict.fromkeys(names) if name not in run.toolset.tools]
        if unknown and run.listening:
            text = f"a tool search found {unknown!r}, which are no tools of this run: they are ignored"
            run.emit(LimitWarning(run_id=run.run_id, path=run.path, text=text))
