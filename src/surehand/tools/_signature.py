"""A function's parameters with their types resolved, and which of them surehand fills itself (spec 3.4, 3.5)."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Annotated, Any, NotRequired, Required, Self, get_args, get_origin

import typing_extensions
from msgspec import Struct
from typing_extensions import ReadOnly, Unpack

from .._checks import is_partial
from ..errors import UserError
from ._callable import innermost, owner_of, passable, shown_signature
from ._hints import is_union, parts_of, substituted, unaliased
from ._parameter import MISSING, Injected, Parameter
from ._tool import Parameters, ToolContext, ToolExecution
from ._unfillable import MEMORY_ID_MARK

__all__ = ["MemoryId", "Signature", "caller", "check_is_type", "local_names", "read_signature"]

# Said about the keys of a TypedDict; among parameters, a default says the same.
_FOR_KEYS = (Required, NotRequired, ReadOnly)


class MemoryId:
    """Marks a parameter that gets the memory id of the run: ``user: Annotated[str, MemoryId]`` (spec 3.5.1)."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """The type itself, marked: inside of another type, where the model would set it, it has to be found."""
        return {"type": "chain", "steps": [handler(source)], "metadata": {MEMORY_ID_MARK: True}}


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
    shown = shown_signature(function, label)
    # What a partial has bound already may be a secret: it is neither offered to the model nor shown as a default.
    bound = _bound_by_partial(function)
    scope = _Scope(label, *_scope_of(function, names or {}), _values_of(owner_of(function)))
    parameters: list[Parameter] = []
    for entry in shown.parameters.values():
        if entry.name not in bound:
            parameters.extend(_parameters(entry, scope))
    seen: set[str] = set()
    for parameter in parameters:
        if parameter.name in seen:
            raise UserError(f"{label}: parameter {parameter.name!r} is there twice, also in **kwargs; rename one")
        seen.add(parameter.name)
    returns = shown.return_annotation
    if returns is not MISSING:
        returns = scope.resolved("the return annotation", returns)
    return Signature(passable(function, tuple(parameters), label), returns)


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


def _scope_of(function: Any, names: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    inner = innermost(function)
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


def _values_of(owner: Any) -> dict[Any, Any]:
    """What type variables, and ``Self``, stand for in the methods of that object."""
    if owner is None:
        return {}
    kind: type[Any] = owner if isinstance(owner, type) else type(owner)
    values: dict[Any, Any] = {Self: kind}
    bases = [vars(owner).get("__orig_class__")] if hasattr(owner, "__dict__") else []
    for base in [*bases, *(base for one in kind.__mro__ for base in vars(one).get("__orig_bases__", ()))]:
        names = getattr(get_origin(base), "__parameters__", ())
        for name, value in zip(names, get_args(base), strict=False):
            values.setdefault(name, substituted(value, values))
    return values


class _Scope(Struct, frozen=True, eq=False):
    """Where the names in a function's annotations are looked up, and what type variables stand for."""

    label: str
    globals: dict[str, Any]
    locals: dict[str, Any]
    values: dict[Any, Any]

    def resolved(self, what: str, annotation: Any) -> Any:
        """The annotation as a type; ``UserError`` if there is none."""
        try:
            hint = self._evaluated(annotation)
            bounds = [
                part for part in parts_of(hint) if isinstance(getattr(part, "__bound__", None), typing.ForwardRef)
            ]
            values = {part: self._evaluated(part.__bound__) for part in bounds}
        except NameError as error:
            raise UserError(
                f"{self.label}: {what} is annotated {annotation!r}, and the name {error.name!r} cannot be found; "
                "import it at run time (not only under TYPE_CHECKING), or define it before the tool and put @tool "
                "on the tool"
            ) from error
        except Exception as error:
            raise UserError(
                f"{self.label}: {what} has an annotation that is not a type: {annotation!r} ({error}); expected a type "
                "such as str, list[int] or a dataclass"
            ) from error
        return substituted(hint, {**values, **self.values})

    def _evaluated(self, annotation: Any) -> Any:
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        return typing_extensions.get_type_hints(holder, self.globals, self.locals, include_extras=True)["it"]


def _parameters(entry: inspect.Parameter, scope: _Scope) -> list[Parameter]:
    what = f"parameter {entry.name!r}"
    if entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD):
        return [_parameter(entry, what, scope)]
    if entry.kind is entry.VAR_KEYWORD and entry.annotation is not MISSING:
        hint = scope.resolved(what, entry.annotation)
        inner = get_args(hint)[0] if get_origin(hint) is Unpack else None
        if typing_extensions.is_typeddict(get_origin(inner) or inner):
            return _unpacked(inner, what, scope)
    star = "*" if entry.kind is entry.VAR_POSITIONAL else "**"
    raise UserError(
        f"{scope.label}: parameter '{star}{entry.name}' has no fixed names that a model could be told; "
        "name each parameter, or take one parameter of type list or dict"
    )


