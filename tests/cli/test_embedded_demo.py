"""The demonstration with the embedded model, run once, as a shell runs it."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from surehand.cli._demo_report import DemoReport
from surehand.models._weights import install


@pytest.fixture(scope="module")
def embedded() -> tuple[DemoReport, list[str]]:
    """What was done, and the lines that a person reads."""
    install()
    command = [sys.executable, "-m", "surehand", "demo", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return msgspec.json.decode(run.stdout, type=DemoReport), [line.strip() for line in run.stderr.splitlines()]


def test_the_embedded_model_generates_tokens_for_every_request_and_chooses_tools(
    embedded: tuple[DemoReport, list[str]],
) -> None:
    report, _ = embedded
    assert report.model == "SmolLM2-135M"
    assert [asked.tokens > 0 and asked.seconds > 0 for asked in report.asked] == [True, True, True]
    assert [len(asked.calls) for asked in report.asked] == [1, 1, 1]
    # Arithmetic differs a little between processors, and with it, in a close case, the choice.
    assert sum(asked.is_right for asked in report.asked) >= 2


def test_what_the_embedded_model_did_is_what_is_shown(embedded: tuple[DemoReport, list[str]]) -> None:
    report, lines = embedded
    shown = [
        (f"> {asked.request}", f"{asked.calls[0]}   ({asked.tokens} tokens, {asked.seconds:.1f} s)")
        for asked in report.asked
    ]
    assert [(line, lines[place + 1]) for place, line in enumerate(lines) if line.startswith("> ")][:3] == shown


def test_the_last_line_is_the_evidence_that_it_ran(embedded: tuple[DemoReport, list[str]]) -> None:
    report, lines = embedded
    assert lines[-1] == report.line
    assert lines[-1].startswith(f"demo: ok model=SmolLM2-135M tokens={sum(asked.tokens for asked in report.asked)} ")
