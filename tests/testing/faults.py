"""Agents with one fault each, none of which shows as long as nothing crashes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from surehand import Agent, MessageWindow, RecordExists, ToolMessage, tool, undoes
from surehand.durable import MemoryJournal, SQLiteJournal
from surehand.durable._journal import Claim, Draft, Record
from surehand.testing import call, calls, say

from .agents import booking, fail, traveller
from .office import Context, FileStore, book, replies

# ---------------------------------------------------------------- tools


@tool(repeat="with_key")
def hire(what: str, ctx: Context) -> str:
    """Hire something."""
    ctx.deps.do(ctx.idempotency_key)
    return what


@undoes(hire)
def release(what: str, ctx: Context) -> None:
    ctx.deps.do_again(ctx.idempotency_key, "undone")


def undo_is_not_idempotent(folder: Path) -> Agent[Any, Any]:
    script = replies(calls(call("hire", {"what": "a"})), calls(call("fail")))
    return Agent(script, tools=[hire, fail])


@tool(repeat="with_key")
def order(ctx: Context) -> str:
    """Orders from a service that does not look at the key."""
    ctx.deps.do_again(ctx.idempotency_key)
    return "ordered"


def service_ignores_the_key(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("order")), say("Done.")), tools=[order])


@tool(repeat="with_key")
def order_anew(ctx: Context) -> str:
    """Orders with a key that it has made up."""
    ctx.deps.do(uuid.uuid4().hex)
    return "ordered"


def tool_ignores_its_key(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("order_anew")), say("Done.")), tools=[order_anew])


@tool(repeat="with_key")
def lend(ctx: Context) -> str:
    """Lend something."""
    ctx.deps.do(ctx.idempotency_key)
    return "lent"


@undoes(lend)
def pretend(lent: str) -> None:
    """Says that it has been taken back."""


def undo_does_nothing(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("lend")), calls(call("fail"))), tools=[lend, fail])


@tool(repeat="with_key")
def hang(ctx: Context) -> str:
    """Never ends once its process has been replaced."""
    if ctx.deps.count("hung") > 1:
        time.sleep(60)
    return "there"


def hangs_when_recovered(folder: Path) -> Agent[Any, Any]:
    return Agent(replies(calls(call("hang")), say("Done.")), tools=[hang])


# ---------------------------------------------------------------- journals


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


class Dropping(SQLiteJournal):
    """Acknowledges the ends of calls, and does not write them."""

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        kept = [draft for draft in drafts if draft.kind != "DONE"]
        return super().append(claim, kept, state=state) if kept or not drafts else _done()


class Late(SQLiteJournal):
    """Acknowledges intents at once, and writes them together with what comes next."""

    waiting: Sequence[Draft] = ()

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        drafts, self.waiting = [*self.waiting, *drafts], ()
        if drafts and drafts[-1].kind == "INTENT":
            self.waiting = drafts
            return _done()
        return super().append(claim, drafts, state=state)


class Forgetful(SQLiteJournal):
    """Does not tell a process that recovers a run which calls have ended, and takes their ends again."""

    def records(self, run_id: str) -> list[Record]:
        records = super().records(run_id)
        is_over = any(record.kind == "RUN_ENDED" for record in records)
        return records if is_over else [record for record in records if record.kind != "DONE"]

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        future = SQLiteJournal.append(self, claim, drafts, state=state)
        return _done() if isinstance(future.exception(), RecordExists) else future


class Expensive(SQLiteJournal):
    """Does not tell a process that recovers a run which replies have been paid for, and takes them again."""

    def records(self, run_id: str) -> list[Record]:
        records = super().records(run_id)
        is_over = any(record.kind == "RUN_ENDED" for record in records)
        return records if is_over else [record for record in records if record.kind != "MODEL"]

    append = Forgetful.append  # type: ignore[assignment]


def reply_is_paid_again(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=Expensive(folder / "runs.db"))


def record_is_lost(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=Dropping(folder / "runs.db"))


def intent_comes_late(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=Late(folder / "runs.db"))


def step_is_doubled(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=Forgetful(folder / "runs.db"))


# ---------------------------------------------------------------- memories


class Leaky(FileStore):
    """Loses the results of calls."""

    def update(self, id: Any, messages: Any, /) -> None:
        super().update(id, [message for message in messages if not isinstance(message, ToolMessage)])


class Doubling(FileStore):
    """Each process begins with an empty conversation, and adds its own to what is there."""

    mine: Sequence[Any] = ()

    def get(self, id: Any, /) -> list[Any]:
        return [*self.mine]

    def update(self, id: Any, messages: Any, /) -> None:
        others = super().get(id)[: -len(self.mine) or None]
        self.mine = messages
        super().update(id, [*others, *messages])


def memory_loses_results(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, memory=lambda id: MessageWindow(50, id=id, store=Leaky(folder)))


def memory_doubles(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, memory=lambda id: MessageWindow(50, id=id, store=Doubling(folder)))


# ---------------------------------------------------------------- agents that cannot be tested

booker = Agent(replies(booking("a"), say("Done.")), tools=[book])


def journal_in_memory(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=MemoryJournal())


def journal_elsewhere(folder: Path) -> Agent[Any, Any]:
    return traveller(folder, journal=SQLiteJournal(folder.parent.parent / "elsewhere.db"))


def no_agent(folder: Path) -> str:
    return "an agent"
