"""The contract's fixtures: an address of each kind with nothing behind it, and a store there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store


@pytest.fixture
def url(any_url: str) -> str:
    return any_url


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, create=True)
    yield opened
    opened.close()
