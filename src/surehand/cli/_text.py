"""Text that a model, a tool or a caller wrote, as a terminal may show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from ..contents import Content, TextContent
from ..messages import ToolCall
from ._demo_screen import call_text

__all__ = ["block", "call_line", "columns", "contents_text", "counted", "one_line", "shown", "when"]

_MOST = 300


def shown(text: str) -> str:
    """The text with everything that could control a terminal written out: ``\\x1b`` for an escape. Lines stay lines."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str, most: int | None = _MOST) -> str:
    """The same in one line of at most so many characters; ``None``: all of them."""
    line = shown(text).replace("\n", "\\n")
    return line if most is None or len(line) <= most else f"{line[: most - 1]}…"


def block(label: str, text: str) -> Iterable[str]:
    """The text behind its label, further lines below its first one."""
    first, *others = shown(text).split("\n")
    yield f"{label}{first}"
    yield from (f"{' ' * len(label)}{line}" for line in others)


def call_line(call: ToolCall) -> str:
    """The call as a person would write it, in one line."""
    return one_line(call_text(call), None)


def contents_text(contents: Sequence[Content]) -> str:
    """Contents as text; what is not text is named."""
    return " ".join(part.text if isinstance(part, TextContent) else f"<{type(part).__name__}>" for part in contents)


def counted(number: int, what: str) -> str:
    """So many of them: ``1 run``, ``2 runs``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def when(seconds: float) -> str:
    """A moment in local time."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The rows as lines whose columns stand below each other, however wide the terminal is."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
