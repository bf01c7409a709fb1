"""Connections to PostgreSQL that fail fast and recover by themselves.

The pool connects in the background and lets callers wait, also while the server is gone. So after a lost connection the
caller tries to connect before it waits: a refused connection is reported in milliseconds, a silent server in seconds,
and the first call after the server is back succeeds.
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
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.faults import StoreFault, format_recent
from lorentzrec.serving.stores.sql_store import LONG_SECONDS

CONNECT_SECONDS = 3
RESPONSE_SECONDS = 5.0

logger = logging.getLogger("lorentzrec.serving")
logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # its warnings repeat the errors that callers get

Result = TypeVar("Result")
Cursor = psycopg.Cursor[tuple[Any, ...]]


class TimedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that gives up on a server that is there but silent, such as a frozen one."""

    patience = RESPONSE_SECONDS

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
    """A pool of connections to one database, shared by all threads."""

    def __init__(self, address: str, limit: int) -> None:
        """`limit`: connections in use at once."""
        try:
            given = conninfo.conninfo_to_dict(address)
        except psycopg.Error as error:
            raise _bad_address(error) from None
        if re.search(r"[^\d,]", str(given.get("port", ""))):
            raise _bad_address("its port is not a number")
        host = f"{given.get('host', '')}{':' if given.get('port') else ''}{given.get('port', '')}"
        self.url = f"postgresql://{host}/{given.get('dbname', '')}"
        defaults: dict[str, Any] = {
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "lorentzrec",
            "tcp_user_timeout": round(RESPONSE_SECONDS * 1000),
            # The server must not continue for ever with what no client waits for.
            "options": f"-c statement_timeout={round(LONG_SECONDS * 1000)}",
        }
        self._address = conninfo.make_conninfo(**{**defaults, **given, "client_encoding": "utf8"})
        self._pool = ConnectionPool(
            self._address,
            connection_class=TimedConnection,
            kwargs={"autocommit": True},
            min_size=0,
            max_size=limit,
            reconnect_timeout=0,  # the next caller tries again
            open=True,
        )
        self._reachable = False
        self._renewing = threading.Lock()
        self._renewed = 0.0
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
        begun = time.monotonic()
        try:
            connection = self._take()
            connection.patience = RESPONSE_SECONDS if patience is None else patience
            try:
                with connection.cursor(binary=True) as cursor:
                    yield cursor
            except psycopg.Error as error:
                if connection.broken or isinstance(error, errors.ReadOnlySqlTransaction):
                    self._renew(begun)
                raise
            finally:
                self._pool.putconn(connection)
        except PoolClosed as error:
            raise StoreFault.CLOSED.error(store=self.url) from error
        except psycopg.Error as error:
            raise self._explain(error) from error

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
        self._pool.close()

    def _take(self) -> TimedConnection:
        """A connection of the pool that works."""
        begun = time.monotonic()
        try:
            self._reach()
            connection = self._pool.getconn(RESPONSE_SECONDS)
            try:
                sound = self._is_sound(connection, begun)
            except BaseException:
                self._pool.putconn(connection)
                raise
            if not sound:
                self._pool.putconn(connection)
                self._reach()
                connection = self._pool.getconn(RESPONSE_SECONDS)
        except PoolTimeout as error:
            self._reachable = False
            self._reach()
            reason = f"all {self._pool.max_size} connections are in use"
            raise StoreFault.BUSY.error(store=self.url, reason=reason) from error
        return connection

    def _reach(self) -> None:
        """Connect once, unless it is known that the server can be reached: the error of this attempt has the reason."""
        if not self._reachable and not self._pool.closed:
            self._connect().close()
            self._reachable = True

    def _connect(self) -> TimedConnection:
        """A new connection. A server that is up and does not let us in has refused us.

        libpq has no SQLSTATE for a connection that failed, and the text is in the language of the server. Its ping
        distinguishes a server that is up from one that is gone, starting or stopping.
        """
        try:
            return TimedConnection.connect(self._address, autocommit=True)
        except errors.ConnectionTimeout:
            raise
        except psycopg.OperationalError as error:
            if error.pgconn is not None and pq.PGconn.ping(self._address.encode()) == pq.Ping.OK:
                raise self._refuse(error) from error
            raise

    def _is_sound(self, connection: TimedConnection, begun: float) -> bool:
        """Whether the server has not ended the session. If it has, the pool makes all connections again."""
        # Nothing was sent, so there should be nothing to read, unless the server has ended the session.
        if not connection.closed and not has_input(connection.fileno()):
            return True
        try:
            connection.execute("SELECT")
        except errors.IdleSessionTimeout:  # not a fault
            self._pool.drain()
            return False
        except psycopg.Error:
            self._renew(begun)
            return False
        return True

    def _renew(self, begun: float) -> None:
        """Connect again: the server was restarted, or has become read-only because another took over.

        begun: when the caller asked for the connection that it lost. A pool that was renewed since is not renewed.
        """
        with self._renewing:
            if begun < self._renewed:
                return
            self._renewed, self._lost, self._reachable = time.monotonic(), time.time(), False
            logger.warning("the connection to %s was lost: connecting again", self.url)
            self._pool.drain()

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


def has_input(descriptor: int) -> bool:
    """Whether there is something to read, or the connection has ended. Unlike select, poll takes any descriptor."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
