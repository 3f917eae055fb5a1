"""One thread that writes: jobs that wait together are one transaction, so that they share one sync (group commit)."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Job", "Writer"]

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], Any]

_MOST = 500  # jobs of one transaction: the first of them waits for the last


class Writer:
    """Runs jobs on a connection of its own, in the order in which they came.

    A job that raises is undone alone; the others of its transaction stand. If the transaction itself cannot be
    committed, all of its jobs fail with that error. ``translate`` makes the caller's errors of SQLite's.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], translate: Callable[[sqlite3.Error], Exception]):
        self._connect = connect
        self._translate = translate
        self._jobs: queue.SimpleQueue[tuple[Job, Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="surehand-journal", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """A future of what the job gives, done once that is committed."""
        future: Future[T] = Future()
        self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what is waiting, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        connection = self._connect()
        try:
            is_open = True
            while is_open:
                batch, is_open = self._next_batch()
                if batch:
                    self._commit(connection, batch)
        finally:
            connection.close()

    def _next_batch(self) -> tuple[list[tuple[Job, Future[Any]]], bool]:
        batch: list[tuple[Job, Future[Any]]] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == _MOST or self._jobs.empty():
                return batch, True
            job = self._jobs.get()
        return batch, False

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[Job, Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job, future in batch:
                outcomes.append((future, *self._tried(connection, job)))
            connection.execute("COMMIT")
        except BaseException as error:
            _rolled_back(connection)
            raised = self._translate(error) if isinstance(error, sqlite3.Error) else error
            for _, future in batch:
                future.set_exception(raised)
            return
        for future, value, problem in outcomes:
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)

    def _tried(self, connection: sqlite3.Connection, job: Job) -> tuple[Any, BaseException | None]:
        connection.execute("SAVEPOINT job")
        try:
            value = job(connection)
        except sqlite3.IntegrityError as error:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return None, self._translate(error)
        except sqlite3.Error:
            raise  # the store is at fault: nobody's job can be trusted to have been written
        except Exception as error:
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            return None, error
        connection.execute("RELEASE job")
        return value, None


def _rolled_back(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # SQLite has rolled back by itself, as it does when the disk is full
