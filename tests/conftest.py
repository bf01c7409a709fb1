"""For all tests: a slow machine is not a failing property, Ctrl-C works in whatever way the tests were started, tests
that start a real part have its mark, and Azure's storage."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.emulators import Azurite, MissingServer

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# Processes that tests start import from the package `tests` as well.
_paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _paths))

# Tables are as wide as for a file, whatever the width of the terminal from which the tests were started.
os.environ.pop("COLUMNS", None)

# A job in the background of a script ignores SIGINT, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


MARK_BY_FIXTURE = {
    "azurite": "azure",
    "postgres_server": "postgres",
    "cosmos_server": "cosmos",
    "browser": "browser",
    "compiled": "node",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test that starts a real part without its mark: `make quick` could not leave it out."""
    for item in items:
        for fixture, mark in MARK_BY_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()) and item.get_closest_marker(mark) is None:
                raise pytest.UsageError(f"{item.nodeid} uses {fixture}: mark it with pytest.mark.{mark}")


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
