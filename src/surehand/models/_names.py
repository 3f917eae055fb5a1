"""Models by name, for command lines, configuration, and ``Agent("openai:gpt-5")``."""

from __future__ import annotations

from ..errors import UserError
from ._base import ChatModel

__all__ = ["from_name"]

_KNOWN = ("openai:<model>", "local", "local:<path to a GGUF file>")


def from_name(name: str) -> ChatModel:
    """The model of that name: ``openai:gpt-5``, ``local``, or ``local:/path/to/model.gguf``.

    Raises ``UserError`` for a prefix that is not known, and when the extra that the model needs is missing.
    """
    prefix, colon, rest = name.partition(":")
    # The adapters are imported here, so that naming one does not load the SDKs of all.
    if prefix == "openai" and rest:
        from .openai import OpenAIChat

        return OpenAIChat(rest)
    if prefix == "local" and bool(colon) == bool(rest):
        from .local import LocalModel

        return LocalModel(rest or None)
    raise UserError(f"no model is named {name!r}; known are {', '.join(_KNOWN)}")
