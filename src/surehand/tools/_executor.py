"""Tools from a specification and an executor, without a function's signature (spec 3.1.1, 6.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .._checks import is_async_callable, is_generator, misfit
from .._codec import clean_text
from ..budgets import Amount, Budget, RepeatedCalls
from ..errors import UserError
from ..messages import ToolCall, ToolSpec
from ._consume import consumed
from ._json_exact import Rewritten, read_exact
from ._json_schema_plain import property_names
from ._json_text import NotJson, is_object
from ._options import check_options
from ._parameter import MISSING
from ._tool import Decoding, Repeat, ReturnBehavior, Tool, ToolContext, ToolResult, Undo, WhenUnknown

if TYPE_CHECKING:
    from ._decode import Decoded, Decoder  # loads pydantic

__all__ = ["ExecutorBody", "executor_undo", "programmatic_tool"]


class ExecutorBody:
    """An executor as the engine sees it.

    It gets the call as the model sent it: any text if the specification has no parameters, otherwise JSON that fits
    them, as sent or, if that took repairs, as repaired.
    """

    def __init__(self, executor: Any, spec: ToolSpec) -> None:
        from ._results import make_encoder  # loads pydantic, which a program without such tools does not need
        from ._values import ValueCodec

        name = spec.name
        self.executor = executor
        self.decode: Decoder = _decode_any if spec.parameters is None else _checking(spec.parameters, name)
        self._blocking, self._awaitable = _forms(executor, name)
        for form in (self._blocking, self._awaitable):
            expected = None if form is None else misfit(form, "call", "context")
            if expected is not None:
                raise UserError(f"tool {name!r}: the executor {form!r}; expected {expected}")
        self._is_generator = any(map(is_generator, (self._blocking, self._awaitable)))
        self._offload = bool(getattr(executor, "offload", True))
        self.encode: Callable[[Any], ToolResult] = make_encoder(name, MISSING)
        self.values = ValueCodec(MISSING)

    @property
    def is_async(self) -> bool:
        """Whether the executor has only the awaitable form."""
        return self._blocking is None

    @property
    def has_async_form(self) -> bool:
        """Whether the executor has the awaitable form."""
        return self._awaitable is not None

    @property
    def offload(self) -> bool:
        """What the executor declares; ``True`` if nothing."""
        return self._offload

    @property
    def raises_argument_errors(self) -> bool:
        """An executor decodes for itself, so such an error is its word that nothing was done (spec 9.3)."""
        return True

    @property
    def is_generator(self) -> bool:
        """Whether the executor is one."""
        return self._is_generator

    @property
    def may_change_arguments(self) -> bool:
        """Never: an executor gets the text of the call."""
        return False

    @property
    def wants_context(self) -> bool:
        """Always: the call is part of it."""
        return True

    def call(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Any:
        """What the executor gives; the awaitable form if it has no other."""
        form = self._awaitable if self._blocking is None else self._blocking
        assert form is not None
        call, given = _given(arguments, context)
        return consumed(form(call, given), given.report)

    def call_async(self, arguments: dict[str, Any], context: ToolContext[Any] | None) -> Awaitable[Any]:
        """The awaitable form."""
        assert self._awaitable is not None
        call, given = _given(arguments, context)
        awaitable: Awaitable[Any] = consumed(self._awaitable(call, given), given.report)
        return awaitable


def _given(arguments: dict[str, Any], context: ToolContext[Any] | None) -> tuple[ToolCall, ToolContext[Any]]:
    """The call and the context for the executor; with the repaired text where the model's own does not fit."""
    if context is None:
        raise UserError("an executor needs a ToolContext, which carries the call")
    if isinstance(arguments, Rewritten):
        context = replace(context, call=replace(context.call, arguments=arguments.text))
    return context.call, context


def _decode_any(text: str, decoding: Decoding = "repair", /) -> Decoded:
    """The object in the text as far as it can be read; otherwise the text itself, under an empty name."""
    try:
        found, repairs = read_exact(text, decoding)
    except NotJson:
        return {"": clean_text(text)}, ()
    if found is None:
        return {}, repairs
    return (found, repairs) if is_object(found) else ({"": found}, repairs)


def _checking(parameters: Mapping[str, Any], name: str) -> Decoder:
    from ._json_schema_decode import make_schema_decoder  # loads what tools without a schema do not need

    return make_schema_decoder(parameters, name)


def _forms(executor: Any, name: str) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    if isinstance(executor, type):
        raise UserError(f"tool {name!r}: the executor is the class {executor.__name__}; give an instance of it")
    blocking, awaitable = getattr(executor, "execute", None), getattr(executor, "execute_async", None)
    if blocking is None and awaitable is None and callable(executor):
        return (None, executor) if is_async_callable(executor) else (executor, None)
    if blocking is not None and awaitable is None and is_async_callable(blocking):
        return None, blocking
    if not callable(blocking) and not callable(awaitable):
        raise UserError(
            f"tool {name!r}: {type(executor).__name__} is no executor; give a function (call, context) -> text or "
            "ToolResult, or an object with execute or execute_async"
        )
    return blocking, awaitable


def programmatic_tool(
    spec: ToolSpec,
    executor: Any,
    *,
    repeat: Repeat = "never",
    timeout: float | None = None,
    retries: int = 0,
    exclusive: bool = False,
    inline: bool = False,
    max_parallel: int | None = None,
    returns: ReturnBehavior = ReturnBehavior.TO_MODEL,
    decoding: Decoding | None = None,
    max_result: int | None = None,
    undo: Callable[..., Any] | None = None,
    undo_timeout: float | None = None,
    probe: Callable[..., Any] | None = None,
    authorise: Callable[..., Any] | None = None,
    unknown: WhenUnknown = "ask",
    limits: Budget | None = None,
    soft_limits: Budget | None = None,
    cost: Amount = 0,
    repeated_calls: RepeatedCalls | None = None,
) -> Tool:
    """A tool from what the model shall see and what shall run: ``executor(call, context)``, or an object with
    ``execute`` or ``execute_async`` or both (spec 6.2).

    The executor gets the call, whose arguments fit the specification's parameters if it has any, and gives text or a
    ``ToolResult``. The options are those of ``@tool``; the parameters that an undo may ask for are the properties of
    the specification. Raises ``UserError`` for options that cannot be kept and for a schema that cannot be used.
    """
    if not isinstance(spec, ToolSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # not every caller is checked
        raise UserError(f"a programmatic tool needs a ToolSpec, not {type(spec).__name__}")
    # Every option by its name, as ``@tool`` has them; so nothing else may be assigned above this line.
    given = {key: value for key, value in locals().items() if key not in ("spec", "executor")}
    from ._function import build_tool  # loads pydantic

    options = check_options(given, f"tool {spec.name!r}")
    body = ExecutorBody(executor, spec)
    made = build_tool(spec, body, options)
    return made if undo is None else replace(made, undo=executor_undo(undo, made, undo_timeout))


def executor_undo(
    function: Callable[..., Any], made: Tool, timeout: float | None, names: Mapping[str, Any] | None = None
) -> Undo:
    """The undo of a tool whose parameters are known from its specification alone."""
    from ._undo import make_undo

    arguments = dict.fromkeys(property_names(made.spec.parameters or {}), Any)
    return make_undo(function, tool=made.name, arguments=arguments, timeout=timeout, names=names)
