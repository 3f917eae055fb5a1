"""What a body returned -> what the model reads (spec 5). Encoded once; the object itself is kept as the value."""

from __future__ import annotations

import collections.abc
import datetime
import enum
import types
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast, get_args, get_origin

import msgspec
from typing_extensions import TypeIs

from .._codec import clean_text
from ..errors import ToolExecutionError
from ..messages import AudioContent, ImageContent, PdfContent, TextContent, VideoContent
from ._schema import adapter_of, json_of
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


def _encoded(tool: str, value: Any, declared: Callable[[Any], bytes] | None, lazy: bool) -> ToolResult:
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, _CONTENTS):
        return ToolResult((value,), value)
    if _is_sequence(value) and any(isinstance(item, _CONTENTS) for item in value):
        return ToolResult(_all_contents(tool, value), value)
    if isinstance(value, enum.Enum) and isinstance(value.value, str):
        return ToolResult((TextContent(clean_text(value.value)),), value)
    if isinstance(value, str):
        return ToolResult((TextContent(clean_text(str.__str__(value))),), value)
    if isinstance(value, BaseException):
        raise ToolExecutionError(
            f"the tool {tool!r} returned an exception ({type(value).__name__}) instead of raising it; raise it, or "
            "return ToolResult.error('…')"
        ) from value
    if lazy:
        return ToolResult.lazy(lambda: _json(tool, value, declared), value=value)
    return ToolResult((TextContent(_json(tool, value, declared)),), value)


def _is_sequence(value: Any) -> TypeIs[list[Any] | tuple[Any, ...]]:
    return isinstance(value, (list, tuple))


def _all_contents(tool: str, values: Sequence[Any]) -> tuple[Any, ...]:
    for index, item in enumerate(values):
        if not isinstance(item, _CONTENTS):
            raise ToolExecutionError(
                f"the tool {tool!r} returned contents mixed with {type(item).__name__} (at index {index}); return "
                "contents only, with TextContent('…') for text"
            )
    return tuple(values)


def _json(tool: str, value: Any, declared: Callable[[Any], bytes] | None) -> str:
    if declared is not None:
        try:
            return declared(value).decode()
        except Exception:  # the value is not of the declared type: its own type decides
            pass
    try:
        return _generic(value)
    except Exception as error:
        raise ToolExecutionError(
            f"the tool {tool!r} returned {type_name(value)}, which has no JSON form ({_reason(error)}); return plain "
            "data, a dataclass or a pydantic model, or ToolResult.of('text', value=…)"
        ) from error


def _generic(value: Any) -> str:
    try:
        return json_of(value, _foreign)
    except ValueError as error:
        if "surrogate" not in str(error):
            raise
        # Scraped text may hold half a character; cleaning costs a copy, so only then.
        return json_of(_without_surrogates(value), _foreign)


def _foreign(value: Any) -> Any:
    """Plain data for what pydantic does not know; raises for the rest, since a repr tells the model nothing."""
    if isinstance(value, type):
        raise TypeError(f"the class {value.__name__} is not data")
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    known = value
    if isinstance(value, memoryview):
        return known.tobytes()
    if isinstance(value, collections.abc.Mapping):
        return dict(known)
    if isinstance(value, (collections.abc.Set, collections.abc.Sequence)):
        return list(known)
    if callable(getattr(value, "tolist", None)):  # arrays and scalars of numpy and its kin
        return value.tolist()
    raise TypeError(f"{type_name(value)} is not data")


def _without_surrogates(value: Any) -> Any:
    known: Any = value
    match value:
        case str():
            return clean_text(value)
        case list() | tuple() | set() | frozenset():
            return [_without_surrogates(item) for item in known]
        case dict():
            return {_without_surrogates(key): _without_surrogates(item) for key, item in known.items()}
        case None | bool() | int() | float() | datetime.date() | datetime.time() | bytes():
            return value
        case _ if callable(getattr(value, "model_dump", None)):
            return _without_surrogates(value.model_dump())
        case _ if hasattr(value, "__dataclass_fields__"):
            return {name: _without_surrogates(getattr(value, name)) for name in value.__dataclass_fields__}
        case msgspec.Struct():
            return {name: _without_surrogates(getattr(value, name)) for name in value.__struct_fields__}
        case _:
            return value


# ---------------------------------------------------------------- declared types


def _declared_serializer(hint: Any) -> Callable[[Any], bytes] | None:
    """A serializer of the declared type, only where ``Annotated`` may say how to write it: others know themselves."""
    if hint is MISSING or not _is_annotated(hint):
        return None
    try:
        adapter = adapter_of(hint)
    except Exception:  # a type that pydantic does not know; the value's own type decides
        return None
    return lambda value: adapter.dump_json(value, warnings="error")


def _is_annotated(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return True
    return any(_is_annotated(part) for part in get_args(hint) if not isinstance(part, (str, int, types.EllipsisType)))


def type_name(value: Any) -> str:
    """The name of the value's type for messages, with its module unless everybody knows it."""
    kind = type(cast("object", value))
    if kind is type:
        return f"the class {value.__name__}"
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _reason(error: Exception) -> str:
    return clean_text(str(error).splitlines()[0] if str(error) else type(error).__name__)[:200]
