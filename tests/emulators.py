"""Emulators of Azure's services: Azurite (Blob Storage) and cosmosdb-server (Cosmos DB), which are packages of npm.

`lorentzrec reproduce pipeline` starts them, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from lorentzrec.errors import InputError
from lorentzrec_paper.servers import HOST, Server, free_port


class MissingServer(InputError):  # noqa: N818 - the name states the condition
    """The server is not installed here."""


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
        endpoint = f"DefaultEndpointsProtocol=http;BlobEndpoint=http://{HOST}:{self.port}/{self.ACCOUNT};"
        return f"{endpoint}AccountName={self.ACCOUNT};AccountKey={self.KEY};"

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


def find_program(program: str, folder: str, package: str) -> Path:
    """A program that npm installed: for all users, in the current folder, or in `folder` next to this file."""
    own = [path / "node_modules" / ".bin" for path in (Path.cwd(), Path(__file__).parent / folder)]
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, own)]))
    if found is None or shutil.which("node") is None:
        raise MissingServer(f"{program} is not installed: install Node.js, then run npm install --global {package}")
    return Path(found)
