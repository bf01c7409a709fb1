"""Every route of the service, on the small shop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from litestar.testing import TestClient

from lorentzrec.maps.disk_map import DiskMap
from lorentzrec.model.reality_check import OURS, CheckedSystem, RealityCheck
from lorentzrec.points.fallbacks import FallbackKind
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.catalogue import SPARE_LIVE_IDS
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.measured_days import MeasuredDay
from lorentzrec.serving.versions.publish import publish
from tests.serving.running_service import service_here, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_model, shop_table

DISK = np.linspace(-0.5, 0.5, 2 * ITEMS, dtype=np.float32).reshape(ITEMS, 2)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = shop_store(tmp_path_factory.mktemp("shop"), disk_map=DiskMap(DISK, "by hand", {}))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def service(store: Store) -> Iterator[TestClient[Any]]:
    with service_here(store.url) as client:
        yield client


def ids(body: dict[str, Any]) -> list[str]:
    return [item["id"] for item in body["items"]]


def test_recommendations_for_a_history_are_those_of_the_model(service: TestClient[Any], store: Store) -> None:
    body = service.post("/v1/recommend", json={"history": ["i3", "i7"], "k": 5}).json()
    expected = shop_model().recommend(["i3", "i7"], k=5)
    assert ids(body) == expected.ids
    assert [item["score"] for item in body["items"]] == pytest.approx(expected.scores.tolist())
    first = body["items"][0]
    assert first["title"] == f"Piece number {first['row']}"
    assert first["because"] == []
    assert (body["model"], body["degraded"]) == (store.state().version, None)
    assert (body["fallback"], body["fallback_kinds"]) == (None, [])
    assert body["milliseconds"] > 0


def test_the_context_is_the_newest_part_of_the_history(service: TestClient[Any]) -> None:
    body = service.post("/v1/recommend", json={"history": ["i3"], "context": ["i7"], "k": 5}).json()
    assert ids(body) == shop_model().recommend(["i3", "i7"], k=5).ids


def test_options_of_a_query(service: TestClient[Any]) -> None:
    query: dict[str, Any] = {"history": ["i3"], "k": 3}
    best = ids(service.post("/v1/recommend", json=query).json())

    def with_options(**options: Any) -> list[str]:
        return ids(service.post("/v1/recommend", json=query | options).json())

    assert best[0] not in with_options(exclude=[best[0]])
    assert sorted(with_options(allow=["i9", "i10"])) == ["i10", "i9"]
    assert with_options(allow=[]) == []
    assert all(int(item[1:]) % 4 == 1 for item in with_options(categories=["hats"]))
    assert with_options(exclude_seen=False)[0] == "i3"
    reasons = service.post("/v1/recommend", json=query | {"reasons": True}).json()["items"][0]["because"]
    assert reasons == [{"item": "i3", "title": "Piece number 3", "share": 1.0, "kind": "near", "bought": None}]


def test_numbers_are_ids(service: TestClient[Any]) -> None:
    body = service.post("/v1/events", json={"user": 17, "item": 4, "id": 1}).json()
    assert (body["accepted"], body["unknown_items"]) == (1, 1)  # the shop sells i4, not 4
    assert [one["item"] for one in service.get("/v1/users/17/history").json()["history"]] == ["4"]


def test_an_event_counts_in_the_next_response(service: TestClient[Any]) -> None:
    unknown = service.get("/v1/users/ann/recommendations?k=2").json()
    assert (ids(unknown), unknown["fallback"]) == (["i0", "i1"], "popular: the history is empty")
    assert unknown["fallback_kinds"] == ["popular"]
    assert 'lorentzrec_fallbacks_total{kind="popular"} ' in service.get("/metrics").text
    for seen in (["i3"], ["i3", "i7"]):
        sent = service.post("/v1/events", json={"user": "ann", "item": seen[-1]}).json()
        assert (sent["accepted"], sent["duplicates"], sent["unknown_items"]) == (1, 0, 0)
        expected = shop_model().recommend(seen, k=4).ids
        assert ids(service.get("/v1/users/ann/recommendations?k=4").json()) == expected
        assert ids(service.post("/v1/recommend", json={"user": "ann", "k": 4}).json()) == expected
    assert service.delete("/v1/users/ann").json()["events"] == 2
    assert service.get("/v1/users/ann/history").json()["history"] == []


def test_kinds_of_events_weigh_as_in_training(tmp_path: Path) -> None:
    store = shop_store(tmp_path, event_weights={"view": 0.25, "buy": 4.0})
    with service_here(store.url) as service:
        sent = [
            {"user": "kim", "item": "i3", "time": 1, "kind": "buy"},
            {"user": "kim", "item": "i7", "time": 2, "kind": "view"},
            {"user": "kim", "item": "i9", "time": 3, "weight": 0.5},
        ]
        assert service.post("/v1/events", json={"events": sent}).json()["accepted"] == 3
        history = service.get("/v1/users/kim/history").json()["history"]
        assert [(event["item"], event["weight"]) for event in history] == [("i3", 4.0), ("i7", 0.25), ("i9", 0.5)]
        query = {"user": "kim", "k": 5, "context": ["i1"], "reasons": True}
        body = service.post("/v1/recommend", json=query).json()
        expected = shop_model().recommend(["i3", "i7", "i9", "i1"], k=5, weights=[4.0, 0.25, 0.5, 1.0])
        assert ids(body) == expected.ids
        assert ids(body) != shop_model().recommend(["i3", "i7", "i9", "i1"], k=5).ids
        assert [item["score"] for item in body["items"]] == pytest.approx(expected.scores.tolist())
        unknown = service.post("/v1/events", json={"user": "kim", "item": "i3", "kind": "gift"})
        assert unknown.status_code == 400
        assert "send one of view, buy, dislike, or send a `weight`" in unknown.json()["detail"]
        both = service.post("/v1/events", json={"user": "kim", "item": "i3", "kind": "buy", "weight": 2})
        assert both.status_code == 400
    with service_here(store.url, event_weights={"gift": 2.0}) as service:
        assert service.post("/v1/events", json={"user": "kit", "item": "i3", "kind": "gift"}).status_code == 200
        assert service.get("/v1/users/kit/history").json()["history"][0]["weight"] == 2.0
        assert service.post("/v1/events", json={"user": "kit", "item": "i3", "kind": "buy"}).status_code == 400
    store.close()


def test_times_may_be_texts(service: TestClient[Any]) -> None:
    sent = [
        {"user": "mia", "item": "i3", "time": "2024-05-13T10:00:00Z"},
        {"user": "mia", "item": "i3", "time": "2024-05-13T12:00:00+02:00"},  # the same event
        {"user": "mia", "item": "i3", "time": 1_715_594_400},  # and again
        {"user": "mia", "item": "i7", "time": "2024-05-13T10:00:00.5Z"},
    ]
    assert service.post("/v1/events", json={"events": sent}).json()["accepted"] == 2
    history = service.get("/v1/users/mia/history").json()["history"]
    assert [(event["item"], event["time"]) for event in history] == [("i3", 1_715_594_400), ("i7", 1_715_594_400.5)]


def test_events_without_times_keep_the_order_in_which_they_are_sent(service: TestClient[Any]) -> None:
    sent = ["i7", "i2", "i9", "i4", "i1"]
    service.post("/v1/events", json={"events": [{"user": "eve", "item": item} for item in sent]})
    assert [event["item"] for event in service.get("/v1/users/eve/history").json()["history"]] == sent


def test_events_may_arrive_twice_and_in_any_order(service: TestClient[Any]) -> None:
    late = {"user": "bob", "item": "i5", "time": 300, "id": "c"}
    early = {"user": "bob", "item": "i6", "time": 100, "id": "a"}
    assert service.post("/v1/events", json={"events": [late, early, late]}).json()["duplicates"] == 1
    again = service.post("/v1/events", json={"events": [early, {"user": "bob", "item": "i1", "time": 200}]}).json()
    assert (again["accepted"], again["duplicates"]) == (1, 1)
    same_without_id = service.post("/v1/events", json={"user": "bob", "item": "i1", "time": 200}).json()
    assert (same_without_id["accepted"], same_without_id["duplicates"]) == (0, 1)
    history = service.get("/v1/users/bob/history").json()["history"]
    assert [(one["item"], one["time"]) for one in history] == [("i6", 100), ("i1", 200), ("i5", 300)]
    newest = service.get("/v1/users/bob/history?limit=2").json()["history"]
    assert [one["title"] for one in newest] == ["Piece number 1", "Piece number 5"]


@pytest.mark.parametrize("user", ["a/b", "a%2Fb", "../../etc/passwd", "'; DROP TABLE events; --", "ü ☃", "a?b#c", "."])
def test_ids_may_contain_any_printable_text(service: TestClient[Any], user: str) -> None:
    # A lone dot would be taken out of the path by the client itself.
    path = "/v1/users/" + (quote(user, safe="") if user != "." else "%2E")
    assert service.post("/v1/events", json={"user": user, "item": "i1", "id": "x"}).json()["accepted"] == 1
    body = service.get(f"{path}/history").json()
    assert (body["user"], len(body["history"])) == (user, 1)
    assert service.delete(path).json() == {"user": user, "events": 1, "model": body["model"]}


def test_similar_items(service: TestClient[Any]) -> None:
    body = service.get("/v1/items/i3/similar?k=3").json()
    assert ids(body) == shop_model().similar_items("i3", 3).ids
    hats = service.get("/v1/items/i3/similar?k=40&categories=hats&categories=coats&exclude=i0").json()
    assert {item["category"] for item in hats["items"]} == {"hats", "coats"}
    assert len(hats["items"]) == 19  # ten of each, without i0
    unknown = service.get("/v1/items/i999/similar")
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:lorentzrec:unknown-item")


def test_search_and_details_of_items(service: TestClient[Any], store: Store) -> None:
    found = service.get("/v1/items?query=number 12&limit=5").json()
    assert ids(found) == ["i12"]
    assert ids(service.get("/v1/items?limit=2").json()) == ["i0", "i1"]
    item = service.get("/v1/items/i0").json()
    details = {"row": 0, "id": "i0", "title": "Piece number 0", "category": "coats", "price": 9.5, "image": None}
    details |= {"new": False}
    assert item == details | {"model": store.state().version}
    assert service.get("/v1/items/none").status_code == 404


def test_many_items_are_looked_up_at_once(service: TestClient[Any], store: Store) -> None:
    body = service.post("/v1/items/lookup", json={"ids": ["i5", "none", "i0", 5, "i5"]}).json()
    assert (ids(body), body["unknown"], body["model"]) == (["i5", "i0"], ["none", "5"], store.state().version)
    assert service.get("/v1/items/i0").json() == body["items"][1] | {"model": body["model"]}
    assert service.post("/v1/items/lookup", json={"ids": []}).json()["items"] == []
    assert service.post("/v1/items/lookup", json={"ids": ["i0"] * 1_001}).status_code == 400


def test_an_item_may_have_the_name_of_a_route(service: TestClient[Any]) -> None:
    assert service.put("/v1/items/lookup", json={"title": "A book", "like": ["i3"]}).json()["id"] == "lookup"
    wait_until(lambda: service.get("/v1/items/lookup").status_code == 200)
    assert service.get("/v1/items/lookup").json()["title"] == "A book"
    assert ids(service.get("/v1/items/lookup/similar?k=1").json()) == ["i3"]
    assert ids(service.post("/v1/items/lookup", json={"ids": ["lookup"]}).json()) == ["lookup"]
    assert service.delete("/v1/items/lookup").json()["id"] == "lookup"
    wait_until(lambda: service.get("/v1/items/lookup").status_code == 404)


def test_details_of_a_new_item_are_returned_as_they_were_sent(service: TestClient[Any]) -> None:
    details = {
        "title": "Bottes d’hiver ❄",
        "category": "hats",
        "price": 30.5,
        "image": "HTTPS://shop.example/b.jpg?w=1#x",
    }
    assert service.put("/v1/items/bottes", json=details).status_code == 200
    wait_until(lambda: service.get("/v1/items/bottes").status_code == 200)
    assert details.items() <= service.get("/v1/items/bottes").json().items()
    query = {"history": ["i3"], "allow": ["bottes"], "fields": ["price", "image"]}
    (found,) = service.post("/v1/recommend", json=query).json()["items"]
    assert (found["price"], found["image"]) == (30.5, "HTTPS://shop.example/b.jpg?w=1#x")
    assert service.delete("/v1/items/bottes").status_code == 200
    wait_until(lambda: service.get("/v1/items/bottes").status_code == 404)


def test_live_items_can_be_set_and_changed(service: TestClient[Any], store: Store) -> None:
    def live_now() -> int:
        return int(service.get("/v1/model").json()["live"])

    try:
        changed = service.put("/v1/live", json={"items": ["i1", "i2", "gone"]}).json()
        assert (changed["live"], changed["unknown_items"]) == (3, 1)
        wait_until(lambda: live_now() == 2)
        assert set(ids(service.post("/v1/recommend", json={"history": ["i9"]}).json())) == {"i1", "i2"}
        assert service.patch("/v1/live", json={"add": ["i3"], "remove": ["gone"]}).json()["live"] == 3
        assert service.get("/v1/live").json()["items"] == ["i1", "i2", "i3"]
    finally:
        assert service.put("/v1/live", json={"items": None}).json()["live"] is None
    wait_until(lambda: live_now() == ITEMS)


def test_items_are_removed_from_all_in_one_request(service: TestClient[Any], store: Store) -> None:
    def best() -> list[str]:
        return ids(service.post("/v1/recommend", json={"history": ["i9"], "k": 3}).json())

    first, *others = best()
    try:
        changed = service.patch("/v1/live", json={"remove": [first, "gone"]}).json()
        assert changed == {"live": None, "unknown_items": 1, "model": store.state().version, "removed": 2}
        wait_until(lambda: first not in best())
        assert best()[:2] == others
        assert service.get("/v1/model").json()["live"] == ITEMS - 1
        shown = service.get("/v1/live").json()
        assert shown == {"items": None, "removed": sorted([first, "gone"]), "model": store.state().version}
        assert service.patch("/v1/live", json={"add": [first]}).json()["removed"] == 1
        wait_until(lambda: best()[0] == first)
    finally:
        assert service.put("/v1/live", json={"items": None}).json()["removed"] == 0
    assert service.get("/v1/live").json()["removed"] == []


def test_ids_that_no_version_contains_are_bounded_in_live_items(service: TestClient[Any], store: Store) -> None:
    """In the requests of clients, and in the memory of a worker if the store has more."""
    limit = SPARE_LIVE_IDS + ITEMS
    unknown = [f"x{number:06d}" for number in range(limit + 50)]
    try:
        for part in (unknown[:60_000], unknown[60_000:limit]):
            assert service.patch("/v1/live", json={"remove": part}).status_code == 200
        refused = service.patch("/v1/live", json={"remove": ["one-more"]})
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:lorentzrec:too-many-live-items")
        assert refused.json()["detail"] == (
            "the list of removed items would have 100,041 ids, and 100,040 is its limit here: take ids off the list "
            "that no version contains any more, or replace the list"
        )
        assert service.patch("/v1/live", json={"add": unknown[:1], "remove": ["i3"]}).status_code == 200
        store.change_live_items(remove=unknown)
        line = "50 unknown ids in the list of live items are ignored: replace the list"
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [line])
    finally:
        service.put("/v1/live", json={"items": None})
    wait_until(lambda: service.get("/readyz").json()["warnings"] == [])


def test_a_change_of_live_items_that_is_probably_a_mistake_needs_force(service: TestClient[Any], store: Store) -> None:
    def refuse(method: str, body: dict[str, Any]) -> str:
        response = service.request(method, "/v1/live", json=body)
        assert (response.status_code, response.json()["type"]) == (409, "urn:lorentzrec:doubtful-live-items")
        assert store.live_items() == before
        assert response.json()["detail"].endswith(": check it, and send it with `force` if it is meant")
        return str(response.json()["detail"].partition(": check it")[0])

    version, many = store.state().version, [f"x{number}" for number in range(120)]
    try:
        before = store.live_items()
        wanted = f"3 of the 5 ids in the list are not in version {version}"
        assert refuse("PUT", {"items": ["i1", "i2", *many[:3]]}) == wanted
        assert refuse("PUT", {"items": []}) == "the list is empty, so nothing could be recommended"
        assert service.put("/v1/live", json={"items": ["i1", *many], "force": True}).json()["live"] == 121
        before = store.live_items()
        wanted = "the list has 1 ids, fewer than half of the 121 in the list that it replaces"
        assert refuse("PUT", {"items": ["i1"]}) == wanted
        assert refuse("PATCH", {"remove": many}) == "of 121 live items, 1 would be left"
        assert service.patch("/v1/live", json={"remove": many[:100]}).json()["live"] == 21, "not more than a hundred"
        assert service.patch("/v1/live", json={"remove": many, "force": True}).json()["live"] == 1
        assert service.put("/v1/live", json={"items": [], "force": True}).json()["live"] == 0
        wait_until(lambda: service.get("/v1/model").json()["live"] == 0)
        empty = service.post("/v1/recommend", json={"history": ["i9"]}).json()
        assert (empty["items"], empty["fallback_kinds"]) == ([], ["nothing_live"])
        assert empty["fallback"] == "nothing_live: no item of the version is live"
        assert "lorentzrec_empty_responses_total 0.0" not in service.get("/metrics").text
    finally:
        assert service.put("/v1/live", json={"items": None}).json()["live"] is None
    wait_until(lambda: service.get("/v1/model").json()["live"] == ITEMS)


def test_a_list_of_live_items_that_is_too_long(service: TestClient[Any]) -> None:
    many = [f"item-{number:09d}" for number in range(80_000)]
    refused = service.put("/v1/live", json={"items": many})
    assert (refused.status_code, refused.json()["type"]) == (413, "urn:lorentzrec:too-large")
    assert "run `lorentzrec live STORE --set FILE`, or" in refused.json()["detail"]
    refused = service.patch("/v1/live", json={"remove": many})
    assert (refused.status_code, refused.json()["detail"].split(": ")[1]) == (413, "send it in parts")


def test_information_about_the_model(service: TestClient[Any], store: Store) -> None:
    version = store.state().version
    described = service.get("/v1/model").json()
    trend, known = described.pop("trend"), described.pop("version")
    assert known["created"] == pytest.approx(time.time(), abs=3_600)
    unknown = ("check", "compared_with", "overlap", "days")
    assert known == {"created": known["created"], "newest_event": shop_model().newest_time} | dict.fromkeys(unknown)
    assert (trend["source"], trend["days"], trend["weight"], trend["customers"]) == ("off", 28.0, 0.0, 0)
    assert described == {
        "model": version,
        "items": ITEMS,
        "geometry": "hyperboloid",
        "dimension": 3,
        "recency": 0.5,
        "by_orders": False,
        "score": "distance",
        "metrics": {"ndcg@10": 0.125},
        "map": {"method": "by hand", "kept": {}},
        "categories": ["coats", "hats", "shoes"],
        "live": ITEMS,
        "index": None,
        "new_items": 0,
        "rules": 0,
        "sets": [],
        "text_columns": ["category"],
        "number_columns": ["price"],
        "arms": [
            {"arm": "main", "share": 1.0, "model": version, "geometry": "hyperboloid", "score": "distance"},
        ],
    }


def test_what_a_version_knows_about_itself(tmp_path: Path) -> None:
    rows = [
        CheckedSystem(name=OURS, ndcg=0.2, recall=0.3),
        CheckedSystem(name="popularity", ndcg=0.05, recall=0.1, difference=0.15, standard_error=0.01, significant=True),
        CheckedSystem(name="item-knn", ndcg=0.15, recall=0.2, difference=0.05, standard_error=0.01, significant=True),
    ]
    model = replace(
        shop_model(), newest_time=1e9, check=RealityCheck(rows=tuple(rows), customers=120, candidates="all")
    )
    days = [MeasuredDay(time=2e9, new_item_share=0.5), MeasuredDay(time=2e9 + 86_400, ndcg=0.1, best_baseline=0.05)]
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        first = publish(shop_model(), store).name
        publish(model, store, days=days)
        with service_here(store.url) as service:
            known = service.get("/v1/model").json()["version"]
    best = {"best_baseline": "item-knn", "best_baseline_ndcg": 0.15}
    assert known["check"] == {"ndcg": 0.2, **best, "customers": 120, "events": "held-out"}
    assert (known["newest_event"], known["compared_with"], known["overlap"]) == (1e9, first, 1.0)
    assert known["days"] == [asdict(day) for day in days]


def test_the_map_and_its_rows(service: TestClient[Any], store: Store) -> None:
    response = service.get("/v1/map")
    assert response.headers["X-Items"] == str(ITEMS)
    assert response.headers["Cache-Control"] == "private, no-cache"  # pages ask whether it has changed
    assert response.headers["ETag"] == f'"{store.state().version}"'
    places, codes, counts = np.split(np.frombuffer(response.content, "<f4"), [2 * ITEMS, 3 * ITEMS])
    assert places.reshape(ITEMS, 2).tolist() == DISK.tolist()
    names = ["coats", "hats", "shoes"]
    expected = [-1 if name is None else names.index(name) for name in shop_table()["category"]]
    assert codes.view("<i4").tolist() == expected
    assert counts.tolist() == list(range(2 * ITEMS, ITEMS, -1))
    unchanged = service.get("/v1/map", headers={"If-None-Match": response.headers["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert ids(service.get("/v1/map/items?rows=2,0").json()) == ["i2", "i0"]
    assert service.get(f"/v1/map/items?rows={ITEMS}").status_code == 400
    assert service.post("/v1/map/rows", json={"items": ["i2", "none", "i0"]}).json()["rows"] == [2, None, 0]


def test_the_page_and_its_files(service: TestClient[Any]) -> None:
    page = service.get("/")
    assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    again = service.get("/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_page_explains_every_kind_of_fallback(service: TestClient[Any]) -> None:
    script = service.get("/page/notices.js").text
    assert all(f"\n  {kind}: " in script for kind in FallbackKind)


@pytest.mark.parametrize("name", ["none.js", "../app.py", "..%2Fapp.py", "%2Fetc%2Fpasswd", "/etc/passwd", ""])
def test_no_path_reaches_the_disk(service: TestClient[Any], name: str) -> None:
    assert service.get(f"/page/{name}").status_code == 404


def test_a_version_without_map(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        missing = service.get("/v1/map")
        assert (missing.status_code, missing.json()["type"]) == (404, "urn:lorentzrec:no-map")
    store.close()
