"""Clients that send the head of a request at once and its body one byte at a time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

HEAD = (
    b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
)


@contextmanager
def slow_bodies(port: int, connections: int, *, pause: float = 1.0) -> Iterator[None]:
    """Keep `connections` slow requests open against 127.0.0.1:`port`, each sending one byte every `pause` seconds.

    A connection that the server has closed is replaced, so the pressure stays the same. The block starts when every
    connection has sent its head.
    """
    stopped, ready, sockets = Event(), Event(), [_connection(port) for _ in range(connections)]

    def keep_sending() -> None:
        while not stopped.is_set():
            for place, connection in enumerate(sockets):
                if stopped.is_set():
                    return
                if not _send_byte(connection):
                    connection.close()
                    with suppress(OSError):  # the next round tries again
                        sockets[place] = _connection(port)
            ready.set()
            stopped.wait(pause)

    sender = Thread(target=keep_sending, name="slow bodies", daemon=True)
    sender.start()
    try:
        assert ready.wait(60), "the slow connections could not be opened"
        yield
    finally:
        stopped.set()
        sender.join(60)
        for connection in sockets:
            connection.close()


def _connection(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(HEAD)
    connection.setblocking(False)
    return connection


def _send_byte(connection: socket.socket) -> bool:
    """Send one byte; False if the server has replied or closed the connection."""
    try:
        connection.send(b" ")
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
