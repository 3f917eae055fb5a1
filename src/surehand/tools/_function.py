"""``@tool`` and ``@undoes``: they leave a record on the function and give it back unchanged (spec 3).

The tool itself is built when it is registered, since only then can types that are defined later be resolved.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import FrameType
from typing import Any, TypeVar, overload

from msgspec.structs import replace

from .._codec import canonical
from ..errors import UserError
from ..messages import ToolSpec
from ._decode import make_decoder
from ._docstring import read_docstring
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
from ._results import make_encoder, returned_type
from ._schema import build_schema
from ._signature import Parameter, Signature, caller, is_async_callable, local_names, plain_callable, read_signature
from ._tool import Repair, Repeat, ReturnBehavior, Tool, ToolContext, ToolResult, Undo
from ._undo import injected_value
from ._values import ValueCodec

__all__ = ["FunctionBody", "canonical_arguments", "function_tool", "tool", "undoes"]

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any] | staticmethod[..., Any] | classmethod[Any, ..., Any]")


# ---------------------------------------------------------------- decorators


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
    metadata: Mapping[str, Any] | str | None = None,
    strict: bool | None = None,
    undo: Callable[..., Any] | None = None,
    undo_timeout: float | None = None,
    probe: Callable[..., Any] | None = None,
    authorise: Callable[..., Any] | None = None,
) -> Callable[[FunctionT], FunctionT]: ...


def tool(fn: Any = None, /, **options: Any) -> Any:
    """The function, marked as a tool: the same object, which you can still call and test as before (spec 3.3).

    The model sees the function's name, its docstring, and its parameters' types, defaults and descriptions.
    A parameter of type ``ToolContext`` or ``Parameters``, or one marked ``Annotated[…, MemoryId]``, is filled by
    surehand and hidden from the model. The options:

    - ``name``, ``description``: instead of the function's own; blank counts as unset.
    - ``repeat``: may a call be repeated when nobody knows whether it happened? ``"safe"`` for reads,
      ``"with_key"`` if the service behind takes ``ctx.idempotency_key``, else ``"never"``.
    - ``timeout``: seconds for one attempt. ``retries``: further attempts, not for ``repeat="never"``.
    - ``exclusive``: never at the same time as another tool of the run. ``max_parallel``: calls at the same time.
    - ``inline``: the body is trivial and runs where the loop runs.
    - ``returns``: what happens after the round, see ``ReturnBehavior``.
    - ``metadata``: a dict for the application. ``strict``: ask the provider to enforce the schema.
    - ``undo``, ``undo_timeout``: how to undo a call, as with ``@undoes``.
    - ``probe``: answers whether a call happened. ``authorise``: asked before every call.

    Raises ``UserError`` for options that cannot be kept.
    """
    names = set(ToolOptions.__dataclass_fields__)
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
    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    function = getattr(function, "__func__", function)
    return getattr(function, "__name__", None) or type(function).__name__


# ---------------------------------------------------------------- bodies


class FunctionBody:
    """A function as the engine sees it: decodes, injects, calls, encodes."""

    def __init__(self, function: Callable[..., Any], name: str, signature: Signature, descriptions: Mapping[str, str]):
        self.function = function
        self.signature = signature
        self.schema = build_schema(signature.visible, descriptions, f"tool {name!r}")
        # Attributes, not methods: one call less for each call of the tool.
        self.decode: Callable[[str], tuple[dict[str, Any], tuple[Repair, ...]]] = make_decoder(self.schema, name)
        plain, streams, async_streams = _unwrapped(function)
        returns = returned_type(signature.returns, is_stream=streams or async_streams)
        self.encode: Callable[[Any], ToolResult] = make_encoder(name, returns)
        self.values = ValueCodec(returns)
        self._is_async = is_async_callable(plain) or async_streams
        self._collect: Callable[[Any], Any] | None = _collected if async_streams else list if streams else None
        self._wants_context = bool(signature.injected)
        self._is_direct = not self._wants_context and self._collect is None and not _has_positional_only(signature)

    @property
    def is_async(self) -> bool:
        """Whether ``call`` gives an awaitable."""
        return self._is_async

    @property
    def has_async_form(self) -> bool:
        """The same: a function has one form."""
        return self._is_async

    @property
    def offload(self) -> bool:
        """Any function may run on a worker thread."""
        return True

    @property
    def raises_argument_errors(self) -> bool:
        """Never: a function that raises one has been entered (spec 9.3)."""
        return False

    @property
    def wants_context(self) -> bool:
        """Whether a parameter is filled from the ``ToolContext``."""
        return self._wants_context

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """What the function returns; a generator is consumed, so that what it does happens here."""
        if self._is_direct:
            return self.function(**arguments)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.signature.parameters:
            if parameter.injected is not None:
                value = injected_value(parameter, context)
            elif parameter.name in arguments:
                value = arguments[parameter.name]
            else:
                continue
            if parameter.positional_only:
                positional.append(value)
            else:
                named[parameter.name] = value
        returned = self.function(*positional, **named)
        return returned if self._collect is None else self._collect(returned)

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Awaitable[Any]:
        """The same as ``call``, for functions whose ``is_async`` is true."""
        awaitable: Awaitable[Any] = self.call(arguments, context)
        return awaitable


def _has_positional_only(signature: Signature) -> bool:
    return any(parameter.positional_only for parameter in signature.parameters)


def _unwrapped(function: Any) -> tuple[Any, bool, bool]:
    """The function inside partials and callable objects, and whether it is a generator or an async generator."""
    inner = plain_callable(function)
    return inner, inspect.isgeneratorfunction(inner), inspect.isasyncgenfunction(inner)


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


# ---------------------------------------------------------------- tools


def function_tool(
    function: Callable[..., Any],
    options: ToolOptions,
    *,
    undo: Callable[[Tool], Undo | None] | None = None,
    names: Mapping[str, Any] | None = None,
) -> Tool:
    """The tool made of that function; raises ``UserError`` for what a model cannot be told.

    ``undo`` makes the undo once the tool's name and parameters are known.
    """
    name = (options.name or "").strip() or default_name(function)
    label = f"tool {name!r}"
    if name == "<lambda>":
        raise UserError("a lambda has no name that a model could use; give tool(name='…')(…), or define a function")
    signature = read_signature(function, label, names)
    _check_kept(signature, options, label)
    doc = read_docstring(_doc_of(function))
    body = FunctionBody(function, name, signature, doc.parameters)
    if options.inline and options.timeout is not None and not body.is_async:
        raise UserError(f"{label}: inline=True cannot keep timeout={options.timeout!r}; remove one of them")
    description = (options.description or "").strip() or doc.description
    spec = ToolSpec(name, description, body.schema.json_schema, options.metadata, options.strict)
    return build_tool(spec, body, options, undo)


def build_tool(spec: ToolSpec, body: Any, options: ToolOptions, undo: Callable[[Tool], Undo | None] | None) -> Tool:
    """The parts put together; the undo is made last, from the tool without it."""
    made = Tool(
        spec=spec,
        body=body,
        repeat=options.repeat,
        timeout=options.timeout,
        retries=options.retries,
        exclusive=options.exclusive,
        inline=options.inline,
        max_parallel=options.max_parallel,
        returns=options.returns,
        probe=options.probe,
        authorise=options.authorise,
    )
    return made if undo is None else replace(made, undo=undo(made))


def _doc_of(function: Any) -> str | None:
    """The docstring of what is called, or else of the object's class."""
    call = plain_callable(function)
    if call_doc := inspect.getdoc(call):
        return call_doc
    owner: object = getattr(function, "func", function)
    return inspect.getdoc(owner if inspect.isroutine(owner) else type(owner))


def _check_kept(signature: Signature, options: ToolOptions, label: str) -> None:
    executions = [entry for entry in signature.parameters if entry.injected == "execution"]
    if executions:
        raise UserError(f"{label}: parameter {executions[0].name!r} is a ToolExecution, which only an undo can take")
    if options.repeat == "with_key" and not _takes_context(signature.injected):
        raise UserError(
            f"{label}: repeat='with_key' needs a ToolContext parameter, so that the body can pass "
            "ctx.idempotency_key on; add ctx: ToolContext"
        )


def _takes_context(parameters: tuple[Parameter, ...]) -> bool:
    return any(entry.injected == "context" for entry in parameters)


def canonical_arguments(values: Mapping[str, Any]) -> str:
    """One text for one meaning, whatever the order and white space in what the model sent."""
    return canonical(dict(values))
