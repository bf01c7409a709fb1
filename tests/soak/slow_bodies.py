"""Clients that send complete headers and then a byte per second, against one worker without keys."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import httpx

from lorentzrec.serving.stores.address import open_store
from serving.running_service import published
from soak.outcome import Outcome
from soak.service import Service, running

CONNECTIONS = 200
SECONDS = 30.0
NORMAL_CLIENTS = 4
LEAST_ANSWERED = 0.95


class SlowBodies:
    """Keeps connections open that send one byte per second; one that is closed is opened again."""

    def __init__(self, port: int) -> None:
        self._port, self._ended = port, Event()
        self._thread = Thread(target=self._drip, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _drip(self) -> None:
        connections: list[socket.socket | None] = [None] * CONNECTIONS
        while not self._ended.is_set():
            begun = time.monotonic()
            for place, connection in enumerate(connections):
                try:
                    if connection is None:
                        connections[place] = self._connect()
                    else:
                        connection.send(b" ")
                except OSError:
                    if connection is not None:
                        connection.close()
                    connections[place] = None
            self._ended.wait(max(0.0, 1 - (time.monotonic() - begun)))
        for connection in connections:
            if connection is not None:
                connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=1)
        connection.sendall(
            f"POST /v1/recommend HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{".encode()
        )
        return connection


def slow_body_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    store = open_store(f"file:{folder / 'store'}", create=True)
    published(store, folder)
    store.close()
    with running(Service(f"file:{folder / 'store'}", folder, workers=1)) as service:
        for _ in rounds:
            slow = SlowBodies(service.port)
            slow.start()
            statuses: list[int] = []
            end = time.monotonic() + SECONDS
            clients = [Thread(target=_request, args=(service.url, end, statuses)) for _ in range(NORMAL_CLIENTS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            slow.stop()
            answered = statuses.count(200)
            outcome.count(answered=answered, not_answered=len(statuses) - answered)
            too_few = answered < LEAST_ANSWERED * len(statuses)
            outcome.fault(f"{answered} of {len(statuses)} answered", rounds_below_95_percent=int(too_few))
            outcome.done += 1


def _request(url: str, end: float, statuses: list[int]) -> None:
    """Normal requests, each over a connection of its own; status 0 is none in 10 seconds."""
    while time.monotonic() < end:
        status = 0
        with suppress(httpx.TransportError):
            status = httpx.post(f"{url}/v1/recommend", json={"history": ["i1"]}, timeout=10).status_code
        statuses.append(status)
        time.sleep(0.05)
