"""``typing.TypedDict`` on Python 3.11, which pydantic takes only from ``typing_extensions``."""

from __future__ import annotations

import sys
import typing
from typing import Any, ForwardRef, NotRequired, Required, get_args, get_origin

import typing_extensions

from ._hints import rebuilt, substituted

__all__ = ["is_refused", "taken"]


def is_refused(kind: Any) -> bool:
    """Whether pydantic would refuse the class for where it comes from."""
    return sys.version_info < (3, 12) and typing.is_typeddict(kind) and type(kind).__module__ == "typing"


def taken(hint: Any) -> Any:
    """The same typed dict, or parametrised one, in the form that pydantic takes."""
    return _Converter().converted(hint)


class _Converter:
    """Remembers what it has made, so that a typed dict may contain itself."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    def converted(self, hint: Any) -> Any:
        if is_refused(hint):
            return self._class(hint, {})
        if is_refused(get_origin(hint)):
            kind: Any = get_origin(hint)
            return self._class(kind, dict(zip(kind.__parameters__, get_args(hint), strict=False)))
        return rebuilt(hint, self.converted)

    def _class(self, kind: Any, values: dict[Any, Any]) -> Any:
        key = (kind, tuple(values.values()))
        if key not in self._made:
            self._made[key] = ForwardRef(
                kind.__name__
            )  # while its fields are read: pydantic knows the class by its name
            hints = typing_extensions.get_type_hints(kind, localns={kind.__name__: kind}, include_extras=True)
            fields = {name: self._field(name, substituted(hint, values), kind) for name, hint in hints.items()}
            make: Any = typing_extensions.TypedDict
            made = make(kind.__name__, fields)
            made.__module__, made.__doc__ = kind.__module__, kind.__doc__
            self._made[key] = made
        return self._made[key]

    def _field(self, name: str, hint: Any, kind: Any) -> Any:
        is_required = name in kind.__required_keys__
        while get_origin(hint) in (Required, NotRequired, typing_extensions.ReadOnly):
            mark: Any = get_origin(hint)
            is_required = mark is Required or (mark is not NotRequired and is_required)
            hint = get_args(hint)[0]
        inner = self.converted(hint)
        return Required[inner] if is_required else NotRequired[inner]
