"""On asyncio: how an operation of a component of the user's is called (spec 6.2.2, 6.3.5, 7.6.3)."""

from __future__ import annotations

from typing import Any

from ._checks import is_async_callable, is_awaitable
from ._colour import from_thread, pool
from ._effects import Use
from .errors import AsyncNotSupportedError

__all__ = ["used"]


async def used(effect: Use) -> Any:
    """What the operation gives: by its awaitable form if it has one, else in place or on a worker thread.

    Raises ``AsyncNotSupportedError`` for a component that is bound to its thread and has no awaitable form.
    """
    component, operation, args = effect.component, effect.operation, effect.args
    awaitable_form = getattr(component, f"a{operation}", None)
    if awaitable_form is not None:
        return await awaitable_form(*args)
    form = getattr(component, operation)
    if getattr(component, "inline", False) or is_async_callable(form):
        value = form(*args)
    elif getattr(component, "offload", True) is False:
        name = getattr(component, "__name__", None) or type(component).__name__
        raise AsyncNotSupportedError(
            f"{name} is bound to its thread (offload = False) and has no a{operation}(); give it one, or use run() or "
            "stream()"
        )
    else:
        value = await from_thread(pool().submit(form, *args))
    return await value if is_awaitable(value) else value
