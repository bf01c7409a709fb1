"""`lorentzrec serve` on a fixed port: it is killed and started again, and clients find it at the same address."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from lorentzrec_paper.servers import free_port

PATIENCE = 60.0
"""Seconds to wait for what must happen."""
ENOUGH = 25
"""Acknowledged events that show that the service is at work."""


class Service:
    """A master process with its workers, in a process group of their own."""

    def __init__(
        self, store: str, folder: Path, *options: str, workers: int = 2, module: str = "lorentzrec.cli"
    ) -> None:
        """`module`: what Python runs as the command line."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "service.log"
        program = [sys.executable, "-m", module, "serve", store, "--port", str(self.port)]
        self._command = [*program, "--workers", str(workers), "--log-level", "info", "--cache", str(folder), *options]
        self._groups: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def master(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when the service is ready. The port may still belong to workers of a master that was killed."""
        deadline = time.monotonic() + PATIENCE
        while True:
            if not self.running:
                self._groups.append(self.launch().pid)
            if self.running and self._ready():
                self._groups = [self.master]  # the port is free only when no other group listens on it
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the service does not start: {self.log.read_text()[-1000:]}")
            time.sleep(0.1)

    def launch(self) -> subprocess.Popen[bytes]:
        """Returns at once."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output, start_new_session=True)
        return self._process

    def workers(self) -> list[int]:
        """The processes that respond to requests; not the one with which Python tracks shared memory."""
        try:
            children = Path(f"/proc/{self.master}/task/{self.master}/children").read_text().split()
        except OSError:
            return []
        return [int(child) for child in children if b"resource_tracker" not in _command_line(int(child))]

    def kill_worker(self) -> None:
        wait_for(lambda: bool(self.workers()), "a worker")
        with suppress(ProcessLookupError):
            os.kill(random.choice(self.workers()), signal.SIGKILL)

    def kill_master(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def kill_all(self) -> None:
        """As a machine does that loses its power."""
        assert self._process is not None
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def _ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


@contextmanager
def running(service: Service) -> Iterator[Service]:
    """The service started, and every process of it gone at the end."""
    try:
        service.start()
        yield service
    finally:
        service.kill_all()


def wait_for(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"no sign of {what} in {seconds:g} seconds")
        time.sleep(0.05)


def _command_line(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""
