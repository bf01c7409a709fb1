"""Servers that start when the first test needs them, and an empty database for each test."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from lorentzrec_paper.servers import MissingServer
from serving.servers import COSMOS_KEY, CosmosServer, PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        server = PostgresServer()
    except MissingServer as missing:
        pytest.skip(str(missing))
    server.start()
    server.create_database("test")
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    # Much cheaper than a database of its own: that has a thousand files.
    postgres_server.run("DROP SCHEMA IF EXISTS lorentzrec CASCADE", "test")
    return postgres_server.address("test")


@pytest.fixture(scope="session")
def cosmos_server() -> Iterator[CosmosServer]:
    pytest.importorskip("azure.cosmos", reason="azure-cosmos is not installed")
    try:
        server = CosmosServer()
    except MissingServer as missing:
        pytest.skip(str(missing))
    server.start()
    yield server
    server.remove()


@pytest.fixture
def cosmos_url(cosmos_server: CosmosServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COSMOS_KEY", COSMOS_KEY)
    return cosmos_server.address(f"test_{uuid4().hex}")
