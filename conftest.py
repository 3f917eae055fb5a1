"""Settings of the whole suite, and the examples in README.md and docs/ as tests."""

from __future__ import annotations

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# A machine that is busy with something else must not fail a property, and what CI finds must be found again.
settings.register_profile("surehand", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("surehand")

pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()],
    patterns=["*.md"],
    excludes=["CHANGELOG.md", "CONTRIBUTING.md"],
).pytest()


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the examples of one document in one process: each may use names that an earlier one defined."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
