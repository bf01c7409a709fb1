"""Connections to the SQLite file of a store, one for each thread, that belong to the file that has the name now.

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
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from lorentzrec.base.library_faults import sqlite_code
from lorentzrec.serving.stores.faults import StoreFault, format_recent

BUSY_SECONDS = 20.0
"""How long a write waits for the writes of other processes. Each takes milliseconds, so only a stuck one takes long."""
READ_ONLY = "the store is read-only: events, erasures, live items and new items are refused"

logger = logging.getLogger("lorentzrec.serving")


class _File(NamedTuple):
    """Which file has the name, and how it can be opened. No two files have one identity while one of them is open."""

    identity: tuple[int, int]
    writable: bool
    frozen: tuple[int, int] | None = None
    """Time and size of a file that is opened without its write-ahead log, and must not change therefore."""


class _Connection(sqlite3.Connection):
    """A connection that knows which file it is open on."""

    file: _File
    log: tuple[int, int] | None
    """The identity of the write-ahead log."""
    thread: threading.Thread
    uses: int = 0
    """How often its thread uses it now, one use inside the other."""


class SqliteConnections:
    """Connections to one file by name. Uses inside one another, by one thread, have the same connection."""

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection, bool], None]) -> None:
        """`prepare` is called with the first connection to a file, and whether that is writable."""
        self.path = path
        self._name, self._folder = str(path), str(path.parent)  # compared on every use: paths would be converted
        self._prepare = prepare
        self._prepared: _File | None = None
        self._preparing = threading.Lock()
        self._lock = threading.Lock()
        self._by_thread: dict[threading.Thread, _Connection] = {}
        weakref.finalize(self, _close_all, self._by_thread)
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

    @property
    def is_prepared(self) -> bool:
        """Whether the file that has the name now was opened before, so that another connection takes little time."""
        try:
            found = os.stat(self._name)  # noqa: PTH116, as in `_identify`, most of which is not needed
        except OSError:  # which the next use explains
            return False
        return self._prepared is not None and self._prepared.identity == (found.st_dev, found.st_ino)

    @contextmanager
    def statement(self) -> Iterator[_Connection]:
        """The connection of this thread, for reading. SQLite's errors become `StoreFault` errors."""
        with self._explain_errors():
            connection = self._find_or_connect()
            try:
                yield connection
            finally:
                with self._lock:
                    connection.uses -= 1
                    # One that could not roll back is of no more use.
                    if connection.uses == 0 and (self._closed or connection.in_transaction):
                        self._drop(connection)

    @contextmanager
    def session(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, closed at the end: its thread may write meanwhile."""
        with self._explain_errors(), closing(self._connect(self._identify())) as connection:
            yield connection

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        if self._closed:
            raise StoreFault.CLOSED.error(store=f"file:{self.path.parent}")
        try:
            yield
        except sqlite3.Error as error:
            fault = StoreFault.FILE_UNUSABLE if isinstance(error, sqlite3.OperationalError) else StoreFault.DAMAGED
            raise fault.error(store=self.path, reason=error) from error

    @contextmanager
    def transaction(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """All or nothing. When it ends without an error, it is on disk, in the file that has the name.

        patience: not used, since there is no server that could be silent.
        """
        with self._writing, self.statement() as connection:
            self._check(connection, identified=connection.uses == 1)
            with run_transaction(connection):
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
            for connection in [one for one in self._by_thread.values() if not one.uses]:
                self._drop(connection)

    def _find_or_connect(self) -> _Connection:
        """The connection of this thread, if it is to the file that has the name now, or a new one."""
        thread, file = threading.current_thread(), self._identify()
        with self._lock:
            found = self._by_thread.get(thread)
            if found is not None and (found.uses or found.file == file):
                found.uses += 1
                return found
        connection = self._connect(file)
        with self._lock:
            # Only now: a file that is open keeps its identity from being given to another one.
            for other in [*self._by_thread.values()]:
                if not other.uses and (other.file != file or not other.thread.is_alive()):
                    self._drop(other)
            connection.uses = 1
            self._by_thread[thread] = connection
        return connection

    def _drop(self, connection: _Connection) -> None:
        del self._by_thread[connection.thread]
        connection.close()

    def _identify(self) -> _File:
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
            return _File(identity, writable=True)
        # SQLite reads a write-ahead log only with its index, and cannot make one here. Without any log the file is
        # complete; it is opened as one that does not change, and opened again when it has.
        log, index = Path(self._neighbour("-wal")), Path(self._neighbour("-shm"))
        alone = not log.exists() or (log.stat().st_size == 0 and not index.exists())
        return _File(identity, writable=False, frozen=(found.st_mtime_ns, found.st_size) if alone else None)

    def _neighbour(self, suffix: str) -> str:
        """SQLite puts its further files next to the real file if the name is a link."""
        return (os.path.realpath(self._name) if os.path.islink(self._name) else self._name) + suffix  # noqa: PTH114

    def _log(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._neighbour("-wal"))  # noqa: PTH116, as above
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check(self, connection: _Connection, *, identified: bool = False) -> None:
        """The file that has the name is the one that this connection may write to.

        identified: its identity was compared a moment ago.
        """
        if not connection.file.writable:
            raise StoreFault.READ_ONLY.error(store=self.path)
        if not identified and self._identify() != connection.file:
            raise StoreFault.MOVED.error(store=self.path)
        if self._log() != connection.log:
            raise StoreFault.LOG_REMOVED.error(store=self.path)

    def _refuse_log_left_behind(self, file: _File) -> None:
        """The log of the previous file does not fit another one: SQLite would mix the two without noticing."""
        log = self._log()
        with self._lock:
            others = [one for one in self._by_thread.values() if one.file.identity != file.identity]
            if log is not None and log in [other.log for other in others]:
                raise StoreFault.LOG_LEFT_BEHIND.error(store=self.path, name=self.path.name)

    def _connect(self, file: _File) -> _Connection:
        self._refuse_log_left_behind(file)
        mode = "rw" if file.writable else "ro" if file.frozen is None else "ro&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Connection,
        )
        try:
            if file.writable:
                _write_ahead(connection)
                connection.execute("PRAGMA synchronous = FULL")
                # What is deleted is overwritten; the default depends on how SQLite was compiled.
                connection.execute("PRAGMA secure_delete = ON")
            # In KiB, for each thread of each worker. More would not make a load of sorted events faster.
            connection.execute("PRAGMA cache_size = -2048")
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # the log is opened by the first read
            connection.thread, connection.file = threading.current_thread(), file
            connection.log = None if file.frozen else self._log()
            if self._identify() != file:
                raise StoreFault.BUSY.error(store=self.path, reason="it is being replaced")
            self._prepare_once(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare_once(self, connection: _Connection) -> None:
        with self._preparing:
            before, file = self._prepared, connection.file
            if before == file:
                return
            self._prepare(connection, file.writable)
            self._prepared = file
            if before is not None and before.identity != file.identity:
                self._replaced = time.time()
                logger.warning("%s was replaced by another file, which is in use now", self.path)
            if not file.writable and (before is None or before.writable):
                logger.warning("%s or its folder is not writable: %s", self.path, READ_ONLY)
            if file.writable and before is not None and not before.writable:
                logger.warning("%s is writable again", self.path)


def _close_all(connections: dict[threading.Thread, _Connection]) -> None:
    for connection in list(connections.values()):
        connection.close()


@contextmanager
def run_transaction(connection: sqlite3.Connection) -> Iterator[None]:
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
            if sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
