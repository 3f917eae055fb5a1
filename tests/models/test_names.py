"""Models by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

from surehand.errors import UserError
from surehand.models import from_name
from surehand.models.local import LocalModel
from surehand.models.openai import OpenAIChat


def test_a_name_gives_the_adapter_with_the_model() -> None:
    models = [from_name("openai:gpt-5"), from_name("local"), from_name("local:/models/qwen.gguf")]
    assert [type(model) for model in models] == [OpenAIChat, LocalModel, LocalModel]
    assert [model.name for model in models] == ["gpt-5", "SmolLM2-135M", "qwen"]


@pytest.mark.parametrize("name", ["", "openai", "openai:", "local:", "gpt-5", "acme:large"])
def test_a_name_that_is_not_known_lists_those_that_are(name: str) -> None:
    with pytest.raises(UserError, match=r"openai:<model>, local, local:<path to a GGUF file>"):
        from_name(name)


def test_importing_the_models_loads_no_sdk() -> None:
    code = "import sys, surehand.models, surehand.models.openai, surehand.models.local; "
    code += "sys.exit(bool({'openai', 'xllamacpp', 'httpx', 'pip'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
