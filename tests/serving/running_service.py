"""A service for tests: the application in this process, or the real server as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import polars as pl
from litestar.testing import TestClient

from lorentzrec.serving.http.app import create_app
from lorentzrec.serving.http.keys import ApiKeys
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import write_version
from lorentzrec_paper.servers import free_port
from tests.serving.small_shop import shop_model, shop_table

KEY = "full-key-0123456789"
PATIENCE = 120.0
"""Seconds to wait for what must happen: long, since the machine may be busy. Nothing is measured by it."""


def published(store: Store, folder: Path, label: str | None = None, **parts: Any) -> str:
    """Publish the small shop; with a label, every title begins with it. The name of the version."""
    table = shop_table()
    if label is not None:
        table = table.with_columns(title=pl.lit(f"{label} ") + pl.col("title"))
    place = folder / "version-being-published"
    name = str(write_version(place, shop_model(), **{"items": table, **parts})["name"])
    store.upload(place)
    store.activate(name)
    return name


def shop_store(folder: Path, **parts: Any) -> Store:
    """A new file store with one version of the small shop."""
    store = open_store(f"file:{folder / 'store'}", create=True)
    published(store, folder, **parts)
    return store


@contextmanager
def service_here(store: str, **settings: Any) -> Iterator[TestClient[Any]]:
    """The application in this process, patient unless the settings say otherwise. A failure inside it becomes a 500, as
    it would on a server."""
    chosen = ServiceSettings(store, **{"store_seconds": PATIENCE, "request_seconds": PATIENCE} | settings)
    file = chosen.api_key_file
    app = create_app(chosen, None if file is None else ApiKeys(file, file.parent))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


class Service:
    """`lorentzrec serve` as a process of its own, on a free port."""

    def __init__(self, store: str | None, log: Path, *options: str) -> None:
        """`store`: on the command line; None if the environment has it."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        given = [] if store is None else [store]
        command = [sys.executable, "-m", "lorentzrec.cli", "serve", *given, "--port", str(self.port), *options]
        with log.open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)

    def wait_until_alive(self) -> None:
        def alive() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            try:
                return self.http.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

        wait_until(alive)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the service to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """What a power cut does: the parent and all workers are gone at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def service_process(store: str | None, folder: Path, *options: str) -> Iterator[Service]:
    """A service process that is alive, and gone at the end."""
    service = Service(store, folder / "service.log", *options)
    try:
        service.wait_until_alive()
        yield service
    finally:
        if service.process.poll() is None:
            service.kill()
        service.http.close()


def misses_store(service: Any) -> bool:
    """Whether a service is ready, and warns that its store is unavailable."""
    response = service.get("/readyz")
    return response.status_code == 200 and "the store is unavailable" in response.text


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
