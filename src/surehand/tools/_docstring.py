"""What a docstring says about a function and its parameters (spec 3.3, 3.4).

Four styles are read in one pass, also mixed: Google, NumPy, reST (Sphinx) and Epydoc. Blocks about parameters go to the
parameters; blocks about what comes back, errors and examples are left out; every other line stays in the description.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["DocText", "read_docstring"]

_ABOUT_PARAMETERS = frozenset(
    ["arg", "args", "argument", "arguments", "param", "params", "parameter", "parameters", "other parameters",
     "other args", "other arguments", "keyword args", "keyword arguments", "keyword parameters"]
)  # fmt: skip
_LEFT_OUT = frozenset(
    ["return", "returns", "yield", "yields", "receives", "raise", "raises", "throws", "exceptions", "warns", "example",
     "examples", "see also", "references", "todo"]
)  # fmt: skip
_UNDERLINE = re.compile(r"(-{3,}|={3,})\s*")
_HEADING = re.compile(r"(\w[\w ]*):\s*")
_FIELD = re.compile(
    r"[:@](?P<kind>param|parameter|arg|argument|key|keyword|kwarg|kwparam|type|returns?|rtype|raises?|except|exception"
    r"|yields?|ytype)\b(?P<about>[^:]*):(?P<text>.*)"
)
_PARAMETER_FIELDS = frozenset(["param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"])
_NAMES = r"(?P<names>(?:\\?\*){0,2}\w+(?:\s*,\s*(?:\\?\*){0,2}\w+)*)"
_GOOGLE = re.compile(rf"(?:[-*•]\s+)?{_NAMES}\s*(?P<rest>.*)")
_NUMPY = re.compile(rf"{_NAMES}\s*(?::.*)?")
_SEPARATOR = re.compile(r"\s*(?::|--?(?=\s)|–)\s*")


@dataclass(frozen=True, slots=True)
class DocText:
    """A function's description, and one per parameter that has one."""

    description: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])


def read_docstring(docstring: str | None) -> DocText:
    """The text without the blocks about parameters and results, and the parameters' own texts.

    A docstring in no known style is the description as it stands.
    """
    text = inspect.cleandoc(docstring or "").strip()
    if not text:
        return DocText()
    lines = text.splitlines()
    if _HEADING.fullmatch(lines[0]) and _title(lines[0]) and len(lines) > 1 and not lines[1][:1].isspace():
        lines[1:] = [f"    {line}" if line else line for line in lines[1:]]  # cleandoc takes the margin from these
    reader = _Reader(lines)
    reader.read()
    if not reader.has_blocks:
        return DocText(text)
    prose = re.sub(r"\n{3,}", "\n\n", "\n".join(reader.prose)).strip()
    return DocText(prose or None, reader.parameters)


class _Reader:
    """Goes through the lines once, block by block."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.prose: list[str] = []
        self.parameters: dict[str, str] = {}
        self.has_blocks = False

    def read(self) -> None:
        """Sort every line into prose, parameters or what is left out."""
        at = 0
        while at < len(self.lines):
            at = self._underlined(at) or self._headed(at) or self._field(at) or self._plain(at)

    def _plain(self, at: int) -> int:
        self.prose.append(self.lines[at])
        return at + 1

    def _underlined(self, at: int) -> int | None:
        """A NumPy section, which reaches to the next one."""
        if not self._is_underlined(at) or (title := _title(self.lines[at])) is None:
            return None
        end = next((i for i in range(at + 2, len(self.lines)) if self._is_underlined(i)), len(self.lines))
        self.has_blocks = True
        if title in _ABOUT_PARAMETERS:
            self._entries(self.lines[at + 2 : end], is_numpy=True)
        return end

    def _is_underlined(self, at: int) -> bool:
        return (
            bool(self.lines[at].strip()) and at + 1 < len(self.lines) and bool(_UNDERLINE.fullmatch(self.lines[at + 1]))
        )

    def _headed(self, at: int) -> int | None:
        """A Google section, which reaches as far as its lines are indented."""
        if not _HEADING.fullmatch(self.lines[at]) or (title := _title(self.lines[at])) is None:
            return None
        end = self._end_of_indented(at + 1)
        if end == at + 1:
            return None
        self.has_blocks = True
        if title in _ABOUT_PARAMETERS:
            self._entries(self.lines[at + 1 : end], is_numpy=False)
        return end

    def _end_of_indented(self, at: int) -> int:
        end = at
        for i in range(at, len(self.lines)):
            if self.lines[i][:1].isspace():
                end = i + 1
            elif self.lines[i]:
                break
        return end

    def _field(self, at: int) -> int | None:
        """A field of reST or Epydoc, with the lines that go on directly below it or are indented."""
        found = _FIELD.fullmatch(self.lines[at])
        if found is None:
            return None
        end = at + 1
        while end < len(self.lines) and self.lines[end].strip() and not _FIELD.fullmatch(self.lines[end]):
            end += 1
        end = max(end, self._end_of_indented(end))
        self.has_blocks = True
        if found["kind"] in _PARAMETER_FIELDS and found["about"].strip():
            name = found["about"].split()[-1]  # a type may stand before it
            self._add(name, [found["text"].strip(), *self.lines[at + 1 : end]])
        return end

    def _entries(self, lines: Sequence[str], *, is_numpy: bool) -> None:
        """The entries of a section: a line that is not indented begins one, unless it has no name."""
        names, below = "", list[str]()
        for line in textwrap.dedent("\n".join(lines)).splitlines():
            head = None if line[:1].isspace() else _numpy_head(line) if is_numpy else _google_head(line)
            if head is None:
                below.append(line)
                continue
            self._add(names, below)
            names, below = head[0], [head[1]]
        self._add(names, below)

    def _add(self, names: str, lines: Sequence[str]) -> None:
        first, rest = (lines[0] if lines else ""), textwrap.dedent("\n".join(lines[1:]))
        text = f"{first}\n{rest}".strip()
        for name in names.split(","):
            plain = name.strip().lstrip("\\*")
            if plain and text:
                self.parameters[plain] = text


def _title(line: str) -> str | None:
    title = line.strip().rstrip(":").strip().lower()
    return title if title in _ABOUT_PARAMETERS or title in _LEFT_OUT else None


def _numpy_head(line: str) -> tuple[str, str] | None:
    found = _NUMPY.fullmatch(line)
    return None if found is None else (found["names"], "")


def _google_head(line: str) -> tuple[str, str] | None:
    found = _GOOGLE.fullmatch(line)
    if found is None:
        return None
    rest = found["rest"]
    if rest.startswith("("):
        rest = rest[_end_of_brackets(rest) :]
    separator = _SEPARATOR.match(rest)
    return None if separator is None else (found["names"], rest[separator.end() :])


def _end_of_brackets(text: str) -> int:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0:
            return place + 1
    return 0
