"""Fixtures that all tests may use.

A test that takes a ``mode`` runs in all eight, and once more with a journal, in a mode that goes by the test's name: so
every mode with a journal comes up all over the suite. ``JOURNAL=memory`` (or ``sqlite``) in the environment runs every
one of them with a journal.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from .modes import ALL_MODES, IN_SEQUENCE, SIDE_BY_SIDE, Mode

MODES = {"mode": ALL_MODES, "sequential": IN_SEQUENCE, "concurrent": SIDE_BY_SIDE}
JOURNAL = os.environ.get("JOURNAL", "")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "without_journal(why): what the test shows is another thing with a journal")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each way to run an agent: blocking or awaitable, whole or streamed, tools in sequence or side by side."""
    for name, modes in MODES.items():
        if name in metafunc.fixturenames and not _is_chosen(metafunc, name):
            metafunc.parametrize(name, _chosen(metafunc, modes), ids=str)


def _chosen(metafunc: pytest.Metafunc, modes: Sequence[Mode]) -> Sequence[Mode]:
    if metafunc.definition.get_closest_marker("without_journal"):
        return modes
    if JOURNAL:
        return [replace(mode, journal=JOURNAL) for mode in modes]
    number = zlib.crc32(metafunc.function.__name__.encode())
    return [*modes, replace(modes[number % len(modes)], journal="memory")]


def _is_chosen(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether the test says itself in which modes it runs."""
    return any(name in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
