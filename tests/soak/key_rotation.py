"""API keys replaced, and reloaded by SIGHUP, while workers die."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import httpx

from tests.serving.running_service import shop_store
from tests.soak.outcome import Outcome
from tests.soak.service import Service, running, wait_for

REQUESTS = 100
"""Requests in each round: half of them before the keys are reloaded."""
RELOADED = "keys reloaded"


def rotation_rounds(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    """Until the service logs that it has reloaded the keys, the old key counts; from then on only the new one does."""
    shop_store(folder).close()
    keys = folder / "keys.txt"
    old = "the-first-key-of-this-check"
    _write(keys, old)
    with running(Service(f"file:{folder / 'store'}", folder, "--api-key-file", str(keys))) as service:
        for number in rounds:
            new = f"the-key-of-round-number-{number:04d}"
            _write(keys, new)
            _decide(outcome, service, accepted=old, refused=new)
            reloads = _reloads(service)
            os.kill(service.master, signal.SIGHUP)
            wait_for(lambda: _reloads(service) > reloads, "reloaded keys in the log", seconds=20)  # noqa: B023
            _decide(outcome, service, accepted=new, refused=old)
            old = new
            outcome.done += 1


def _decide(outcome: Outcome, service: Service, *, accepted: str, refused: str) -> None:
    """Requests with both keys in turn, each over a connection of its own; after a quarter of them a worker dies."""
    wrong = 0
    for number in range(REQUESTS // 2):
        if number == REQUESTS // 8:
            service.kill_worker()
        key, wanted = ((accepted, 200), (refused, 401))[number % 2]
        wrong += _status(service, key) != wanted
    outcome.count(decisions=REQUESTS // 2)
    outcome.fault(f"{wrong} of {REQUESTS // 2} with {accepted} accepted and {refused} refused", wrong=wrong)


def _status(service: Service, key: str) -> int:
    """What the service decides. A connection that a dying worker takes with it is no decision."""
    end = time.monotonic() + 30
    while time.monotonic() < end and service.running:
        with suppress(httpx.TransportError):
            response = httpx.get(f"{service.url}/v1/items/i1", headers={"X-API-Key": key}, timeout=10)
            if response.status_code in (200, 401, 403):
                return response.status_code
        time.sleep(0.05)
    raise TimeoutError("the service decides nothing any more")


def _reloads(service: Service) -> int:
    return service.log.read_text().count(RELOADED)


def _write(path: Path, key: str) -> None:
    """Replace the file in one step."""
    path.with_suffix(".new").write_text(f"{key}\n")
    path.with_suffix(".new").replace(path)
