"""What the tests of decoding share: a decoder for some parameters, one value read, one refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from surehand.errors import ToolArgumentsError
from surehand.tools._decode import make_decoder
from surehand.tools._parameter import MISSING, Parameter
from surehand.tools._schema import build_schema
from surehand.tools._tool import Decoding, Repair

Decode = Callable[..., tuple[dict[str, Any], tuple[Repair, ...]]]


def decoder_with(hints: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Decode:
    """Decodes the arguments of a tool named "t" with those parameters."""
    given = defaults or {}
    parameters = [Parameter(name, hint, given.get(name, MISSING), False, None) for name, hint in hints.items()]
    return make_decoder(build_schema(parameters, {}, "tool 't'"), "t")


def decoder(**hints: Any) -> Decode:
    """The same for parameters that are all required."""
    return decoder_with(hints)


def read(hint: Any, text: str, decoding: Decoding = "repair") -> Any:
    """The value of the one parameter ``v`` when the model sends ``text`` for it."""
    return decoder(v=hint)(f'{{"v": {text}}}', decoding)[0]["v"]


def refusal(decode: Decode, text: str, decoding: Decoding = "repair") -> str:
    """What the model is told about arguments that are refused."""
    with pytest.raises(ToolArgumentsError) as caught:
        decode(text, decoding)
    return str(caught.value)
