"""Servers that start when the first test needs them, and an empty database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from tests.emulators import MissingServer
from tests.serving.running_service import KEY, Service, service_process, shop_store
from tests.serving.servers import COSMOS_KEY, CosmosServer, PostgresServer

Server = TypeVar("Server", PostgresServer, CosmosServer)


@contextmanager
def running(server: type[Server]) -> Iterator[Server]:
    try:
        started = server()
    except MissingServer as missing:
        pytest.skip(str(missing))
    started.start()
    yield started
    started.remove()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with running(PostgresServer) as server:
        server.create_database("test")
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    # Much cheaper than a database of its own: that has a thousand files.
    postgres_server.run("DROP SCHEMA IF EXISTS lorentzrec CASCADE", "test")
    return postgres_server.address("test")


@pytest.fixture(scope="session")
def cosmos_server() -> Iterator[CosmosServer]:
    pytest.importorskip("azure.cosmos", reason="azure-cosmos is not installed")
    with running(CosmosServer) as server:
        yield server


@pytest.fixture
def cosmos_url(cosmos_server: CosmosServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COSMOS_KEY", COSMOS_KEY)
    return cosmos_server.address(f"test_{uuid4().hex}")


@pytest.fixture(
    params=[
        "file",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("cosmos", marks=pytest.mark.cosmos),
    ]
)
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store of each kind."""
    if request.param == "file":
        return f"file:{tmp_path / 'store'}"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(scope="module")
def keyed_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that requires `KEY`."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "keys.txt").write_text(KEY)
    store = shop_store(folder)
    with service_process(store.url, folder, "--api-key-file", str(folder / "keys.txt")) as service:
        yield service
    store.close()
