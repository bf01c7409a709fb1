"""Connections to the SQLite file of a store that belong to the file that has the name now.

An open connection keeps its file when that is moved, removed or replaced: it would write to a file that no one finds.
So the identity of the file is compared before each use, and again after each commit before the call returns.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lorentzrec.serving.stores.faults import StoreFault, format_recent

BUSY_SECONDS = 20.0
"""How long a write waits for the writes of other processes. Each takes milliseconds, so only a stuck one takes long."""
MOST_ATTEMPTS = 5
READ_ONLY = "the store is read-only: events, erasures, live items and new items are refused"

logger = logging.getLogger("lorentzrec.serving")


class _Place(NamedTuple):
    """Which file has the name, and how it can be opened. No two files have one identity while one of them is open."""

    identity: tuple[int, int]
    writable: bool
    frozen: tuple[int, int] | None = None
    """Time and size of a file that is opened without its write-ahead log, and must not change therefore."""


class _Connection(sqlite3.Connection):
    """A connection that knows which file it is open on."""

    place: _Place
    log: tuple[int, int] | None
    """The identity of the write-ahead log."""


class SqliteConnections:
    """Connections to one file by name, shared by all threads of a process."""

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection, bool], None]) -> None:
        """`prepare` is called with the first connection to a file, and whether that is writable."""
        self.path = path
        self._name, self._folder = str(path), str(path.parent)  # compared on every use: paths would be converted
        self._prepare = prepare
        self._prepared: _Place | None = None
        self._preparing = threading.Lock()
        self._lock = threading.Lock()
        self._all: set[_Connection] = set()
        weakref.finalize(self, _close_all, self._all)
        self._idle: list[_Connection] = []
        self._closed = False
        self._replaced: float | None = None
        # Threads queue here in turn; SQLite's own waiting, which is needed between processes, has no order.
        self._writing = threading.Lock()

    @property
    def notices(self) -> list[str]:
        """What an operator should know. It is sent over HTTP, so it must not contain the path."""
        found = []
        if self._prepared is not None and not self._prepared.writable:
            found.append(READ_ONLY)
        if moment := format_recent(self._replaced):
            found.append(f"the store was replaced by another one, which is in use since {moment}")
        return found

    @contextmanager
    def statement(self) -> Iterator[_Connection]:
        """A connection for reading that no other thread uses meanwhile. SQLite's errors become `StoreFault` errors."""
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        except sqlite3.Error as error:
            fault = StoreFault.FILE_UNUSABLE if isinstance(error, sqlite3.OperationalError) else StoreFault.DAMAGED
            raise fault.error(store=self.path, reason=error) from error

    @contextmanager
    def transaction(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """All or nothing. When it ends without an error, it is on disk, in the file that has the name.

        patience: not used, since there is no server that could be silent.
        """
        with self._writing, self.statement() as connection:
            self._check(connection)
            with transaction_of(connection):
                yield connection
            self._check(connection)

    @contextmanager
    def exclusive(self, seconds: float) -> Iterator[sqlite3.Connection]:
        """A connection for what cannot be in a transaction; others that use the file are waited for only this long."""
        if not self._writing.acquire(timeout=seconds):
            raise StoreFault.BUSY.error(store=self.path, reason="another thread writes")
        try:
            with self.statement() as connection:
                self._check(connection)
                connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
                try:
                    yield connection
                finally:
                    connection.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
                self._check(connection)
        finally:
            self._writing.release()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        self._shut(idle)

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            # One that could not roll back, or whose file was replaced meanwhile, is of no more use.
            reusable = connection.place == self._prepared and not connection.in_transaction and not self._closed
            if reusable:
                self._idle.append(connection)
        if not reusable:
            self._shut([connection])

    def _take(self) -> _Connection:
        """An idle connection to the file that has the name now, or a new one."""
        for _ in range(MOST_ATTEMPTS):
            if self._closed:
                raise StoreFault.CLOSED.error(store=f"file:{self.path.parent}")
            place = self._place()
            with self._lock:
                for connection in reversed(self._idle):
                    if connection.place == place:
                        self._idle.remove(connection)
                        return connection
            self._refuse_a_log_left_behind(place)
            if (fresh := self._connect(place)) is not None:
                # Only now: a file that is open keeps its identity from being given to another one.
                with self._lock:
                    stale = [other for other in self._idle if other.place != place]
                    self._idle = [other for other in self._idle if other.place == place]
                self._shut(stale)
                return fresh
        raise StoreFault.BUSY.error(store=self.path, reason="it is being replaced")

    def _place(self) -> _Place:
        try:
            found = os.stat(self._name)  # noqa: PTH116, a path takes twice as long
        except (FileNotFoundError, NotADirectoryError):
            raise StoreFault.FILE_GONE.error(store=self.path) from None
        except OSError as error:
            raise StoreFault.FILE_UNREADABLE.error(store=self.path, reason=error.strerror) from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreFault.FILE_GONE.error(store=self.path)
        identity = (found.st_dev, found.st_ino)
        if os.access(self._name, os.W_OK) and os.access(self._folder, os.W_OK):
            return _Place(identity, writable=True)
        # SQLite reads a write-ahead log only with its index, and cannot make one here. Without any log the file is
        # complete; it is opened as one that does not change, and opened again when it has.
        log, index = Path(self._neighbour("-wal")), Path(self._neighbour("-shm"))
        alone = not log.exists() or (log.stat().st_size == 0 and not index.exists())
        return _Place(identity, writable=False, frozen=(found.st_mtime_ns, found.st_size) if alone else None)

    def _neighbour(self, suffix: str) -> str:
        """SQLite puts its further files next to the real file if the name is a link."""
        return (os.path.realpath(self._name) if self.path.is_symlink() else self._name) + suffix

    def _log(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._neighbour("-wal"))  # noqa: PTH116, as above
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check(self, connection: _Connection) -> None:
        """The file that has the name is the one that this connection may write to."""
        if not connection.place.writable:
            raise StoreFault.READ_ONLY.error(store=self.path)
        if self._place() != connection.place:
            raise StoreFault.MOVED.error(store=self.path)
        if self._log() != connection.log:
            raise StoreFault.LOG_REMOVED.error(store=self.path)

    def _refuse_a_log_left_behind(self, place: _Place) -> None:
        """The log of the previous file does not fit another one: SQLite would mix the two without noticing."""
        log = self._log()
        with self._lock:
            if log is not None and any(one.log == log and one.place.identity != place.identity for one in self._all):
                raise StoreFault.LOG_LEFT_BEHIND.error(store=self.path, name=self.path.name)

    def _connect(self, place: _Place) -> _Connection | None:
        """A new connection; None if another file took the name meanwhile."""
        mode = "rw" if place.writable else "ro" if place.frozen is None else "ro&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        try:
            if place.writable:
                _write_ahead(connection)
                connection.execute("PRAGMA synchronous = FULL")
                # What is deleted is overwritten; the default depends on how SQLite was compiled.
                connection.execute("PRAGMA secure_delete = ON")
            # In KiB, for each connection of each worker. Much more would not make a load of sorted events faster.
            connection.execute("PRAGMA cache_size = -8192")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # the log is opened by the first read
            connection.place, connection.log = place, None if place.frozen else self._log()
            if self._place() != place:
                connection.close()
                return None
            self._prepare_once(connection)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._all.add(connection)
        return connection

    def _prepare_once(self, connection: _Connection) -> None:
        with self._preparing:
            before, place = self._prepared, connection.place
            if before == place:
                return
            self._prepare(connection, place.writable)
            self._prepared = place
            if before is not None and before.identity != place.identity:
                self._replaced = time.time()
                logger.warning("%s was replaced by another file, which is in use now", self.path)
            if not place.writable and (before is None or before.writable):
                logger.warning("%s or its folder is not writable: %s", self.path, READ_ONLY)
            if place.writable and before is not None and not before.writable:
                logger.warning("%s is writable again", self.path)

    def _shut(self, connections: list[_Connection]) -> None:
        for connection in connections:
            connection.close()
        with self._lock:
            self._all.difference_update(connections)


def _close_all(connections: set[_Connection]) -> None:
    for connection in connections:
        connection.close()


def error_code(error: sqlite3.Error) -> int | None:
    """The primary code of an error: SQLite adds details in higher bits. None for errors of Python's module itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@contextmanager
def transaction_of(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    with connection:  # commits, or rolls back
        yield


def _write_ahead(connection: sqlite3.Connection) -> None:
    """A new file changes its mode with its first connection, and SQLite lets others fail meanwhile without waiting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
