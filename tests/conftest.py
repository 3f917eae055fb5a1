"""Fixtures that all tests may use."""

from __future__ import annotations

import pytest

from .modes import ALL_MODES, Mode


@pytest.fixture(params=ALL_MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each way to run an agent: blocking or awaitable, whole or streamed, tools in sequence or side by side."""
    return request.param
