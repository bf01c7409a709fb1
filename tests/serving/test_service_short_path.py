"""The short path of recommendations responds as the long one does, and leaves to it what it does not handle."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from lorentzrec.errors import StoreUnavailable
from lorentzrec.serving.http import short_path
from lorentzrec.serving.http.requests import cost
from lorentzrec.serving.http.short_path import ShortPath
from lorentzrec.serving.rules.document import Route, read_rules
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event as StoredEvent
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import open_version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import OUTFIT_PASSES, QUOTA_PASSES, TRENDING_PASSES, Recommender
from tests.serving.running_service import KEY, service_here, shop_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = shop_store(tmp_path)
    store.add_events([StoredEvent("ann", f"i{number}", 1e9 + number, str(number)) for number in range(6)])
    return store


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each request took the short path."""
    found: list[bool] = []
    respond = ShortPath._respond

    def watched(self: ShortPath, body: bytes) -> bytes | None:
        response = respond(self, body)
        found.append(response is not None)
        return response

    monkeypatch.setattr(ShortPath, "_respond", watched)
    return found


BODIES: list[dict[str, Any]] = [
    {"user": "ann"},
    {"user": "nobody"},
    {"history": ["i1", "i2"]},
    {"history": []},
    {"history": [3, "i4"], "k": 3, "categories": ["hats"], "exclude": ["i9"], "reasons": True},
    {"history": ["i1"], "diversity": 0.5, "fields": ["price"]},
    {"user": "ann", "context": ["i7"], "exclude_seen": False},
]
REFUSED: list[Any] = [
    {},
    {"user": "ann", "history": ["i1"]},
    {"history": ["i1"], "color": "red"},
    {"history": ["i1"], "arm": "none"},
    {"history": ["i1"], "k": 0},
    [],
]


@pytest.mark.parametrize("body", BODIES)
def test_both_ways_respond_alike(
    store: Store, taken: list[bool], monkeypatch: pytest.MonkeyPatch, body: dict[str, Any]
) -> None:
    with service_here(store.url) as service:
        short = service.post("/v1/recommend", json=body)
        monkeypatch.setattr(short_path, "CHEAP", -1)
        long = service.post("/v1/recommend", json=body)
    assert taken == [True, False]
    assert short.status_code == long.status_code == 200
    first, second = short.json(), long.json()
    assert first.pop("milliseconds") >= 0
    assert second.pop("milliseconds") >= 0
    assert first == second
    assert short.headers.keys() == long.headers.keys()
    assert {name: short.headers[name] for name in ("content-type", "cache-control", "x-content-type-options")} == {
        "content-type": "application/json",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
    }


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_refused_is_refused_by_the_long_way(store: Store, taken: list[bool], body: Any) -> None:
    with service_here(store.url) as service:
        response = service.post("/v1/recommend", json=body)
        damaged = service.post("/v1/recommend", content=b'{"user": ', headers={"content-type": "application/json"})
    assert taken == [False, False]
    assert response.status_code in (400, 404)
    assert response.headers["content-type"] == "application/problem+json"
    assert damaged.status_code == 400


