"""What a docstring says about a function and its parameters (spec 3.3, 3.4); griffe reads it, loaded when needed."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from griffe import DocstringSection

__all__ = ["DocText", "read_docstring"]

# A docstring without any of these has no block that a known style would set apart, so griffe can stay away.
_HAS_BLOCKS = re.compile(r"^\s*([:@]\w+[^:]*:|[A-Z][A-Za-z ]+:?\s*$)", re.MULTILINE)
_EPYDOC = re.compile(r"^(\s*)@(?=\w+[^:\n]*:)", re.MULTILINE)
_UNDERLINED_COLON = re.compile(r"^(\s*[A-Z][A-Za-z ]+):(?=\s*\n\s*-{3,}\s*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocText:
    """A function's description, and one per parameter that has one."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(docstring: str | None) -> DocText:
    """Prose and notes without the blocks about parameters, results and errors, and the parameters' own texts.

    Google, NumPy, reST and Epydoc; a docstring in no known style is the description as it stands.
    """
    text = inspect.cleandoc(docstring or "").strip()
    if not text:
        return DocText()
    return _parsed(text) if _HAS_BLOCKS.search(text) else DocText(text)


def _parsed(text: str) -> DocText:
    from griffe import Docstring, parse_google, parse_numpy, parse_sphinx

    known, lines = text, text.splitlines()
    if _HAS_BLOCKS.fullmatch(lines[0]) and len(lines) > 1 and not lines[1][:1].isspace():
        # cleandoc has taken the margin from these; and griffe knows no heading in the very first line.
        known = f"\n{lines[0]}\n{textwrap.indent(chr(10).join(lines[1:]), '    ')}"
    # Fields of Epydoc are those of reST with another mark, and some write a colon above the line of a NumPy heading.
    known = _UNDERLINED_COLON.sub(r"\1", _EPYDOC.sub(r"\1:", known))
    doc = Docstring(known)
    options = {"warnings": False, "warn_unknown_params": False}
    readings = [
        parse_google(doc, returns_named_value=False, **options),
        parse_numpy(doc, **options),
        parse_sphinx(doc, **options),
    ]
    best = max(readings, key=_structure)
    if _structure(best) == (0, 0):
        return DocText(text)
    return DocText(_prose(best) or None, _parameters(best))


def _structure(sections: Iterable[DocstringSection]) -> tuple[int, int]:
    """How much a style has understood: parameters, and other blocks that are neither prose nor notes."""
    kinds = [section.kind.value for section in sections]
    others = [kind for kind in kinds if kind not in ("text", "admonition")]
    return len(_parameters(sections)), len(others)


def _parameters(sections: Iterable[DocstringSection]) -> dict[str, str]:
    found: dict[str, str] = {}
    for section in sections:
        if section.kind.value in ("parameters", "other parameters"):
            for entry in section.value:
                name, text = entry.name.lstrip("-•\\* "), entry.description.strip()
                if name and text:
                    found[name] = text
    return found


def _prose(sections: Iterable[DocstringSection]) -> str:
    parts: list[str] = []
    for section in sections:
        if section.kind.value == "text":
            parts.append(section.value)
        elif section.kind.value == "admonition":
            parts.append(f"{section.title}:\n{textwrap.indent(section.value.contents, '    ')}")
    return "\n\n".join(part.strip() for part in parts)
