"""Models that really decode: a tiny one with made-up weights, and the embedded one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from surehand.models._weights import install
from surehand.models.local import LocalModel

from .tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file that loads in no time and whose free text has no sense."""
    return write_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture(scope="session")
def llama_server(tiny_path: Path) -> Iterator[str]:
    """The base URL of llama.cpp's own server with the tiny model: an OpenAI-compatible server we have not written."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # a binary module without types
    settings = xllamacpp.CommonParams()
    settings.model.path = str(tiny_path)
    settings.n_ctx = 8192
    settings.n_parallel = 1
    settings.verbosity = -1
    settings.use_jinja = True
    settings.warmup = False
    server = xllamacpp.Server(settings)
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture(scope="session")
def tiny(tiny_path: Path) -> Iterator[LocalModel]:
    """The tiny model in this process, with the help that a small model gets."""
    model = LocalModel(tiny_path, spans=True, tool_rounds=1, quote_results=True, max_output_tokens=100)
    yield model
    model.close()


@pytest.fixture(scope="session")
def smollm() -> Iterator[LocalModel]:
    """The embedded model with its real weights, fetched (93 MB) on a machine that has not got them."""
    install()
    model = LocalModel()
    model.load()
    yield model
    model.close()
