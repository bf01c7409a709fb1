"""Rounds of random requests and publishes while processes die at commits, checked by the model of the interface."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from lorentzrec.serving.stores.address import open_store
from tests.serving.running_service import published
from tests.serving.servers import CosmosServer, PostgresServer
from tests.soak.activations import Publishers
from tests.soak.api_model import CatalogueClient, CustomerClient
from tests.soak.kill_points import SHARE
from tests.soak.outcome import Outcome
from tests.soak.possible_states import ViolationError
from tests.soak.service import Service, running

KILL_SHARE = 0.04
"""Of the commits. A worker needs a second or two to come back, in which its clients get no response."""
STEPS = 40
"""Requests of each client in a round."""
CUSTOMER_CLIENTS = 3


def file_model(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    _model_rounds(outcome, rounds, folder, f"file:{folder / 'store'}")


def postgres_model(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    server = PostgresServer(durable=True)
    try:
        server.start()
        _model_rounds(outcome, rounds, folder, server.create_database("model"))
    finally:
        server.remove()


def cosmos_model(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    server = CosmosServer()
    try:
        server.start()
        _model_rounds(outcome, rounds, folder, server.address("model"))
    finally:
        server.remove()


def _model_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path, url: str) -> None:
    os.environ[SHARE] = str(KILL_SHARE)
    store = open_store(url, create=True)
    published(store, folder)
    store.close()
    service = Service(url, folder, module="tests.soak.kill_points")
    publishers = Publishers(url, seed=0)
    catalogue = CatalogueClient(service.url, 0, seed=0)
    with running(service):
        for number in rounds:
            customers = [CustomerClient(service.url, one, seed=number) for one in range(CUSTOMER_CLIENTS)]
            clients: list[CatalogueClient | CustomerClient] = [catalogue, *customers]
            try:
                _run_round(service, publishers, clients, url)
            except ViolationError as violation:
                outcome.fault(f"round {number}: {violation}", violations=1)
                return
            for client in customers:
                client.close()
                outcome.count(**vars(client.counts))
            outcome.done += 1
    outcome.count(**vars(catalogue.counts))
    catalogue.close()


def _run_round(
    service: Service, publishers: Publishers, clients: list[CatalogueClient | CustomerClient], url: str
) -> None:
    def run(step: Callable[[], None], times: int) -> None:
        for _ in range(times):
            step()

    with ThreadPoolExecutor(len(clients) + 1) as threads:
        work = [threads.submit(partial(run, client.step, STEPS)) for client in clients]
        work.append(threads.submit(partial(run, publishers.step, 2)))
    for one in work:
        one.result()
    # Nothing that is left of a request can have an effect after this.
    service.kill_all()
    service.start()
    for client in clients:
        client.settle()
        client.check()
        client.check_store(url)
    publishers.check_store()
    publishers.check_service(service.url)
