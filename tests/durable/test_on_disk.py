"""What the kernel is asked for, in which order: a record is on the disk before what it announces is begun."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .acting import ROOT

CALLS = "trace=fdatasync,fsync,pwrite64,write"
CALL = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\(\d+<(?P<path>[^>]*)>(?P<rest>.*)$")
RESUMED = re.compile(r"^(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>")
RECORD = re.compile(r"((?:UNDO_)?INTENT|RUN_STARTED|RUN_ENDED|MODEL|DONE|FAILED|GIVEN_UP|UNDONE)([0-9.]*)(?=\{)")


def traced(folder: Path, mode: str, sync: str, run_id: str) -> list[str]:
    """The system calls of a run: one line for each."""
    assert shutil.which("strace"), (
        "this test looks at system calls and needs strace, which is not here: apt-get install strace "
        "(`make test` does that where it may)"
    )
    out = folder / "strace.txt"
    command = ["strace", "-f", "-y", "-s", "5000", "-e", CALLS, "-o", str(out)]
    command += [sys.executable, "-m", "tests.durable.syncing", str(folder), mode, sync, run_id]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return out.read_text().splitlines()


def told(lines: list[str], folder: Path) -> list[str]:
    """What of that matters: records on their way into the log, syncs of the log that are done, effects outside."""
    story: list[str] = []
    seen: set[str] = set()
    waiting: dict[str, str] = {}  # syncs that have begun, by thread
    log, outside = str(folder / "runs.db-wal"), str(folder / "outside.txt")
    for line in lines:
        found, resumed = CALL.match(line), RESUMED.match(line)
        if resumed is not None and waiting.pop(resumed["pid"], None) == resumed["name"]:
            story.append("synced")
        if found is None:
            continue
        if found["path"] == outside:
            story += re.findall(r'"(.*)\\n"', found["rest"])
        elif found["path"] == log and found["name"] in ("fdatasync", "fsync"):
            if "unfinished" in found["rest"]:
                waiting[found["pid"]] = found["name"]
            else:
                story.append("synced")
        elif found["path"] == log:
            records = [" ".join(parts).strip() for parts in RECORD.findall(found["rest"])]
            story += [record for record in records if record not in seen]
            seen.update(records)
    start, end = story.index("RUN_STARTED"), story.index("RUN_ENDED")
    return story[start : end + 1] + story[end + 1 : end + 2]  # then the file is closed, which syncs it anyway


GOOD = """
RUN_STARTED; ask good:1; MODEL 1; look good:1.0; DONE 1.0; ask good:2; MODEL 2; INTENT 2.0; book good:2.0; DONE 2.0;
ask good:3; MODEL 3; INTENT 3.0; pay good:3.0; DONE 3.0; ask good:4; MODEL 4; RUN_ENDED
"""
BAD = """
RUN_STARTED; ask bad:1; MODEL 1; INTENT 1.0; book bad:1.0; DONE 1.0; ask bad:2; MODEL 2; INTENT 2.0; book bad:2.0;
DONE 2.0; ask bad:3; GIVEN_UP; UNDO_INTENT 2.0; unbook bad:2.0; UNDONE 2.0; UNDO_INTENT 1.0; unbook bad:1.0; UNDONE 1.0;
RUN_ENDED
"""


def steps(story: str) -> list[str]:
    return [step.strip() for step in story.split(";")]


def with_syncs(story: str) -> list[str]:
    """The same with a sync after each record: nothing is begun before it is on the disk."""
    return [one for step in steps(story) for one in ((step, "synced") if step[0].isupper() else (step,))]


@pytest.mark.parametrize("mode", ["run", "arun"])
@pytest.mark.parametrize(("run_id", "story"), [("good", GOOD), ("bad", BAD)])
def test_each_record_is_on_the_disk_before_the_next_step(tmp_path: Path, mode: str, run_id: str, story: str) -> None:
    assert told(traced(tmp_path, mode, "full", run_id), tmp_path) == with_syncs(story)


def test_with_normal_syncs_the_log_is_not_waited_for(tmp_path: Path) -> None:
    story = told(traced(tmp_path, "run", "normal", "good"), tmp_path)
    assert [step for step in story if step != "synced"] == steps(GOOD)
    assert "synced" not in story[:-1]
