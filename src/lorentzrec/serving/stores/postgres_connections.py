"""Connections to PostgreSQL that fail fast and mend themselves.

A pool with workers in the background makes the caller wait for its time-out while the server is gone. Here the caller
connects, so a refused connection is told in milliseconds, a silent server in seconds, and the first call after the
server is back succeeds.
"""

from __future__ import annotations

import logging
import re
import select
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors

from lorentzrec.errors import InputError, LorentzrecError, StoreBroken, StoreUnavailable

CONNECT_SECONDS = 3
ANSWER_SECONDS = 5.0
LONG_ANSWER_SECONDS = 300.0
"""For what moves gigabytes inside the server: removing a version."""
MOST_CONNECTIONS = 24
"""For each process. A service has 16 threads that read and 8 that write: neither takes the connections of the other."""
RECENT_SECONDS = 3600.0
"""How long `/readyz` reports that the connection was lost."""

logger = logging.getLogger("lorentzrec.serving")

Answer = TypeVar("Answer")
Cursor = psycopg.Cursor[tuple[Any, ...]]


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that is there but says nothing, such as a frozen one."""

    patience = ANSWER_SECONDS
    generation = 0

    def wait(self, gen: Generator[Any, Any, Answer], *arguments: Any, **options: Any) -> Answer:
        return super().wait(self._in_time(gen), *arguments, **options)

    def _in_time(self, steps: Generator[Any, Any, Answer]) -> Generator[Any, Any, Answer]:
        """The same steps; psycopg also asks every tenth of a second when nothing came, and that is counted here."""
        deadline = time.monotonic() + self.patience
        ready = None
        while True:
            try:
                wanted = steps.send(ready)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                self.close()
                raise psycopg.OperationalError(f"no answer in {self.patience:g} seconds")


class PostgresConnections:
    """A few connections to one database, shared by all threads."""

    def __init__(self, address: str) -> None:
        try:
            given = conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise InputError(
                f"the address of the PostgreSQL store cannot be read ({_unquoted(error)}): correct it"
            ) from None
        if re.search(r"[^\d,]", str(given.get("port", ""))):
            raise InputError(
                "the address of the PostgreSQL store cannot be read (its port is not a number): correct it"
            )
        place = f"{given.get('host', '')}{':' if given.get('port') else ''}{given.get('port', '')}"
        self.url = f"postgresql://{place}/{given.get('dbname', '')}"
        defaults: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "lorentzrec",
            "tcp_user_timeout": round(ANSWER_SECONDS * 1000),
            # The server, too, must not go on for ever with what nobody waits for.
            "options": f"-c statement_timeout={round(LONG_ANSWER_SECONDS * 1000)}",
        }
        self._address = conninfo.make_conninfo(**{**defaults, **given, "client_encoding": "utf8"})
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._idle: list[TimedConnection] = []
        self._closed = False
        self._generation = 0
        self._lost: float | None = None

    @property
    def notices(self) -> list[str]:
        """What an operator should know; without the address."""
        if self._lost is None or time.time() > self._lost + RECENT_SECONDS:
            return []
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._lost))
        return [f"the connection to the store was lost at {moment} and made again"]

    @contextmanager
    def transaction(self, patience: float | None = None) -> Iterator[Cursor]:
        """Several statements: all or nothing, and durable at the end. An answer may take `patience` seconds."""
        with self.statement(patience) as cursor, cursor.connection.transaction():
            yield cursor

    @contextmanager
    def statement(self, patience: float | None = None) -> Iterator[Cursor]:
        """For one statement, which is a transaction of its own and takes one round trip instead of three."""
        if self._closed:
            raise StoreUnavailable(f"{self.url} is closed: open it again")
        if not self._slots.acquire(timeout=ANSWER_SECONDS):
            raise StoreUnavailable(f"all {MOST_CONNECTIONS} connections to {self.url} are busy: try again")
        try:
            connection = self._take()
            connection.patience = ANSWER_SECONDS if patience is None else patience
            try:
                with connection.cursor(binary=True) as cursor:
                    yield cursor
            finally:
                if connection.closed or self._closed or connection.generation != self._generation:
                    connection.close()
                else:
                    self._idle.append(connection)
        except psycopg.Error as error:
            if isinstance(error, errors.ReadOnlySqlTransaction):
                self._renew()
            raise self._told(error) from error
        finally:
            self._slots.release()

    @contextmanager
    def session(self, patience: float) -> Iterator[Cursor]:
        """A connection of its own, closed at the end: for locks that last as long as the connection."""
        try:
            with TimedConnection.connect(self._address, autocommit=True) as connection:
                connection.patience = patience
                cursor = connection.cursor(binary=True)
                yield cursor
        except psycopg.Error as error:
            raise self._told(error) from error

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> TimedConnection:
        """An idle connection that is sound, or a new one."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if self._sound(connection):
                return connection
            connection.close()
        connection = TimedConnection.connect(self._address, autocommit=True)
        connection.generation = self._generation
        return connection

    def _sound(self, connection: TimedConnection) -> bool:
        if connection.closed:
            return False
        # Nothing was sent, so there should be nothing to read, unless the server has ended the session.
        if not select.select([connection.fileno()], [], [], 0)[0]:
            return True
        try:
            connection.execute("SELECT")
        except errors.IdleSessionTimeout:  # not a fault
            return False
        except psycopg.Error:
            self._renew()
            return False
        return True

    def _renew(self) -> None:
        """Connect again from now on: the server was restarted, or has become read-only because another took over."""
        self._lost = time.time()
        self._generation += 1
        logger.warning("the connection to %s was lost: connecting again", self.url)
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _told(self, error: psycopg.Error) -> LorentzrecError:
        # A failed login has no code of its own in libpq.
        refused = any(words in str(error) for words in ("authentication failed", "does not exist", "pg_hba.conf"))
        unavailable = psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError
        if isinstance(error, unavailable) and not refused:
            return StoreUnavailable(
                f"{self.url} cannot answer now ({_line(error)}): look at the server, then try again"
            )
        return StoreBroken(f"{self.url} refuses: {_line(error)}; check address, rights and tables")


def _unquoted(error: Exception) -> str:
    """What is wrong with an address, without the parts of it that libpq quotes: they may be the password."""
    return " ".join(re.sub(r'".*"', "...", str(error), flags=re.DOTALL).split())


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
