"""Parameters of addresses are as strict as bodies, and have the same names and meanings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from litestar.testing import TestClient

from tests.serving.running_service import service_here, shop_store

SIMILAR = "k, exclude, allow, categories, where, set, fields, arm, diversity, explore, seed, reasons"
BY_USER = f"{SIMILAR}, context, exclude_seen"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    store = shop_store(tmp_path_factory.mktemp("shop"))
    with service_here(store.url) as client:
        events = [{"user": "ann", "item": item, "time": time} for time, item in enumerate(["i3", "i7"])]
        client.post("/v1/events", json={"events": events})
        yield client
    store.close()


def refused(response: Any) -> list[tuple[str, str]]:
    """What is wrong with each parameter."""
    assert (response.status_code, response.json()["type"]) == (400, "urn:lorentzrec:invalid-request"), response.text
    return [(error["where"], error["what"]) for error in response.json()["errors"]]


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/v1/items/i3/similar", f"the parameters are {SIMILAR}"),
        ("/v1/users/ann/recommendations", f"the parameters are {BY_USER}"),
        ("/v1/users/ann/history", "the parameters are limit"),
        ("/v1/items", "the parameters are query, limit"),
        ("/v1/map/items", "the parameters are rows"),
        ("/v1/items/i3", "there are no parameters"),
        ("/v1/model", "there are no parameters"),
        ("/v1/live", "there are no parameters"),
        ("/healthz", "there are no parameters"),
        ("/readyz", "there are no parameters"),
        ("/metrics", "there are no parameters"),
    ],
)
def test_unknown_parameters_are_refused(service: TestClient[Any], path: str, known: str) -> None:
    assert refused(service.get(f"{path}?max_price=30")) == [("max_price", f"is not a parameter here: {known}")]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/recommend", {"history": ["i3"]}),
        ("POST", "/v1/events", {"user": "eve", "item": "i3"}),
        ("PUT", "/v1/items/new", {"title": "New"}),
        ("DELETE", "/v1/users/ann", None),
        ("DELETE", "/v1/items/new", None),
        ("PATCH", "/v1/live", {"remove": ["i3"]}),
    ],
)
def test_options_of_a_body_are_no_parameters(service: TestClient[Any], method: str, path: str, body: Any) -> None:
    """Nothing is done: not even what the body asks for."""
    found = refused(service.request(method, f"{path}?k=3", json=body))
    assert found == [("k", "is not a parameter here: there are no parameters")]
    assert service.get("/v1/users/eve/history").json()["history"] == []
    assert len(service.get("/v1/users/ann/history").json()["history"]) == 2
    assert service.get("/v1/live").json()["removed"] == []


def test_all_faults_are_reported_at_once_with_a_suggestion(service: TestClient[Any]) -> None:
    (misspelt, repeated) = refused(service.get("/v1/items/i3/similar?exlude=i1&k=2&k=3&categories=a&categories=b"))
    assert misspelt == ("exlude", f"is not a parameter here: did you mean exclude? the parameters are {SIMILAR}")
    assert repeated == ("k", "is given 2 times: send it once")


def test_links_to_the_page_may_have_parameters_of_other_sites(service: TestClient[Any]) -> None:
    assert [service.get(f"{path}?utm_source=mail").status_code for path in ("/", "/docs", "/schema")] == [200] * 3


def test_a_query_must_be_utf_8_and_has_a_largest_length(service: TestClient[Any]) -> None:
    response = service.get("/v1/items?query=%FF")
    assert (response.status_code, "not UTF-8" in response.json()["detail"]) == (400, True)
    long = urlencode([("exclude", f"{number:060}") for number in range(500)])
    response = service.get(f"/v1/items/i3/similar?{long}")
    assert (response.status_code, response.json()["type"]) == (414, "urn:lorentzrec:too-large")


@pytest.mark.parametrize(
    "options",
    [
        {"k": 3},
        {"exclude": ["i9", "none"], "k": 40},
        {"allow": ["i9", "i10", "none"]},
        {"allow": []},
        {"context": ["i9"]},
        {"exclude_seen": False},
        {"categories": ["hats", "none"], "diversity": 0.5},
        {"reasons": True},
        {"fields": ["image", "price"]},
    ],
)
def test_options_mean_the_same_in_an_address_and_in_a_body(service: TestClient[Any], options: dict[str, Any]) -> None:
    def comparable(response: Any) -> dict[str, Any]:
        assert response.status_code == 200, response.text
        return {name: value for name, value in response.json().items() if name != "milliseconds"}

    values = {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
    # An empty list is a parameter without a value, since one that is left out has its default.
    sent = urlencode({name: "" if value == [] else value for name, value in values.items()}, doseq=True)
    by_address = comparable(service.get(f"/v1/users/ann/recommendations?{sent}"))
    assert by_address == comparable(service.post("/v1/recommend", json={"user": "ann", **options}))
    assert by_address != comparable(service.get("/v1/users/ann/recommendations"))


def test_allowed_and_excluded_similar_items(service: TestClient[Any]) -> None:
    def similar(options: str) -> list[str]:
        return [item["id"] for item in service.get(f"/v1/items/i3/similar?{options}").json()["items"]]

    first, second, *_ = similar("k=4")
    assert similar(f"allow={second}&allow={first}&allow=none") == [first, second]
    assert similar(f"allow={second}&allow={first}&exclude={first}") == [second]
    assert similar("allow=") == []
    assert len(similar("exclude=&k=4")) == 4
    for personal in ("context=i1", "exclude_seen=false"):
        assert refused(service.get(f"/v1/items/i3/similar?{personal}"))
    (one,) = service.get("/v1/items/i3/similar?k=1&reasons=true").json()["items"]
    assert [(reason["item"], reason["share"]) for reason in one["because"]] == [("i3", 1.0)]


def test_prices_and_images_are_sent_if_requested(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = shop_store(tmp_path_factory.mktemp("shop"))
    with service_here(store.url) as service:
        query: dict[str, Any] = {"history": ["i3"], "allow": ["i0", "i1"]}
        (plain, _) = service.post("/v1/recommend", json=query).json()["items"]
        assert not {"price", "image"} & plain.keys()
        found = service.post("/v1/recommend", json=query | {"fields": ["price"]}).json()["items"]
        assert {item["id"]: (item["price"], "image" in item) for item in found} == {
            "i0": (9.5, False),
            "i1": (None, False),
        }
        found = service.post(
            "/v1/outfits", json={"basket": ["i1"], "allow": ["i0"], "fields": ["price", "image"]}
        ).json()
        assert [(item["price"], item["image"]) for item in found["items"]] == [(9.5, None)]
        assert service.post("/v1/recommend", json=query | {"fields": ["cost"]}).status_code == 400
    store.close()
