"""How much of a result the model reads: a result can be larger than what a model takes, and would end the run."""

from __future__ import annotations

from msgspec.structs import replace

from ..messages import Content, TextContent
from ._tool import ToolResult

__all__ = ["shortened"]


def shortened(result: ToolResult, most: int | None) -> ToolResult:
    """The result with at most ``most`` characters of text, and a note on what was left out; its value stays whole.

    Contents other than text stay as they are. A result that has no value of its own gets the whole text as its value,
    so that the application loses nothing. What is not encoded yet is shortened when it is.
    """
    given = result.given
    if most is None:
        return result
    supplier = result.supplier
    if not given and supplier is not None:
        return replace(result, supplier=lambda: _cut(supplier() or "", most))
    length = sum(len(part.text) for part in given if isinstance(part, TextContent))
    if length <= most:
        return result
    value = result.value
    if value is None and not result.is_error:
        value = given[0].text if len(given) == 1 and isinstance(given[0], TextContent) else given
    return replace(result, given=_shortened(given, most, length), value=value)


def _shortened(parts: tuple[Content, ...], most: int, length: int) -> tuple[Content, ...]:
    """The parts, with the text in which the bound is reached cut there, and later texts left out."""
    kept: list[Content] = []
    left: int | None = most
    for part in parts:
        if not isinstance(part, TextContent):
            kept.append(part)
        elif left is not None and len(part.text) <= left:
            kept.append(part)
            left -= len(part.text)
        elif left is not None:
            kept.append(TextContent(part.text[:left] + _note(most, length)))
            left = None
    return tuple(kept)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + _note(most, len(text))


def _note(most: int, length: int) -> str:
    return f"\n[Cut here: these are the first {most} of {length} characters. Ask for less, or for a smaller part.]"
