"""Servers that an experiment starts on this machine and stops at its end: the service, and emulators of Azure's.

Azurite (Blob Storage) and cosmosdb-server (Cosmos DB) are packages of npm.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from lorentzrec.errors import InputError

HOST = "127.0.0.1"
PATIENCE = 120.0
"""Seconds that a server may take to start."""


class MissingServer(InputError):  # noqa: N818 - the name states the condition
    """The server is not installed here."""


class Server:
    """A process that listens on a port of this machine. It can be stopped and started again on the same port.

    with Azurite() as server:
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


class Azurite(Server):
    """The emulator of Azure Blob Storage."""

    ACCOUNT = "devstoreaccount1"
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    """The account and key that every Azurite has; they open nothing else."""

    def __init__(self) -> None:
        program = find_program("azurite-blob", "azurite", "azurite")
        folder, port = Path(tempfile.mkdtemp(prefix="lorentzrec-azurite-")), free_port()
        options = ["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--location", str(folder)]
        super().__init__([str(program), *options, "--blobHost", HOST, "--blobPort", str(port)], port, folder)

    @property
    def connection_string(self) -> str:
        place = f"DefaultEndpointsProtocol=http;BlobEndpoint=http://{HOST}:{self.port}/{self.ACCOUNT};"
        return f"{place}AccountName={self.ACCOUNT};AccountKey={self.KEY};"

    def create_container(self, name: str) -> None:
        with self.client() as client:
            client.create_container(name)

    def client(self) -> Any:
        """Microsoft's own client."""
        try:
            from azure.storage.blob import BlobServiceClient
        except ImportError:
            raise InputError(
                "a container in Azurite needs azure-storage-blob: pip install azure-storage-blob, or give --blobs"
            ) from None
        return BlobServiceClient.from_connection_string(self.connection_string)


class CosmosEmulator(Server):
    """An emulator of Cosmos DB. It keeps everything in memory: after a restart it is empty."""

    KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
    """The key that every emulator of Cosmos DB has; it opens nothing else."""

    def __init__(self) -> None:
        program = find_program("cosmosdb-server", "cosmos", "@vercel/cosmosdb-server")
        folder, port = Path(tempfile.mkdtemp(prefix="lorentzrec-cosmos-")), free_port()
        super().__init__([str(program), "--host", HOST, "--port", str(port), "--no-ssl"], port, folder)

    def address(self, database: str) -> str:
        return f"cosmos+http://{HOST}:{self.port}/{database}"


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


def find_program(program: str, folder: str, package: str) -> Path:
    """A program that npm installed: for all users, in the current folder, or in tests/`folder` of a checkout."""
    own = [place / "node_modules" / ".bin" for place in (Path.cwd(), Path(__file__).parents[2] / "tests" / folder)]
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, own)]))
    if found is None or shutil.which("node") is None:
        raise MissingServer(f"{program} is not installed: install Node.js, then run npm install --global {package}")
    return Path(found)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
