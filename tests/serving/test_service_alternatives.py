"""Alternatives over HTTP and with the Python client: live items of the category, then of its parent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from litestar.testing import TestClient

from tests.serving.running_service import KEY, service_here, shop_store, wait_until
from tests.serving.small_shop import ITEMS, shop_table


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    """Ten coats, hats and shoes each, ten items without a category; coats and hats are clothes."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "keys.txt").write_text(f"{KEY}\n")
    departments = [None if number % 4 == 3 else "feet" if number % 4 == 2 else "clothes" for number in range(ITEMS)]
    table = shop_table().with_columns(
        department=pl.Series(departments), price=pl.Series([float(number) for number in range(ITEMS)])
    )
    store = shop_store(folder, items=table)
    with service_here(store.url, api_key_file=folder / "keys.txt", poll_seconds=0.2) as opened:
        opened.headers["X-API-Key"] = KEY
        yield opened
    store.close()


def ask(service: TestClient[Any], item: str, **parameters: Any) -> dict[str, Any]:
    response = service.get(f"/v1/items/{item}/alternatives", params=parameters)
    assert response.status_code == 200, response.text
    return dict(response.json())


def categories(found: dict[str, Any]) -> list[str | None]:
    return [item["category"] for item in found["items"]]


def test_the_parent_follows_the_category(service: TestClient[Any]) -> None:
    found = ask(service, "i0", k=9)
    assert categories(found) == ["coats"] * 9
    assert (found["fallback"], found["rules"]) == (None, [])
    found = ask(service, "i0", k=15, reasons="true", fields="price")
    assert categories(found) == ["coats"] * 9 + ["hats"] * 6
    assert found["fallback_kinds"] == ["widened"]
    assert found["fallback"].startswith("widened: 9 of 15 ")
    assert {reason["item"] for item in found["items"] for reason in item["because"]} == {"i0"}
    assert [item["price"] for item in found["items"]] == [float(item["id"][1:]) for item in found["items"]]
    assert categories(ask(service, "i2", k=15)) == ["shoes"] * 9, "nothing else is of its department"
    assert ask(service, "i3")["fallback_kinds"] == ["no_category"]
    assert service.get("/v1/items/nobody/alternatives").status_code == 404


def test_only_live_items_that_meet_the_conditions(service: TestClient[Any]) -> None:
    first = ask(service, "i0", k=1)["items"][0]["id"]
    assert service.patch("/v1/live", json={"remove": [first, "i0"]}).status_code == 200
    wait_until(lambda: ask(service, "i0", k=1)["items"][0]["id"] != first)
    assert first not in [item["id"] for item in ask(service, "i0", k=40)["items"]]
    assert service.patch("/v1/live", json={"add": [first, "i0"]}).status_code == 200
    wait_until(lambda: ask(service, "i0", k=1)["items"][0]["id"] == first)
    cheap = ask(service, "i0", k=5, where='{"price": {"max": 12}}', exclude="i8")
    assert [item["id"] for item in cheap["items"] if item["category"] == "coats"] == sorted(
        ["i4", "i12"], key=[item["id"] for item in ask(service, "i0", k=40)["items"]].index
    )
    assert {item["id"] for item in cheap["items"]} == {"i4", "i12", "i1", "i5", "i9"}


def test_a_new_item_is_an_alternative(service: TestClient[Any]) -> None:
    response = service.put("/v1/items/n1", json={"title": "New coat", "category": "coats", "like": ["i4"]})
    assert response.json()["placed"]
    wait_until(lambda: "n1" in [item["id"] for item in ask(service, "i0", k=10)["items"]])
    assert categories(ask(service, "n1", k=10)) == ["coats"] * 10
    assert service.delete("/v1/items/n1").status_code == 200
    wait_until(lambda: "n1" not in [item["id"] for item in ask(service, "i0", k=10)["items"]])


def test_rules_may_make_a_list_wider(service: TestClient[Any]) -> None:
    rule = {"name": "no cheap ones", "routes": ["alternatives"], "select": {"where": {"price": {"max": 30}}}}
    preview = {"rules": [rule | {"exclude": True}], "alternatives": {"item": "i0", "k": 3}}
    found = service.post("/v1/rules/preview", json=preview).json()
    assert [item["category"] for item in found["items"]] == ["coats", "coats", "hats"]
    assert found["rules"] == ["no cheap ones"]
    assert found["fallback"].startswith("widened: 2 of 3 ")
    assert [item["category"] for item in found["without_rules"]] == ["coats"] * 3
