"""The contract's fixtures: an address of each kind with nothing behind it, and a store there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store


@pytest.fixture(
    params=[
        "file",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("cosmos", marks=pytest.mark.cosmos),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file:{tmp_path / 'store'}"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, create=True)
    yield opened
    opened.close()
