"""Fixtures that all tests may use."""

from __future__ import annotations

import pytest

from .modes import ALL_MODES, IN_SEQUENCE, SIDE_BY_SIDE, Mode


@pytest.fixture(params=ALL_MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each way to run an agent: blocking or awaitable, whole or streamed, tools in sequence or side by side."""
    return request.param


@pytest.fixture(params=IN_SEQUENCE, ids=str)
def sequential(request: pytest.FixtureRequest) -> Mode:
    """The four ways to run, with the tools of a round one after another."""
    return request.param


@pytest.fixture(params=SIDE_BY_SIDE, ids=str)
def concurrent(request: pytest.FixtureRequest) -> Mode:
    """The four ways to run, with the tools of a round side by side."""
    return request.param
