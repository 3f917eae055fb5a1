"""From a function to a tool: its signature and docstring become what the model sees, and a body (spec 3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from inspect import isasyncgenfunction
from typing import Any

from .._checks import WHOLE, is_async_callable, is_generator, is_partial, plain_callable
from ..errors import UserError
from ..messages import ToolSpec
from ._consume import consumed
from ._copies import is_fixed
from ._declare import default_name
from ._decode import Decoder, make_decoder
from ._docstring import read_docstring
from ._options import ToolOptions
from ._parameter import MISSING, Parameter
from ._results import is_list, is_stream, make_encoder, returned_type
from ._schema import build_schema
from ._signature import Signature, read_signature
from ._tool import Body, ReturnBehavior, Tool, ToolContext, ToolResult
from ._undo import injected_value
from ._values import ValueCodec

__all__ = ["FunctionBody", "build_tool", "function_tool"]

# ---------------------------------------------------------------- bodies


class FunctionBody:
    """A function as the engine sees it: decodes, injects, calls, encodes."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        signature: Signature,
        descriptions: Mapping[str, str],
        *,
        lazy: bool = False,
    ) -> None:
        self.function = function
        self.signature = signature
        self.schema = build_schema(signature.visible, descriptions, f"tool {name!r}")
        # Attributes, not methods: one call less for each call of the tool.
        self.decode: Decoder = make_decoder(self.schema, name)
        plain = plain_callable(function)
        self.is_generator = is_generator(function)
        returns = returned_type(signature.returns, is_generator=self.is_generator)
        self.encode: Callable[[Any], ToolResult] = make_encoder(name, returns, lazy=lazy)
        self.values = ValueCodec(MISSING if returns is ToolResult else returns)  # then it is the result's own value
        self.is_async = self.has_async_form = is_async_callable(plain) or isasyncgenfunction(plain)
        self.offload = True  # any function may run on a worker thread
        self.raises_argument_errors = False  # a function that raises one has been entered (spec 9.3)
        # A function that does not say what it gives may give a generator, which reports its progress to the context.
        may_hide = returns in (MISSING, Any) or is_stream(returns)
        self._as_list = is_list(returns) and not self.is_generator
        self.wants_context = bool(signature.injected) or self.is_generator or may_hide
        self.may_change_arguments = not all(is_fixed(entry.hint) for entry in signature.visible)
        self._is_direct = not signature.injected and not _has_positional_only(signature)

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """What the function returns; a generator is consumed, so that what it does happens here."""
        if self._is_direct:
            value = self.function(**arguments)
            # Here too, since a call costs more than the look: this is what nearly every call of every tool returns.
            if type(value) in WHOLE:
                return value
            return consumed(value, None if context is None else context.report, self._as_list)
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
        report = None if context is None else context.report
        return consumed(self.function(*positional, **named), report, self._as_list)

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Awaitable[Any]:
        """The same as ``call``, for functions whose ``is_async`` is true."""
        awaitable: Awaitable[Any] = self.call(arguments, context)
        return awaitable


def _has_positional_only(signature: Signature) -> bool:
    return any(parameter.positional_only for parameter in signature.parameters)


# ---------------------------------------------------------------- tools


def function_tool(
    function: Callable[..., Any],
    options: ToolOptions,
    *,
    names: Mapping[str, Any] | None = None,
) -> Tool:
    """The tool made of that function; raises ``UserError`` for what a model cannot be told."""
    name = (options.name or "").strip() or default_name(function)
    label = f"tool {name!r}"
    if name == "<lambda>":
        raise UserError("a lambda has no name that a model could use; give tool(name='…')(…), or define a function")
    signature = read_signature(function, label, names)
    _check_kept(signature, options, label)
    doc = read_docstring(_doc_of(function))
    lazy = options.returns is ReturnBehavior.IMMEDIATE
    body = FunctionBody(function, name, signature, doc.parameters, lazy=lazy)
    if options.inline and options.timeout is not None and not body.is_async:
        raise UserError(f"{label}: inline=True cannot keep timeout={options.timeout!r}; remove one of them")
    description = (options.description or "").strip() or doc.description
    spec = ToolSpec(name, description, body.schema.json_schema, options.metadata, options.strict)
    return build_tool(spec, body, options)


def build_tool(spec: ToolSpec, body: Body, options: ToolOptions) -> Tool:
    """The parts put together, without an undo: that needs the tool's name and parameters, and is added last."""
    return Tool(
        spec=spec,
        body=body,
        repeat=options.repeat,
        timeout=options.timeout,
        retries=options.retries,
        exclusive=options.exclusive,
        inline=options.inline,
        max_parallel=options.max_parallel,
        returns=options.returns,
        decoding=options.decoding,
        max_result=options.max_result,
        probe=options.probe,
        authorise=options.authorise,
        unknown=options.unknown,
        limits=options.limits,
        soft_limits=options.soft_limits,
        cost=options.cost,
        repeated_calls=options.repeated_calls,
    )


def _doc_of(function: Any) -> str | None:
    """The docstring of what is called, or else of the object's class."""
    call = plain_callable(function)
    if call_doc := inspect.getdoc(call):
        return call_doc
    owner: object = function.func if is_partial(function) else function
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
