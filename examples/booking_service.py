"""A web service whose runs are retried, survive a restart, and are undone when their client leaves: see README.md.

uvicorn --factory examples.booking_service:make_app
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi import Path as InPath
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel

from surehand import Agent, AsyncStream, RunGivenUp, SQLiteJournal, UserError

from .told import account, told
from .travel import Ledger, travel_tools

log = logging.getLogger(__name__)
router = APIRouter()


class Order(BaseModel):
    """What the customer wants, in words."""

    prompt: str


@dataclass
class Desk:
    """The agent, its journal, and what is at work here without a client."""

    agent: Agent
    journal: SQLiteJournal
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def go_on_with(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)  # asyncio itself would let go of it
        task.add_done_callback(self.tasks.discard)


def the_desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


RunId = Annotated[str, InPath(pattern="^[A-Za-z0-9._-]{1,64}$")]
TheDesk = Annotated[Desk, Depends(the_desk)]


def state_of(run_id: RunId, desk: TheDesk) -> str | None:  # no coroutine: the journal is read on another thread
    row = desk.journal.row(run_id)
    return None if row is None else row.state


State = Annotated[str | None, Depends(state_of)]


async def opened(
    run_id: RunId, order: Order, desk: TheDesk, state: State, detach: bool = False
) -> AsyncIterator[AsyncStream]:
    """The run, begun or joined, for as long as the client stays. What comes after `yield` happens when it has left."""
    async with AsyncExitStack() as leaving:
        run = await leaving.enter_async_context(desk.agent.astream(order.prompt, run_id=run_id))
        try:
            await anext(run)  # it has begun, or it says here why it cannot
        except UserError as error:
            raise HTTPException(409, str(error)) from error
        if state in ("UNDONE", "STUCK"):
            await finish(run)  # raises RunGivenUp, while there still is a status to be sent
        yield run
        if detach or state is not None:  # leaving cancels what this very request has begun, and nothing else
            desk.go_on_with(go_on(run, leaving.pop_all()))


@router.put("/runs/{run_id}", response_class=EventSourceResponse)
async def put_run(run: Annotated[AsyncStream, Depends(opened)]) -> AsyncIterator[ServerSentEvent]:
    """Begin this run, join it while it is at work, or hear its end again."""
    async for event in told(run):
        yield event


@router.get("/runs/{run_id}")
async def get_run(run_id: RunId, desk: TheDesk, state: State, response: Response) -> dict[str, Any]:
    """Where this run stands: 200 with its answer, 202 while it is at work or waits, 410 if it was given up."""
    if state is None:
        raise HTTPException(404, f"there is no run {run_id!r}")
    if state not in ("SUCCEEDED", "UNDONE", "STUCK"):
        response.status_code = 202
        return {"run_id": run_id, "state": state}
    result = await desk.agent.aresume(run_id)  # it is over: this only tells its end, or raises RunGivenUp
    return {"run_id": run_id, "state": state, "output": result.output}


async def gone(request: Request, error: Exception) -> Response:
    return JSONResponse(account(error), 410)


async def finish(run: AsyncStream) -> None:
    async for _ in run:
        pass


async def go_on(run: AsyncStream, leaving: AsyncExitStack) -> None:
    """Take the place of a client that has left."""
    async with leaving:
        try:
            await finish(run)
        except Exception as error:
            log.warning("run %r, without its client: %s", run.run_id, error)


async def recover(agent: Agent) -> None:
    """Go on with the runs that an earlier process has left behind."""
    try:
        for outcome in await agent.arecover():
            log.info("run %r was gone on with: %s", outcome.run_id, outcome.error or "it is over, or waits")
    except Exception:
        log.exception("not all runs that were left behind could be gone on with")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    desk: Desk = app.state.desk
    desk.go_on_with(recover(desk.agent))
    yield
    await asyncio.gather(*desk.tasks)  # else they would be cancelled with the event loop, and undone
    await desk.agent.aclose()
    desk.journal.close()


def create_app(agent: Agent, journal: SQLiteJournal) -> FastAPI:
    """The service of an agent that records its runs in this journal."""
    app = FastAPI(title="Bookings", lifespan=lifespan, exception_handlers={RunGivenUp: gone})
    app.state.desk = Desk(agent, journal)
    app.include_router(router)
    return app


def make_app() -> FastAPI:
    """The service as its environment says: `MODEL`, and `DATA`, the folder of its files."""
    folder = Path(os.environ.get("DATA", "."))
    journal, tools = SQLiteJournal(folder / "runs.db"), travel_tools(Ledger(folder / "outside.db"))
    return create_app(Agent(os.environ.get("MODEL", "openai:gpt-5"), tools=tools, journal=journal), journal)
