"""kill -9 under event load: workers, the master, all of them, or the database server."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from lorentzrec.serving.stores.address import open_store
from tests.serving.event_load import EventLoad
from tests.serving.running_service import published
from tests.serving.servers import CosmosServer, PostgresServer
from tests.soak.outcome import Outcome
from tests.soak.service import ENOUGH, Service, running


def file_kills(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    _kill_rounds(outcome, rounds, folder, f"file:{folder / 'store'}")


def postgres_kills(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    server = PostgresServer(durable=True)

    def kill_server() -> None:
        server.kill()
        time.sleep(random.uniform(0, 1))
        server.start()

    try:
        server.start()
        _kill_rounds(outcome, rounds, folder, server.create_database("soak"), kill_server)
    finally:
        server.remove()


def cosmos_kills(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """Only the service is killed: the emulator keeps its data in memory, which no real account does."""
    server = CosmosServer()
    try:
        server.start()
        _kill_rounds(outcome, rounds, folder, server.address("soak"))
    finally:
        server.remove()


def _kill_rounds(
    outcome: Outcome,
    rounds: Iterable[int],
    folder: Path,
    url: str,
    kill_server: Callable[[], None] | None = None,
) -> None:
    """In each round one kind of process is killed under load; the service must recover, and nothing be lost."""
    store = open_store(url, create=True)
    published(store, folder)
    store.close()
    service = Service(url, folder)

    def kill_master() -> None:
        service.kill_master()
        service.start()

    def kill_all() -> None:
        service.kill_all()
        service.start()

    kills = {"worker": service.kill_worker, "master": kill_master, "all": kill_all}
    if kill_server is not None:
        kills |= {"server": kill_server}
    with running(service):
        for number in rounds:
            target = list(kills)[number % len(kills)]
            with EventLoad(service.url, label=f"round {number} {target}") as load:
                try:
                    load.wait_for(ENOUGH)
                    time.sleep(random.uniform(0, 0.5))
                    kills[target]()
                    load.wait_for(ENOUGH)
                except (AssertionError, TimeoutError) as error:
                    log = service.log.read_text()[-2000:]
                    raise TimeoutError(f"{load.label}: {error}; {log}") from error
            outcome.compare(load, url)
            outcome.done += 1
