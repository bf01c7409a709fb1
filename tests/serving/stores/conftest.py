"""The contract's fixtures: an address of each kind with nothing behind it, and a store there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lorentzrec.serving.stores.address import open_any_store, open_store
from lorentzrec.serving.stores.store import Store


@pytest.fixture
def url(any_url: str) -> str:
    return any_url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, create=True)
    yield opened
    opened.close()


@pytest.fixture
def make_older_store(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes a PostgreSQL store with the first few migrations only, as older releases did."""
    from lorentzrec.serving.stores import postgres_schema

    def make(migrations: int) -> None:
        with monkeypatch.context() as older:
            older.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:migrations])
            open_any_store(postgres_url, create=True).close()

    return make
