"""Servers that an experiment starts on this machine and stops at its end. The emulators of Azure's are in the folder of
the tests, which a checkout has and an installation does not."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from lorentzrec.errors import InputError

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a server may take to start."""
PORTS = range(20_000, 32_000)
"""Below those that Linux gives to outgoing connections, which would take the port of a server that is stopped."""


class Server:
    """A process that listens on a port of this machine. It can be stopped and started again on the same port.

    with Service("file:store") as server:
        ...
    """

    def __init__(self, command: Sequence[str], port: int, folder: Path) -> None:
        """folder: for its log, and what else it writes; `remove` deletes it."""
        self.port, self.folder = port, folder
        self._command = command
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when the server responds."""
        assert not self.running
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE
        while not self._responds():
            if not self.running or time.monotonic() > deadline:
                self.kill()
                lines = self._log.read_text(errors="replace").split("\n")
                reason = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
                raise InputError(f"{' '.join(self._command[:4])} does not start ({reason}): run it to see why")
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        """Kill it and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _end(self, number: signal.Signals) -> None:
        if self.running:
            os.killpg(self.pid, number)
            assert self._process is not None
            self._process.wait(timeout=60)

    def _responds(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True


class Service(Server):
    """`lorentzrec serve` with one worker, which is ready once it has loaded the current version of the store."""

    def __init__(self, store: str) -> None:
        folder, port = Path(tempfile.mkdtemp(prefix="lorentzrec-service-")), free_port()
        options = ["--port", str(port), "--workers", "1", "--cache", str(folder / "cache"), "--log-level", "warning"]
        super().__init__([sys.executable, "-m", "lorentzrec", "serve", store, *options], port, folder)
        self.url = f"http://{HOST}:{port}"

    def _responds(self) -> bool:
        import httpx

        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE).is_success
        except httpx.TransportError:
            return False


def free_port() -> int:
    """A port that no process uses. It is random, so that programs which look at the same time find different ones."""
    for port in random.Random().sample(PORTS, 100):
        with suppress(OSError), socket.socket() as probe:
            probe.bind((HOST, port))
            return port
    raise InputError(f"a hundred ports from {PORTS.start} to {PORTS.stop} are in use: end some of the programs")
