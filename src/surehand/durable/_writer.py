"""One thread that writes: jobs that wait together are one transaction, so that they share one sync (group commit)."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from ._tables import FAILURES

__all__ = ["Job", "Writer"]

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]
Outcome = tuple[Any, BaseException | None]

_MOST = 500  # jobs of one transaction: the first of them waits for the last


class Writer:
    """Runs jobs on a connection that is its own from now on, in the order in which they came.

    A job that raises is undone alone; the others of its transaction stand. A job may be run more than once before it
    is committed, so it must do nothing but read and write the database. If the transaction itself cannot be committed,
    all of its jobs fail with that error. ``translate`` makes the caller's errors of SQLite's.
    """

    def __init__(self, connection: sqlite3.Connection, translate: Callable[[Exception], Exception]) -> None:
        self._connection = connection
        self._translate = translate
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="surehand-journal", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """A future of what the job gives, done once that is committed. Not to be called after ``close``."""
        future: Future[T] = Future()
        # What is submitted is written: a future that could be cancelled would tell its holder otherwise.
        future.set_running_or_notify_cancel()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what is waiting, and end the thread and the connection."""
        self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if batch:
                self._settle(batch)

    def _next_batch(self) -> tuple[list[tuple[Job, Future[Any]]], bool]:
        batch: list[tuple[Job, Future[Any]]] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == _MOST or self._jobs.empty():
                return batch, True
            job = self._jobs.get()
        return batch, False

    def _settle(self, batch: Sequence[tuple[Job, Future[Any]]]) -> None:
        outcomes = self._outcomes([job for job, _ in batch])
        for (_, future), (value, problem) in zip(batch, outcomes, strict=True):
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)

    def _outcomes(self, jobs: Sequence[Job]) -> list[Outcome]:
        try:
            return self._together(jobs) or self._apart(jobs)
        except BaseException as error:
            _roll_back(self._connection)
            problem = self._translate(error) if isinstance(error, FAILURES) else error
            return [(None, problem)] * len(jobs)

    def _together(self, jobs: Sequence[Job]) -> list[Outcome] | None:
        """All jobs in one transaction; None, and nothing is written, if one of them raised."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        values: list[Any] = []
        for job in jobs:
            try:
                values.append(job(connection))
            except Exception as error:
                if _is_of_the_store(error):
                    raise
                connection.execute("ROLLBACK")
                return None
        connection.execute("COMMIT")
        return [(value, None) for value in values]

    def _apart(self, jobs: Sequence[Job]) -> list[Outcome]:
        """All jobs in one transaction, each undone alone if it raises; costs two statements more for each."""
        self._connection.execute("BEGIN IMMEDIATE")
        outcomes = [self._tried(job) for job in jobs]
        self._connection.execute("COMMIT")
        return outcomes

    def _tried(self, job: Job) -> Outcome:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        try:
            value, problem = job(connection), None
        except Exception as error:
            if _is_of_the_store(error):
                raise
            value, problem = None, self._translate(error) if isinstance(error, FAILURES) else error
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return value, problem


def _is_of_the_store(error: Exception) -> bool:
    """Whether nobody's job can be trusted to have been written, unlike when one job asked for what may not be."""
    return isinstance(error, FAILURES) and not isinstance(error, sqlite3.IntegrityError)


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # SQLite has rolled back by itself, as it does when the disk is full
