"""What replies cost, by tables that others keep: for ``Agent(price=…)``."""

from __future__ import annotations

import importlib
from decimal import Decimal
from typing import Any

from .errors import UserError
from .messages import ChatResponse

__all__ = ["genai_price"]


def genai_price(response: ChatResponse) -> Decimal:
    """What the reply costs in US dollars, by the tables of genai-prices: ``Agent("openai:gpt-5", price=genai_price)``.

    It goes by ``response.model`` and the tokens in ``response.usage``, those from the provider's cache at their own
    price. Raises ``LookupError`` for a model that the tables do not have, and ``UserError`` if the reply does not tell
    its model or its tokens, or if the extra ``prices`` is not installed.
    """
    try:
        tables: Any = importlib.import_module("genai_prices")
    except ImportError as error:
        raise UserError("genai_price needs genai-prices: pip install 'surehand[prices]'") from error
    usage = response.usage
    if response.model is None or usage is None or usage.input is None or usage.output is None:
        raise UserError(f"the reply does not tell its model and its tokens: model={response.model!r}, usage={usage!r}")
    tokens = {"input_tokens": usage.input, "output_tokens": usage.output}
    if usage.extras.get("cached"):
        tokens["cache_read_tokens"] = usage.extras["cached"]
    total: Decimal = tables.calc_price(tables.Usage(**tokens), response.model).total_price
    return total
