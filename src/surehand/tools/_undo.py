"""The forms that an undo function may have, told apart once, when the tool is registered (spec 11.1)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from .._checks import is_async_callable
from ..errors import UserError
from ._parameter import MISSING, Parameter
from ._signature import Signature, read_signature
from ._tool import ToolContext, ToolExecution

__all__ = ["FunctionUndo", "UndoForm", "injected_value", "make_undo"]


class UndoForm(enum.Enum):
    """What an undo function takes, besides what surehand injects."""

    NOTHING = "nothing"
    VALUE = "value"  # what the tool returned
    EXECUTION = "execution"  # the whole record
    ARGUMENTS = "arguments"  # the tool's own arguments, decoded again


class FunctionUndo:
    """An undo function, called in the form that it has."""

    def __init__(self, function: Callable[..., Any], form: UndoForm, signature: Signature, timeout: float | None):
        self.function = function
        self.form = form
        self.signature = signature
        self._timeout = timeout
        self._is_async = is_async_callable(function)

    @property
    def is_async(self) -> bool:
        """Whether ``call`` gives an awaitable."""
        return self._is_async

    @property
    def timeout(self) -> float | None:
        """Seconds for one attempt."""
        return self._timeout

    @property
    def needs_value(self) -> bool:
        """Whether it takes what the tool returned, or the whole record."""
        return self.form in (UndoForm.VALUE, UndoForm.EXECUTION)

    def call(self, execution: ToolExecution[Any], arguments: dict[str, Any], context: ToolContext[Any]) -> Any:
        """Undo the execution; ``arguments`` are the tool's, decoded again from the call."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for parameter in self.signature.parameters:
            value = self._value(parameter, execution, arguments, context)
            if value is MISSING:
                continue
            if parameter.positional_only:
                positional.append(value)
            else:
                named[parameter.name] = value
        return self.function(*positional, **named)

    def _value(
        self, parameter: Parameter, execution: ToolExecution[Any], arguments: dict[str, Any], context: ToolContext[Any]
    ) -> Any:
        if parameter.injected == "execution":
            return execution
        if parameter.injected is not None:
            return injected_value(parameter, context)
        if self.form is UndoForm.ARGUMENTS:
            return arguments.get(parameter.name, MISSING)
        return execution.value if parameter.default is MISSING else MISSING


def injected_value(parameter: Parameter, context: ToolContext[Any] | None) -> Any:
    """What surehand fills in for that parameter (spec 3.5)."""
    if parameter.injected == "context":
        return context
    if context is None:
        return None
    return context.parameters if parameter.injected == "parameters" else context.memory_id


def make_undo(
    function: Callable[..., Any],
    *,
    tool: str,
    arguments: Mapping[str, Any],
    returns: Any = MISSING,
    timeout: float | None = None,
    names: Mapping[str, Any] | None = None,
) -> FunctionUndo:
    """The undo of that tool; ``arguments`` gives the types of the tool's parameters by name.

    Raises ``UserError`` if the function's parameters fit none of the forms.
    """
    label = f"undo of the tool {tool!r} ({getattr(function, '__qualname__', function)!s})"
    signature = read_signature(function, label, names)
    form = _form(signature, arguments, returns, label, tool)
    return FunctionUndo(function, form, signature, timeout)


def _form(signature: Signature, arguments: Mapping[str, Any], returns: Any, label: str, tool: str) -> UndoForm:
    taken = [entry for entry in signature.visible if entry.default is MISSING or entry.name in arguments]
    takes_execution = [entry for entry in signature.injected if entry.injected == "execution"]
    if takes_execution:
        if len(takes_execution) > 1 or taken:
            raise UserError(f"{label}: a ToolExecution parameter stands alone; remove {_names(taken) or 'the second'}")
        return UndoForm.EXECUTION
    if not taken:
        return UndoForm.NOTHING
    if all(entry.name in arguments for entry in taken):
        _refuse_ambiguous(taken, arguments, returns, label, tool)
        return UndoForm.ARGUMENTS
    if len(taken) == 1:
        return UndoForm.VALUE
    unknown = [entry for entry in taken if entry.name not in arguments]
    raise UserError(
        f"{label}: takes {_names(taken)}, but {tool!r} has no parameter {_names(unknown)}; take what the tool returned "
        "(one parameter), a ToolExecution, or parameters with the tool's own names: "
        f"{', '.join(map(repr, arguments)) or 'it has none'}"
    )


def _refuse_ambiguous(
    taken: list[Parameter], arguments: Mapping[str, Any], returns: Any, label: str, tool: str
) -> None:
    # The name says "argument", the type says "what the tool returned": a guess would undo the wrong thing.
    if len(taken) != 1 or returns is MISSING or returns is Any:
        return
    entry = taken[0]
    if entry.hint is not Any and entry.hint == returns and arguments[entry.name] not in (returns, Any):
        raise UserError(
            f"{label}: {entry.name!r} is the name of a parameter of {tool!r} but has the type that it returns; give it "
            "another name to get what the tool returned"
        )


def _names(parameters: list[Parameter]) -> str:
    return ", ".join(repr(entry.name) for entry in parameters)
