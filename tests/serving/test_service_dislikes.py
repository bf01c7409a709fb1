"""Dislikes sent to the service count in the lists of their customer, over HTTP and for all customers at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lorentzrec.batch.recommending import BatchOptions, BatchSource, recommend_to_all
from tests.serving.running_service import service_here, shop_store
from tests.serving.small_shop import shop_model

HISTORY = [("i3", "buy"), ("i9", "buy"), ("i7", "dislike")]


def send(service: Any, user: str, events: list[tuple[str, str]]) -> None:
    sent = [
        {"user": user, "item": item, "time": number} | ({"kind": kind} if kind == "dislike" else {})
        for number, (item, kind) in enumerate(events)
    ]
    assert service.post("/v1/events", json={"events": sent}).status_code == 200


def recommend(service: Any, user: str, **options: Any) -> dict[str, Any]:
    response = service.post("/v1/recommend", json={"user": user, "k": 5, **options})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def ids(body: dict[str, Any]) -> list[str]:
    return [item["id"] for item in body["items"]]


def test_dislikes_push_away_exclude_and_are_taken_back(tmp_path: Path) -> None:
    store, model = shop_store(tmp_path), shop_model()
    with service_here(store.url) as service:
        send(service, "ann", HISTORY)
        history = service.get("/v1/users/ann/history").json()["history"]
        assert [event["weight"] for event in history] == [1.0, 1.0, -1.0]
        expected = model.recommend(["i3", "i9", "i7"], weights=[1, 1, -1], k=5)
        body = recommend(service, "ann")
        assert ids(body) == expected.ids
        assert body["fallback"] is None
        assert ids(body) != model.recommend(["i3", "i9"], k=5, exclude=["i7"]).ids, "it pushes, and not only excludes"
        assert "i7" not in ids(recommend(service, "ann", k=100, exclude_seen=False, context=["i7"]))
        assert "i3" in ids(recommend(service, "ann", k=100, exclude_seen=False))
        back = {"user": "ann", "item": "i7", "time": 9, "weight": 0.5}
        assert service.post("/v1/events", json=back).status_code == 200
        assert ids(recommend(service, "ann")) == model.recommend(["i3", "i9", "i7"], weights=[1, 1, 0.5], k=5).ids
        send(service, "bob", [("i0", "dislike"), ("i2", "dislike")])
        body = recommend(service, "bob", k=100)
        assert body["fallback_kinds"] == ["popular"]
        assert {"i0", "i2"}.isdisjoint(ids(body))
        assert len(ids(body)) == len(model.items) - 2
        zero = service.post("/v1/events", json={"user": "ann", "item": "i7", "weight": 0})
        assert zero.status_code == 400
        assert "has the weight 0: send a positive or a negative number" in zero.json()["detail"]
    with service_here(store.url, event_weights={"dislike": -3.0}) as service:
        send(service, "cyd", HISTORY)
        assert service.get("/v1/users/cyd/history").json()["history"][-1]["weight"] == -3.0
    store.close()


def test_dislikes_do_not_place_a_new_item(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        for user in ("ann", "bob", "cyd", "dan", "eve", "fay"):
            send(service, user, [("i3", "buy"), ("nosuch", "dislike")])
        assert store.new_items() == []
        send(service, "gus", [("nosuch", "buy")])
        assert [(item.id, len(item.customers)) for item in store.new_items()] == [("nosuch", 1)]
    store.close()


def test_everybody_gets_the_list_of_the_service(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url) as service:
        send(service, "ann", HISTORY)
        send(service, "bob", [("i0", "dislike")])
        send(service, "cyd", [("i4", "dislike"), ("i4", "buy"), ("i8", "buy")])
        expected = {user: recommend(service, user, k=4) for user in ("ann", "cyd")}
    source = BatchSource(replace(shop_model(), users=None, histories=None), "shop", store=store)
    report = recommend_to_all(source, tmp_path / "all.parquet", BatchOptions(k=4))
    assert (report.users, report.users_without_events) == (2, 1), "bob likes nothing"
    found = pl.read_parquet(tmp_path / "all.parquet").sort("user", "rank")
    for user, body in expected.items():
        assert found.filter(pl.col("user") == user)["item"].to_list() == ids(body)
        scores = found.filter(pl.col("user") == user)["score"].to_list()
        assert scores == pytest.approx([item["score"] for item in body["items"]], abs=1e-5)
    store.close()
