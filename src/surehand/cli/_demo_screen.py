"""What a person sees: lines, progress while a model thinks, a table. Plain when nobody watches."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from .. import ToolCall

__all__ = ["Screen", "Thinking", "call_text"]


def call_text(call: ToolCall) -> str:
    """The call as a person would write it."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return f"{call.name}({call.arguments})"
    given = cast("dict[str, Any]", arguments)
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class Thinking:
    """A model at work: counts what arrives, and can be shown with the time it takes."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._spinner = Spinner("dots")
        self._began = time.monotonic()
        self._last = ""
        self.pieces = 0

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def piece(self, text: str) -> None:
        """A piece of the reply has arrived."""
        self.pieces += 1
        self._last = (self._last + text)[-48:]

    def show(self) -> Spinner:
        """What it looks like now."""
        tail = self._last.replace("\n", " ")
        counted = f"  {self.pieces} pieces  {tail}" if self.pieces else ""
        self._spinner.update(text=Text(f"{self._label}  {self.seconds:.1f} s{counted}", style="dim"))
        return self._spinner


class Screen:
    """Where the demonstration is told. ``plain`` means no colours, no motion, no drawing characters."""

    def __init__(self, console: Console, *, plain: bool) -> None:
        self._console = console
        self.plain = plain

    def heading(self, text: str) -> None:
        """A new act."""
        self._console.print()
        self.say(text, style="bold")

    def say(self, text: str, *, style: str = "") -> None:
        """A line, word for word: brackets in it mean nothing."""
        # Nobody knows how wide a log is read: there, lines are not broken.
        self._console.print(Text(text, style="" if self.plain else style), soft_wrap=self.plain)

    @contextmanager
    def thinking(self, label: str) -> Generator[Thinking]:
        """A model thinks for as long as the block lasts."""
        thinking = Thinking(label)
        if self.plain:
            yield thinking
            return
        # Rendered anew several times a second: the time goes on while the model still reads its prompt.
        with Live(get_renderable=thinking.show, console=self._console, refresh_per_second=10, transient=True):
            yield thinking

    @contextmanager
    def working(self, label: str) -> Generator[None]:
        """Something takes its time, which is shown, for as long as the block lasts."""
        if self.plain:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", style="dim"), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            progress.add_task(label, total=None)
            yield

    def table(self, columns: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> None:
        """A table; each row is its cells and its style."""
        table = Table(
            box=box.ASCII if self.plain else box.SIMPLE_HEAD,
            header_style="" if self.plain else "bold",
            show_edge=False,
            pad_edge=False,
        )
        for column in columns:
            table.add_column(column, overflow="fold")
        for cells, style in rows:
            table.add_row(*(Text(cell) for cell in cells), style="" if self.plain else style)
        self._console.print(table)
