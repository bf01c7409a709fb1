"""Clients that send complete headers and then a byte per second, against one worker without keys."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Thread

import httpx

from tests.serving.running_service import shop_store
from tests.serving.slow_bodies import slow_bodies
from tests.soak.outcome import Outcome
from tests.soak.service import Service, running

CONNECTIONS = 200
SECONDS = 30.0
NORMAL_CLIENTS = 4
LEAST_SUCCESSFUL = 0.95


def slow_body_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    shop_store(folder).close()
    with running(Service(f"file:{folder / 'store'}", folder, workers=1)) as service:
        for _ in rounds:
            statuses: list[int] = []
            with slow_bodies(service.port, CONNECTIONS):
                end = time.monotonic() + SECONDS
                clients = [Thread(target=_request, args=(service.url, end, statuses)) for _ in range(NORMAL_CLIENTS)]
                for client in clients:
                    client.start()
                for client in clients:
                    client.join()
            successful = statuses.count(200)
            outcome.count(successful=successful, failed=len(statuses) - successful)
            too_few = successful < LEAST_SUCCESSFUL * len(statuses)
            outcome.fault(f"{successful} of {len(statuses)} succeeded", rounds_below_95_percent=int(too_few))
            outcome.done += 1


def _request(url: str, end: float, statuses: list[int]) -> None:
    """Normal requests, each over a connection of its own; status 0 is none in 10 seconds."""
    while time.monotonic() < end:
        status = 0
        with suppress(httpx.TransportError):
            status = httpx.post(f"{url}/v1/recommend", json={"history": ["i1"]}, timeout=10).status_code
        statuses.append(status)
        time.sleep(0.05)
