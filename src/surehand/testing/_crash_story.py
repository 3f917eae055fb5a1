"""A case of a crash test, told so that whoever reads it knows what happened. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ._crash_checks import Facts
from ._crash_world import Case, Note

__all__ = ["story_of"]


def story_of(case: Case, facts: Facts, problems: Sequence[str]) -> str:
    """What the processes did, what the journal and the world outside hold, and what is wrong."""
    lines = [*_processes(facts.notes), "", "The journal holds:", *_records(facts), "", "Outside there is:"]
    lines += [f"  {effect.key}: {effect.kind}" for effect in facts.effects] or ["  nothing"]
    if facts.calls:
        lines += ["", "The report says:", *_report(facts)]
    if facts.unknowns:
        lines.append(f"  agent.unknowns() names {', '.join(sorted(facts.unknowns))}")
    lines += ["", "What is wrong:", *(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))]
    return "\n".join([*lines, "", f"Everything that it left is in {case.folder}"])


def _processes(notes: Sequence[Note]) -> Iterator[str]:
    number, role, last = 0, "", ""
    for note in notes:
        if note.process != number:
            number, role, last = note.process, "was preparing", ""
        match note.kind:
            case "began":
                role = "ran the scenario" if note.text == "run" else "recovered"
            case "entered":
                yield f"Process {number} entered the body of call {note.step} ({note.text})."
            case "undoing":
                yield f"Process {number} entered the undo of call {note.step} ({note.text})."
            case "killed":
                where = f"; the last that it had passed: {last}" if "from outside" in note.text and last else ""
                yield f"Process {number} {role} and was killed {note.text}{where}."
            case "told":
                yield f"Process {number} {role}: {note.text}."
            case _:
                last = note.text if note.kind == "moment" else last


def _records(facts: Facts) -> list[str]:
    tools = {call.step: f" ({call.tool})" for call in facts.calls}
    tools = {note.step: f" ({note.text})" for note in facts.notes if note.kind in ("entered", "undoing")} | tools
    lines = [f"  {kind} {step}{tools.get(step, '')}".rstrip() for kind, step in facts.records]
    return lines or ["  nothing of this run"]


def _report(facts: Facts) -> list[str]:
    lines = [f"  the run {facts.ended}"]
    for call in facts.calls:
        undo = f", {call.undo}" if call.undo else ""
        lines.append(f"  call {call.step} ({call.tool}), key {call.key}: {call.outcome}{undo}")
    return lines
