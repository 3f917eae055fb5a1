"""What a run's answer has to be: its type, how a model is told of it, and how the answer is read (spec 17.10).

Schema and decoder are those of tools' arguments, so an answer is read by the same table and refused in the same words.
A type that JSON does not write as an object, such as ``list[int]``, stands in one: ``{"result": …}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Mapping
from types import NoneType
from typing import Any, get_args, get_origin

import typing_extensions
from msgspec import UNSET, Struct

from ..errors import ToolArgumentsError, UserError
from ..messages import ChatParameters, ResponseFormat, ToolChoice, ToolSpec
from ._decode import Decoded, make_decoder
from ._hints import is_annotated, is_union, unaliased
from ._json_text import is_object
from ._refusals import not_an_object
from ._schema import RESULT, adapter_of, output_schema
from ._signature import check_is_type
from ._tool import Decoding, OutputMode, Tool, ToolContext, ToolResult
from ._toolset import Toolset
from ._values import ValueCodec

__all__ = ["OutputPlan", "OutputType", "output_plan"]

_TOOL = "final_answer"
_ANSWER = "The contents of your answer"
_TAKEN = "The final answer was taken."
_FENCE = re.compile(r"\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


class OutputType:
    """Reads the answers of one type. Raises ``UserError`` for a type that a model cannot be asked for."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint
        check_is_type(hint, "the answer", f"output={hint!r}")
        try:
            schema, self.is_wrapped = output_schema(hint, "output")
        except UserError as error:  # it speaks of parameters, since that is what an answer is made of
            reason = str(error).replace(f"output: parameter {RESULT!r}", "the answer")
            raise UserError(f"output={hint!r}: {reason}") from error
        self.json_schema: Mapping[str, Any] = schema.json_schema or {}
        self._decode_text = make_decoder(schema, _TOOL, _ANSWER)
        self.decode_arguments = make_decoder(schema, _TOOL)
        self.takes_text = self._takes_text()

    def read(self, text: str, decoding: Decoding = "salvage") -> Any:
        """The answer in that text; raises ``ToolArgumentsError``, whose words tell the model what is wrong."""
        fenced = None if decoding == "strict" else _FENCE.fullmatch(text)
        bare = text if fenced is None else fenced[1]
        if not self.is_wrapped:
            if bare.strip() in ("", "null"):  # which arguments may be, but an answer that says nothing is none
                raise ToolArgumentsError(not_an_object(_ANSWER, "it is empty", self.json_schema))
            return self._decode_text(bare, decoding)[0][RESULT]
        try:
            return self._decode_text(bare, decoding)[0][RESULT]
        except ToolArgumentsError:
            inner = None if decoding == "strict" else _unwrapped(bare)
            if inner is None:
                raise
            try:
                return self._decode_text(f'{{"{RESULT}": {inner}}}', decoding)[0][RESULT]
            except ToolArgumentsError:
                pass
            raise

    def _takes_text(self) -> bool:
        try:
            return self.is_wrapped and isinstance(self.read("Any words at all."), str)
        except ToolArgumentsError:
            return False

    def partial(self, text: str) -> Any:
        """As plain data, what can be read of an answer that is still being written; ``None`` if that is nothing."""
        from pydantic_core import from_json

        start = min((place for place in map(text.find, "{[") if place >= 0), default=-1)
        if start < 0:
            return None
        try:
            data = from_json(text[start:], allow_partial="trailing-strings")
        except ValueError:
            return None
        return data.get(RESULT) if self.is_wrapped and is_object(data) else data


def _unwrapped(text: str) -> str | None:
    """The JSON text of a value that a model has given without the object around it; bare words are text."""
    stripped = text.strip()
    try:
        data = json.loads(stripped)
    except (ValueError, RecursionError):
        return None if stripped[:1] in ("", *'{["`') else json.dumps(stripped)
    return None if is_object(data) and RESULT in data else stripped


# ---------------------------------------------------------------- the tool that takes the answer


