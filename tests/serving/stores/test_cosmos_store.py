"""Documents that stay small, leftovers that are found, and a server that stops."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.catalogue import LiveItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Added, Event
from lorentzrec.serving.stores.ids import make_key, salted_key
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec_paper.servers import free_port
from tests.serving.running_service import wait_until
from tests.serving.servers import CosmosServer
from tests.serving.stores.raises_fault import raises_fault
from tests.serving.stores.version_folder import write_version

if TYPE_CHECKING:
    from lorentzrec.serving.stores.cosmos_store import CosmosStore

pytestmark = pytest.mark.cosmos
cosmos_store = pytest.importorskip("lorentzrec.serving.stores.cosmos_store", reason="azure-cosmos is not installed")
cosmos_versions = pytest.importorskip(
    "lorentzrec.serving.stores.cosmos_versions", reason="azure-cosmos is not installed"
)


@pytest.fixture
def store(cosmos_url: str) -> Iterator[CosmosStore]:
    opened = cosmos_store.CosmosStore(cosmos_url, create=True)
    yield opened
    opened.close()


def test_documents_have_at_most_a_thousand_events(store: CosmosStore) -> None:
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(999)])
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(990, 2005)])
    segments = store._histories.all(make_key("ann"))
    assert [len(segment["events"]) for segment in segments] == [1000, 1000, 5]
    assert [segment["id"] for segment in segments] == ["00000000", "00000001", "00000002"]


def test_an_erasure_while_a_second_document_is_begun(store: CosmosStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two senders of one event: one has read the full document before the erasure, the other finds nothing after it."""
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(1000)])
    other = cosmos_store.CosmosStore(store.url)
    event, create, late = Event("ann", "tea", 1000, "1000"), store._histories.create, [True]

    def create_late(document: Any) -> Any:
        if late:
            late.clear()
            assert other.forget("ann") == 1000
            assert other.add_events([event]) == Added(1, 0)
        return create(document)

    monkeypatch.setattr(store._histories, "create", create_late)
    assert store.add_events([event]) == Added(0, 1)
    assert [event.time for event in store.history("ann")] == [1000]
    other.close()


