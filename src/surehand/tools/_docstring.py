"""What a docstring says about a function and its parameters (spec 3.3, 3.4). The parser is imported when needed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["DocText", "read_docstring"]

# A docstring without any of these has no parameter block in one of the known styles, so the parser can stay away.
_HAS_SECTIONS = re.compile(r"^\s*(:\w+|@\w+\s|[A-Z][A-Za-z ]+:?\s*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocText:
    """A function's description, and one per parameter that has one."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(docstring: str | None) -> DocText:
    """Summary and body without the parameter block, and the parameters' own texts; Google, NumPy, reST and Epydoc."""
    text = inspect.cleandoc(docstring or "").strip()
    if not text:
        return DocText()
    if not _HAS_SECTIONS.search(text):
        return DocText(text)
    return _parsed(text)


def _parsed(text: str) -> DocText:
    from docstring_parser import ParseError, parse

    try:
        parsed = parse(text)
    except ParseError:
        return DocText(text)
    if not parsed.meta:
        return DocText(text)
    parts = [part.strip() for part in (parsed.short_description, parsed.long_description) if part and part.strip()]
    parameters: dict[str, str] = {}
    for entry in parsed.params:
        for name in entry.arg_name.split(","):
            if entry.description and entry.description.strip():
                parameters[name.strip().lstrip("*")] = entry.description.strip()
    return DocText("\n".join(parts) or None, parameters)
