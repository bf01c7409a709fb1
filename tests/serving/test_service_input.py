"""Invalid requests get a problem document with a 4xx status, and never a 500."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lorentzrec.errors import ConfigError
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores.address import open_store
from tests.serving.running_service import service_here, shop_store

DEEP = b"[" * 50_000
LONG_ID = b"x" * 513
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient[Any]]:
    store = shop_store(tmp_path_factory.mktemp("shop"))
    with service_here(store.url, body_bytes=200_000) as client:
        yield client
    store.close()


def assert_problem(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["type"]
    assert document["title"]
    assert document["detail"]
    return document


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"history": "i1"}',
        b'{"history": [null]}',
        b'{"history": [true]}',
        b'{"history": [1.5]}',
        b'{"history": [["i1"]]}',
        b'{"history": [{"id": "i1"}]}',
        b'{"history": [""]}',
        b'{"history": ["a\\u0000b"]}',
        b'{"history": ["a\\n"]}',
        b'{"history": ["a\\u0085b"]}',
        b'{"history": ["\\ud800"]}',
        b'{"history": ["\xff"]}',
        b'{"history": ["\xed\xa0\x80"]}',
        b'{"history": ["' + LONG_ID + b'"]}',
        b'{"history": [99999999999999999999]}',
        b'{"history": [' + b",".join([b"1"] * 10_001) + b"]}",
        b'{"history": ["i1"], "user": "ann"}',
        b'{"history": ["i1"], "k": 0}',
        b'{"history": ["i1"], "k": 1001}',
        b'{"history": ["i1"], "k": 2.5}',
        b'{"history": ["i1"], "k": "10"}',
        b'{"history": ["i1"], "k": true}',
        b'{"history": ["i1"], "reasons": "true"}',
        b'{"history": ["i1"], "diversity": "0.5"}',
        b'{"history": ["i1"], "diversity": NaN}',
        b'{"history": ["i1"], "diversity": Infinity}',
        b'{"history": ["i1"], "diversity": 1e999}',
        b'{"history": ["i1"], "diversity": -0.1}',
        b'{"history": ["i1"], "misspelt": 1}',
        b'{"history": ' + DEEP,
        b'{"misspelt": ' + DEEP,
        DEEP,
        b'{"a":' * 20_000,
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
    ],
)
def test_invalid_bodies_of_a_query(service: TestClient[Any], body: bytes) -> None:
    assert (
        assert_problem(service.post("/v1/recommend", content=body, headers=JSON), 400)["type"]
        == "urn:lorentzrec:invalid-request"
    )


@pytest.mark.parametrize(
    "event",
    [
        b'{"events": []}',
        b'{"user": "ann"}',
        b'{"item": "i1"}',
        b'{"user": "ann", "item": "i1", "events": [{"user": "ann", "item": "i1"}]}',
        b'{"user": "ann", "item": "i1", "time": NaN}',
        b'{"user": "ann", "item": "i1", "time": 1e999}',
        b'{"user": "ann", "item": "i1", "time": -1}',
        b'{"user": "ann", "item": "i1", "time": 1700000000000}',
        b'{"user": "ann", "item": "i1", "time": "now"}',
        b'{"user": "ann", "item": "i1", "time": "2024-05-13T10:00:00"}',
        b'{"user": "ann", "item": "i1", "time": "1969-12-31T23:00:00Z"}',
        b'{"user": "ann", "item": "i1", "time": "0001-01-01T00:00:00+23:59"}',
        b'{"user": "ann", "item": "i1", "time": "9999-12-31T23:59:59Z"}',
        b'{"user": "ann", "item": "i1", "time": 250000000000}',
        b'{"user": "ann", "item": "i1", "kind": "impression"}',
        b'{"user": "ann", "item": "i1", "id": ""}',
        b'{"user": "ann\\n", "item": "i1"}',
        b'{"user": null, "item": "i1"}',
        b'{"events": [{"user": "ann", "item": "i1"}, {"user": "ann"}]}',
        b'{"events": [' + b",".join([b'{"user": "ann", "item": "i1"}'] * 1_001) + b"]}",
    ],
)
def test_invalid_events_are_refused_whole(service: TestClient[Any], event: bytes) -> None:
    assert_problem(service.post("/v1/events", content=event, headers=JSON), 400)
    assert service.get("/v1/users/ann/history").json()["history"] == []


def test_an_event_is_at_most_a_day_ahead_in_both_forms_of_time(service: TestClient[Any]) -> None:
    now = time.time()
    for ahead, status in ((86_000, 200), (87_000, 400)):
        for moment in (now + ahead, datetime.fromtimestamp(now + ahead, UTC).isoformat()):
            event = {"user": "leo", "item": "i1", "time": moment}
            assert service.post("/v1/events", json=event).status_code == status, moment
    event = {"user": "leo", "item": "i1", "time": now * 1000}
    document = assert_problem(service.post("/v1/events", json=event), 400)
    assert "send a time in seconds, not milliseconds, from 1970 on and at most a day ahead" in document["detail"]


def test_a_kind_of_event_without_weights_says_how_to_set_them(service: TestClient[Any]) -> None:
    event = {"user": "ann", "item": "i1", "kind": "view"}
    detail = assert_problem(service.post("/v1/events", json=event), 400)["detail"]
    assert "'view' have no weight here: start the service with --event-weight KIND=WEIGHT, or publish" in detail


def test_a_kind_of_event_waits_for_the_version_that_may_have_its_weight(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path / 'store'}", create=True)
    with service_here(store.url) as service:
        event = {"user": "ann", "item": "i1"}
        assert_problem(service.post("/v1/events", json=event | {"kind": "view"}), 503)
        assert service.post("/v1/events", json=event | {"weight": 2}).status_code == 200
    store.close()


@pytest.mark.parametrize(
    ("details", "what"),
    [
        ({"title": "a\x00b"}, "must not have control characters"),
        ({"title": "a\x1b[2Jb"}, "must not have control characters"),
        ({"title": "a\n"}, "must not have control characters"),
        ({"category": "\x85"}, "must not have control characters"),
        ({"attributes": {"brand": "a\tb"}}, "must not have control characters"),
        ({"attributes": {"a\tb": "brand"}}, "must not have control characters"),
        ({"attributes": {"brand": ["a", "\r"]}}, "must not have control characters"),
        ({"image": "javascript:alert(1)"}, "must be an address that begins with http:// or https://"),
        ({"image": "data:image/png;base64,AA=="}, "must be an address that begins with http:// or https://"),
        ({"image": "//shop.example/1.jpg"}, "must be an address that begins with http:// or https://"),
        ({"image": "https://shop.example/1 2.jpg"}, "must be an address that begins with http:// or https://"),
        ({"image": "https://shop.example/1.jpg\n"}, "must be an address that begins with http:// or https://"),
        ({"image": ""}, "must be an address that begins with http:// or https://"),
    ],
)
def test_unsafe_details_of_a_new_item(service: TestClient[Any], details: dict[str, Any], what: str) -> None:
    (fault,) = assert_problem(service.put("/v1/items/boot", json=details), 400)["errors"]
    assert fault["what"] == what
    assert_problem(service.get("/v1/items/boot"), 404)


def test_nothing_below_v1_is_kept_by_caches(service: TestClient[Any]) -> None:
    def policy(method: str, path: str, **sent: Any) -> Any:
        return service.request(method, path, **sent).headers.get("Cache-Control")

    service.post("/v1/events", json={"user": "ida", "item": "i1"})
    paths = [
        "/v1/users/ida/history",
        "/v1/users/ida/recommendations",
        "/v1/model",
        "/v1/none",
        "/v1/model?x=1",
        "/v1/map",
    ]
    assert [policy("GET", path) for path in paths] == ["no-store"] * len(paths)
    assert policy("POST", "/v1/recommend", json={"history": ["i1"]}) == "no-store"
    assert policy("POST", "/v1/recommend", content=b"{", headers=JSON) == "no-store"
    assert policy("POST", "/v1/recommend", content=b"{", headers={"Content-Type": "text/plain"}) == "no-store"
    assert policy("PUT", "/v1/recommend") == "no-store"
    assert policy("GET", "/healthz") is None


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/items/i1/similar?k=0", 400),
        ("/v1/items/i1/similar?k=1001", 400),
        ("/v1/items/i1/similar?k=ten", 400),
        ("/v1/items/i1/similar?diversity=nan", 400),
        ("/v1/items/i1/similar?diversity=inf", 400),
        ("/v1/items/%FF/similar", 400),
        ("/v1/items/a%00b", 400),
        ("/v1/items/a%0A", 400),
        ("/v1/items/" + "x" * 513, 400),
        ("/v1/items?limit=0", 400),
        ("/v1/items?limit=100000000000000000000", 400),
        ("/v1/items?query=" + "x" * 501, 400),
        ("/v1/users/ann/history?limit=-1", 400),
        ("/v1/users//history", 405),
        ("/v1/map/items", 400),
        ("/v1/map/items?rows=", 400),
        ("/v1/map/items?rows=-1", 400),
        ("/v1/map/items?rows=1;DROP", 400),
        ("/v1/map/items?rows=999999999", 400),
        ("/v1/nothing", 404),
        ("/v2/recommend", 404),
        ("/v1/recommend", 405),
    ],
)
def test_invalid_paths_and_parameters(service: TestClient[Any], path: str, status: int) -> None:
    assert_problem(service.get(path), status)


@pytest.mark.parametrize("query", ["'; DROP TABLE items; --", '"', "*", "NEAR(", "title:x", "%00", "\\", "-", "{}"])
def test_no_search_can_break_out(service: TestClient[Any], query: str) -> None:
    assert service.get(f"/v1/items?query={query}").status_code == 200
    assert len(service.get("/v1/items?query=piece").json()["items"]) == 20


def test_a_body_is_refused_while_it_comes(service: TestClient[Any]) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 100_000_000:
            sent += 65_536
            yield b"[" * 65_536

    assert_problem(service.post("/v1/recommend", content=endless(), headers=JSON), 413)
    assert_problem(service.post("/v1/events", content=b" " * 200_001, headers=JSON), 413)


def test_a_problem_names_what_is_wrong(service: TestClient[Any]) -> None:
    document = assert_problem(service.post("/v1/recommend", json={"history": ["i1"], "k": 0}), 400)
    assert document["errors"] == [{"where": "k", "what": "Expected `int` >= 1"}]
    document = assert_problem(service.post("/v1/recommend", json={"history": ["i1", None]}), 400)
    assert document["errors"] == [{"where": "history[1]", "what": "Expected `int | str`, got `null`"}]


@pytest.mark.parametrize(
    "text", [b"\\ud800", b"\\ud83dabcdefghijkl", b"\\uDE00 abcdefgh", b"\\ud83d\\ud83d", b"\\\\\\ud83d"]
)
def test_half_a_character_has_a_text_of_its_own(service: TestClient[Any], text: bytes) -> None:
    for body in (b'{"history": ["' + text + b'"]}', b'{"k": 3.0, "history": ["' + text + b'"]}'):
        document = assert_problem(service.post("/v1/recommend", content=body, headers=JSON), 400)
        assert document["detail"].startswith(("a text has half of a character", "k: Expected `int`"))
    whole = b'{"history": ["\\ud83d\\ude00", "\\\\ud83d"]}'
    assert service.post("/v1/recommend", content=whole, headers=JSON).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("recommend", b'{"history": ["i1"], "k": 1, "k": 2}', "k"),
        ("recommend", b'{"history": ["i1"], "k" : 1, "\\u006b":2}', "k"),
        (
            "events",
            b'{"events": [{"user": "ann", "item": "i1"}, {"user": "ann", "user": "eve", "item": "i1"}]}',
            "user",
        ),
        ("events", b'{"user": "ann", "user": "ann", "item": "i1"}', "user"),
    ],
)
def test_a_key_that_is_sent_twice_is_refused(service: TestClient[Any], path: str, body: bytes, name: str) -> None:
    document = assert_problem(service.post(f"/v1/{path}", content=body, headers=JSON), 400)
    assert document["errors"] == [{"where": name, "what": "is in one object twice: send it once"}]
    assert service.get("/v1/users/ann/history").json()["history"] == []


def test_a_name_of_an_attribute_that_is_sent_twice_is_refused(service: TestClient[Any]) -> None:
    body = b'{"attributes": {"brand": "a", "brand": "b"}}'
    document = assert_problem(service.put("/v1/items/boot", content=body, headers=JSON), 400)
    assert document["errors"][0]["where"] == "brand"


def test_names_of_fields_may_be_values(service: TestClient[Any]) -> None:
    query = {"history": ["k", "history", "i3"], "k": 3, "categories": ["k"], "context": ["k"]}
    assert service.post("/v1/recommend", json=query).status_code == 200
    events = [{"user": "ida", "item": "user"}, {"user": "user", "item": "item"}]
    assert service.post("/v1/events", json={"events": events}).json()["accepted"] == 2


def test_a_whole_number_may_be_written_with_a_point(service: TestClient[Any]) -> None:
    body = b'{"history": ["i3", 330.0, 1e2], "exclude": [-4.0], "k": 2.0, "seed": 5E0, "diversity": 0.25}'
    response = service.post("/v1/recommend", content=body, headers=JSON)
    assert (response.status_code, len(response.json()["items"])) == (200, 2)
    looked = service.post("/v1/items/lookup", content=b'{"ids": [330.0, 330]}', headers=JSON).json()
    assert looked["unknown"] == ["330"]
    for wrong in (b'{"history": ["i3"], "k": 2.5}', b'{"history": ["i3"], "k": 2.0, "diversity": NaN}', b'{"k": 2.0'):
        assert_problem(service.post("/v1/recommend", content=wrong, headers=JSON), 400)


def test_a_misspelt_field_gets_a_suggestion(service: TestClient[Any]) -> None:
    document = assert_problem(service.post("/v1/recommend", json={"history": ["i1"], "divesity": 1}), 400)
    (fault,) = document["errors"]
    assert (fault["where"], fault["what"].split("?")[0]) == ("divesity", "is not a field here: did you mean diversity")
    assert fault["what"].endswith("exclude_seen, history, user")


def test_the_callers_request_id_comes_back_if_it_is_harmless(service: TestClient[Any]) -> None:
    assert service.get("/healthz", headers={"X-Request-ID": "cart-17"}).headers["X-Request-ID"] == "cart-17"
    harmful = service.get("/healthz", headers={"X-Request-ID": 'x"} 500 forged'}).headers["X-Request-ID"]
    assert len(harmful) == 16


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 0},
        {"port": 70_000},
        {"store_seconds": 0.0},
        {"poll_seconds": float("nan")},
        {"log_format": "xml"},
        {"allowed_origins": ("shop.example",)},
    ],
)
def test_invalid_settings(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="give"):
        ServiceSettings("file:store", **options)
