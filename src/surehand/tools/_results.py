"""What a body returned -> what the model reads (spec 5). Encoded once; the object itself is kept as the value."""

from __future__ import annotations

import collections.abc
import enum
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, get_args, get_origin

import msgspec
from typing_extensions import TypeIs

from .._codec import clean_text
from ..errors import ToolExecutionError
from ..messages import AudioContent, ImageContent, PdfContent, TextContent, VideoContent
from ._plain_data import NotData, json_text, ordered_like, type_name
from ._schema import adapter_of
from ._signature import MISSING
from ._tool import ToolResult

__all__ = ["is_stream", "make_encoder", "returned_type", "type_name"]

_CONTENTS = (TextContent, ImageContent, AudioContent, VideoContent, PdfContent)
_SUCCESS = (TextContent("Success"),)
_NULL = (TextContent("null"),)
_STREAMS = (
    collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator,
    collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator,
)  # fmt: skip
_NO_RETURN = (None, type(None), Any)


def returned_type(hint: Any, *, is_generator: bool = False) -> Any:
    """The type of the value itself: what an awaitable gives, the last of what a generator yields or returns."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_generator and is_stream(hint):
        is_returned = origin is collections.abc.Generator and len(arguments) == 3 and arguments[2] not in _NO_RETURN
        return MISSING if not arguments else arguments[2] if is_returned else arguments[0]
    if origin is collections.abc.Awaitable:
        return arguments[0] if arguments else MISSING
    if origin is collections.abc.Coroutine:
        return arguments[2] if len(arguments) == 3 else MISSING
    return hint


def is_stream(hint: Any) -> bool:
    """Whether the type says that values come one by one."""
    return (get_origin(hint) or hint) in _STREAMS


def make_encoder(tool: str, hint: Any, *, lazy: bool = False) -> Callable[[Any], ToolResult]:
    """The function that encodes this tool's values; raises ``ToolExecutionError`` for what cannot be encoded.

    ``hint`` is the declared type, ``MISSING`` if there is none: it decides what nothing means (spec 5.1, 5.3).
    With ``lazy``, JSON is made when somebody asks for it, and then raises that (spec 5.2).
    """
    nothing = _SUCCESS if hint is MISSING or hint is None or hint is type(None) else _NULL
    declared = _declared_serializer(hint)

    def encode(value: object) -> ToolResult:
        if type(value) is str:
            return ToolResult((TextContent(clean_text(value)),), value)
        if value is None:
            return ToolResult(nothing)
        if type(value) is bool:
            return ToolResult((TextContent("true" if value else "false"),), value)
        if type(value) is int and -(1 << 63) < value < 1 << 63:
            return ToolResult((TextContent(str(value)),), value)
        return _encoded(tool, value, declared, lazy)

    return encode


def _encoded(tool: str, value: Any, declared: Callable[[Any], str] | None, lazy: bool) -> ToolResult:
    if isinstance(value, ToolResult):
        return _clean_result(value)
    if isinstance(value, _CONTENTS):
        return ToolResult(_readable((value,)), value)
    if _is_collection(value) and any(isinstance(item, _CONTENTS) for item in value):
        return ToolResult(_all_contents(tool, value), value)
    if isinstance(value, enum.Enum) and isinstance(value.value, str):
        return ToolResult((TextContent(clean_text(value.value)),), value)
    if isinstance(value, str):
        return ToolResult((TextContent(clean_text(str.__str__(value))),), value)
    if isinstance(value, BaseException):
        raise ToolExecutionError(
            f"Tool {tool!r} did run, but it returned an exception ({type_name(value)}) instead of raising it. Do not "
            "repeat the call. Its author can raise it, or return ToolResult.error('…')."
        ) from value
    if lazy:
        return ToolResult.lazy(lambda: _json(tool, value, declared), value=value)
    return ToolResult((TextContent(_json(tool, value, declared)),), value)


def _clean_result(result: ToolResult) -> ToolResult:
    given = _readable(result.given)
    return result if given == result.given else msgspec.structs.replace(result, given=given)


def _is_collection(value: Any) -> TypeIs[Collection[Any]]:
    return isinstance(value, (list, tuple, set, frozenset, deque))


def _all_contents(tool: str, values: Collection[Any]) -> tuple[Any, ...]:
    for item in values:
        if not isinstance(item, _CONTENTS):
            where = f" (at index {list(values).index(item)})" if isinstance(values, Sequence) else ""
            raise ToolExecutionError(
                f"Tool {tool!r} did run, but it returned contents mixed with {type_name(item)}{where}. Do not repeat "
                "the call. Its author can return contents only, with TextContent('…') for text."
            )
    if isinstance(values, (set, frozenset)):
        values = sorted(values, key=json_text)
    return _readable(values)


def _readable(contents: Iterable[Any]) -> tuple[Any, ...]:
    """The contents with lone surrogates in texts replaced, or the very same objects."""
    return tuple(
        msgspec.structs.replace(content, text=clean_text(content.text)) if isinstance(content, TextContent) else content
        for content in contents
    )


def _json(tool: str, value: Any, declared: Callable[[Any], str] | None) -> str:
    if declared is not None:
        try:
            return declared(value)
        except Exception:  # the value is not of the declared type: its own type decides
            pass
    try:
        return json_text(value)
    except Exception as error:
        raise ToolExecutionError(
            f"Tool {tool!r} did run, but it returned {type_name(value)}, which has no JSON form ({_reason(error)}). Do "
            "not repeat the call. Its author can return plain data, a dataclass or a pydantic model, or "
            "ToolResult.of('text', value=…)."
        ) from error


def _reason(error: Exception) -> str:
    # What foreign code says may be anything, with addresses and secrets in it; it is kept as the cause.
    return clean_text(str(error))[:200] if isinstance(error, NotData) else type(error).__name__


# ---------------------------------------------------------------- declared types


def _declared_serializer(hint: Any) -> Callable[[Any], str] | None:
    """A serializer of the declared type, only where ``Annotated`` may say how to write it: others know themselves."""
    if hint is MISSING or not _is_annotated(hint):
        return None
    try:
        adapter = adapter_of(hint)
    except Exception:  # a type that pydantic does not know; the value's own type decides
        return None

    def write(value: Any) -> str:
        data = adapter.dump_python(value, mode="json", warnings="error")
        return json_text(ordered_like(data, adapter.dump_python(value, warnings="none")))

    return write


def _is_annotated(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return True
    return any(_is_annotated(part) for part in get_args(hint) if not isinstance(part, (str, int, types.EllipsisType)))
