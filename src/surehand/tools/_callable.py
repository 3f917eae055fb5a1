"""The proof that a function can be called with the parameters that it shows.

What ``inspect.signature`` shows is not always what the code takes: ``functools.wraps`` and ``__signature__`` show
something else. A wrapper that lies would fail on every call, so it is found when the tool is registered.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable, MutableMapping, MutableSequence, MutableSet
from typing import Any, get_origin

from msgspec import structs

from .._checks import MOST_WRAPPERS, call_of, is_generator, is_partial, unbound, wrapped_by
from ..errors import UserError
from ._hints import unaliased
from ._parameter import Parameter

__all__ = ["innermost", "is_dispatched_method", "owner_of", "passable", "shown_signature"]


def shown_signature(function: Any, label: str) -> inspect.Signature:
    """What the function says that it takes; raises ``UserError`` if it does not say."""
    try:
        # Of a static __call__, inspect would leave out the first parameter.
        shown = inspect.signature(call_of(function) if _has_static_call(function) else function)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{label}: the signature of {function!r} cannot be read ({error}); wrap it in a function of your own"
        ) from error
    if is_dispatched_method(function):  # it shows the function in the class, with the object that is bound already
        shown = shown.replace(parameters=list(shown.parameters.values())[1:])
    return shown


def innermost(function: Any) -> Any:
    """The function with the code that the annotations were written in."""
    for _ in range(MOST_WRAPPERS):
        if is_partial(function):
            function = function.func
        elif (wrapped := wrapped_by(function)) is not None:
            function = wrapped
        elif (inner := unbound(function)) is not function:
            function = inner
        else:
            break
    if isinstance(getattr(function, "__globals__", None), dict):
        return function
    call = call_of(function)
    return call if hasattr(call, "__globals__") else function


def owner_of(function: Any) -> Any:
    """The object or class that the function is bound to, or ``None``; a callable object owns its call."""
    while is_partial(function):
        function = function.func
    if inspect.ismethod(function):
        return function.__self__
    return None if inspect.isroutine(function) or isinstance(function, functools.partial) else function


def passable(function: Any, parameters: tuple[Parameter, ...], label: str) -> tuple[Parameter, ...]:
    """The parameters, marked as positional where the code takes them only so; a ``UserError`` if it cannot be called.

    Every parameter with a default is passed too, so one trial call tells.
    """
    _check_cached(function, parameters, label)
    if _is_dispatched(function) or is_dispatched_method(function):  # by the type of the first positional argument
        first = [structs.replace(entry, positional_only=True) for entry in parameters[:1]]
        return (*first, *parameters[1:])
    reason = _misfit(function, parameters)
    if reason is None:
        return parameters
    by_position = tuple(
        entry if entry.keyword_only else structs.replace(entry, positional_only=True) for entry in parameters
    )
    if not any(entry.may_be_absent for entry in parameters) and _misfit(function, by_position) is None:
        return by_position
    names = ", ".join(entry.name for entry in parameters)
    raise UserError(
        f"{label}: {_name_of(function)} shows the parameters ({names}), but its own code cannot be called with them "
        f"({reason}); let the wrapper take *args and **kwargs, or set __signature__ to what it does take"
    )


def _misfit(function: Any, parameters: tuple[Parameter, ...]) -> str | None:
    """Why the code cannot be called with these parameters; ``None`` if it can, or if nobody can tell."""
    by_position = [entry.name for entry in parameters if entry.positional_only]
    count = len(by_position)
    named = {entry.name for entry in parameters if not entry.positional_only}
    optional = {entry.name for entry in parameters if entry.may_be_absent}
    while True:
        if is_partial(function):
            count, named, function = count + len(function.args), named | set(function.keywords), function.func
        elif inspect.ismethod(function):
            count, function = count + 1, function.__func__
        elif isinstance(function, types.FunctionType):
            own = _own_signature(function)
            reason = _unbound(own, count, named) or _unbound(own, count, named - optional)
            return reason or _shifted(own, count - len(by_position), by_position)
        elif _is_cache(function):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and isinstance(call_of(function), types.FunctionType):
            count, function = count + (not _has_static_call(function)), call_of(function)
        else:
            return None


def _has_static_call(function: Any) -> bool:
    kind: Any = function.__class__
    return isinstance(inspect.getattr_static(kind, "__call__", None), staticmethod)


def _unbound(own: inspect.Signature, count: int, named: Iterable[str]) -> str | None:
    try:
        own.bind(*[None] * count, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    return None


def _shifted(own: inspect.Signature, given: int, shown: list[str]) -> str | None:
    """Which parameter of the code's own would get what was sent for another one, after those given already."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [entry.name for entry in own.parameters.values() if entry.kind in kinds]
    for name, sent in zip(names[given:], shown, strict=False):
        if name != sent:
            return f"by position, its parameter {name!r} would get what is sent for {sent!r}"
    return None


def _own_signature(function: types.FunctionType) -> inspect.Signature:
    """What the code takes, whatever the function says about itself."""
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


# ---------------------------------------------------------------- wrappers of the standard library


def _is_dispatched(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and {"dispatch", "registry"} <= vars(function).keys()


def is_dispatched_method(function: Any) -> bool:
    """Whether it is a bound method that is chosen by the type of its argument; it looks like an unbound one."""
    code = getattr(function, "__code__", None)
    return getattr(code, "co_qualname", "").startswith("singledispatchmethod.")


def _is_cache(function: Any) -> bool:
    return isinstance(function, functools._lru_cache_wrapper)  # pyright: ignore[reportPrivateUsage]


def _check_cached(function: Any, parameters: tuple[Parameter, ...], label: str) -> None:
    while is_partial(function):
        function = function.func
    inner: Any = function.__func__ if inspect.ismethod(function) else function
    if not _is_cache(inner):
        return
    if is_generator(inner.__wrapped__):
        raise UserError(
            f"{label}: functools.cache keeps the generator, which can be consumed only once; cache what it gives, "
            "inside of the function"
        )
    if inspect.iscoroutinefunction(inner.__wrapped__):
        raise UserError(
            f"{label}: functools.cache keeps the awaitable of an async function, which can be awaited only once; "
            "cache what it gives, inside of the function"
        )
    for entry in parameters:
        if entry.default is inspect.Parameter.empty and _is_unhashable(entry.hint):
            raise UserError(
                f"{label}: parameter {entry.name!r} of type {entry.hint!r} has no hash, so functools.cache refuses "
                "every call; use tuple[…] or frozenset[…], or remove the cache"
            )


def _is_unhashable(hint: Any) -> bool:
    plain = unaliased(hint)
    if hasattr(plain, "__metadata__"):
        plain = plain.__origin__
    kind: Any = get_origin(plain) or plain
    return getattr(kind, "__hash__", True) is None or kind in (MutableSequence, MutableSet, MutableMapping)