def _parameter(entry: inspect.Parameter, what: str, scope: _Scope) -> Parameter:
    hint = Any if entry.annotation is MISSING else scope.resolved(what, entry.annotation)
    if get_origin(hint) in _FOR_KEYS:
        raise UserError(
            f"{scope.label}: {what} is annotated {hint!r}, which is for the keys of a TypedDict; give it a "
            "default instead"
        )
    if entry.annotation is MISSING and entry.name in ("ctx", "context"):
        raise UserError(
            f"{scope.label}: {what} has no type; annotate it as ToolContext, or with what the model shall send"
        )
    check_is_type(hint, what, scope.label)
    if any(part is Self for part in parts_of(hint)):
        raise UserError(
            f"{scope.label}: {what} is annotated {hint!r} outside of a class; name the class instead of Self"
        )
    injected = _injection(hint, what, scope.label)
    if injected is not None and entry.default is not MISSING and entry.default is not None:
        raise UserError(f"{scope.label}: {what} is filled by surehand and takes no default; remove {entry.default!r}")
    return Parameter(
        entry.name,
        hint,
        entry.default,
        entry.kind is entry.POSITIONAL_ONLY,
        injected,
        keyword_only=entry.kind is entry.KEYWORD_ONLY,
    )


def check_is_type(hint: Any, what: str, label: str) -> None:
    """Raise ``UserError`` for what stands in the place of a type and is none, such as a function or a list."""
    parts = list(parts_of(hint))
    marks = [mark for part in parts if get_origin(part) is Annotated for mark in get_args(part)[1:]]
    for part in parts:
        if inspect.isroutine(part) and all(part is not mark for mark in marks):
            raise UserError(
                f"{label}: {what} is annotated with the function {part.__name__!r}, which is no type; name a type, "
                "such as typing.Any for any value"
            )
    if isinstance(hint, (str, int, float, list, tuple, dict, set)):
        raise UserError(f"{label}: {what} is annotated {hint!r}, which is no type; name a type, such as list[int]")


def _mark_of(hint: Any) -> Any:
    # As something unknown: the checkers believe that ``get_origin`` gives a few things only, and none of those.
    return get_origin(hint)


def _unpacked(kind: Any, what: str, scope: _Scope) -> list[Parameter]:
    """The keys of ``**kwargs: Unpack[TypedDict]`` as parameters of their own."""
    fields: Any = get_origin(kind) or kind
    names = {**scope.globals, **vars(inspect.getmodule(fields) or scope)}
    try:
        hints = typing_extensions.get_type_hints(fields, names, scope.locals, include_extras=True)
    except NameError as error:
        raise UserError(
            f"{scope.label}: {what} unpacks {fields.__name__}, and the name {error.name!r} in it cannot be found; "
            "import it at run time"
        ) from error
    values = dict(zip(getattr(fields, "__parameters__", ()), get_args(kind), strict=False))
    found: list[Parameter] = []
    for name, hint in hints.items():
        is_required = name in fields.__required_keys__
        while (mark := _mark_of(hint)) in _FOR_KEYS:
            is_required = mark is Required or (mark is not NotRequired and is_required)
            hint = get_args(hint)[0]
        hint = substituted(hint, {**scope.values, **values})
        injected = _injection(hint, f"parameter {name!r}", scope.label)
        found.append(Parameter(name, hint, MISSING, False, injected, not is_required, keyword_only=True))
    return found


def _without_none(hint: Any) -> Any:
    """The type inside ``Optional`` and ``Annotated``; other types are given back as they are."""
    hint = unaliased(hint)
    if get_origin(hint) is Annotated:
        return _without_none(get_args(hint)[0])
    if is_union(hint):
        rest = [part for part in get_args(hint) if part is not type(None)]
        if len(rest) == 1:
            return _without_none(rest[0])
    return hint


def _injection(hint: Any, what: str, label: str) -> Injected | None:
    plain = unaliased(hint)
    if get_origin(plain) is Annotated and any(_is_memory_id(mark) for mark in get_args(plain)):
        return "memory_id"
    bare = _without_none(hint)
    found = _injected_type(bare)
    # Anything else would let the model fill what is surehand's.
    if found is None and any(_injected_type(part) or _is_memory_id(part) for part in parts_of(hint)):
        raise UserError(
            f"{label}: {what} mixes what surehand fills with other types: {hint!r}; annotate it as ToolContext (or as "
            "Parameters, or Annotated[…, MemoryId]) alone, or with | None"
        )
    return found


def _is_memory_id(mark: Any) -> bool:
    return mark is MemoryId or isinstance(mark, MemoryId)


def _injected_type(hint: Any) -> Injected | None:
    origin = get_origin(hint) or hint
    if origin is ToolContext:
        return "context"
    if origin is ToolExecution:
        return "execution"
    return "parameters" if isinstance(origin, type) and issubclass(origin, Parameters) else None
