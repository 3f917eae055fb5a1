"""Reads the JSON that a prompted model writes while it is being written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..errors import BadRequestError
from ..messages import FinishReason, StreamPiece, Usage
from ._assemble import StreamAssembler
from ._prompted import Plan

__all__ = ["PromptedReader"]

_CALL = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*')


class PromptedReader:
    """Turns the generated text of one reply into pieces, by the plan that it was asked for with."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._assembler = StreamAssembler()
        self._head = ""
        self._name: str | None = None
        self._value: _Value | None = None

    def read(self, text: str) -> Iterator[StreamPiece]:
        """The pieces in the next bit of generated text."""
        if self._plan.form != "tools":
            yield from self._assembler.text(text)
            return
        if self._value is None:
            text = self._begin(text)
        if self._value is not None:
            yield from self._pieces(self._value.read(text))

    def done(
        self, finish_reason: FinishReason | None, *, usage: Usage | None = None, model: str | None = None
    ) -> Iterator[StreamPiece]:
        """The last pieces."""
        if self._plan.form == "intro":
            yield from self._assembler.text(self._plan.quoted)
        if self._plan.form == "tools" and self._value is None:
            _require(finish_reason is not FinishReason.STOP)
            yield from self._assembler.text(self._head)  # cut before it was clear what it would be
        if self._plan.form == "text" and self._plan.schema is not None and finish_reason is FinishReason.STOP:
            _require(_is_json(self._assembler.message().text or ""))
        if self._name is not None and finish_reason is FinishReason.STOP:
            finish_reason = FinishReason.TOOL_EXECUTION
        yield from self._assembler.done(finish_reason, usage=usage, model=model)

    def _begin(self, text: str) -> str:
        """Look for the start of the value that matters; returns what of it has come already."""
        self._head += text
        _require(self._head.lstrip().startswith("{") or not self._head.strip())
        if call := _CALL.match(self._head):
            self._name, self._value = json.loads(call[1]), _Value(decoded=False)
            return self._head[call.end() :]
        if (answer := _ANSWER.match(self._head)) and answer.end() < len(self._head):
            self._value = _Value(decoded=not self._plan.answer_is_json)
            return self._head[answer.end() :]
        return ""

    def _pieces(self, text: str) -> Iterator[StreamPiece]:
        if self._name is not None:
            yield from self._assembler.call(0, name=self._name, arguments=text)
        else:
            yield from self._assembler.text(text)


def _require(held: bool) -> None:
    # Where llama.cpp cannot compile a schema it decodes freely, without a word.
    if not held:
        raise BadRequestError(
            "llama.cpp could not hold the model to the JSON schema of the tools or the answer; look for a pattern "
            "with look-ahead, a type that does not exist or a $ref that leads nowhere"
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


class _Value:
    """One JSON value inside a longer text: gives what belongs to it and drops what follows.

    ``decoded`` means that the value is a string and its content is wanted, not its JSON form.
    """

    def __init__(self, *, decoded: bool) -> None:
        self._decoded = decoded
        self._depth = 0
        self._in_string = False
        self._escape = ""
        self._begun = False
        self._over = False

    def read(self, text: str) -> str:
        """The part of ``text`` that belongs to the value."""
        if not self._begun:  # the white space after a colon may come in a bit of its own
            text = text.lstrip()
            self._begun = bool(text)
        return "".join(part for letter in text for part in self._letter(letter))

    def _letter(self, letter: str) -> Iterator[str]:
        if self._over:
            return
        if self._in_string:
            yield from self._string_letter(letter)
            return
        if letter in "]}" or (letter == "," and self._depth == 0):
            self._depth -= 1
            if self._depth < 0:  # the end of what surrounds a value without brackets
                self._over = True
                return
            self._over = self._depth == 0
        elif letter in "[{":
            self._depth += 1
        elif letter == '"':
            self._in_string = True
            if self._decoded:
                return
        yield letter

    def _string_letter(self, letter: str) -> Iterator[str]:
        if self._escape:
            self._escape += letter
            yield from self._escaped()
        elif letter == "\\":
            self._escape = letter
        elif letter == '"':
            self._in_string = False
            self._over = self._depth == 0
            if not self._decoded:
                yield letter
        else:
            yield letter

    def _escaped(self) -> Iterator[str]:
        wanted = 6 if self._escape.startswith("\\u") else 2
        if len(self._escape) >= 12 or (len(self._escape) == wanted and not self._is_high_surrogate()):
            yield self._decode() if self._decoded else self._escape
            self._escape = ""

    def _is_high_surrogate(self) -> bool:
        # Half of a pair means nothing alone: wait for the other half.
        return len(self._escape) == 6 and self._escape[2:4].lower() in ("d8", "d9", "da", "db")

    def _decode(self) -> Any:
        try:
            return json.loads(f'"{self._escape}"')
        except json.JSONDecodeError:
            return self._escape
