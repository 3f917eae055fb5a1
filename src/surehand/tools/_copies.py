"""Arguments of a body's own: what it does to them must not reach the next attempt, the undo or the books."""

from __future__ import annotations

import copy
import datetime
import enum
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, get_args, get_origin

from ._hints import is_union
from ._tool import Tool

__all__ = ["apart", "for_body", "is_fixed"]

_FIXED = frozenset(
    (
        *(str, int, float, bool, type(None), bytes, Decimal, uuid.UUID),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
    )
)


def is_fixed(hint: Any) -> bool:
    """Whether no value of that type can be changed, so that it may be shared; when in doubt, it is not."""
    origin = get_origin(hint)
    if origin is Annotated:
        return is_fixed(get_args(hint)[0])
    if is_union(hint):
        return all(map(is_fixed, get_args(hint)))
    return origin is Literal or (isinstance(hint, type) and (hint in _FIXED or issubclass(hint, enum.Enum)))


def for_body(tool: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments to call the body with, if they can be changed: a copy if somebody needs them afterwards.

    Otherwise a tool that takes items off its list and then fails would get a shorter list when it is retried, be undone
    with what is left, and, if it is unknown what it did, not be recognised when the model asks for the same again.
    """
    if tool.repeat == "safe" and not tool.retries and tool.undo is None:
        return arguments
    return apart(arguments)


def apart(arguments: dict[str, Any]) -> dict[str, Any]:
    """A copy that may be changed without anybody else seeing it."""
    try:
        return copy.deepcopy(arguments)
    except Exception:  # an object of the user's that cannot be copied is shared
        return arguments.copy()
