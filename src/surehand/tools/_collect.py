"""From whatever the user gives as ``tools=`` to tools, with every registration error (spec 3.1, 3.2, 6.1, 11.1)."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, cast

from msgspec import structs
from typing_extensions import TypeIs

from .._checks import misfit
from ..errors import UserError
from ..messages import ToolSpec, require_unique_names
from ._callable import innermost, is_dispatched_method
from ._declare import default_name
from ._executor import executor_undo, programmatic_tool
from ._function import FunctionBody, function_tool
from ._options import ToolOptions, ToolRecord, UndoRecord, record_of, undo_record_of
from ._plain_data import type_name
from ._providers import Source, is_provider, source_of
from ._tool import Tool
from ._undo import make_undo

__all__ = ["collect", "collect_tools"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Undo:
    """An undo function that was found: bound where it has to be, and what tells whether two are the same."""

    function: Callable[..., Any]
    identity: Any
    timeout: float | None
    names: Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class _Found:
    """What was found so far."""

    tools: list[Tool] = dataclasses.field(default_factory=list[Tool])
    undos: dict[str, list[_Undo]] = dataclasses.field(default_factory=dict[str, list[_Undo]])
    providers: list[Any] = dataclasses.field(default_factory=list[Any])

    def add_undo(self, name: str, undo: _Undo) -> None:
        """Remember the undo of that tool, once however often it is met."""
        known = self.undos.setdefault(name, [])
        if all(other.identity != undo.identity for other in known):
            known.append(undo)


def collect_tools(objects: Iterable[Any]) -> list[Tool]:
    """The tools in these objects, in order; a provider among them is a ``UserError``. See ``collect``."""
    tools, providers = collect(objects)
    if providers:
        raise UserError(f"the tool provider {providers[0].name} gives no tools here; it belongs into tools=[…]")
    return tools


def collect(objects: Iterable[Any]) -> tuple[list[Tool], list[Source]]:
    """The tools in these objects, in order (spec 3.1.1), and the providers (spec 6.3.1).

    Takes providers, functions (a plain one counts as ``@tool``), bound methods, objects with ``@tool`` methods,
    ``Tool``s, pairs of a ``ToolSpec`` and an executor, and mappings of them. Undo functions are matched over all
    objects, in any order. Raises ``UserError`` for anything else, for equal names, for an undo whose tool is missing,
    and for two undos of one tool.
    """
    if isinstance(objects, (str, bytes)) or not hasattr(objects, "__iter__"):
        raise UserError(
            f"expected a list of tools, not {type(objects).__name__}: put it in a list, [{_name_of(objects)}]"
        )
    found = _Found()
    for entry in objects:
        _collect(entry, found)
    require_unique_names(made.spec for made in found.tools)
    for made in found.tools:
        _check_asked(made)
    ready = _with_undos(found)
    for made in ready:
        _check_undoable(made)
    return ready, [source_of(provider) for provider in found.providers]


def _check_undoable(made: Tool) -> None:
    if made.unknown != "undo" or (made.undo is not None and not made.undo.needs_value):
        return
    has = "has no undo" if made.undo is None else "its undo takes what the tool returned, which nobody knows then"
    raise UserError(
        f"tool {made.name!r}: unknown='undo', but {has}; expected an undo that takes parameters with the tool's own "
        "names, or nothing: give it one with @undoes, or write unknown='ask'"
    )


def _check_asked(made: Tool) -> None:
    for option in ("probe", "authorise"):
        function = getattr(made, option)
        # A probe that cannot be called would only show when a call is unknown, and then look as if it could not tell.
        expected = None if function is None else misfit(function, "context", "arguments")
        if expected is not None:
            raise UserError(f"tool {made.name!r}: {option}={function!r}; expected {expected}")


def _collect(entry: Any, found: _Found) -> None:
    match entry:
        case Tool():
            found.tools.append(entry)
        case _ if hasattr(cast("object", type(entry)), "as_tool"):  # not of itself, which may answer to every name
            found.tools.append(entry.as_tool())
        case (ToolSpec() as spec, executor):
            found.tools.append(programmatic_tool(spec, executor))
        case _ if _has_specs(entry):
            found.tools.extend(programmatic_tool(spec, executor) for spec, executor in entry.items())
        case _ if is_provider(entry) and record_of(getattr(entry, "provide", None)) is None:
            _add_provider(entry, found)
        case type():
            raise UserError(f"{entry.__name__} is a class; give an instance of it: {entry.__name__}()")
        case ToolSpec():
            raise UserError(f"the ToolSpec {entry.name!r} has nothing to run; give a pair (spec, executor)")
        case str() | bytes() | int() | float() | None:
            raise UserError(
                f"{entry!r} is no tool; give a function, a tool object, a Tool or a (ToolSpec, executor) pair"
            )
        case list() | tuple() | Set() | Mapping():
            raise UserError(
                f"a {type(cast('object', entry)).__name__} inside the list of tools; unpack it: [*tools, *more_tools]"
            )
        case _ if inspect.isroutine(entry) or isinstance(entry, (functools.partial, staticmethod, classmethod)):
            _collect_function(entry, found)
        case _:
            _collect_object(entry, found)


def _add_provider(entry: Any, found: _Found) -> None:
    if any(record_of(attribute) is not None for _, attribute in _methods(entry)):
        raise UserError(
            f"{type_name(entry)} has @tool methods, and a method provide, which makes it a tool provider; give two "
            "objects, or give provide another name"
        )
    if all(entry is not other for other in found.providers):
        found.providers.append(entry)


def _has_specs(entry: Any) -> TypeIs[Mapping[ToolSpec, Any]]:
    keys: tuple[Any, ...] = tuple(entry) if issubclass(type(entry), Mapping) else ()
    return bool(keys) and all(isinstance(key, ToolSpec) for key in keys)


# ---------------------------------------------------------------- functions


def _collect_function(function: Any, found: _Found) -> None:
    if isinstance(function, classmethod):
        raise UserError(f"{function!r} is not bound to its class; give it as ClassName.method")
    if isinstance(function, staticmethod):
        function = function.__func__
    owner = getattr(function, "__self__", None)
    undo_record = undo_record_of(function)
    record = record_of(function)
    if undo_record is not None:
        found.add_undo(undo_record.target_name, _undo_of(function, undo_record))
        if record is None:
            return
    _refuse_uncallable(function)
    made = _add_tool(function, record, found, owner)
    if record is not None and owner is not None and not inspect.ismodule(owner):
        _collect_undos(owner, found, only=made.name)


def _refuse_uncallable(function: Any) -> None:
    if inspect.isbuiltin(function):
        raise UserError(
            f"{function!r} is built in and has no types that a model could be told; wrap it in a function of your own "
            "whose parameters have types"
        )
    qualname = getattr(function, "__qualname__", "")
    names: tuple[str, ...] = getattr(getattr(innermost(function), "__code__", None), "co_varnames", ())
    is_in_class = "." in qualname and not qualname.rpartition(".")[0].endswith("<locals>")
    if inspect.isfunction(function) and is_in_class and names[:1] == ("self",) and not is_dispatched_method(function):
        owner = qualname.rpartition(".")[0]
        raise UserError(
            f"{qualname} is not bound to an object; give {owner}().{function.__name__}, or the whole object"
        )


def _add_tool(function: Any, record: ToolRecord | None, found: _Found, owner: Any = None) -> Tool:
    options = record.options if record is not None else ToolOptions()
    names: Mapping[str, Any] = record.names if record is not None else {}
    options = structs.replace(options, probe=_bound(options.probe, owner), authorise=_bound(options.authorise, owner))
    made = function_tool(function, options, names=names)
    found.tools.append(made)
    for undo in (options.undo, record.undo if record is not None else None):
        if undo is None:
            continue
        marked = undo_record_of(undo)
        if marked is not None and owner is not None and _attribute_name(undo, owner) is not None:
            continue  # a method of the same object: found there, as the subtype's version
        timeout = marked.timeout if marked is not None else options.undo_timeout
        undo_names = marked.names if marked is not None else names
        found.add_undo(
            made.name, _Undo(_bound(undo, owner), _identity(undo), timeout or options.undo_timeout, undo_names)
        )
    return made


def _undo_of(function: Any, record: UndoRecord) -> _Undo:
    return _Undo(function, _identity(function), record.timeout, record.names)


def _identity(function: Any) -> Any:
    inner = getattr(function, "__func__", function)
    return (id(inner), id(getattr(function, "__self__", None)) if inspect.ismethod(function) else None)


def _bound(function: Any, owner: Any) -> Any:
    """The function bound to the object, if it is one of its methods named inside the class body."""
    if function is None:
        return None
    name = _attribute_name(function, owner)
    if name is not None:
        return getattr(owner, name)
    return function if inspect.ismethod(function) else getattr(function, "__func__", function)


def _attribute_name(function: Any, owner: Any) -> str | None:
    if owner is None or inspect.ismodule(owner) or inspect.ismethod(function):
        return None
    classes = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
    for kind in classes:
        for name, attribute in vars(kind).items():
            if attribute is function or getattr(attribute, "__func__", None) is function:
                return name
    return None


# ---------------------------------------------------------------- objects


def _collect_object(entry: Any, found: _Found) -> None:
    before = len(found.tools)
    own = record_of(entry)
    if own is not None:  # a callable object that was decorated itself
        _add_tool(entry, own, found)
        return
    for name, attribute in _methods(entry):
        record = record_of(attribute)
        if record is not None:
            _add_tool(getattr(entry, name), record, found, entry)
    has_undos = _collect_undos(entry, found)
    if len(found.tools) > before or has_undos:
        return
    if callable(entry):
        _add_tool(entry, None, found)
        return
    raise UserError(
        f"{type_name(entry)} has no method marked with @tool; mark one, or check that an override repeats the marker"
    )


def _methods(entry: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of the object's type, each name once, as the most derived type has it (spec 3.2)."""
    seen: set[str] = set()
    for kind in type(entry).__mro__[:-1]:
        for name, attribute in vars(kind).items():
            if name in seen:
                continue
            seen.add(name)
            if not getattr(attribute, "__isabstractmethod__", False):
                yield name, attribute


