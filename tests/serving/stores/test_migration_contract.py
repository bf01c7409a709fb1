"""Stores of another release, whose schema has more or fewer steps: refused, or migrated."""

from __future__ import annotations

from contextlib import closing

import pytest

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event, StoredEvent
from lorentzrec.serving.stores.store import Store
from tests.serving.stores.next_release import add_step
from tests.serving.stores.raises_fault import raises_fault


def test_only_a_migration_changes_an_older_store(store: Store, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store.add_events([Event("ann", "tea", 1, "1"), Event("bob", "tea", 1, "1")])
    store.forget("bob")
    store.set_live_items(["tea"])
    store.close()
    add_step(url, monkeypatch)
    for create in (False, True):
        with raises_fault(StoreFault.OLDER, "(schema 1 of 2)", f"run lorentzrec store migrate {store.url}"):
            open_store(url, create=create)
    steps: list[tuple[int, int]] = []
    for _ in range(2):
        open_store(url, migrate=lambda *step: steps.append(step)).close()
    assert steps == [(2, 2)]
    with closing(open_store(url)) as migrated:
        assert migrated.history("ann") == [StoredEvent("tea", 1.0)]
        assert migrated.add_events([Event("bob", "tea", 1, "1")], respect_erasures=True).erased == {"bob"}
        assert migrated.live_items().items == ["tea"]


def test_a_migration_that_is_interrupted_can_be_repeated(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_step(url, monkeypatch)

    def interrupt(number: int, last: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_store(url, migrate=interrupt)
    with raises_fault(StoreFault.OLDER, "(schema 1 of 2)"):
        open_store(url)
    open_store(url, migrate=lambda *_: None).close()
    open_store(url).close()


def test_a_newer_store_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        add_step(url, newer)
        open_store(url, create=True).close()
    for create in (False, True):
        with raises_fault(StoreFault.NEWER):
            open_store(url, create=create)
    with raises_fault(StoreFault.NEWER):
        open_store(url, migrate=lambda *_: None)
