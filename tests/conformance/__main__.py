"""``python -m tests.conformance [DIR]``: run vectors, say what fails, list the deviations, and count."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .deviations import RULES
from .judge import Case
from .normal import PROJECTIONS
from .scenario import VECTORS, modes_of, read_vectors, why_not_judged

_MOST_LINES, _WIDTH = 16, 200


def main(arguments: list[str] | None = None) -> int:
    """Run the vectors of a directory; gives the exit code: 1 if any failed, 2 if there is nothing to run."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=VECTORS, metavar="DIR")
    parser.add_argument("--full", action="store_true", help="print every line of every diff")
    chosen = parser.parse_args(arguments)
    if not chosen.directory.is_dir():
        print(f"{chosen.directory}: no such directory", file=sys.stderr)
        return 2
    return _run(chosen.directory, chosen.full)


def _run(directory: Path, full: bool) -> int:
    waiting: Counter[str] = Counter()
    judged: list[Case] = []
    failed: list[str] = []
    runs = 0
    for vector in read_vectors(directory):
        reason = why_not_judged(vector.scenario)
        if reason is not None:
            waiting[reason] += 1
            continue
        case = Case(vector)
        judged.append(case)
        for mode in modes_of(vector.scenario):
            runs += 1
            diff = case.failure(mode)
            if diff:
                failed.append(vector.name)
                print(f"FAILED {vector.name} [{mode}]")
                _print_diff(diff, full)
    _print_deviations(judged, full)
    print("\nProjections, the same on both sides:")
    for name, text in PROJECTIONS.items():
        print(f"  {name}: {text}")
    print()
    for reason, count in sorted(waiting.items()):
        print(f"not judged yet: {reason} ({count})")
    bad = len(set(failed))
    print(f"{len(judged)} vectors in {runs} runs")
    print(f"{len(judged) - bad} passed, {bad} failed")
    return 1 if failed else 0


def _print_deviations(cases: Iterable[Case], full: bool) -> None:
    pinned = [(case.vector.name, each) for case in cases for each in case.pinned]
    print("Deviations from the reference, each with the difference that it makes:")
    for rule in RULES:
        mine = [(name, each) for name, each in pinned if each.rule is rule]
        count = sum(each.cases for _, each in mine)
        print(f"\n{rule.number}: {rule.reason} ({len(mine)} vectors, {count} cases)")
        for name, each in mine:
            print(f"  {name}")
            _print_diff(each.diff[2:], full)


def _print_diff(lines: list[str], full: bool) -> None:
    shown = lines if full else lines[:_MOST_LINES]
    for line in shown:
        print(f"    {line if full or len(line) <= _WIDTH else line[: _WIDTH - 1] + '…'}")
    if len(lines) > len(shown):
        print(f"    … and {len(lines) - len(shown)} more lines; --full prints them")


if __name__ == "__main__":
    logging.getLogger("surehand").setLevel(logging.CRITICAL)  # failures are what many scenarios are about
    sys.exit(main())