def _collect_undos(entry: Any, found: _Found, *, only: str | None = None) -> bool:
    if isinstance(entry, type):
        methods: Iterable[tuple[str, Any]] = (
            (name, value) for kind in entry.__mro__ for name, value in vars(kind).items()
        )
    else:
        methods = _methods(entry)
    met = False
    for name, attribute in methods:
        record = undo_record_of(attribute)
        if record is not None and only in (None, record.target_name):
            bound = getattr(entry, name)
            found.add_undo(record.target_name, _undo_of(bound, record))
            met = True
    return met


# ---------------------------------------------------------------- undos


def _with_undos(found: _Found) -> list[Tool]:
    names = [made.name for made in found.tools]
    for name, undos in found.undos.items():
        if name not in names:
            shown = ", ".join(map(repr, names)) or "the tools"
            raise UserError(
                f"{default_name(undos[0].function)!r} undoes the tool {name!r}, which is not among {shown}; "
                "register the tool as well, or correct the name"
            )
    return [_with_undo(made, found.undos.get(made.name, [])) for made in found.tools]


def _with_undo(made: Tool, undos: list[_Undo]) -> Tool:
    if not undos:
        return made
    if len(undos) > 1 or made.undo is not None:
        shown = " and ".join(repr(default_name(undo.function)) for undo in undos)
        raise UserError(f"the tool {made.name!r} has more than one undo: {shown}; keep one of them")
    undo = undos[0]
    if not isinstance(made.body, FunctionBody):
        return structs.replace(made, undo=executor_undo(undo.function, made, undo.timeout, undo.names))
    signature = made.body.signature
    ready = make_undo(
        undo.function,
        tool=made.name,
        arguments={entry.name: entry.hint for entry in signature.visible},
        returns=signature.returns,
        timeout=undo.timeout,
        names=undo.names,
    )
    return structs.replace(made, undo=ready)


def _name_of(entry: Any) -> str:
    return default_name(entry) if callable(entry) else "…"
