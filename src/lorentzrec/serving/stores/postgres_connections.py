"""Connections to PostgreSQL that fail fast and recover by themselves.

A pool with workers in the background makes the caller wait for its time-out while the server is gone. Here the caller
connects, so a refused connection is reported in milliseconds, a silent server in seconds, and the first call after the
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
from psycopg import conninfo, errors, pq

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.faults import StoreFault, format_recent
from lorentzrec.serving.stores.sql_store import LONG_SECONDS

CONNECT_SECONDS = 3
RESPONSE_SECONDS = 5.0

logger = logging.getLogger("lorentzrec.serving")

Result = TypeVar("Result")
Cursor = psycopg.Cursor[tuple[Any, ...]]


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that is there but silent, such as a frozen one."""

    patience = RESPONSE_SECONDS
    generation = 0

    def wait(self, gen: Generator[Any, Any, Result], *arguments: Any, **options: Any) -> Result:
        return super().wait(self._in_time(gen), *arguments, **options)

    def _in_time(self, steps: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """The same steps. psycopg resumes them every tenth of a second, also when nothing has arrived."""
        deadline = time.monotonic() + self.patience
        ready = None
        while True:
            try:
                wanted = steps.send(ready)
            except StopIteration as end:
                result: Result = end.value
                return result
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                self.close()
                raise psycopg.OperationalError(f"no response in {self.patience:g} seconds")


class PostgresConnections:
    """A few connections to one database, shared by all threads."""

    def __init__(self, address: str, most: int) -> None:
        """`most`: connections in use at once."""
        try:
            given = conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise _bad_address(error) from None
        if re.search(r"[^\d,]", str(given.get("port", ""))):
            raise _bad_address("its port is not a number")
        place = f"{given.get('host', '')}{':' if given.get('port') else ''}{given.get('port', '')}"
        self.url = f"postgresql://{place}/{given.get('dbname', '')}"
        defaults: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "lorentzrec",
            "tcp_user_timeout": round(RESPONSE_SECONDS * 1000),
            # The server must not continue for ever with what no client waits for.
            "options": f"-c statement_timeout={round(LONG_SECONDS * 1000)}",
        }
        self._address = conninfo.make_conninfo(**{**defaults, **given, "client_encoding": "utf8"})
        self._most, self._slots = most, threading.BoundedSemaphore(most)
        self._idle: list[TimedConnection] = []
        self._closed = False
        self._generation = 0
        self._lost: float | None = None

    @property
    def notices(self) -> list[str]:
        """What an operator should know; without the address."""
        moment = format_recent(self._lost)
        return [f"the connection to the store was lost at {moment} and made again"] if moment else []

    @contextmanager
    def transaction(self, patience: float | None = None) -> Iterator[Cursor]:
        """Several statements: all or nothing, and durable at the end. A response may take `patience` seconds."""
        with self.statement(patience) as cursor, cursor.connection.transaction():
            yield cursor

    @contextmanager
    def statement(self, patience: float | None = None) -> Iterator[Cursor]:
        """For one statement, which is a transaction of its own and takes one round trip instead of three."""
        if self._closed:
            raise StoreFault.CLOSED.error(store=self.url)
        if not self._slots.acquire(timeout=RESPONSE_SECONDS):
            raise StoreFault.BUSY.error(store=self.url, reason=f"all {self._most} connections are in use")
        try:
            connection = self._take()
            connection.patience = RESPONSE_SECONDS if patience is None else patience
            try:
                with connection.cursor(binary=True) as cursor:
                    yield cursor
            except psycopg.Error as error:
                lost = connection.broken or isinstance(error, errors.ReadOnlySqlTransaction)
                if lost and connection.generation == self._generation:
                    self._renew()
                raise
            finally:
                if connection.closed or self._closed or connection.generation != self._generation:
                    connection.close()
                else:
                    self._idle.append(connection)
        except psycopg.Error as error:
            raise self._explain(error) from error
        finally:
            self._slots.release()

    @contextmanager
    def session(self, patience: float) -> Iterator[Cursor]:
        """A connection of its own, closed at the end: for locks that last as long as the connection."""
        try:
            with self._connect() as connection:
                connection.patience = patience
                yield connection.cursor(binary=True)
        except psycopg.Error as error:
            raise self._explain(error) from error

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def _take(self) -> TimedConnection:
        """An idle connection that works, or a new one."""
        while connection := self._pop_idle():
            if self._is_sound(connection):
                return connection
            connection.close()
        return self._connect()

    def _pop_idle(self) -> TimedConnection | None:
        try:
            return self._idle.pop()
        except IndexError:  # another thread took the last one
            return None

    def _connect(self) -> TimedConnection:
        """A new connection. A server that is up and does not let us in has refused us.

        libpq has no SQLSTATE for a connection that failed, and the text is in the language of the server. Its ping
        distinguishes a server that is up from one that is gone, starting or stopping.
        """
        try:
            connection = TimedConnection.connect(self._address, autocommit=True)
        except errors.ConnectionTimeout:
            raise
        except psycopg.OperationalError as error:
            if error.pgconn is not None and pq.PGconn.ping(self._address.encode()) == pq.Ping.OK:
                raise self._refuse(error) from error
            raise
        connection.generation = self._generation
        return connection

    def _is_sound(self, connection: TimedConnection) -> bool:
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
        self._close_idle()

    def _close_idle(self) -> None:
        while connection := self._pop_idle():
            connection.close()

    def _explain(self, error: psycopg.Error) -> LorentzrecError:
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
            return StoreFault.NOT_RESPONDING.error(store=self.url, reason=_line(error))
        return self._refuse(error)

    def _refuse(self, error: psycopg.Error) -> LorentzrecError:
        return StoreFault.REFUSED.error(store=self.url, reason=_line(error), check="address, rights and tables")


def _bad_address(reason: object) -> InputError:
    """libpq quotes parts of the address, which may be the password: they are left out."""
    text = _line(re.sub(r'".*"', "...", str(reason), flags=re.DOTALL))
    return InputError(f"the address of the PostgreSQL store cannot be read ({text}): correct it")


def _line(text: object) -> str:
    return " ".join(str(text).split())
