"""From the text that a model sent to arguments that fit the schema which came with a tool (spec 4).

As for functions: first the text is taken as it is, and only what does not fit is repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ToolArgumentsError
from ._decode import Decoded, Decoder
from ._json_exact import Rewritten, read_exact
from ._json_schema_check import SchemaCheck, TooMuch
from ._json_schema_errors import problems_in
from ._json_schema_repair import Mended, mended, without_inner_nulls, without_nulls
from ._json_text import BYTE_ORDER_MARK, NotJson, echoed
from ._places import Written
from ._refusals import arguments_of, misfit, not_an_object, object_in, refused
from ._tool import Decoding, Repair

__all__ = ["make_schema_decoder"]


def make_schema_decoder(schema: Mapping[str, Any], tool: str) -> Decoder:
    """The function that reads this tool's arguments; it raises ``ToolArgumentsError`` and nothing else.

    Numbers keep all their digits: a fraction that a float cannot hold is a ``Decimal``. Arguments that differ from
    the text come as ``Rewritten``. Raises ``UserError`` for a schema that cannot be used.
    """
    check, what = SchemaCheck(schema, tool), arguments_of(tool)
    is_valid, slow = check.is_valid, _SlowDecoder(check, what)

    def decode(text: str, decoding: Decoding = "repair", /) -> Decoded:
        try:
            data, repairs = read_exact(text, decoding)
        except NotJson as error:
            raise ToolArgumentsError(not_an_object(what, str(error), check.schema)) from error
        data = object_in(data, what, check.schema)
        try:
            if is_valid(data):
                return (Rewritten(data) if repairs else _as_sent(data, text)), repairs
            return slow.decode(data, repairs, text, decoding)
        except ToolArgumentsError:
            raise
        except BaseException as error:
            if not _is_of_the_validator(error):
                raise
            raise ToolArgumentsError(refused(what, _reason(error))) from error

    return decode


def _as_sent(data: dict[str, Any], text: str) -> dict[str, Any]:
    """Arguments whose text is that of the call, but for a byte order mark and for ways to write no arguments."""
    if not data and "{" not in text:
        return Rewritten(data)
    return Rewritten(data, text[1:]) if text[:1] == BYTE_ORDER_MARK else data


def _is_of_the_validator(error: BaseException) -> bool:
    # A panic inside of jsonschema-rs is a BaseException, so as not to be caught by mistake; here it is meant.
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _reason(error: BaseException) -> str:
    if isinstance(error, (TooMuch, RecursionError)):
        return "too much is wrong at once, or they are nested too deeply; send less in one call."
    # What a library says about its own trouble is no help to a model; the error itself is the cause of the refusal.
    return "checking them against the schema of the tool failed; they may be right nonetheless."


class _SlowDecoder:
    """What becomes of arguments that do not fit as they are."""

    def __init__(self, check: SchemaCheck, what: str) -> None:
        self._check = check
        self._what = what

    def decode(self, data: dict[str, Any], repairs: tuple[Repair, ...], text: str, decoding: Decoding) -> Decoded:
        """Without the nulls that count as absent, and repaired unless that is switched off."""
        kept = without_nulls(data, self._check)
        if kept is not data and self._check.is_valid(kept):
            return Rewritten(kept), repairs
        if decoding == "strict":
            quiet = self._mended(kept, None)
            if quiet.is_valid:
                return Rewritten(quiet.value), repairs
            raise ToolArgumentsError(self._misfit(Mended(kept, False), data))
        written = Written(repairs[0].after if repairs else text, exact=True)
        found = self._mended(kept, written)
        if found.is_valid:
            return Rewritten(found.value), (*repairs, *found.repairs)
        inner = self._echoed(data)
        if inner is not None:
            written.enter("properties")
            unwrapped = self._mended(without_nulls(inner, self._check), written)
            if unwrapped.is_valid:
                return Rewritten(unwrapped.value), (*repairs, Repair("", data, inner), *unwrapped.repairs)
        raise ToolArgumentsError(self._misfit(found, data))

    def _mended(self, data: dict[str, Any], written: Written | None) -> Mended:
        """The data with its repairs; without what was written, nothing but nulls is looked at."""
        try:
            return without_inner_nulls(data, self._check) if written is None else mended(data, self._check, written)
        except (TooMuch, RecursionError):  # what is wrong with it may still be easy to say
            return Mended(data, False, is_too_much=True)

    def _echoed(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """The inner object, when the model wrapped its arguments as ``{"properties": {…}}``."""
        return None if "properties" in self._check.schema.get("properties", {}) else echoed(data)

    def _misfit(self, found: Mended, sent: dict[str, Any]) -> str:
        problems = problems_in(found.value, self._check, sent)
        if not problems:
            return refused(self._what, "they do not fit the schema of the tool; check each property against it.")
        return misfit(self._what, problems, self._check.schema, is_too_much=found.is_too_much)
