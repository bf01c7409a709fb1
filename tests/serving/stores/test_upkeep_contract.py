"""All of a store at once, for each kind: a snapshot, its size, pruning."""

from __future__ import annotations

from pathlib import Path

import pytest

from lorentzrec.serving.stores import sql_store
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.histories import Event, StoredEvent
from lorentzrec.serving.stores.ids import make_key, salted_key
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec.serving.stores.snapshot import Pruned, Snapshot
from lorentzrec.serving.stores.store import Store
from tests.serving.stores.version_folder import write_version


def events_of(snapshot: Snapshot) -> list[Event]:
    rows = [
        row
        for page in snapshot.events
        for row in zip(page.users, page.items, page.times, page.ids, page.weights, strict=True)
    ]
    found = [Event(*row) for row in rows]
    return sorted(found, key=lambda event: (event.user, event.time, event.item))


def test_a_snapshot_has_everything(store: Store, tmp_path: Path) -> None:
    with store.snapshot() as empty:
        assert (empty.activations, empty.live, empty.new_items, empty.erasures) == ([], LiveItems(), [], [])
        assert events_of(empty) == []
    events = [Event("ann", "tea", 1, "a"), Event("ann", "cup", 2.5, "b", 4.0), Event("bob", "tea", 1, "a")]
    store.add_events([*events, Event("eve", "tea", 3, "c")])
    store.forget("eve")
    store.set_live_items(["tea", "mug"])
    store.describe_item(NewItem("mug", title="Mug"), limit=10)
    store.note_customers({"cup": ["ann"]}, limit=10)
    store.upload(write_version(tmp_path, "a1"))
    store.activate("a1", "try")
    with store.snapshot() as snapshot:
        assert [(entry.version, entry.reason) for entry in snapshot.activations] == [("a1", "try")]
        assert snapshot.live == LiveItems(["mug", "tea"])
        new = sorted(snapshot.new_items, key=lambda item: item.id)
        assert new == [NewItem("cup", customers=("ann",)), NewItem("mug", Origin.PUT, title="Mug")]
        assert snapshot.salt is not None
        ((key, _),) = snapshot.erasures
        assert key == salted_key(make_key("eve"), snapshot.salt)
        assert events_of(snapshot) == events


def test_a_snapshot_does_not_change_while_others_write(store: Store, url: str) -> None:
    store.add_events([Event("ann", "tea", 1, "a"), Event("bob", "tea", 1, "a")])
    with store.snapshot() as snapshot:
        store.add_events([Event("ann", "cup", 2, "b"), Event("zoe", "cup", 2, "b")])
        store.forget("bob")
        assert snapshot.erasures == []
        found = {event.user for event in events_of(snapshot)}
        # Cosmos DB has no state of all documents: it has what was there before, unless it was erased since.
        assert found == ({"ann", "zoe"} if url.startswith("cosmos") else {"ann", "bob"})


def test_the_size_of_a_store(store: Store, tmp_path: Path, url: str) -> None:
    assert store.measure()[:2] == (0, 0)
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(3)] + [Event("bob", "tea", 1, "a")])
    store.upload(write_version(tmp_path, "a1", {"a.bin": b"a" * 3_000_000}))
    size = store.measure()
    assert (size.events, size.customers) == (4, 2)
    if not url.startswith("cosmos"):  # the emulator does not report it
        assert size.bytes is not None
        assert size.bytes > 3_000_000


def test_old_events_are_pruned_except_for_the_newest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_store, "PRUNED_EVENTS", 7)
    users = [f"u{n:02d}" for n in range(20)]
    store.add_events([Event(user, f"i{n}", n, str(n)) for number, user in enumerate(users) for n in range(number % 6)])
    expected = {}
    for number, user in enumerate(users):
        count = number % 6
        # Older than 4 and not among the newest two: 0, 1 of four; 0, 1, 2 of five.
        expected[user] = [n for n in range(count) if n >= 4 or n >= count - 2]
    gone = sum(number % 6 for number in range(20)) - sum(map(len, expected.values()))
    total = [*store.prune_events(4, 2, dry_run=True)]
    assert sum(step.events for step in total) == gone > 0
    assert len(total) > 3, "in several steps"
    assert store.history("u05") == [StoredEvent(f"i{n}", float(n)) for n in range(5)], "a dry run changes nothing"
    done = [*store.prune_events(4, 2)]
    assert sum(step.events for step in done) == gone
    assert sum(step.customers for step in done) == sum(len(expected[user]) < n % 6 for n, user in enumerate(users))
    for user in users:
        assert store.history(user) == [StoredEvent(f"i{n}", float(n)) for n in expected[user]]
    assert sum(step.events for step in store.prune_events(4, 2)) == 0
    assert sum(step.events for step in store.prune_events(100, 1)) == sum(max(0, len(e) - 1) for e in expected.values())


def test_pruned_customers_go_on(store: Store) -> None:
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(2500)])
    removed = sum((step.events for step in store.prune_events(2000, 1)), 0)
    assert removed == 2000
    store.add_events([Event("ann", "cup", 5000, "new"), Event("ann", "tea", 2400, "2400")])
    assert len(store.history("ann", 10_000)) == 501
    assert store.history("ann", 1) == [StoredEvent("cup", 5000.0)]
    assert store.forget("ann") == 501


def test_nothing_to_prune(store: Store) -> None:
    assert sum((step.events for step in store.prune_events(1, 1)), 0) == 0
    store.add_events([Event("ann", "tea", 5, "a")])
    assert [step for step in store.prune_events(10, 1) if step != Pruned(0, 0)] == []