class _AnswerBody:
    """A body whose arguments are the answer. Loops take it from there; called like any other, it gives it back."""

    is_async = has_async_form = is_generator = False
    may_change_arguments = wants_context = raises_argument_errors = False
    offload = True

    def __init__(self, output: OutputType) -> None:
        self._output = output
        self.values = ValueCodec(output.hint)

    def decode(self, text: str, decoding: Decoding = "repair", /) -> Decoded:
        return self._output.decode_arguments(text, decoding)

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        return arguments[RESULT]

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Awaitable[Any]:
        raise NotImplementedError

    def encode(self, value: Any, /) -> ToolResult:
        return ToolResult.of(_TAKEN, value=value)


def _answer_tool(output: OutputType) -> Tool:
    description = "Gives the final answer. Call it once, when everything else is done, instead of answering in words."
    spec = ToolSpec(_TOOL, description, output.json_schema)
    return Tool(spec=spec, body=_AnswerBody(output), repeat="safe", exclusive=True)


# ---------------------------------------------------------------- what an agent makes of output=


class OutputPlan(Struct, frozen=True, kw_only=True, eq=False):
    """How the runs of an agent come by their answer. ``type`` is absent if any text will do, or nothing at all.

    ``retries``: how often an answer that does not fit is sent back. ``tool``: the one that takes it, in that mode.
    ``skips``: calls beside a final answer are not run.
    """

    hint: Any
    type: OutputType | None
    mode: str
    retries: int
    tool: Tool | None
    skips: bool

    def instructions(self, own: str | None) -> str | None:
        """The system message, with what the model has to be told besides."""
        if self.mode != "text" or self.type is None:
            return own
        how = f"Give your final answer as JSON alone, that fits this JSON schema: {json.dumps(self.type.json_schema)}"
        return f"{own}\n\n{how}" if own else how

    def asked(self, own: ChatParameters) -> ChatParameters:
        """The parameters of requests, with what the provider has to be told besides."""
        if self.type is None:
            return own
        if self.mode == "schema":
            wanted = ResponseFormat("json", self.type.json_schema, "answer")
            return own.override_with(ChatParameters(response_format=wanted))
        if self.tool is not None and own.tool_choice is UNSET and not self.type.takes_text:
            return own.override_with(ChatParameters(tool_choice=ToolChoice.REQUIRED))
        return own

    def fits(self, value: Any) -> bool:
        """Whether a value that a tool has returned can be the output as it is (spec 7.9.4)."""
        return _fits(self.hint, value)

    def added_to(self, toolset: Toolset) -> Toolset:
        """The tools with the one that takes the answer; raises ``UserError`` if there is another of its name."""
        if self.tool is None:
            return toolset
        if self.tool.name in toolset.tools:
            raise UserError(
                f"a tool is named {self.tool.name!r}, as is the one that takes the answer; give yours another name "
                "with @tool(name=…), or let the answer be given otherwise: Agent(…, output_mode='text')"
            )
        return toolset.with_more([self.tool])


def output_plan(hint: Any, mode: OutputMode, retries: int, *, skips: bool, supports_schema: bool) -> OutputPlan:
    """The plan for that type. Raises ``UserError`` for a type that a model cannot be asked for."""
    kind = None if hint is str or hint is None or hint is NoneType else OutputType(hint)
    if mode == "auto":
        mode = "schema" if supports_schema else "tool"
    return OutputPlan(
        hint=hint,
        type=kind,
        mode=mode if kind is not None else "text",
        retries=retries,
        tool=None if kind is None or mode != "tool" else _answer_tool(kind),
        skips=skips,
    )


# ---------------------------------------------------------------- values that tools returned (spec 7.9.4)


def _fits(hint: Any, value: Any) -> bool:
    """Whether the value is of that type as it is: an instance of a class, else what pydantic's strict mode takes."""
    hint = unaliased(hint)
    if is_union(hint):
        return any(_fits(part, value) for part in get_args(hint))
    if hint is Any:
        return True
    if hint is None or hint is NoneType:
        return value is None
    if is_annotated(hint) and not _fits(get_args(hint)[0], value):
        return False
    if isinstance(hint, type) and get_origin(hint) is None and not typing_extensions.is_typeddict(hint):
        return isinstance(value, hint) and not (isinstance(value, bool) and hint in (int, float))
    try:
        adapter_of(hint).validate_python(value, strict=True)
    except Exception:  # a type that pydantic does not know takes nothing that nobody has validated
        return False
    return True
