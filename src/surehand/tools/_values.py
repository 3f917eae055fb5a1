"""Values of a declared type to JSON and back to themselves, for what outlives the process (design 5)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

import msgspec

from ._parameter import MISSING
from ._schema import adapter_of

__all__ = ["ValueCodec"]

_PLAIN = (str, int, float, bool, type(None))


class _Adapter(Protocol):
    def dump(self, value: Any) -> bytes: ...

    def load(self, data: bytes) -> Any: ...


class ValueCodec:
    """Stores the values of one tool. What would not come back as itself is not stored at all.

    ``hint`` is the declared type of the values, ``MISSING`` if there is none: then only plain data is stored.
    """

    def __init__(self, hint: Any) -> None:
        self._hint = hint

    def dump(self, value: Any) -> bytes | None:
        """The value as JSON, or ``None`` if it is opaque: not of the declared type, or not to be had back."""
        if self._adapter is None:
            return None
        try:
            if self._is_untyped and not _is_plain(value):
                return None
            data = self._adapter.dump(value)
            restored = self._adapter.load(data)
            return data if _is_of_type(restored, value) and bool(restored == value) else None
        except Exception:  # whatever a user's type does here, the call has happened and stays done
            return None

    def load(self, data: bytes) -> Any:
        """The value that was stored; raises what the type raises if it has changed since."""
        if self._adapter is None:
            raise TypeError(f"values of type {self._hint!r} are never stored")
        return self._adapter.load(data)

    @property
    def _is_untyped(self) -> bool:
        return self._hint is MISSING or self._hint is Any

    @cached_property
    def _adapter(self) -> _Adapter | None:
        hint = Any if self._hint is MISSING else self._hint
        kinds = (_OfStructs,) if _is_struct(hint) else (_OfPydantic, _OfStructs)
        for kind in kinds:
            try:
                return kind(hint)
            except Exception:  # a type that it does not know, such as one of Structs for pydantic
                continue
        return None


class _OfPydantic:
    def __init__(self, hint: Any) -> None:
        self._adapter = adapter_of(hint)

    def dump(self, value: Any) -> bytes:
        # By the names of its fields, without what is computed from them: aliases of writing and reading may differ.
        return self._adapter.dump_json(value, by_alias=False, round_trip=True, warnings="error")

    def load(self, data: bytes) -> Any:
        return self._adapter.validate_json(data, by_alias=True, by_name=True)


class _OfStructs:
    def __init__(self, hint: Any) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(hint)

    def dump(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def load(self, data: bytes) -> Any:
        return self._decoder.decode(data)


def _is_struct(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _is_of_type(restored: object, value: object) -> bool:
    # A subtype of the declared type would come back as the declared one, and an undo would get less. A whole number
    # is one of the floats that were declared.
    return type(restored) is type(value) or (type(restored), type(value)) == (float, int)


def _is_plain(value: Any) -> bool:
    # By exact type: a subtype would come back as its base.
    if value.__class__ in _PLAIN:
        return True
    if value.__class__ is list:
        return all(map(_is_plain, value))
    return value.__class__ is dict and all(key.__class__ is str and _is_plain(item) for key, item in value.items())
