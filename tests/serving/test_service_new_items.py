"""The service follows the catalogue: items that its version does not contain, without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import write_version
from tests.serving.running_service import (
    PATIENCE,
    Service,
    published,
    service_here,
    service_process,
    shop_store,
    wait_until,
)
from tests.serving.small_shop import ITEMS, shop_model

BOOT = {
    "title": "Winter boot",
    "category": "shoes",
    "price": 79.5,
    "image": "https://shop.example/boot.png",
    "like": ["i3", "gone"],
}
ALL = ITEMS + 10


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(shop_store(tmp_path)) as opened:
        yield opened


@pytest.fixture
def service(store: Store) -> Iterator[TestClient[Any]]:
    with service_here(store.url) as client:
        yield client


def new_items(service: TestClient[Any] | httpx.Client, history: str = "i9", **options: Any) -> list[str]:
    body = service.post("/v1/recommend", json={"history": [history], "k": ALL, **options}).json()
    return [item["id"] for item in body["items"] if item["new"]]


def number_of(service: TestClient[Any] | httpx.Client, metric: str) -> float:
    lines = [line for line in service.get("/metrics").text.splitlines() if line.startswith(f"{metric} ")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_from_creation_to_removal_in_every_worker_and_after_a_power_cut(any_url: str, tmp_path: Path) -> None:
    """A new item is created, gets an event, is recommended and marked as new, survives kill -9, and is removed."""

    def shown_by_workers(service: Service) -> list[bool]:
        """Whether each of some requests shows the boot: each has its own connection, so both workers are met."""
        found = []
        for _ in range(12):
            with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
                found.append("boot" in new_items(http))
        return found

    def both_workers(service: Service) -> bool:
        return any(
            line.startswith("lorentzrec_version_workers") and line.endswith(" 2.0")
            for line in service.http.get("/metrics").text.splitlines()
        )

    options = ("--workers", "2", "--cache", str(tmp_path / "cache"), "--event-item-customers", "1")
    with closing(open_store(any_url, create=True)) as store:
        published(store, tmp_path)
        with service_process(any_url, tmp_path, *options) as service:
            wait_until(lambda: both_workers(service))
            created = service.http.put("/v1/items/boot", json=BOOT).json()
            assert (created["id"], created["placed"], created["unknown_items"]) == ("boot", True, 1)
            wait_until(lambda: all(shown_by_workers(service)))
            events = [{"user": "ann", "item": "i7"}, {"user": "ann", "item": "boot"}, {"user": "ann", "item": "cap"}]
            sent = service.http.post("/v1/events", json={"events": events}).json()
            assert (sent["accepted"], sent["unknown_items"]) == (3, 2)
            service.kill()
        with service_process(any_url, tmp_path, *options) as service:
            wait_until(lambda: both_workers(service))
            wait_until(lambda: all(shown_by_workers(service)))
            # The cap was never described: its event places it.
            wait_until(lambda: {"boot", "cap"} <= {*new_items(service.http)})
            assert {item.id: item.customers for item in store.new_items()} == {"boot": ("ann",), "cap": ("ann",)}
            assert service.http.patch("/v1/live", json={"remove": ["boot"]}).json()["removed"] == 1
            wait_until(lambda: not any(shown_by_workers(service)))
            assert "boot" not in new_items(service.http, explore=1)
            assert service.http.delete("/v1/users/ann").json()["events"] == 3
            # Nothing is left of the cap without Ann, and the boot is where it was created.
            wait_until(lambda: service.http.get("/v1/items/cap").status_code == 404)
            assert [(item.id, item.customers) for item in store.new_items()] == [("boot", ())]


def test_details_of_a_new_item(service: TestClient[Any]) -> None:
    model = service.put("/v1/items/a%2Fboot", json=BOOT).json()["model"]
    wait_until(lambda: new_items(service) == ["a/boot"])
    details = {"id": "a/boot", "row": -1, "title": "Winter boot", "category": "shoes", "price": 79.5}
    details |= {"image": "https://shop.example/boot.png", "new": True}
    assert service.get("/v1/items/a%2Fboot").json() == details | {"model": model}
    assert service.get("/v1/items?query=winter").json()["items"] == [details]
    assert [item["id"] for item in service.get("/v1/items/a%2Fboot/similar?k=1").json()["items"]] == ["i3"]
    assert [item["id"] for item in service.get("/v1/items/i3/similar?k=1").json()["items"]] == ["a/boot"]
    service.post("/v1/events", json={"user": "ann", "item": "a/boot"})
    assert service.get("/v1/users/ann/history").json()["history"][0]["title"] == "Winter boot"
    body = service.get("/v1/users/ann/recommendations?reasons=true").json()
    assert (body["fallback"], "a/boot" in [item["id"] for item in body["items"]]) == (None, False)
    assert service.get("/v1/model").json()["new_items"] == number_of(service, "lorentzrec_new_items") == 1
    assert number_of(service, "lorentzrec_new_items_shown_total") > 0
    # Sent again, it is replaced; removed, it is gone.
    assert service.put("/v1/items/a%2Fboot", json={"title": "Boot"}).json()["placed"] is False
    wait_until(lambda: service.get("/v1/items/a%2Fboot").json()["title"] == "Boot")
    assert service.delete("/v1/items/a%2Fboot").json() == {"id": "a/boot", "model": model}
    wait_until(lambda: service.get("/v1/items/a%2Fboot").status_code == 404)
    again = service.delete("/v1/items/a%2Fboot")
    assert (again.status_code, again.json()["type"]) == (404, "urn:lorentzrec:unknown-item")


def test_events_place_an_item_near_its_customers(store: Store) -> None:
    """A customer without history places nothing yet."""
    with service_here(store.url, event_item_customers=1) as service:
        service.post("/v1/events", json={"user": "zoe", "item": "cap"})
        wait_until(lambda: service.get("/v1/items/cap").status_code == 200)
        assert new_items(service) == []
        service.post("/v1/events", json={"user": "zoe", "item": "i7"})
        wait_until(lambda: new_items(service) == ["cap"])
        service.post("/v1/events", json={"events": [{"user": "yan", "item": item} for item in ("i20", "hat")]})
        wait_until(lambda: {*new_items(service)} == {"cap", "hat"})
        for item, order in (("i7", ["cap", "hat"]), ("i20", ["hat", "cap"])):
            similar = service.get(f"/v1/items/{item}/similar?k={ALL}").json()["items"]
            assert [one["id"] for one in similar if one["new"]] == order


def test_a_version_that_contains_the_item_replaces_its_point(
    service: TestClient[Any], store: Store, tmp_path: Path
) -> None:
    service.put("/v1/items/i40", json={"title": "Sent before", "like": ["i0"]})
    service.put("/v1/items/other", json={"like": ["i0"]})
    wait_until(lambda: {*new_items(service)} == {"i40", "other"})
    place = tmp_path / "with-i40"
    name = str(write_version(place, shop_model(items=ITEMS + 1))["name"])
    store.upload(place)
    store.activate(name)
    wait_until(lambda: service.get("/v1/model").json()["model"] == name)
    wait_until(lambda: new_items(service) == ["other"])
    assert service.get("/v1/items/i40").json()["new"] is False
    expected = shop_model(items=ITEMS + 1).recommend(["i40", "i3"], k=5, exclude=["other"]).ids
    body = service.post("/v1/recommend", json={"history": ["i40", "i3"], "k": 5, "exclude": ["other"]}).json()
    assert [item["id"] for item in body["items"]] == expected
    known = service.put("/v1/items/i40", json={})
    assert (known.status_code, known.json()["type"]) == (409, "urn:lorentzrec:known-item")
    # Its record stays for a rollback, until room is needed.
    assert {item.id for item in store.new_items()} == {"i40", "other"}


def test_there_is_room_for_a_limited_number(store: Store, tmp_path: Path) -> None:
    with service_here(store.url, new_items=2) as service:
        for item in ("a", "b"):
            assert service.put(f"/v1/items/{item}", json=BOOT).status_code == 200
        full = service.put("/v1/items/d", json=BOOT)
        assert (full.status_code, full.json()["type"]) == (409, "urn:lorentzrec:too-many-new-items")
        line = (
            "there are 2 new items by put, and no more are added: publish a model that contains them, remove some, "
            "or raise --new-items"
        )
        assert full.json()["detail"] == line
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [line])
        assert number_of(service, "lorentzrec_new_items_left_out_total") == 1
        assert number_of(service, 'lorentzrec_new_items_full{origin="put"}') == 1
        assert number_of(service, 'lorentzrec_new_items_full{origin="events"}') == 0
        service.delete("/v1/items/a")
        assert service.put("/v1/items/d", json=BOOT).status_code == 200
    # A version that contains them makes room.
    model = shop_model(items=ITEMS + 2)
    store.remove_new_items(["b", "d"])
    with service_here(store.url, new_items=2) as service:
        for item in ("i40", "i41"):
            assert service.put(f"/v1/items/{item}", json={"like": ["i0"]}).status_code == 200
        wait_until(lambda: {*new_items(service)} == {"i40", "i41"})
        place = tmp_path / "larger"
        store.activate(str(_upload(store, place, model)))
        wait_until(lambda: service.put("/v1/items/d", json=BOOT).status_code == 200)
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [])


def _upload(store: Store, place: Path, model: Any) -> str:
    name = str(write_version(place, model)["name"])
    store.upload(place)
    return name


def test_exploration(store: Store) -> None:
    with service_here(store.url, explore=0.5) as service:
        for number in range(5):
            service.put(f"/v1/items/n{number}", json={"like": ["i30"]})
        wait_until(lambda: len(new_items(service)) == 5)

        def shown(path: str) -> int:
            return sum(item["new"] for item in service.get(path).json()["items"])

        assert shown("/v1/users/unknown/recommendations?k=4") == 2
        assert shown("/v1/users/unknown/recommendations?k=4&explore=0") == 0
        assert shown("/v1/users/unknown/recommendations?k=4&explore=1") == 4
        assert shown("/v1/items/i3/similar?k=4") >= 2
        found = service.post("/v1/recommend", json={"history": ["i1"], "k": 4, "explore": 1, "seed": 7}).json()
        again = service.post("/v1/recommend", json={"history": ["i1"], "k": 4, "explore": 1, "seed": 7}).json()
        assert found["items"] == again["items"]
        assert service.get("/v1/users/ann/recommendations?explore=1.5").status_code == 400


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"like": "i3"}, "like: Expected `array`"),
        ({"like": [""]}, "like[0]"),
        ({"like": ["i3"] * 101}, "like: Expected `array` of length <= 100"),
        ({"title": "x" * 1001}, "title"),
        ({"category": ""}, "category"),
        ({"price": -1}, "price"),
        ({"attributes": {"brand": "x"}}, "was trained without attributes: send `like`"),
        ([], "body: Expected `object`"),
    ],
)
def test_bad_items_are_one_clear_problem(service: TestClient[Any], body: Any, detail: str) -> None:
    refused = service.put("/v1/items/boot", json=body)
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:lorentzrec:invalid-request")
    assert detail in refused.json()["detail"]
    assert service.put("/v1/items/a%0Ab", json={}).status_code == 400
