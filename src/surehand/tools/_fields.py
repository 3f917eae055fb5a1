"""One parameter as a field of the arguments: its type, description and default (spec 3.4.3, 3.6).

A default is checked by its own type when the tool is registered. Three things that people write stay usable: ``None``
for any type, which makes the parameter optional; an object that only says "nothing was given" (a sentinel, a member of
an enum); and what pydantic converts, such as ``()`` for a list. The model is not shown a default of the second kind.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import enum
import types
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, Optional, get_args, get_origin

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ..errors import UserError
from ._hints import has_hash, is_annotated, is_foreign, is_union, unaliased
from ._parameter import MISSING, Parameter
from ._structs import CONFIG
from ._translate import portable

__all__ = ["field_of"]

_PLAIN = (
    str, bytes, bytearray, bool, int, float, complex, Decimal, list, tuple, dict, set, frozenset,
    datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip


def field_of(entry: Parameter, described: str | None, label: str) -> Any:
    """The type of that field of a typed dict; raises ``UserError`` for a default that its own type refuses."""
    hint, default = entry.hint, entry.default
    if isinstance(default, FieldInfo):
        hint, default = Annotated[hint, default], MISSING
    own = _own_description(entry.hint)
    description = own or (None if _has_description(hint) else described)
    if description is not None:
        hint = Annotated[hint, FieldInfo(description=description)]
    declared = _declared_default(hint)
    if default is MISSING and declared is not None:
        if declared.default_factory is None:
            _default(declared.default, hint, entry.name, label)
        return NotRequired[_optional(hint) if declared.default is None else hint]
    if default is None:
        return NotRequired[Annotated[_optional(hint), FieldInfo(default=None)]]
    if default is not MISSING:
        return NotRequired[Annotated[hint, _default(default, hint, entry.name, label)]]
    if entry.may_be_absent:
        return NotRequired[hint]
    return NotRequired[Annotated[hint, FieldInfo(default=None)]] if _takes_none(hint) else hint


def _default(default: Any, hint: Any, name: str, label: str) -> FieldInfo:
    """The default as part of a field: never the same mutable object in two calls (spec 3.6.2)."""
    converted, reason = _validated(default, hint)
    if reason is not None:
        if isinstance(default, _PLAIN) and not isinstance(default, enum.Enum):
            raise UserError(
                f"{label}: parameter {name!r} has the default {default!r}, which its own type refuses ({reason}); "
                "correct the default or the type"
            )
        return FieldInfo(default_factory=_always(default))
    is_odd_member = isinstance(default, enum.Enum) and not isinstance(default, type(converted))
    if is_odd_member or isinstance(default, bool) is not isinstance(converted, bool):
        return FieldInfo(default_factory=_always(default))  # shown, it would contradict the type
    is_hashable = has_hash(default)
    if is_hashable and _is_fixed(default):
        return FieldInfo(default=default)
    try:
        copy.deepcopy(default)
    except Exception as error:
        raise UserError(
            f"{label}: parameter {name!r} has the default {default!r}, which cannot be copied for each call ({error}); "
            "use None and make it in the body"
        ) from error
    # pydantic copies what has no hash itself, and shows it; for the rest a factory does.
    return FieldInfo(default_factory=lambda: copy.deepcopy(default)) if is_hashable else FieldInfo(default=default)


def _always(value: Any) -> Callable[[], Any]:
    return lambda: value


def _is_fixed(value: Any) -> bool:
    """Whether nothing in it can change, as far as it is a record; other objects are what they are, like a sentinel."""
    kind: Any = value.__class__
    if isinstance(value, enum.Enum):
        return True
    if isinstance(value, (tuple, frozenset)):
        entries: Any = value  # pyright: ignore[reportUnknownVariableType]  # of any type
        return all(map(_is_fixed, entries))
    if isinstance(value, (list, dict, set, bytearray)):
        return False
    is_frozen, names = _record(kind)
    return is_frozen and all(_is_fixed(getattr(value, name, None)) for name in names)


def _record(kind: Any) -> tuple[bool, Iterable[str]]:
    """Whether objects of that class refuse changes, and the names of their fields."""
    if dataclasses.is_dataclass(kind):
        is_frozen = getattr(kind, "__dataclass_params__").frozen  # noqa: B009  (the checkers know no such attribute)
        return is_frozen, [entry.name for entry in dataclasses.fields(kind)]
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen, kind.__struct_fields__
    if issubclass(kind, BaseModel):
        return bool(kind.model_config.get("frozen")), kind.model_fields
    return not is_foreign(kind), ()


def _validated(default: Any, hint: Any) -> tuple[Any, str | None]:
    """What the type makes of the default, and why it refuses it: ``None`` if it does not, or if nobody can tell."""
    if type(default) is hint:
        return default, None
    try:
        # In a tuple, since a model would refuse a configuration that is not its own.
        kind: Any = types.GenericAlias(tuple, (portable(hint),))
        check: TypeAdapter[Any] = TypeAdapter(kind, config=CONFIG)
        return check.validate_python((default,))[0], None
    except ValidationError as error:
        return default, str(error.errors(include_url=False)[0]["msg"])
    except Exception:  # a type that cannot be used is reported elsewhere; a validator may need what is not there yet
        return default, None


# ---------------------------------------------------------------- what the annotation says


def _marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if is_annotated(hint) else ()


def _own_description(hint: Any) -> str | None:
    for mark in _marks(hint):
        text = mark if isinstance(mark, str) else getattr(mark, "documentation", None)
        if isinstance(text, str) and text.strip():
            return text.strip()
    return None


def _has_description(hint: Any) -> bool:
    return any(isinstance(mark, (FieldInfo, msgspec.Meta)) and mark.description for mark in _marks(hint))


def _declared_default(hint: Any) -> FieldInfo | None:
    found = [mark for mark in _marks(hint) if isinstance(mark, FieldInfo) and not mark.is_required()]
    return found[-1] if found else None


def _optional(hint: Any) -> Any:
    """The type with null added, under the marks that were said about it."""
    if hint is Any or hint is object or _takes_none(hint):
        return hint
    if not is_annotated(hint):
        return Optional[hint]  # noqa: UP045  (works for forward references too)
    inner, *marks = get_args(hint)
    result = _optional(inner)
    for mark in marks:
        result = Annotated[result, mark]
    return result


def _takes_none(hint: Any) -> bool:
    hint = unaliased(hint)
    if is_annotated(hint):
        return _takes_none(get_args(hint)[0])
    if is_union(hint):
        return any(_takes_none(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return None in get_args(hint)
    return hint is None or hint is type(None)