def test_keys_are_checked(store: Store, taken: list[bool], tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{KEY} read\n")
    with service_here(store.url, api_key_file=keys) as service:

        def status(**headers: str) -> int:
            return int(service.post("/v1/recommend", json={"user": "ann"}, headers=headers).status_code)

        assert status() == 401
        assert status(authorization=f"Bearer {KEY}x") == 401
        assert taken == []
        assert status(authorization=f"bearer {KEY}") == 200
        assert service.post("/v1/recommend", json={"user": "ann"}, headers={"x-api-key": KEY}).status_code == 200
        assert taken == [True, True]
        text = service.get("/metrics").text
    assert 'lorentzrec_requests_total{method="POST",route="/v1/recommend",status="200"} 2.0' in text
    assert 'lorentzrec_requests_total{method="POST",route="/v1/recommend",status="401"} 2.0' in text


def test_other_requests_go_the_long_way(store: Store, taken: list[bool]) -> None:
    with service_here(store.url, allowed_origins=("https://shop.example",)) as service:
        page = service.post("/v1/recommend", json={"user": "ann"}, headers={"origin": "https://shop.example"})
        assert (page.status_code, page.headers["access-control-allow-origin"]) == (200, "https://shop.example")
        assert service.post("/v1/recommend?k=3", json={"user": "ann"}).status_code == 400
        assert service.get("/v1/recommend").status_code == 405
        large = {"history": [f"{number:0100}" for number in range(200)]}
        assert service.post("/v1/recommend", json=large).status_code == 200
    assert taken == []


def test_histories_of_a_store_that_was_slow_are_read_in_threads(
    store: Store, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorentzrec.serving.worker.guarded_store.SLOW_SECONDS", 0.0)
    with service_here(store.url) as service:
        responses = [service.post("/v1/recommend", json={"user": "ann"}) for _ in range(2)]
        assert service.post("/v1/recommend", json={"history": ["i1"]}).status_code == 200
    assert [response.status_code for response in responses] == [200, 200]
    assert taken == [True, False, True]


def test_a_slow_read_in_the_callers_thread_is_the_last_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = GuardedStore(lambda: store, seconds=60, threads=1)
    threads: list[bool] = []

    def read(opened: Store) -> int:
        threads.append(current_thread() is not main_thread())
        return len(opened.history("ann"))

    async def visit() -> None:
        assert not guarded.nearby  # it is not open yet
        assert guarded.call_nearby(read) == 6
        assert guarded.nearby
        assert guarded.call_nearby(read) == 6
        assert guarded.nearby
        monkeypatch.setattr("lorentzrec.serving.worker.guarded_store.SLOW_SECONDS", 0.0)
        assert guarded.call_nearby(read) == 6
        assert not guarded.nearby
        assert guarded.call_nearby(read) == 6

    asyncio.run(visit())
    assert threads == [True, False, False, True]
    guarded.close()


def test_a_store_that_hangs_keeps_no_thread_of_a_request(store: Store) -> None:
    guarded = GuardedStore(lambda: store, seconds=0.2, threads=1)
    guarded.call(lambda opened: opened.state(), seconds=60)
    assert guarded.nearby
    hanging = Event()
    with pytest.raises(StoreUnavailable, match=r"has not responded in 0\.2 seconds"):
        guarded.call_nearby(lambda _: hanging.wait(60))
    assert not guarded.nearby
    hanging.set()
    guarded.close()


def test_another_file_is_opened_in_a_thread(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    file = tmp_path / "store" / "store.sqlite"
    assert store.nearby
    store.close()
    opened = open_store(store.url)
    shutil.copyfile(file, tmp_path / "copy")
    for one in file.parent.glob("store.sqlite-*"):
        one.unlink()
    (tmp_path / "copy").replace(file)
    assert not opened.nearby
    opened.history("ann")
    assert opened.nearby
    file.unlink()
    assert not opened.nearby
    opened.close()


@pytest.mark.parametrize(("share", "logged"), [(1.0, 5), (0.0, 2)])
def test_errors_are_logged_whatever_share_of_the_others_is(
    store: Store, caplog: pytest.LogCaptureFixture, share: float, logged: int
) -> None:
    caplog.set_level(logging.INFO, "lorentzrec.serving.requests")
    with service_here(store.url, log_sample=share) as service:
        for body in ({"user": "ann"}, {"history": ["i1"]}, {}, {"k": 3}, {"user": "bob"}):
            service.post("/v1/recommend", content=json.dumps(body), headers={"content-type": "application/json"})
    lines = [record for record in caplog.records if record.name == "lorentzrec.serving.requests"]
    assert len(lines) == logged


def test_slow_requests_are_logged(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorentzrec.serving.http.middleware.SLOW_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "lorentzrec.serving.requests")
    with service_here(store.url, log_sample=0.0) as service:
        service.post("/v1/recommend", json={"user": "ann"})
    assert len([one for one in caplog.records if one.name == "lorentzrec.serving.requests"]) == 1


def test_passes_over_a_large_catalogue_are_not_made_where_other_requests_wait(
    store: Store, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lorentzrec.serving.http.requests.SCANNED_A_UNIT", 0.01)  # 40 items cost what 4 million do
    store.set_rules('{"sets": {"gifts": ["i3"]}}', reason="test", who=None, instead_of=None)
    with service_here(store.url) as service:
        for more in ({}, {"categories": ["hats"]}, {"where": {"category": "hats"}}, {"set": "gifts"}):
            assert service.post("/v1/recommend", json={"history": ["i1"], **more}).status_code == 200
    assert taken == [True, False, False, False]
    store.set_rules('{"rules": [{"name": "a", "select": {"ids": ["i3"]}, "pin": 1}]}', reason="test", who=None)
    with service_here(store.url) as service:
        assert service.post("/v1/recommend", json={"history": ["i1"]}).json()["rules"] == ["a"]
    assert taken[4:] == [False]


def test_filters_and_rules_count_as_passes_over_the_catalogue(store: Store) -> None:
    with service_here(store.url) as service:
        version = service.get("/v1/model").json()["model"]
    recommender = Recommender(open_version(store.fetch(version, Path())))

    def passes(route: Route = "recommend", rules: str | None = None, **options: Any) -> float:
        used = recommender
        if rules is not None:
            used = recommender.with_rules(recommender.compile(read_rules(rules)).at(0.0))
        return used.count_scanned(RankingOptions(**options), route) / len(recommender.version.items)

    assert passes() == passes("similar") == 0
    assert passes("outfits") == OUTFIT_PASSES
    assert passes("trending") == TRENDING_PASSES
    assert passes(categories=["hats"], set="gifts") == 2
    assert passes(where={"price": 3.0, "category": ["hats", "coats", "shoes"]}) == 2 + 2
    only = '{"name": "a", "routes": ["similar"], "select": {"ids": ["i1"]}, "only": true}'
    boost = '{"name": "c", "boost": 2}'
    quota = '{"name": "b", "routes": ["recommend"], "quota": {"limit": 0, "per": "category"}}'
    assert passes("similar", f'{{"rules": [{only}, {boost}, {quota}]}}') == 1
    assert passes("recommend", f'{{"rules": [{only}, {boost}]}}') == 0
    assert passes("recommend", f'{{"rules": [{only}, {quota}]}}') == QUOTA_PASSES
    options = RankingOptions(k=1, where={"price": [1.0] * 1_000})
    assert cost(options, 0) == 1
    assert cost(options, 0, recommender) == 1  # 40 items
