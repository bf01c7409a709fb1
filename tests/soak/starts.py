"""kill -9 of the parent 0 to 5 seconds after the start of the service: no worker survives, and its ports are free."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lorentzrec_paper.servers import free_port
from tests.serving.running_service import shop_store
from tests.soak.outcome import Outcome
from tests.soak.service import PATIENCE, Service, wait_for

LATEST = 5.0
"""Seconds after the start of the last kill; the others are spread evenly before it."""
END_SECONDS = 20.0
"""Workers are to end at once, but the machine may be busy."""


def start_kills(outcome: Outcome, rounds: Iterable[int], folder: Path) -> None:
    shop_store(folder).close()
    probe_port = free_port()
    service = Service(f"file:{folder / 'store'}", folder, "--probe-port", str(probe_port))
    for number in rounds:
        parent = service.launch()
        time.sleep(LATEST * number / max(1, outcome.planned - 1))
        workers = len(service.workers())
        service.kill_master()
        outcome.count(kills=1, workers=workers)
        try:
            wait_for(lambda: _is_empty(parent), "an end of the workers", END_SECONDS)  # noqa: B023
        except TimeoutError:
            outcome.fault(f"round {number}: a worker is still there", orphans=1)
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)
            wait_for(lambda: _is_empty(parent), "an end of the killed workers")  # noqa: B023
        for port in (service.port, probe_port):
            with socket.socket() as again:
                again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    again.bind(("127.0.0.1", port))
                except OSError as error:
                    outcome.fault(f"round {number}, port {port}: {error}", ports_taken=1)
        outcome.done += 1
    outcome.fault(orphans=0, ports_taken=0)


def _is_empty(parent: subprocess.Popen[bytes]) -> bool:
    """No process is left of the group of a parent that has ended."""
    parent.wait(PATIENCE)
    try:
        os.killpg(parent.pid, 0)
    except ProcessLookupError:
        return True
    return False
