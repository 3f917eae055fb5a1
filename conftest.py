"""Settings of the whole suite, and the examples in README.md and docs/ as tests."""

from __future__ import annotations

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
