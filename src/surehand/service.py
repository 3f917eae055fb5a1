"""The tool service: tools and policies without a model, put together once (spec 6, 19.1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from typing_extensions import Unpack

from ._options import ServiceChoices, ServiceOptions, checked, settings_of
from ._recovery import off_loop, opened
from ._settings import Settings
from .durable._journal import Journal
from .durable._unknowns import UnknownCall, resolve, tool_called, unknown_calls
from .errors import UserError
from .events import Listeners
from .tools._tool import Absent, Happened, Tool

__all__ = ["ToolService"]


class ToolService:
    """Tools and how their calls are run. Frozen once made; may be used from many threads and tasks at once.

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

    # ------------------------------------------------------------ what it was made of

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
