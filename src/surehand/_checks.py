"""Whether what users hand in can work: functions, by what they are called with, and what their models answer."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from typing_extensions import TypeIs

from .errors import UserError
from .messages import AssistantMessage, ChatResponse, ToolCall, Usage

__all__ = [
    "MOST_WRAPPERS",
    "WHOLE",
    "call_of",
    "checked_call",
    "checked_response",
    "is_async",
    "is_async_callable",
    "is_awaitable",
    "is_count",
    "is_generator",
    "is_partial",
    "is_whole",
    "misfit",
    "plain_callable",
    "unbound",
    "wrapped_by",
]

_METHODS = (types.MethodType, staticmethod, classmethod)
# More than anybody writes: the end for what wraps itself.
MOST_WRAPPERS = 100
# What most functions return: to see that it is neither awaitable nor a generator must cost nothing, and a look for an
# attribute that a class has not makes an exception inside.
WHOLE = frozenset((str, int, float, bool, type(None), dict, list, tuple))


def misfit(function: Any, *arguments: str, may_be_async: bool = True) -> str | None:
    """What was expected instead, if the function cannot be called with these arguments in this order."""
    names = f"({', '.join(arguments)})"
    if not callable(function):
        return f"a function of {names}"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in ones do not tell
        return None
    try:
        signature.bind(*arguments)
    except TypeError:
        return f"a function that can be called with {names}, not with {signature}"
    return f"a function of {names} that is not async" if not may_be_async and is_async(function) else None


def is_count(value: Any) -> bool:
    """Whether it is a whole number of at least 1, such as how many of something there may be."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_whole(value: object) -> bool:
    """Whether it is a whole number of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_partial(function: Any) -> TypeIs[functools.partial[Any]]:
    """Whether it is a function with some arguments given already."""
    # By its own type: what answers to every name is none, whatever it says about its class.
    return issubclass(type(function), functools.partial)


def unbound(function: Any) -> Any:
    """What is inside of a bound, a static or a class method; others are given back as they are."""
    # Asked of the kind alone, since an object that answers to every name has a ``__func__`` as well.
    return function.__func__ if issubclass(type(function), _METHODS) else function


def wrapped_by(function: Any) -> Any:
    """What a decorator says that the function wraps, or ``None``.

    Only a ``__wrapped__`` that is really there: an object that answers to every name would be unwrapped without end.
    """
    if inspect.getattr_static(function, "__wrapped__", None) is None:
        return None
    return getattr(function, "__wrapped__", None)


def plain_callable(function: Any) -> Any:
    """What is called in the end: inside partials, and the ``__call__`` of an object."""
    while is_partial(function):
        function = function.func
    return function if inspect.isroutine(function) else call_of(function)


def call_of(instance: object) -> Any:
    """The ``__call__`` of an object's type, or the object itself if it has none."""
    return getattr(type(instance), "__call__", instance)  # noqa: B004  (not to see whether it can be called)


def is_awaitable(value: object) -> bool:
    """Whether it can be awaited, by its type alone: a proxy may raise whatever attribute of it is looked at."""
    kind = type(value)
    return kind not in WHOLE and hasattr(kind, "__await__")


def is_async_callable(function: Any) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(plain_callable(function))


def is_generator(function: Any) -> bool:
    """Whether calling it gives a generator of either colour, also through a decorator that says what it wraps."""
    inner = plain_callable(function)
    for _ in range(MOST_WRAPPERS):
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            return True
        inner = wrapped_by(inner)
        if inner is None:
            break
    return False


def is_async(function: Any) -> bool:
    """Whether calling it gives a coroutine or an async generator, so that nothing happens until it is awaited."""
    return is_async_callable(function) or inspect.isasyncgenfunction(plain_callable(function))


def checked_response(response: Any) -> ChatResponse:
    """The response; raises ``UserError`` if a model of the user's own gave something that cannot be used as one."""
    if not isinstance(response, ChatResponse):
        if inspect.iscoroutine(response):
            response.close()
        raise UserError(f"the model answered {response!r}; expected a ChatResponse, such as {_EXAMPLE}")
    message: Any = response.message
    calls: Any = getattr(message, "tool_calls", None)
    usage: Any = response.usage
    if not isinstance(message, AssistantMessage) or not isinstance(calls, (tuple, list)):
        raise UserError(f"the model answered with message={message!r}; expected an AssistantMessage: {_EXAMPLE}")
    if usage is not None and not isinstance(usage, Usage):
        raise UserError(f"the model answered with usage={usage!r}; expected a Usage or None")
    for call in message.tool_calls:
        checked_call(call)
    return response


_EXAMPLE = "ChatResponse(AssistantMessage('…'))"


def checked_call(call: Any) -> ToolCall:
    """The call; raises ``UserError`` if it is none, or if its name or its arguments are no text."""
    if type(call) is ToolCall and type(call.name) is str and type(call.arguments) is str:
        return call  # every call of every round comes through here
    if not isinstance(call, ToolCall):
        raise UserError(f"{call!r} is no ToolCall; expected ToolCall(id, name, arguments)")
    name: Any = call.name
    arguments: Any = call.arguments
    if not isinstance(name, str | None):
        raise UserError(f"{call!r}: expected a tool's name, in text")
    if not isinstance(arguments, str | None):
        raise UserError(f"{call!r}: expected the arguments as JSON text; json.dumps(…) makes it from a dict")
    return call
