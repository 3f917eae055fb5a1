"""What a journal is: an append-only log of records per run, each carrying the digest of the one before it (design 5).

Pure values and the protocol; the backends are ``_memory`` and ``_sqlite``. A journal knows nothing of tools or models:
what its records say is the affair of whoever writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Protocol

from msgspec import Struct

from .._records import Draft, Record

__all__ = [
    "EMPTY",
    "Claim",
    "Damage",
    "Draft",
    "Journal",
    "Record",
    "RunRow",
    "chained",
]

EMPTY = bytes(32)
"""The digest that stands before the first record of a run."""


class RunRow(Struct, frozen=True):
    """What the journal knows of a run without reading its records. Times are seconds since the epoch."""

    run_id: str
    state: str
    owner: str
    epoch: int
    count: int
    digest: bytes
    started_at: float
    changed_at: float


class Claim(Struct, frozen=True):
    """The right to write a run's history, until somebody else claims the run."""

    run_id: str
    owner: str
    epoch: int


class Damage(Struct, frozen=True):
    """Something in a journal that cannot be: ``run_id`` is empty when it concerns the whole file."""

    run_id: str
    problem: str


def chained(previous: bytes, seq: int, epoch: int, draft: Draft) -> bytes:
    """The digest of a record that follows one with the digest ``previous``."""
    # Each part is preceded by its length: otherwise two different records could be the same bytes.
    digest = hashlib.sha256(previous)
    for part in (str(seq).encode(), str(epoch).encode(), draft.kind.encode(), draft.step.encode(), draft.body):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


class Journal(Protocol):
    """Where runs are recorded. Safe to use from many threads; ``append`` is ordered per run.

    Every method raises ``JournalError`` if the store cannot be read or written; nothing is half-written then.
    """

    @property
    def owner(self) -> str:
        """The name under which this process claims runs."""
        ...

    def is_alive(self, owner: str) -> bool:
        """Whether the process of that name can still go on with its runs; the empty name is nobody's."""
        ...

    def drive(self, run_id: str, driver: object = None, *, take_over: bool = False) -> bool:
        """Note that this process drives that run now; False if it does so already. Forgotten after a fork.

        ``driver`` is who drives it; ``take_over`` makes it that one even if another does.
        """
        ...

    def release(self, run_id: str, driver: object = None) -> None:
        """Note that this one does not drive that run any more; nothing happens if another has taken it over."""
        ...

    def is_driven(self, run_id: str) -> bool:
        """Whether this process drives that run now, through this journal."""
        ...

    def start(self, run_id: str, owner: str, drafts: Sequence[Draft], *, state: str) -> Claim:
        """A new run with its first records; raises ``RunExists`` if there is one with that id."""
        ...

    def claim(self, run_id: str, owner: str, *, epoch: int) -> Claim:
        """The right to write, taken from whoever held it at that epoch; raises ``StaleClaim`` if it was taken since.

        From then on the journal refuses what an older claim appends.
        """
        ...

    def append(self, claim: Claim, drafts: Sequence[Draft], *, state: str | None = None) -> Future[None]:
        """Write records, all or none, and the run's new state; done when they are safe.

        Fails with ``StaleClaim`` if somebody else has claimed the run since, and with ``RecordExists`` if a record that
        may exist once is there already.
        """
        ...

    def row(self, run_id: str) -> RunRow | None:
        """What is known of that run."""
        ...

    def rows(self, states: Collection[str] | None = None) -> list[RunRow]:
        """All runs, or those in these states, oldest first."""
        ...

    def having(self, kind: str) -> list[str]:
        """The ids of the runs that have a record of that kind, oldest run first."""
        ...

    def records(self, run_id: str) -> list[Record]:
        """The history of that run; raises ``JournalDamaged`` if it is not the one that was written."""
        ...

    def prune(self, *, before: float, states: Collection[str]) -> int:
        """Forget runs in these states that have not changed since; gives how many."""
        ...

    def check(self) -> list[Damage]:
        """Everything that is wrong with the journal; nothing when all is well."""
        ...

    def close(self) -> None:
        """Write what is waiting and let go of the store; this process is then nobody's owner any more."""
        ...
