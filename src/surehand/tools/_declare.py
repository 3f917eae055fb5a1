"""``@tool`` and ``@undoes``: they leave a record on the function and give it back unchanged (spec 3).

The tool itself is built when it is registered (``_function``), since only then can types that are defined later be
resolved; and only then is pydantic's machinery for schemas loaded, so that importing surehand stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, TypeVar, overload

from .._checks import is_partial, unbound
from ..budgets import Amount, Budget, RepeatedCalls
from ..errors import UserError
from ._options import (
    TOOL_ATTRIBUTE,
    UNDO_ATTRIBUTE,
    ToolOptions,
    ToolRecord,
    UndoRecord,
    attach,
    check_options,
    check_seconds,
    record_of,
)
from ._signature import caller, local_names
from ._tool import Decoding, Repeat, ReturnBehavior, WhenUnknown

__all__ = ["default_name", "tool", "undoes"]

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")


@overload
def tool(fn: FunctionT, /) -> FunctionT: ...


@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    repeat: Repeat = "never",
    timeout: float | None = None,
    retries: int = 0,
    exclusive: bool = False,
    inline: bool = False,
    max_parallel: int | None = None,
    returns: ReturnBehavior = ReturnBehavior.TO_MODEL,
    decoding: Decoding | None = None,
    max_result: int | None = None,
    metadata: Mapping[str, Any] | str | None = None,
    always_visible: bool = False,
    strict: bool | None = None,
    undo: Callable[..., Any] | None = None,
    undo_timeout: float | None = None,
    probe: Callable[..., Any] | None = None,
    authorise: Callable[..., Any] | None = None,
    unknown: WhenUnknown = "ask",
    limits: Budget | None = None,
    soft_limits: Budget | None = None,
    cost: Amount = 0,
    repeated_calls: RepeatedCalls | None = None,
) -> Callable[[FunctionT], FunctionT]: ...


def tool(fn: Any = None, /, **options: Any) -> Any:
    """The function, marked as a tool: the same object, which you can still call and test as before (spec 3.3).

    The model sees the function's name, its docstring, and its parameters' types, defaults and descriptions.
    A parameter of type ``ToolContext`` or ``Parameters``, or one marked ``Annotated[…, MemoryId]``, is filled by
    surehand and hidden from the model. What else counts:

    - A parameter without a type takes any JSON value. One with a default, or whose type allows ``None``, is optional;
      ``= None`` makes any type optional. A default that its own type refuses is an error, except for an object that
      only says "nothing was given" (a sentinel); what can change is copied for each call.
    - Bytes are Base64 text; an enum is its values, or the names of its members where JSON has no such values.
    - Classes of msgspec and attrs, dataclasses and named tuples are objects of their fields and nothing else.
    - What a model could never fill or call is a ``UserError`` at registration: it names the parameter and the remedy.

    The options:

    - ``name``, ``description``: instead of the function's own; blank counts as unset.
    - ``repeat``: may a call be repeated when nobody knows whether it happened? ``"safe"`` for reads,
      ``"with_key"`` if the service behind takes ``ctx.idempotency_key``, else ``"never"``.
    - ``timeout``: seconds for one attempt. ``retries``: further attempts, not for ``repeat="never"``.
    - ``exclusive``: never at the same time as another tool of the run. ``max_parallel``: calls at the same time.
    - ``inline``: the body is trivial and runs where the loop runs.
    - ``returns``: what happens after the round, see ``ReturnBehavior``.
    - ``decoding``: what is done about arguments that do not fit: ``"strict"``, ``"repair"`` or ``"salvage"``, see
      ``Decoding``. ``max_result``: how many characters of a result's text the model reads; the application has the
      whole. ``None``, for each of the two, takes what the agent says.
    - ``metadata``: a dict for the application. ``strict``: ask the provider to enforce the schema.
    - ``always_visible``: shown to the model from the beginning, also by an agent with a ``tool_search``.
    - ``undo``, ``undo_timeout``: how to undo a call, as with ``@undoes``.
    - ``probe``: answers whether a call happened. ``authorise``: asked before every call.
    - ``unknown``: what becomes of a call that was running when the process died, if no probe can tell whether it
      happened: ``"ask"`` lets the run wait for someone's word, ``"undo"`` undoes it with everything else (for an undo
      that needs nothing but the arguments), ``"dead_letter"`` gives the run up and names it. Not for what is repeated.
    - ``limits``, ``soft_limits``: what one run may use up of this tool, each a ``Budget``. Beyond the first the run is
      given up; beyond the second a call does not run, and the model is told. ``cost``: what a call costs, in money.
    - ``repeated_calls``: what is done about calls that come again with the same arguments, see ``RepeatedCalls``;
      ``None`` takes what the agent says.

    Raises ``UserError`` for options that cannot be kept.
    """
    names = set(ToolOptions.__struct_fields__)
    if unknown := sorted(set(options) - names):
        raise UserError(f"@tool has no option {unknown[0]!r}; it takes {', '.join(sorted(names))}")
    if fn is not None:
        return _marked(fn, options, caller())

    def mark(function: Any) -> Any:
        return _marked(function, options, caller())

    return mark


def _marked(function: Any, options: Mapping[str, Any], frame: FrameType | None) -> Any:
    inner = getattr(function, "__func__", function)
    if isinstance(inner, type) or not callable(inner):
        raise UserError(f"@tool stands before a function or a method, not before {inner!r}")
    checked = check_options(options, f"tool {default_name(inner)!r}")
    attach(function, TOOL_ATTRIBUTE, ToolRecord(checked, local_names(inner, frame)))
    return function


def undoes(target: Callable[..., Any] | str, *, timeout: float | None = None) -> Callable[[FunctionT], FunctionT]:
    """The function, marked as the undo of ``target``: a function with ``@tool``, or a tool's name (spec 11.1).

    It takes what the tool returned; or one ``ToolExecution``; or parameters with the tool's own names, to get its
    arguments again; or nothing. A ``ToolContext`` parameter may be added to each. ``timeout`` is in seconds for one
    attempt. Raises ``UserError`` if the target is no tool or has an undo already.
    """

    if not isinstance(target, str) and record_of(target) is None:
        # At once, since `@undoes` without parentheses would otherwise swallow the function in silence.
        raise UserError(
            f"@undoes({target!r}): expected a function with @tool, or a tool's name; "
            "write @undoes(book) above the function that undoes what book did"
        )

    def mark(function: FunctionT) -> FunctionT:
        inner = getattr(function, "__func__", function)
        label = f"@undoes on {default_name(inner)!r}"
        check_seconds(timeout, "timeout", label)
        record = target if isinstance(target, str) else record_of(target)
        if record is None or (isinstance(record, str) and not record.strip()):
            raise UserError(f"{label}: {target!r} is not a tool; put @tool on it first, or give the tool's name")
        name = record if isinstance(record, str) else record.options.name or default_name(target)
        if isinstance(record, ToolRecord):
            _set_undo(record, function, name, label)
        attach(function, UNDO_ATTRIBUTE, UndoRecord(record, name, timeout, local_names(inner, caller())))
        return function

    return mark


def _set_undo(record: ToolRecord, function: Any, name: str, label: str) -> None:
    other = record.undo or record.options.undo
    if other is not None and other is not function:
        raise UserError(f"{label}: the tool {name!r} has an undo already, {default_name(other)!r}; keep one of them")
    record.undo = function


def default_name(function: Any) -> str:
    """The name of the function, or of what is inside a partial, or of the object's type."""
    while is_partial(function):
        function = function.func
    function = unbound(function)
    name: object = getattr(function, "__name__", None)
    return name if isinstance(name, str) and name else type(function).__name__
