"""A function's parameters with their types resolved, and which of them surehand fills itself (spec 3.4, 3.5)."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import typing_extensions
from msgspec import Struct

from .._checks import call_of, is_partial
from ..errors import UserError
from ._tool import Parameters, ToolContext, ToolExecution

__all__ = [
    "MISSING",
    "Injected",
    "MemoryId",
    "Parameter",
    "Signature",
    "caller",
    "is_union",
    "local_names",
    "read_signature",
    "without_none",
]

MISSING: Any = inspect.Parameter.empty
Injected: TypeAlias = Literal["context", "parameters", "memory_id", "execution"]


class MemoryId:
    """Marks a parameter that gets the memory id of the run: ``user: Annotated[str, MemoryId]`` (spec 3.5.1)."""


class Parameter(Struct, frozen=True, eq=False):
    """One parameter: its resolved type, its default (or ``MISSING``), and what fills it if the model does not."""

    name: str
    hint: Any
    default: Any
    positional_only: bool
    injected: Injected | None


class Signature(Struct, frozen=True, eq=False):
    """The parameters in order, and the declared type of what comes back (or ``MISSING``)."""

    parameters: tuple[Parameter, ...]
    returns: Any

    @property
    def visible(self) -> tuple[Parameter, ...]:
        """The parameters that the model fills."""
        return tuple(parameter for parameter in self.parameters if parameter.injected is None)

    @property
    def injected(self) -> tuple[Parameter, ...]:
        """The parameters that surehand fills."""
        return tuple(parameter for parameter in self.parameters if parameter.injected is not None)


def read_signature(function: Callable[..., Any], label: str, names: Mapping[str, Any] | None = None) -> Signature:
    """The signature with every annotation resolved; raises ``UserError`` naming the parameter that has a problem."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{label}: the signature of {function!r} cannot be read ({error}); wrap it in a function of your own"
        ) from error
    # What a partial has bound already may be a secret: it is neither offered to the model nor shown as a default.
    bound = _bound_by_partial(function)
    scope = _scope_of(function, names or {})
    parameters = tuple(
        _parameter(entry, label, scope) for entry in signature.parameters.values() if entry.name not in bound
    )
    returns = signature.return_annotation
    if returns is not MISSING:
        returns = _resolved("the return annotation", returns, label, scope)
    return Signature(parameters, returns)


def caller() -> FrameType | None:
    """The frame of whoever called the function that asks."""
    frame = inspect.currentframe()
    asking = frame.f_back if frame is not None else None
    return asking.f_back if asking is not None else None


def local_names(function: Any, frame: FrameType | None) -> dict[str, Any]:
    """The names of enclosing functions that the function's textual annotations mention.

    Types that are defined inside a function are visible nowhere else, and are gone by the time the tool is built.
    Only the names mentioned are kept, so that nothing else is held alive.
    """
    annotations = getattr(function, "__annotations__", {})
    texts = " ".join(_texts(annotations.values()))
    mentioned = set(re.findall(r"\w+", texts))
    found: dict[str, Any] = {}
    scope = getattr(function, "__globals__", None)
    while mentioned and frame is not None and frame.f_globals is scope and frame.f_locals is not frame.f_globals:
        for name, value in frame.f_locals.items():
            if name in mentioned:
                found.setdefault(name, value)
        frame = frame.f_back
    return found


def _texts(annotations: Any) -> list[str]:
    found: list[str] = []
    for annotation in annotations:
        if isinstance(annotation, str):
            found.append(annotation)
        elif isinstance(annotation, typing.ForwardRef):
            found.append(annotation.__forward_arg__)
        else:
            found.extend(_texts(get_args(annotation)))
    return found


def _bound_by_partial(function: Any) -> frozenset[str]:
    bound: set[str] = set()
    while is_partial(function):
        bound.update(function.keywords)
        function = function.func
    return frozenset(bound)


def _innermost(function: Any) -> Any:
    while True:
        if is_partial(function):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "__globals__"):
            return function
        else:
            call = call_of(function)
            return call if hasattr(call, "__globals__") else function


def _scope_of(function: Any, names: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    inner = _innermost(function)
    found = dict(names)
    code, cells = getattr(inner, "__code__", None), getattr(inner, "__closure__", None)
    if code is not None and cells:
        for name, cell in zip(code.co_freevars, cells, strict=False):
            try:
                found.setdefault(name, cell.cell_contents)
            except ValueError:  # the enclosing function has not filled it yet
                continue
    for parameter in getattr(inner, "__type_params__", ()):
        found.setdefault(parameter.__name__, parameter)
    return getattr(inner, "__globals__", {}), found


def _parameter(entry: inspect.Parameter, label: str, scope: tuple[dict[str, Any], dict[str, Any]]) -> Parameter:
    if entry.kind in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD):
        star = "*" if entry.kind is entry.VAR_POSITIONAL else "**"
        raise UserError(
            f"{label}: parameter '{star}{entry.name}' has no fixed names that a model could be told; "
            "name each parameter, or take one parameter of type list or dict"
        )
    what = f"parameter {entry.name!r}"
    hint = Any if entry.annotation is MISSING else _resolved(what, entry.annotation, label, scope)
    injected = _injection(hint)
    if entry.annotation is MISSING and entry.name in ("ctx", "context"):
        raise UserError(f"{label}: {what} has no type; annotate it as ToolContext, or with what the model shall send")
    if injected is not None and entry.default is not MISSING and entry.default is not None:
        raise UserError(f"{label}: {what} is filled by surehand and takes no default; remove {entry.default!r}")
    return Parameter(entry.name, hint, entry.default, entry.kind is entry.POSITIONAL_ONLY, injected)


def _resolved(what: str, annotation: Any, label: str, scope: tuple[dict[str, Any], dict[str, Any]]) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing_extensions.get_type_hints(holder, *scope, include_extras=True)["it"]
    except NameError as error:
        raise UserError(
            f"{label}: {what} is annotated {annotation!r}, and the name {error.name!r} cannot be found; import it "
            "at run time (not only under TYPE_CHECKING), or define it before the tool and put @tool on the tool"
        ) from error
    except Exception as error:
        raise UserError(f"{label}: {what} has an annotation that is not a type: {annotation!r} ({error})") from error


def is_union(hint: Any) -> bool:
    """Whether the type is a union, in either spelling."""
    return get_origin(hint) in (typing.Union, types.UnionType)


def without_none(hint: Any) -> Any:
    """The type inside ``Optional`` and ``Annotated``; other types are given back as they are."""
    if get_origin(hint) is Annotated:
        return without_none(get_args(hint)[0])
    if is_union(hint):
        rest = [part for part in get_args(hint) if part is not type(None)]
        if len(rest) == 1:
            return without_none(rest[0])
    return hint


def _injection(hint: Any) -> Injected | None:
    if get_origin(hint) is Annotated and any(mark is MemoryId or isinstance(mark, MemoryId) for mark in get_args(hint)):
        return "memory_id"
    bare = without_none(hint)
    origin = get_origin(bare) or bare
    if origin is ToolContext:
        return "context"
    if origin is ToolExecution:
        return "execution"
    return "parameters" if isinstance(origin, type) and issubclass(origin, Parameters) else None
