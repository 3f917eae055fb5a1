"""What annotations are made of: unions, aliases, type variables, and parts that can be replaced."""

from __future__ import annotations

import enum
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import typing_extensions
from typing_extensions import TypeIs

__all__ = [
    "annotated",
    "has_hash",
    "has_json_values",
    "is_annotated",
    "is_foreign",
    "is_union",
    "parts_of",
    "rebuilt",
    "substituted",
    "unaliased",
]

# Two different classes on some versions of Python: the statement makes the first kind.
_ALIASES = (getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType), typing_extensions.TypeAliasType)


def is_union(hint: Any) -> bool:
    """Whether the type is a union, in either spelling."""
    return get_origin(hint) in (Union, types.UnionType)


def is_annotated(hint: Any) -> bool:
    """Whether something is said about the type: ``Annotated[…]``."""
    return get_origin(hint) is Annotated


def is_foreign(kind: Any) -> TypeIs[type[Any]]:
    """Whether it is a class with fields that pydantic does not know: a msgspec ``Struct`` or a class of attrs.

    Those of surehand itself are left out: a model must never fill what surehand injects.
    """
    if not isinstance(kind, type) or kind.__module__.partition(".")[0] == "surehand":
        return False
    own: Any = kind
    return (issubclass(kind, msgspec.Struct) and own is not msgspec.Struct) or "__attrs_attrs__" in vars(own)


def unaliased(hint: Any) -> Any:
    """What stands behind the names that ``type`` statements give, and behind a type variable with a bound."""
    while True:
        if isinstance(hint, _ALIASES):
            hint = _value_of(hint)
        elif isinstance(get_origin(hint), _ALIASES):
            alias: Any = get_origin(hint)
            hint = substituted(_value_of(alias), dict(zip(alias.__type_params__, get_args(hint), strict=False)))
        elif isinstance(hint, typing.TypeVar) and hint.__bound__ is not None:
            hint = hint.__bound__
        else:
            return hint


def _value_of(alias: Any) -> Any:
    if not isinstance(alias.__value__, str):
        return alias.__value__
    holder = types.SimpleNamespace(__annotations__={"it": alias.__value__})
    names = vars(sys.modules.get(alias.__module__, typing))
    try:
        return typing_extensions.get_type_hints(holder, names, include_extras=True)["it"]
    except Exception:  # pydantic reports a name that cannot be found
        return alias.__value__


def annotated(hint: Any, marks: Iterable[Any]) -> Any:
    """The type with these marks."""
    for mark in marks:
        hint = Annotated[hint, mark]
    return hint


def substituted(hint: Any, values: Mapping[Any, Any]) -> Any:
    """The type with type variables (and ``Self``) replaced."""
    if not values:
        return hint
    if has_hash(hint) and hint in values:
        return values[hint]
    if is_annotated(hint):
        parts: tuple[Any, ...] = get_args(hint)
        return annotated(substituted(parts[0], values), parts[1:])
    if is_union(hint):
        return Union[tuple(substituted(part, values) for part in get_args(hint))]  # noqa: UP007
    return rebuilt(hint, lambda part: substituted(part, values))


def has_json_values(kind: type[enum.Enum]) -> bool:
    """Whether a member can be sent as its value."""
    return all(isinstance(member.value, (str, int, float, bool, type(None))) for member in kind)


def has_hash(value: Any) -> bool:
    """Whether the value can be a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def rebuilt(hint: Any, change: Callable[[Any], Any]) -> Any:
    """The same generic type with its parameters changed; the very same object if none is."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or not arguments or origin in (Literal, typing_extensions.Literal):
        return hint
    changed: tuple[Any, ...] = tuple(_part(argument, change) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return hint
    if hasattr(hint, "copy_with"):
        return hint.copy_with(changed)
    kind: Any = origin
    return kind[changed]


def _part(argument: Any, change: Callable[[Any], Any]) -> Any:
    return argument if argument is Ellipsis or _is_list(argument) else change(argument)


def _is_list(argument: object) -> bool:
    return isinstance(argument, list)  # the parameters of a Callable


def parts_of(hint: Any) -> Iterator[Any]:
    """The type and every type that it is made of, whatever hides behind aliases and bounds; each once."""
    waiting: list[Any] = [hint]
    seen: list[Any] = []
    while waiting:
        part = waiting.pop()
        if any(part is known for known in seen):  # an alias may contain itself
            continue
        seen.append(part)
        yield part
        plain = unaliased(part)
        waiting.extend([plain] if plain is not part else get_args(part))
