"""Ids that only occur in events: they are stored, and recommended only with several customers and in few places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.new_items import DETAIL_BYTES, NewItem
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import write_version
from tests.serving.running_service import PATIENCE, Service, service_here, service_process, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_model
from tests.serving.test_service_new_items import new_items, number_of

JUNK = 2_000
CUSTOMERS = 1_000
A_REQUEST = 1_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(shop_store(tmp_path)) as opened:
        yield opened


def interact(service: TestClient[Any] | httpx.Client, user: str, *items: str) -> None:
    """Events of a customer with a history of known items."""
    events = [{"user": user, "item": item, "id": item} for item in (*items, "i7", "i9")]
    for start in range(0, len(events), A_REQUEST):
        assert service.post("/v1/events", json={"events": events[start : start + A_REQUEST]}).status_code == 200


def catch_up(service: TestClient[Any] | httpx.Client, marker: str) -> None:
    """Wait until a worker has read what was sent to the store before: an item that nothing places is sent last."""
    assert service.put(f"/v1/items/{marker}", json={"title": marker}).status_code == 200
    wait_until(lambda: service.get(f"/v1/items/{marker}").status_code == 200)


def test_junk_ids_of_one_customer_change_no_list_and_those_of_three_take_few_places(
    store: Store, tmp_path: Path
) -> None:
    """Through HTTP, with two workers, and with as many ids as the service takes."""
    steps = [(number, step) for number in range(CUSTOMERS) for step in range(1, 4)]
    store.add_events(
        [Event(f"c{number}", f"i{(number + 1) * step % ITEMS}", step, str(step)) for number, step in steps]
    )
    junk = {f"junk-{number}" for number in range(JUNK)}

    def lists(service: Service, customers: int = CUSTOMERS) -> list[list[str]]:
        """The recommendations of customers. Each connection is of one of the two workers, so there are many."""
        found = []
        for start in range(0, customers, 20):
            with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
                for number in range(start, start + 20):
                    items = http.get(f"/v1/users/c{number}/recommendations").json()["items"]
                    assert len(items) == 10
                    found.append([item["id"] for item in items])
        return found

    def both_workers_have(service: Service, item: str) -> bool:
        for _ in range(20):
            with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
                if http.get(f"/v1/items/{item}").status_code != 200:
                    return False
        return True

    with service_process(store.url, tmp_path, "--workers", "2", "--new-items", str(JUNK)) as service:
        wait_until(lambda: both_workers_have(service, "i0"))
        before = lists(service)
        interact(service.http, "bot1", *junk)
        catch_up(service.http, "first")
        wait_until(lambda: both_workers_have(service, "first"))
        assert len(store.new_items()) == JUNK + 1
        assert lists(service) == before
        assert service.http.get("/v1/items/junk-1").status_code == 404
        # The junk has filled its own limit, and a product is accepted.
        assert any(f"{JUNK:,} new items by events" in line for line in service.http.get("/readyz").json()["warnings"])
        assert service.http.put("/v1/items/boot", json={"like": ["i30"]}).status_code == 200
        # Two more customers of each id.
        for bot in ("bot2", "bot3"):
            interact(service.http, bot, *junk)
        catch_up(service.http, "second")
        last = max(junk)
        wait_until(lambda: both_workers_have(service, "second") and both_workers_have(service, last))
        wait_until(lambda: service.http.get("/v1/model").json()["new_items"] == JUNK + 1)
        assert max(len(junk.intersection(ids)) for ids in lists(service)) == 2, "a fifth of ten"
        # All are removed at once, and one event brings none of them back.
        assert service.http.delete("/v1/items", params={"origin": "events"}).json()["removed"] == JUNK
        interact(service.http, "bot4", last)
        service.http.delete("/v1/items/boot")
        catch_up(service.http, "third")
        wait_until(lambda: both_workers_have(service, "third"))
        assert lists(service, 200) == before[:200]


def test_an_item_by_events_waits_for_customers(store: Store) -> None:
    with service_here(store.url) as service:
        for user in ("ann", "bob"):
            interact(service, user, "cap", "hat")
        interact(service, "ann", "cap")
        catch_up(service, "first")
        assert new_items(service) == []
        assert service.get("/v1/items/cap").status_code == 404
        assert service.get("/v1/items?query=cap").json()["items"] == []
        interact(service, "cyd", "cap")
        wait_until(lambda: new_items(service) == ["cap"])
        # The hat has two customers, and is described.
        service.put("/v1/items/hat", json={"title": "A hat"})
        wait_until(lambda: {*new_items(service)} == {"cap", "hat"})
        # A customer who is erased does not count any more; another one does.
        service.delete("/v1/users/ann")
        wait_until(lambda: new_items(service) == ["hat"])
        interact(service, "dan", "cap")
        wait_until(lambda: {*new_items(service)} == {"cap", "hat"})
        # After its removal, it needs three customers again.
        assert service.delete("/v1/items/cap").status_code == 200
        wait_until(lambda: new_items(service) == ["hat"])
        interact(service, "eve", "cap")
        interact(service, "fay", "cap")
        catch_up(service, "second")
        assert new_items(service) == ["hat"]
        interact(service, "gus", "cap")
        wait_until(lambda: {*new_items(service)} == {"cap", "hat"})


def test_items_by_events_have_few_places_in_every_response(store: Store) -> None:
    junk, products = [f"junk-{number}" for number in range(30)], [f"new-{number}" for number in range(30)]

    def shown(response: Any, k: int) -> int:
        ids = [item["id"] for item in response.json()["items"]]
        assert len(ids) == len({*ids}) == k, "the list is filled up with others"
        return sum(id in junk for id in ids)

    with service_here(store.url, event_item_customers=1, event_item_share=0.3) as service:
        interact(service, "ann", *junk)
        for item in products:
            service.put(f"/v1/items/{item}", json={"like": ["i20"]})
        wait_until(lambda: service.get("/v1/model").json()["new_items"] == 60)
        for k, limit in ((1, 1), (3, 1), (10, 3), (20, 6)):
            history = {"history": ["i7", "i9"], "k": k}
            for options in ({}, {"diversity": 0.5}, {"explore": 0.5}, {"explore": 1}, {"explore": 1, "diversity": 1}):
                assert shown(service.post("/v1/recommend", json={**history, **options}), k) <= limit
            assert shown(service.post("/v1/recommend", json=history), k) == limit, "they are the best ones"
            assert shown(service.get(f"/v1/items/junk-0/similar?k={k}"), k) == limit
            assert shown(service.get(f"/v1/items/junk-0/similar?k={k}&explore=1"), k) <= limit
            assert shown(service.get(f"/v1/users/unknown/recommendations?k={k}&explore=1"), k) <= limit
            assert shown(service.get(f"/v1/users/unknown/recommendations?k={k}"), k) == 0
            basket = {"basket": ["i7"], "k": k, "per_category": k}
            assert shown(service.post("/v1/outfits", json=basket), k) <= limit
    with service_here(store.url, event_item_customers=1, event_item_share=1.0) as service:
        wait_until(lambda: service.get("/v1/model").json()["new_items"] == 60)
        assert shown(service.post("/v1/recommend", json={"history": ["i7", "i9"]}), 10) == 10
    with service_here(store.url, event_item_customers=1, event_item_share=0.0) as service:
        wait_until(lambda: service.get("/v1/model").json()["new_items"] == 60)
        assert shown(service.post("/v1/recommend", json={"history": ["i7", "i9"], "explore": 1}), 10) == 0


def test_where_new_items_come_from(store: Store) -> None:
    with service_here(store.url, event_item_customers=1) as service:
        interact(service, "ann", "cap")
        wait_until(lambda: new_items(service) == ["cap"])
    with service_here(store.url, event_item_customers=1, new_items_from="put") as service:
        interact(service, "ann", "cap", "hat")
        service.put("/v1/items/boot", json={"title": "Boot"})
        catch_up(service, "marker")
        assert new_items(service) == [], "the cap is by events, and nothing places the boot"
        interact(service, "bob", "boot")
        wait_until(lambda: new_items(service) == ["boot"])
        history = [event["item"] for event in service.get("/v1/users/ann/history").json()["history"]]
        assert {"cap", "hat"} <= {*history}, "events are stored nevertheless"
        assert number_of(service, "lorentzrec_new_items_left_out_total") == 0
    assert {item.id for item in store.new_items()} == {"boot", "cap", "marker"}
    with service_here(store.url, event_item_customers=1, new_items_from="none") as service:
        assert service.post("/v1/events", json={"user": "ann", "item": "scarf"}).json()["unknown_items"] == 1
        off = service.put("/v1/items/scarf", json={"like": ["i3"]})
        assert (off.status_code, off.json()["type"]) == (409, "urn:lorentzrec:new-items-off")
        assert off.json()["detail"] == (
            "this service takes no new items (--new-items-from none): publish a model that contains the item"
        )
        assert new_items(service) == []
    assert {item.id for item in store.new_items()} == {"boot", "cap", "marker"}


def test_new_items_are_removed_by_their_origin(store: Store) -> None:
    with service_here(store.url, event_item_customers=1) as service:
        interact(service, "ann", "cap", "hat")
        interact(service, "bob", "hat")
        service.put("/v1/items/boot", json={"like": ["i3"]})
        wait_until(lambda: {*new_items(service)} == {"boot", "cap", "hat"})
        removed = service.delete("/v1/items?origin=events&fewer_than=2").json()
        assert removed == {"removed": 1, "model": service.get("/v1/model").json()["model"]}
        wait_until(lambda: {*new_items(service)} == {"boot", "hat"})
        assert service.delete("/v1/items?origin=events").json()["removed"] == 1
        wait_until(lambda: new_items(service) == ["boot"])
        for query in ("", "?origin=all", "?origin=events&fewer_than=0", "?origin=events&fewer_than=x"):
            refused = service.delete(f"/v1/items{query}")
            assert (refused.status_code, refused.json()["type"]) == (400, "urn:lorentzrec:invalid-request")
        assert new_items(service) == ["boot"]
        assert service.delete("/v1/items?origin=put").json()["removed"] == 1
        wait_until(lambda: new_items(service) == [])


def test_many_new_items_are_removed_by_several_writes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them has its own deadline, so that a long removal is not taken for a store that hangs."""
    monkeypatch.setattr("lorentzrec.serving.stores.catalogue.REMOVED_AT_ONCE", 2)
    for number in range(5):
        store.describe_item(NewItem(f"new-{number}", like=("i3",)), limit=10)
    writes = 'lorentzrec_store_seconds_count{operation="write"}'
    with service_here(store.url) as service:
        before = number_of(service, writes)
        assert service.delete("/v1/items?origin=put").json()["removed"] == 5
        assert number_of(service, writes) == before + 3
    assert store.new_items() == []


