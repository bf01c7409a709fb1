"""For all tests: a slow machine is not a failing property, Ctrl-C works in whatever way the tests were started, and
Azure's storage."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from lorentzrec_paper.servers import Azurite, MissingServer

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# A job in the background of a script ignores SIGINT, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def azurite() -> Iterator[Azurite]:
    try:
        server = Azurite()
    except MissingServer as missing:
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture
def container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A new container, reached by Microsoft's own client; the environment holds the credentials for ours."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite.connection_string)
    name = request.node.name.replace("_", "-")[:60].strip("-")
    with azurite.client() as service:
        yield service.create_container(name)
