"""Servers for the tests: one that many share, and one for each test that kills it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .serving import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs; each test gives its runs ids of their own."""
    server = Server(tmp_path_factory.mktemp("shared"))
    try:
        server.start()
        yield server
        assert "Traceback" not in server.log
    finally:
        server.kill()


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Server]:
    """A server for one test alone."""
    server = Server(tmp_path)
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was killed while each of ``KILLED`` was in the middle of something, and started again."""
    server = Server(tmp_path_factory.mktemp("killed"))
    try:
        server.start()
        _kill_in_the_middle(server)
        server.start()
        yield server
    finally:
        server.kill()


KILLED = {
    "in-seat": "after seat booked in-seat:1.0",
    "before-charge": "before card charged before-charge:2.0",
    "after-charge": "after card charged after-charge:2.0",
    "between": "between reply 3",
    "doubtful": "letter doubtful:1.0",
    "unwatched": "after card charged unwatched:2.0",
}
"""Runs, and where each was when its process was killed."""


def _kill_in_the_middle(server: Server) -> None:
    with contextlib.ExitStack() as clients:
        for run_id, point in KILLED.items():
            server.hold(point)
            clients.enter_context(server.put(run_id))
            server.wait_for(point)
        server.kill()
    for point in KILLED.values():
        server.let_go(point)
