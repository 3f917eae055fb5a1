"""What a body returned -> what the model reads (spec 5). Encoded once; the object itself is kept as the value."""

from __future__ import annotations

import collections.abc
import enum
import operator
import types
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, get_args, get_origin

import msgspec
from typing_extensions import TypeIs

from .._codec import clean_text
from ..errors import ToolExecutionError
from ..messages import AudioContent, ImageContent, PdfContent, TextContent, VideoContent
from ._parameter import MISSING
from ._plain_data import NotData, json_text, ordered_like, type_name
from ._schema import adapter_of
from ._tool import ToolResult

__all__ = ["is_list", "is_stream", "make_encoder", "returned_type"]

_CONTENTS = (TextContent, ImageContent, AudioContent, VideoContent, PdfContent)
_SUCCESS = (TextContent("Success"),)
_NULL = (TextContent("null"),)
_STREAMS = (
    collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator,
    collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator,
)  # fmt: skip
_LISTS = (
    list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Collection, collections.abc.Set,
    collections.abc.MutableSequence,
)  # fmt: skip
_NO_RETURN = (None, type(None), Any)


def returned_type(hint: Any, *, is_generator: bool = False) -> Any:
    """The type of the value itself: what an awaitable gives, the last of what a generator yields or returns."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_generator and is_stream(hint):
        if not arguments:
            return MISSING
        is_returned = origin is collections.abc.Generator and len(arguments) == 3 and arguments[2] not in _NO_RETURN
        return arguments[2] if is_returned else arguments[0]
    if origin is collections.abc.Awaitable:
        return arguments[0] if arguments else MISSING
    if origin is collections.abc.Coroutine:
        return arguments[2] if len(arguments) == 3 else MISSING
    return hint


def is_stream(hint: Any) -> bool:
    """Whether the type says that values come one by one."""
    return (get_origin(hint) or hint) in _STREAMS


def is_list(hint: Any) -> bool:
    """Whether the type says that values come together."""
    return (get_origin(hint) or hint) in _LISTS


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
        return _checked_result(tool, value)
    if isinstance(value, _CONTENTS):
        return ToolResult(_readable((value,)), value)
    if _is_collection(value) and any(isinstance(item, _CONTENTS) for item in value):
        return ToolResult(_all_contents(tool, value), value)
    if isinstance(value, enum.Enum) and isinstance(value.value, str):
        return ToolResult((TextContent(clean_text(value.value)),), value)
    if isinstance(value, str):
        return ToolResult((TextContent(_plain_text(value)),), value)
    if isinstance(value, BaseException):
        raise ToolExecutionError(
            f"Tool {tool!r} did run, but it returned an exception ({type_name(value)}) instead of raising it. Do not "
            "repeat the call. Its author can raise it, or return ToolResult.error('…')."
        ) from value
    if lazy:
        return ToolResult.lazy(lambda: _json(tool, value, declared), value=value)
    return ToolResult((TextContent(_json(tool, value, declared)),), value)


def _checked_result(tool: str, result: ToolResult) -> ToolResult:
    """A body's own result, refused now where it would break later: when it is sent, remembered or stored."""
    contents: tuple[Any, ...] = result.given
    for content in contents:
        if not isinstance(content, _CONTENTS):
            raise _unusable(tool, f"a ToolResult with {type_name(content)} among its contents")
    if not result.given and result.supplier is not None:
        return msgspec.structs.replace(result, supplier=_text_of(tool, result.supplier))
    given = _readable(result.given)
    is_same = all(map(operator.is_, given, result.given))
    return result if is_same else msgspec.structs.replace(result, given=given)


def _text_of(tool: str, supplier: Callable[[], Any]) -> Callable[[], str]:
    def supply() -> str:
        try:
            text = supplier()
        except Exception as error:
            raise _unusable(tool, f"a lazy ToolResult whose text could not be made ({_reason(error)})") from error
        if text is None:
            return ""
        if not isinstance(text, str):
            raise _unusable(tool, f"a lazy ToolResult whose text is {type_name(text)}")
        return _plain_text(text)

    return supply


def _unusable(tool: str, what: str) -> ToolExecutionError:
    return ToolExecutionError(f"Tool {tool!r} did run, but it returned {what}. Do not repeat the call.")


def _plain_text(text: str) -> str:
    return clean_text(text if type(text) is str else str.__str__(text))


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
    """The contents, each text one that can be sent and stored; what is well already is the very same object."""
    return tuple(map(_readable_content, contents))


def _readable_content(content: Any) -> Any:
    if not isinstance(content, TextContent):
        return content
    text = _plain_text(content.text)
    return content if text is content.text else TextContent(text)


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
    if hint is MISSING or not _mentions_annotated(hint):
        return None
    try:
        adapter = adapter_of(hint)
    except Exception:  # a type that pydantic does not know; the value's own type decides
        return None

    def write(value: Any) -> str:
        data = adapter.dump_python(value, mode="json", warnings="error")
        return json_text(ordered_like(data, adapter.dump_python(value, warnings="none")))

    return write


def _mentions_annotated(hint: Any) -> bool:
    """Whether ``Annotated`` stands anywhere in the type."""
    if get_origin(hint) is Annotated:
        return True
    return any(
        _mentions_annotated(part) for part in get_args(hint) if not isinstance(part, (str, int, types.EllipsisType))
    )
