"""Agents with everything that a crash can meet: each is made for the folder in which its world is."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from surehand import (
    Absent,
    Agent,
    Budget,
    Happened,
    KeywordSearch,
    Limits,
    MessageWindow,
    ProviderRequest,
    ToolError,
    UndoPolicy,
    Unknown,
    UnknownCall,
    tool,
    tool_provider,
    undoes,
)
from surehand.testing import call, calls, say

from .office import Context, FileStore, Office, book, look, replies


def booking(*what: str) -> Any:
    return calls(*(call("book", {"what": one}) for one in what))


def traveller(folder: Path, **options: Any) -> Agent[Any, Any]:
    """Books two things, looks something up while it books a third, then answers; everything works."""
    second = calls(call("look", {"what": "a"}), call("book", {"what": "c"}))
    return Agent(replies(booking("a", "b"), second, say("Booked.")), tools=[book, look], **options)


@tool_provider(dynamic=True)
def desk(request: ProviderRequest[Office]) -> list[Any]:
    """Gives each tool only for the requests before which it is needed."""
    said = len(request.messages)
    return [book] if said < 5 else [fail]


def provided(folder: Path) -> Agent[Any, Any]:
    """All tools that do something come from a provider; the third round fails, so that what they did is undone."""
    lookup = calls(call("look", {"what": "a"}), call("book", {"what": "c"}))
    return Agent(replies(booking("a", "b"), lookup, calls(call("fail"))), tools=[look, desk])


def searching(folder: Path) -> Agent[Any, Any]:
    """The tools are found by searching, and those that do something come from a provider."""
    looks = calls(call("tool_search_tool", {"terms": ["book"]}), call("look", {"what": "a"}))
    script = replies(looks, booking("a", "b"), calls(call("tool_search_tool", {"terms": ["look"]})), say("Booked."))
    return Agent(script, tools=[look, tool_provider(lambda request: [book])], tool_search=KeywordSearch())


def side_by_side(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, parallel=True)


def eager(folder: Path) -> Agent[Any, Any]:
    """Starts every call while the reply is still being read."""
    return traveller(folder, parallel=True, early_start="all")


def _in_files(folder: Path) -> Any:
    return lambda id: MessageWindow(50, id=id, store=FileStore(folder))


def remembering(folder: Path) -> Agent[Any, Any]:
    """Keeps its conversations in files."""
    return traveller(folder, instructions="Be brief.", memory=_in_files(folder))


class Booked(TypedDict):
    """What the traveller answers with."""

    what: list[str]


def answering(folder: Path, **options: Any) -> Agent[Any, Booked]:
    """Answers in a type: in words that do not fit, then by a call that does not fit, then beside another booking."""
    script = (
        booking("a"),
        say("Booked."),
        calls(call("final_answer", {"what": "a"}), call("look", {"what": "a"})),
        calls(call("final_answer", {"what": ["a", "b"]}), call("book", {"what": "b"}), call("final_answer", "{}")),
    )
    return Agent(replies(*script), output=Booked, tools=[book, look], **options)


def answering_and_remembering(folder: Path) -> Agent[Any, Booked]:
    """The same, in words, with conversations in files."""
    script = (booking("a"), say("Booked."), say('{"what": 1}'), say('```json\n{"what": ["a"]}\n```'))
    return Agent(replies(*script), output=Booked, output_mode="text", tools=[book], memory=_in_files(folder))


def never_answering(folder: Path) -> Agent[Any, Booked]:
    """Never gives what it should: the run is given up, and the booking taken back."""
    script = (booking("a"), say("Booked."), calls(call("final_answer")), say("Really."))
    return Agent(replies(*script), output=Booked, tools=[book], memory=_in_files(folder))


# ---------------------------------------------------------------- timeouts


@tool(repeat="with_key", timeout=0.05, retries=1)
def slow_once(ctx: Context) -> str:
    """Takes too long the first time, after it has done what it should."""
    ctx.deps.do(ctx.idempotency_key)
    if ctx.deps.count("slow") == 1:
        time.sleep(0.1)
    return "there at last"


def patient(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("slow_once")), booking("a"), say("Done.")), tools=[slow_once, book])


@tool(repeat="with_key", timeout=0.03)
def slow(ctx: Context) -> str:
    """Does what it should, and always takes too long."""
    ctx.deps.do(ctx.idempotency_key)
    time.sleep(0.05)
    return "too late"


def impatient(folder: Path) -> Agent[Any, Any]:
    """Asks again for a call that timed out, which must not get another key, whatever becomes known meanwhile."""
    return Agent(replies(calls(call("slow")), calls(call("slow")), booking("a"), say("Done.")), tools=[slow, book])


# ---------------------------------------------------------------- runs that are given up


@tool
def fail() -> str:
    """Raises what is no ToolError, so the run is given up."""
    raise OSError("the line is dead")


def unlucky(folder: Path) -> Agent[Any, Any]:
    """Books two things, then fails: both are undone."""
    return Agent(replies(booking("a", "b"), calls(call("fail"))), tools=[book, fail])


def unlucky_and_remembering(folder: Path) -> Agent[Any, Any]:
    """The conversation has to tell that what was done was undone."""
    script = replies(booking("a"), calls(call("book", {"what": "b"}), call("fail")))
    return Agent(script, tools=[book, fail], memory=_in_files(folder))


@tool(repeat="with_key")
async def reserve(what: str, ctx: Context) -> str:
    """Reserve something, which takes a while."""
    await asyncio.sleep(0.01)
    ctx.deps.do(ctx.idempotency_key)
    await asyncio.sleep(0.01)
    return what


@undoes(reserve)
async def let_go(what: str, ctx: Context) -> None:
    ctx.deps.do(ctx.idempotency_key, "undone")


def unlucky_in_the_middle(folder: Path) -> Agent[Any, Any]:
    """Fails while other calls are on their way."""
    second = calls(call("reserve", {"what": "b"}), call("fail"), call("book", {"what": "c"}))
    script = replies(booking("a"), second)
    return Agent(script, tools=[reserve, book, fail], parallel=True, memory=_in_files(folder))


@tool(repeat="with_key")
def rent(what: str, ctx: Context) -> str:
    """Rent something; the first attempt to give it back fails, after it has come about."""
    ctx.deps.do(ctx.idempotency_key)
    return what


@undoes(rent)
async def give_back(what: str, ctx: Context) -> None:
    await asyncio.sleep(0)
    ctx.deps.do(ctx.idempotency_key, "undone")
    if ctx.deps.count("attempts to give back") == 1:
        raise OSError("no answer")


def stubborn(folder: Path) -> Agent[Any, Any]:
    script = replies(calls(call("rent", {"what": "a"}), call("book", {"what": "b"})), calls(call("fail")))
    return Agent(script, tools=[rent, book, fail])


@tool(repeat="with_key")
def sign(what: str, ctx: Context) -> str:
    """Sign something, which can never be taken back although it should."""
    ctx.deps.do(ctx.idempotency_key)
    return what


@undoes(sign)
def revoke(what: str) -> None:
    raise OSError("nobody is there")


def stuck(folder: Path) -> Agent[Any, Any]:
    """What it signed stands when it is given up: a dead letter."""
    script = replies(calls(call("sign", {"what": "a"}), call("book", {"what": "b"})), calls(call("fail")))
    return Agent(script, tools=[sign, book, fail], undo_retries=0)


@tool
def refuse() -> str:
    """Says that nothing happened."""
    raise ToolError("sold out")


def cautious(folder: Path) -> Agent[Any, Any]:
    """Undoes what was done when a tool fails, and goes on."""
    script = replies(booking("a", "b"), calls(call("refuse")), booking("c"), say("Only one."))
    return Agent(script, tools=[book, refuse], undo=UndoPolicy.ON_TOOL_ERROR, memory=_in_files(folder))


# ---------------------------------------------------------------- calls of which nobody knows


def _paid(amount: int, ctx: Context) -> str:
    ctx.deps.do_again(ctx.idempotency_key)
    return f"paid {amount}"


def asks_the_office(amount: int, ctx: Context) -> Happened[str] | Absent:
    """The office knows."""
    return Happened(f"paid {amount}") if (ctx.idempotency_key, "done") in ctx.deps.all() else Absent()


def cannot_tell(amount: int, ctx: Context) -> Unknown:
    return Unknown()


@tool(probe=asks_the_office)
def pay_probed(amount: int, ctx: Context) -> str:
    """Pay, and be able to say whether that was done."""
    return _paid(amount, ctx)


@tool(probe=cannot_tell)
def pay(amount: int, ctx: Context) -> str:
    """Pay; nobody can say afterwards."""
    return _paid(amount, ctx)


@tool(unknown="undo")
def pay_back(amount: int, ctx: Context) -> str:
    """Pay; it can be taken back by its arguments, whether it was done or not."""
    return _paid(amount, ctx)


@undoes(pay_back)
def take_back(amount: int, ctx: Context) -> None:
    if (ctx.idempotency_key, "done") in ctx.deps.all():
        ctx.deps.do(ctx.idempotency_key, "undone")


@tool(unknown="dead_letter")
def pay_for_good(amount: int, ctx: Context) -> str:
    """Pay; if nobody knows, a person has to see to it."""
    return _paid(amount, ctx)


def _payer(pays: Any) -> Agent[Any, Any]:
    name = pays.__name__
    return Agent(replies(booking("a"), calls(call(name, {"amount": 1})), say("Paid.")), tools=[book, pays])


def payer_with_probe(folder: Path) -> Agent[Any, Any]:
    return _payer(pay_probed)


def payer(folder: Path) -> Agent[Any, Any]:
    return _payer(pay)


def payer_who_undoes(folder: Path) -> Agent[Any, Any]:
    return _payer(pay_back)


def payer_who_reports(folder: Path) -> Agent[Any, Any]:
    return _payer(pay_for_good)


def word_of_the_office(folder: Path, unknown: UnknownCall) -> Happened[str] | Absent:
    return Happened("paid 1") if (unknown.key, "done") in Office(folder).all() else Absent()


# ---------------------------------------------------------------- steps


@tool(repeat="with_key")
def move(what: str, ctx: Context) -> str:
    """Reserve, then book, each once."""
    reserved = ctx.step("reserve", lambda: f"{what}-{ctx.deps.count('reservations')}")
    ctx.deps.do(ctx.idempotency_key)
    return ctx.step("book", lambda: f"moved {reserved}")


def mover(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("move", {"what": "a"}), call("move", {"what": "b"})), say("Moved.")), tools=[move])


# ---------------------------------------------------------------- limits


@tool(repeat="with_key", soft_limits=Budget(calls=3))
def ration(what: str, ctx: Context) -> str:
    """Get something, of which there is little."""
    ctx.deps.do(ctx.idempotency_key)
    return what


@undoes(ration)
def hand_back(what: str, ctx: Context) -> None:
    ctx.deps.do(ctx.idempotency_key, "undone")


def rationed(folder: Path, **options: Any) -> Agent[Any, Any]:
    """Asks for the same thing again and again, is warned, and goes on until there is no more of it."""
    bread, salt = call("ration", {"what": "bread"}), call("ration", {"what": "salt"})
    script = replies(calls(bread), calls(bread, salt), calls(bread), calls(bread), booking("a"), say("Enough."))
    return Agent(script, tools=[ration, book], repeats_allowed=0, **options)


def rationed_and_unlucky(folder: Path) -> Agent[Any, Any]:
    """The same, side by side, with a soft limit of the run; in the end everything is handed back."""
    bread, salt = call("ration", {"what": "bread"}), call("ration", {"what": "salt"})
    script = replies(calls(bread, salt, salt), booking("a"), booking("b"), calls(call("fail")))
    limits = Limits(soft=Budget(calls=4), consecutive_errors=1)
    return Agent(script, tools=[ration, book, fail], parallel=True, limits=limits)
