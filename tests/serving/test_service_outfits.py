"""POST /v1/outfits of a small shop in which every coat is bought with its hat and its shoes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from litestar.testing import TestClient

from lorentzrec.data.interactions import Interactions
from lorentzrec.points.complements import build_complements
from lorentzrec.serving.client import Client
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import write_version
from tests.serving.running_service import service_here, service_process, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_model, shop_table

COATS = range(0, ITEMS, 4)
"""The hat of coat i8 is i9, and its shoes are i10; i11 has no category."""


def table() -> pl.DataFrame:
    """Coats cost 100, hats 20.1 and shoes 60; the last shoes have no price."""
    prices = [[100.0, 20.1, 60.0, 5.0][number % 4] for number in range(ITEMS)]
    brands = ["Acme" if number % 8 < 4 else "Bolt" for number in range(ITEMS)]
    priced = shop_table().with_columns(price=pl.Series(prices), brand=pl.Series(brands))
    return priced.with_columns(price=pl.when(pl.col("id") != f"i{ITEMS - 2}").then(pl.col("price")))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("outfits")
    orders = [(number, coat + part) for number, coat in enumerate([*COATS] * 5) for part in range(3)]
    users, items = np.array(orders).T
    model = shop_model()
    bought = Interactions.from_pairs(users, [f"i{item}" for item in items], times=users)
    rows = model.items.rows(bought.items.series)[bought.item_rows].astype(np.int32)
    assert bought.times is not None
    data = Interactions(bought.users, model.items, bought.offsets, rows, bought.times)
    with closing(shop_store(folder)) as opened:
        made = model.with_points(complements=build_complements(data))
        name = str(write_version(folder / "version", made, items=table())["name"])
        opened.upload(folder / "version")
        opened.activate(name)
        yield opened


@pytest.fixture(scope="module")
def service(store: Store) -> Iterator[TestClient[Any]]:
    with service_here(store.url) as started:
        yield started


def complete(service: Any, items: list[str], status: int = 200, **options: Any) -> dict[str, Any]:
    response = service.post("/v1/outfits", json={"basket": items, **options})
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def ids(body: dict[str, Any]) -> list[str]:
    return [item["id"] for item in body["items"]]


def test_each_slot_has_what_was_bought_with_the_basket(service: TestClient[Any]) -> None:
    body = complete(service, ["i8"], reasons=True, fields=["price"])
    assert sorted(ids(body)) == ["i10", "i9"]
    filled = {slot["category"]: slot["items"] for slot in body["slots"]}
    assert filled == {"hats": ["i9"], "shoes": ["i10"]}
    assert body["price"] == 80.1
    assert (body["fallback"], body["fallback_kinds"], body["rules"]) == (None, [], [])
    for item in body["items"]:
        (reason,) = item["because"]
        assert (reason["item"], reason["kind"], reason["share"]) == ("i8", "often_with", 1.0)
    assert ids(complete(service, ["i8", "i9"])) == ["i10"]


def test_slots_and_the_number_of_items(service: TestClient[Any]) -> None:
    body = complete(service, ["i8"], slots=["shoes", "hats"], per_category=2, k=3)
    assert [slot["category"] for slot in body["slots"]] == ["shoes", "hats"], "in the order of the request"
    assert [slot["items"][0] for slot in body["slots"]] == ["i10", "i9"]
    assert len(body["items"]) == 3
    more_shoes = complete(service, ["i8", "i10"], slots=["shoes"])
    assert more_shoes["slots"][0]["items"] != ["i10"], "a slot may be a category of the basket"
    nothing = complete(service, ["i8"], slots=["shoes", "hats"], categories=["hats"])
    assert nothing["slots"] == [{"category": "shoes", "items": []}, {"category": "hats", "items": ["i9"]}]
    assert nothing["fallback"] == "slots: 1 of 2 slots has no item that can be recommended"


def test_a_budget_is_for_all_items_together(service: TestClient[Any]) -> None:
    one = complete(service, ["i8"], budget=60)
    assert len(one["items"]) == 1
    assert one["price"] <= 60
    both = complete(service, ["i8"], budget=80.1)
    assert (sorted(ids(both)), both["price"]) == (["i10", "i9"], 80.1)
    assert "has no price, and is left out" in both["fallback"]
    little = complete(service, ["i8"], slots=["shoes", "hats"], budget=30)
    assert little["slots"] == [{"category": "shoes", "items": []}, {"category": "hats", "items": ["i9"]}]
    assert "slots: 1 of 2 slots is too expensive for the budget" in little["fallback"]
    unpriced = complete(service, [f"i{ITEMS - 4}"], slots=["shoes"])
    assert (ids(unpriced), unpriced["price"]) == ([f"i{ITEMS - 2}"], None)


def test_filters_hold_for_outfits(service: TestClient[Any]) -> None:
    assert ids(complete(service, ["i8"], exclude=["i9"], slots=["hats"])) != ["i9"]
    assert ids(complete(service, ["i8"], allow=["i9", "i14"])) == ["i9", "i14"]
    found = complete(service, ["i8"], where={"brand": "Bolt"})
    assert len(found["items"]) == 2
    assert all(int(id[1:]) % 8 >= 4 for id in ids(found))
    assert ids(complete(service, ["i8"], where={"price": {"max": 30}})) == ["i9"]


def test_what_is_not_known_is_reported(service: TestClient[Any]) -> None:
    partial = complete(service, ["i8", "nosuch"])
    assert sorted(ids(partial)) == ["i10", "i9"]
    assert partial["fallback_kinds"] == ["partial"]
    assert complete(service, [])["fallback_kinds"] == ["popular"]
    assert complete(service, ["nosuch"])["fallback_kinds"][0] == "popular"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": ["socks"]}, "the slot 'socks' is no category of the items: check the name"),
        ({"slots": []}, "slots"),
        ({"budget": 0}, "budget"),
        ({"per_category": 0}, "per_category"),
        ({"diversity": 0.5}, "diversity"),
        ({"context": ["i1"]}, "context"),
    ],
)
def test_requests_that_make_no_sense(service: TestClient[Any], options: dict[str, Any], message: str) -> None:
    assert message in complete(service, ["i8"], 400, **options)["detail"]
    assert service.post("/v1/basket", json={"items": ["i8"]}).status_code == 404


def test_rules_of_the_route_act(service: TestClient[Any]) -> None:
    rules = [
        {"name": "no hats", "select": {"where": {"category": "hats"}}, "exclude": True, "routes": ["outfits"]},
        {"name": "elsewhere", "select": {"ids": ["i10"]}, "exclude": True, "routes": ["similar"]},
    ]
    assert service.put("/v1/rules", json={"rules": rules}).status_code == 200
    try:
        wait_until(lambda: complete(service, ["i8"])["rules"] == ["no hats"])
        body = complete(service, ["i8"], slots=["hats", "shoes"])
        assert body["slots"] == [{"category": "hats", "items": []}, {"category": "shoes", "items": ["i10"]}]
        tried = {"rules": [{"name": "first", "select": {"ids": ["i14"]}, "pin": 1}], "outfits": {"basket": ["i8"]}}
        preview = service.post("/v1/rules/preview", json=tried).json()
        assert preview["rules"] == ["first"]
        assert ids(preview)[0] == "i14"
        assert sorted(item["id"] for item in preview["without_rules"]) == ["i10", "i9"]
    finally:
        service.put("/v1/rules", json={"rules": []})
        wait_until(lambda: complete(service, ["i8"])["rules"] == [])


def test_new_items_complete_outfits(service: TestClient[Any]) -> None:
    new = {"category": "scarves", "like": ["i9"], "price": 5}
    assert service.put("/v1/items/scarf", json=new).status_code == 200
    request = {"basket": ["i8"], "slots": ["scarves"]}
    wait_until(lambda: service.post("/v1/outfits", json=request).status_code == 200)
    body = complete(service, ["i8"], slots=["scarves", "hats"])
    assert body["slots"] == [{"category": "scarves", "items": ["scarf"]}, {"category": "hats", "items": ["i9"]}]
    assert body["items"][ids(body).index("scarf")]["new"] is True
    assert service.delete("/v1/items/scarf").status_code == 200
    wait_until(lambda: service.post("/v1/outfits", json=request).status_code == 400)


def test_the_client_has_outfits(store: Store, tmp_path: Path) -> None:
    with service_process(store.url, tmp_path, "--workers", "1") as started, Client(started.url) as client:
        found = client.outfits(["i8"], slots=["shoes"], budget=70)
        assert [item.id for item in found.items] == ["i10"]
        assert [(slot.category, slot.items) for slot in found.slots] == [("shoes", ("i10",))]
        assert found.price == 60


def test_a_model_that_has_not_learned_outfits_says_so(tmp_path: Path) -> None:
    with closing(shop_store(tmp_path, items=table())) as plain, service_here(plain.url) as service:
        body = complete(service, ["i8"], reasons=True)
        assert body["fallback_kinds"] == ["not_learned"]
        assert {slot["category"] for slot in body["slots"]} == {"hats", "shoes"}
        assert [len(slot["items"]) for slot in body["slots"]] == [1, 1]
    bare = shop_store(tmp_path / "unpriced", items=shop_table().drop("price"))
    with closing(bare), service_here(bare.url) as service:
        assert "a budget needs prices" in complete(service, ["i8"], 400, budget=50)["detail"]