def test_an_erasure_that_dies_leaves_no_customer_of_an_item_without_the_event(
    store: CosmosStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_events([Event("erika", "scarf", 1.0, "1")])
    store.note_customers({"scarf": ["erika"]}, limit=10)
    erase = store._histories.delete

    def erase_and_die(document: dict[str, Any]) -> None:
        erase(document)
        if "events" in document:
            raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(store._histories, "delete", erase_and_die)
        with pytest.raises(KeyboardInterrupt):
            store.forget("erika")
    assert store.history("erika") == []
    assert [item.customers for item in store.new_items() if item.customers] == []


def test_documents_stay_below_the_limit_of_two_megabytes(store: CosmosStore) -> None:
    wide = "😀" * 500
    assert store.add_events([Event(wide, wide, n, f"{n:08d}{wide}") for n in range(400)]) == Added(400, 0)
    segments = store._histories.all(make_key(wide))
    assert len(segments) > 1
    assert max(len(json.dumps(segment)) for segment in segments) < 1_100_000
    store.set_live_items([f"{n:08d}{wide}" for n in range(400)])
    parts = store._catalogue.all(f"live-{store._state()['live']}")
    assert len(parts) > 1
    assert max(len(json.dumps(part)) for part in parts) < 1_100_000


def test_what_remains_of_an_erased_customer_cannot_be_guessed(store: CosmosStore) -> None:
    """A plain hash of the id would name the customer to everybody who has a list of ids."""
    store.add_events([Event("ann", "tea", n, str(n)) for n in range(2500)])
    assert store.forget("ann") == 2500
    stored = store._histories.everywhere("*")
    text = json.dumps(stored)
    assert "ann" not in text
    assert make_key("ann") not in text
    assert sorted(document["id"] for document in stored) == ["erased", "salt"]


def test_each_store_has_its_own_salt(store: CosmosStore, cosmos_server: CosmosServer) -> None:
    other = cosmos_store.CosmosStore(cosmos_server.address(f"test_{uuid4().hex}"), create=True)
    for one in (store, other, store):
        one.forget("ann")
    assert store._salt() != other._salt()
    partitions = {document["customer"] for document in store._histories.everywhere("c.customer")}
    assert partitions == {"salt", salted_key(make_key("ann"), str(store._salt()))}
    other.close()


@pytest.mark.parametrize("erased_before", [False, True])
def test_an_erasure_while_a_dataset_is_added(
    store: CosmosStore, monkeypatch: pytest.MonkeyPatch, erased_before: bool
) -> None:
    """The customer is erased after the look for an erasure and before the events are written."""
    if erased_before:
        store.forget("ann")
    past, future = time.time(), time.time() + 3600
    add = store._add

    def add_after_an_erasure(user: str, *rest: Any) -> Added:
        store.forget(user)
        return add(user, *rest)

    monkeypatch.setattr(store, "_add", add_after_an_erasure)
    events = [Event("ann", "tea", past, "a"), Event("ann", "tea", future, "b")]
    assert store.add_events(events, respect_erasures=True) == Added(1, 0, frozenset({"ann"}))
    assert [event.time for event in store.history("ann")] == [future]


def test_what_the_server_refuses_is_reported_without_its_address(store: CosmosStore) -> None:
    """It goes out over HTTP."""
    with raises_fault(StoreFault.TOO_LARGE) as refused:
        store._catalogue.everywhere("nonsense nonsense")
    assert "127.0.0.1" not in str(refused.value)


def test_parts_that_nothing_refers_to_are_removed_when_they_are_old(
    store: CosmosStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store.set_live_items(["tea"])
    for place in ("live-dead", "files-dead"):
        for number in range(2):
            store._catalogue.put({"id": str(number), "place": place})
    assert store.clean() == 0
    monkeypatch.setattr(cosmos_versions, "ORPHAN_SECONDS", -60)
    assert store.clean() == 2
    assert store.clean() == 0
    assert store.live_items() == LiveItems(["tea"])
    store.set_live_items(None)
    store.change_live_items(remove=["tea"])
    assert store.clean() == 0
    assert store.live_items() == LiveItems(None, ["tea"])


def test_new_items_written_before_a_conflict_get_the_revision_of_the_state(store: CosmosStore) -> None:
    """A reader who has the revision of the process that was faster must find them."""
    other = cosmos_store.CosmosStore(store.url)
    rival = [NewItem("hat", title="Hat")]

    def describe(item: NewItem) -> NewItem:
        if rival:  # the state is read, and nothing is written yet
            assert other.describe_item(rival.pop(), limit=10)
        return replace(item, origin=Origin.PUT, title="Boot")

    assert store._change_new_items(["boot"], describe, limit=2) == (1, 0)
    other.close()
    assert store.new_items(since=1) == [NewItem("boot", Origin.PUT, "Boot")]
    assert [item.id for item in store.new_items()] == ["boot", "hat"]


def test_a_document_that_is_not_there_is_looked_for_without_loading_its_neighbours(
    store: CosmosStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks of a version lie in one partition: to load them all for one would load the whole version."""
    catalogue = store._catalogue
    for number in range(3):
        catalogue.put({"id": f"a.bin-{number}", "place": "files-x", "data": "..."})
    search, loaded = catalogue._container.query_items, []

    def counted(*arguments: Any, **options: Any) -> list[Any]:
        found = list(search(*arguments, **options))
        loaded.extend(found)
        return found

    monkeypatch.setattr(catalogue._container, "query_items", counted)
    assert catalogue.read("files-x", "a.bin-9") is None
    assert loaded == []
    assert [found["id"] for found in catalogue.all("files-x", condition="c.id = @id", id="a.bin-1")] == ["a.bin-1"]
    found = catalogue.read("files-x", "a.bin-2")
    assert found is not None
    assert found["id"] == "a.bin-2"


def test_a_server_that_stops_and_comes_back_empty(cosmos_url: str) -> None:
    server = CosmosServer()
    server.start()
    try:
        store = open_store(server.address("shop"), create=True)
        store.state()
        server.stop()
        calls = (store.state, lambda: store.history("ann"), lambda: store.add_events([Event("a", "b", 1, "c")]))
        for call in calls:
            with raises_fault(StoreFault.UNREACHABLE):
                call()
        server.start()
        with raises_fault(StoreFault.STATE_LOST):
            store.state()
        store.close()
        again = open_store(server.address("shop"), create=True)
        again.state()
        again.close()
    finally:
        server.remove()


def test_nobody_there(cosmos_url: str) -> None:
    with raises_fault(StoreFault.UNREACHABLE, "Connection refused"):
        open_store(f"cosmos+http://127.0.0.1:{free_port()}/shop")


@pytest.mark.parametrize(
    "url", ["cosmos://", "cosmos://host", "cosmos://host/", "cosmos://host/a/b", "cosmos://u:p@h/a"]
)
def test_addresses_that_are_not_complete(url: str) -> None:
    with pytest.raises(InputError, match="give cosmos://ACCOUNT-HOST/DATABASE") as failure:
        open_store(url)
    assert ":p@" not in str(failure.value)


def test_a_publisher_renews_its_document(store: CosmosStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosmos_versions, "RENEWAL_SECONDS", 0.01)
    with store.publishing():
        (first,) = store._catalogue.all("publishers")
        wait_until(lambda: store._catalogue.all("publishers")[0]["_etag"] != first["_etag"])
    assert store._catalogue.all("publishers") == []


def test_a_killed_publisher_counts_as_gone_after_a_while(
    store: CosmosStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.upload(write_version(tmp_path, "a1"))
    store._catalogue.put({"id": "killed", "place": "publishers"})
    assert (store.clean(), store.versions()) == (0, ["a1"])
    monkeypatch.setattr(cosmos_versions, "PUBLISHER_SECONDS", -60)
    assert (store.clean(), store.versions()) == (1, [])


def test_calls_of_several_threads_do_not_disturb_one_another(store: CosmosStore) -> None:
    """The SDK changes what it shares between threads after each call; frequent switches make that happen every time."""
    events = [Event(f"customer-{number}", "tea", 1, "1") for number in range(150)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        assert store.add_events(events).accepted == len(events)
    finally:
        sys.setswitchinterval(before)