def test_a_service_with_a_smaller_limit_than_the_store_has_items(store: Store) -> None:
    """It uses the first items of each origin, reports it, and follows when items are removed."""
    for number in range(6):
        store.describe_item(NewItem(f"new-{number}", like=("i3", "gone")), limit=10)
    store.add_events([Event("ann", item, 1, item) for item in ("cap", "hat", "scarf", "i7")])
    store.note_customers({item: ["ann"] for item in ("cap", "hat", "scarf")}, limit=10)
    with service_here(store.url, new_items=2, event_item_customers=1) as service:
        wait_until(lambda: {*new_items(service)} == {"new-0", "new-1", "cap", "hat"})
        assert [line.partition(":")[0] for line in service.get("/readyz").json()["warnings"]] == [
            "there are more than 2 new items by put, and this service uses 2",
            "there are more than 2 new items by events, and this service uses 2",
        ]
        store.remove_new_items(["new-0", "hat"])
        wait_until(lambda: {*new_items(service)} == {"new-1", "new-2", "cap", "scarf"})
        # What another service adds takes its place among the first.
        store.describe_item(NewItem("a-new", like=("i3",)), limit=10)
        wait_until(lambda: {*new_items(service)} == {"a-new", "new-1", "cap", "scarf"})
        assert service.put("/v1/items/z-new", json={}).status_code == 409


def test_large_items_are_refused(store: Store) -> None:
    with service_here(store.url) as service:
        refused = service.put("/v1/items/boot", json={"title": "Boot", "like": ["x" * 500] * 100})
        assert (refused.status_code, refused.json()["type"]) == (413, "urn:lorentzrec:too-large")
        assert f"and at most {DETAIL_BYTES:,} are kept: send shorter texts" in refused.json()["detail"]
    assert store.new_items() == []


def test_similar_items_that_become_known_place_an_item(store: Store, tmp_path: Path) -> None:
    """Workers keep only known ones in memory: those that a new version contains are read again."""
    with service_here(store.url) as service:
        created = service.put("/v1/items/boot", json={"like": ["i40"]}).json()
        assert (created["placed"], created["unknown_items"]) == (False, 1)
        wait_until(lambda: service.get("/v1/items/boot").status_code == 200)
        assert new_items(service) == []
        folder = tmp_path / "with-i40"
        name = str(write_version(folder, shop_model(items=ITEMS + 1))["name"])
        store.upload(folder)
        store.activate(name)
        wait_until(lambda: new_items(service) == ["boot"])
        assert service.get("/v1/items/boot/similar?k=1").json()["items"][0]["id"] == "i40"
