"""Tests, mirrored to the files under src/surehand; see CONTRIBUTING.md."""
