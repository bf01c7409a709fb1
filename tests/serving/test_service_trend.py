"""Trends of a running service: what many customers buy rises, what one does changes nothing, a restart keeps it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from litestar.testing import TestClient

from lorentzrec.errors import StoreUnavailable
from lorentzrec.points.trend import Trend
from lorentzrec.serving.client import Client
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.version import open_version, write_version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.trend_watcher import TrendWatcher
from tests.serving.running_service import PATIENCE, Service, service_here, service_process, wait_until
from tests.serving.small_shop import ITEMS, shop_model, shop_table

DAY = 86_400
SHORT = "0.2"
RISING, PUSHED = "i15", "i38"


def publish_with_trend(store: Store, folder: Path, *, age: float = 0.0, weight: float = 2.0) -> None:
    """A version in which every item has as many customers as any other. age: days since its newest event."""
    numbers = np.full(ITEMS, 9, np.float32)
    trend = Trend(numbers, numbers, weight, 7.0, time.time() - age * DAY)
    model = shop_model().with_points(trend=trend)
    path = folder / "version-with-trend"
    name = str(write_version(path, model, items=shop_table())["name"])
    store.upload(path)
    store.activate(name)


def buy(store: Store) -> None:
    """In the last days, item n has 2 n customers: one more of any item changes no order."""
    now = time.time()
    pairs = [(number, customer) for number in range(ITEMS) for customer in range(2 * number)]
    store.add_events(
        [Event(f"c{customer}", f"i{number}", now - DAY - customer, f"{number}") for number, customer in pairs]
    )


@pytest.fixture
def file_shop(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        publish_with_trend(store, tmp_path)
        yield store


def trend_of(service: TestClient[Any] | httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = service.get("/v1/model").json()["trend"]
    return found


def trending(service: TestClient[Any] | httpx.Client, query: str = "") -> list[str]:
    return [item["id"] for item in service.get(f"/v1/trending?k=40{query}").json()["items"]]


def all_workers(service: Service, check: Callable[[httpx.Client], bool]) -> bool:
    """Whether it holds on many connections, each of which is of one of the workers."""
    for _ in range(12):
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as http:
            if not check(http):
                return False
    return True


def wait_for_counts(service: Service) -> None:
    """Until all workers have counted everything that is in the store now."""
    now = time.time()
    wait_until(
        lambda: all_workers(
            service, lambda http: trend_of(http)["source"] == "events" and trend_of(http)["refreshed"] > now
        )
    )


def listed(service: Service) -> list[str]:
    """A fitting list."""
    body = {"history": ["i3"], "k": 40, "diversity": 0}
    return [item["id"] for item in service.http.post("/v1/recommend", json=body).json()["items"]]


def test_what_fifty_customers_buy_rises_in_all_workers_and_stays_after_kill_9(any_url: str, tmp_path: Path) -> None:
    with closing(open_store(any_url, create=True)) as store:
        publish_with_trend(store, tmp_path)
        buy(store)
    options = "--workers", "2", "--trend-seconds", SHORT
    with service_process(any_url, tmp_path, *options) as service:
        wait_for_counts(service)
        before, list_before = trending(service.http), listed(service)
        assert before[0] == "i39"
        assert RISING not in before, "it has as many customers as usual"
        # One customer, a thousand events of one item.
        events = [{"user": "bot", "item": PUSHED, "id": f"{number}"} for number in range(1_000)]
        assert service.http.post("/v1/events", json={"events": events}).json()["accepted"] == 1_000
        wait_for_counts(service)
        assert (trending(service.http), listed(service)) == (before, list_before)
        for number in range(50):
            sent = {"user": f"fan{number}", "item": RISING}
            assert service.http.post("/v1/events", json=sent).status_code == 200
        wait_until(lambda: all_workers(service, lambda http: trending(http)[0] == RISING))
        list_after = listed(service)
        assert list_after.index(RISING) < list_before.index(RISING)
        first = service.http.get("/v1/trending?k=1").json()["items"][0]
        assert first["customers"] == 80
        assert first["reason"] == f"80 customers in the last 7 days, {80 / first['usual']:.1f} times the usual"
        service.kill()
    with service_process(any_url, tmp_path, *options) as service:
        wait_for_counts(service)
        assert all_workers(service, lambda http: trending(http)[0] == RISING)
        assert listed(service) == list_after


def test_trending_items_can_be_chosen_and_rules_apply(file_shop: Store) -> None:
    buy(file_shop)
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        wait_until(lambda: trend_of(service)["source"] == "events")
        every = trending(service)
        assert every == [f"i{number}" for number in range(39, 19, -1)], "more than the mean, 39 customers"
        coats = [id for id in every if int(id[1:]) % 4 == 0 and int(id[1:]) % 3 == 0]
        table = {row["id"]: row["category"] for row in shop_table().to_dicts()}
        coats = [id for id in every if table[id] == "coats"]
        assert trending(service, "&categories=coats") == coats
        assert trending(service, '&where={"category": "coats"}') == coats
        assert trending(service, "&exclude=i39&allow=i39&allow=i38&allow=i2") == ["i38"]
        assert len(service.get("/v1/trending?k=3").json()["items"]) == 3
        body = service.get("/v1/trending?k=1&fields=price").json()
        assert (body["days"], body["arm"], body["fallback"], body["items"][0]["price"]) == (7.0, "main", None, None)
        wrong = service.get("/v1/trending?diversity=1")
        assert wrong.status_code == 400
        assert "diversity" in wrong.json()["detail"]
        none = service.get("/v1/trending?allow=i2").json()
        assert (none["items"], none["fallback_kinds"]) == ([], ["not_trending"])
        service.patch("/v1/live", json={"remove": ["i39"]})
        wait_until(lambda: trending(service)[0] == "i38")
        rules = [{"name": "no 37", "exclude": True, "routes": ["trending"], "select": {"ids": ["i37"]}}]
        assert service.put("/v1/rules", json={"rules": rules}).status_code == 200
        wait_until(lambda: "i37" not in trending(service))
        assert service.get("/v1/trending?k=3").json()["rules"] == ["no 37"]
        assert [item["id"] for item in service.get("/v1/trending?k=2").json()["items"]] == ["i38", "i36"]


def test_unknown_customers_get_what_is_popular_now_and_the_response_says_so(file_shop: Store) -> None:
    buy(file_shop)
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        wait_until(lambda: trend_of(service)["source"] == "events")
        found = service.get("/v1/users/nobody/recommendations?k=3").json()
        assert [item["id"] for item in found["items"]] == ["i39", "i38", "i37"]
        assert [item["score"] for item in found["items"]] == [78, 76, 74]
        assert found["fallback_kinds"] == ["popular", "recent"]
        assert found["fallback"] == "popular: the history is empty; recent: by customers in the last 7 days"


def test_an_event_stream_that_stops_leaves_no_trend(tmp_path: Path) -> None:
    """The version is older than its last days, and so are the events."""
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        publish_with_trend(store, tmp_path, age=8)
        store.add_events([Event(f"c{number}", "i1", time.time() - 8 * DAY, "1") for number in range(300)])
        with service_here(store.url, trend_seconds=0.05, poll_seconds=0.05) as service:
            wait_until(lambda: trend_of(service)["refreshed"] is not None)
            trend = trend_of(service)
            assert (trend["source"], trend["weight"], trend["customers"]) == ("off", 0.0, 0)
            assert trend["reason"].endswith("popular items are those with the most events in training")
            body = service.get("/v1/trending").json()
            assert (body["items"], body["fallback_kinds"], body["days"]) == ([], ["not_trending"], 7.0)
            popular = service.post("/v1/recommend", json={"history": [], "k": 2}).json()
            assert [item["id"] for item in popular["items"]] == ["i0", "i1"]
            assert popular["fallback_kinds"] == ["popular"]
            listed = service.post("/v1/recommend", json={"history": ["i3"], "k": 5}).json()["items"]
            assert [item["id"] for item in listed] == shop_model().recommend(["i3"], k=5).ids
            assert "lorentzrec_trend_on 0.0" in service.get("/metrics").text
            # The stream is back.
            events = [Event(f"c{number}", "i7", time.time() - 5, "2") for number in range(300)]
            store.add_events(events)
            wait_until(lambda: trend_of(service)["source"] == "events")
            assert trending(service) == ["i7"]
            assert trend_of(service)["different_customers"] == 300
            wait_until(lambda: "lorentzrec_trend_on 1.0" in service.get("/metrics").text)


def test_events_of_the_future_and_of_greedy_customers_are_counted_and_do_not_count(file_shop: Store) -> None:
    now = time.time()
    ahead = [Event(f"c{number}", "i5", now + 20_000, "1") for number in range(200)]
    greedy = [Event("bot", f"x{number}", now - number - 10, f"x{number}") for number in range(300)]
    usual = [Event(f"u{number}", f"i{number % 3}", now - DAY, "1") for number in range(150)]
    file_shop.add_events([*ahead, *greedy, *usual])
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05, new_items_from="none") as service:
        wait_until(lambda: trend_of(service)["source"] == "events")
        trend = trend_of(service)
        expected = {"customers": 150, "different_customers": 151, "unknown": 200, "capped": 100, "ahead": 200}
        assert {name: trend[name] for name in expected} == expected
        assert trending(service) == ["i0", "i1", "i2"]
        metrics = service.get("/metrics").text
        assert "lorentzrec_trend_capped 100.0" in metrics
        assert "lorentzrec_trend_events_ahead 200.0" in metrics


def test_erased_customers_leave_the_counts(file_shop: Store) -> None:
    now = time.time()
    file_shop.add_events([Event(f"u{number}", f"i{number % 3}", now - DAY, "1") for number in range(150)])
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        wait_until(lambda: trend_of(service)["source"] == "events")
        assert trend_of(service)["customers"] == 150
        for number in range(40):
            assert service.delete(f"/v1/users/u{number}").status_code == 200
        wait_until(lambda: trend_of(service)["customers"] == 110)


def test_new_items_trend_behind_those_of_the_version(file_shop: Store) -> None:
    buy(file_shop)
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        assert service.put("/v1/items/fresh", json={"like": ["i3"], "category": "coats"}).status_code == 200
        now = time.time()
        file_shop.add_events([Event(f"f{number}", "fresh", now, "1") for number in range(50)])
        wait_until(lambda: trending(service)[:1] == ["fresh"])
        first = service.get("/v1/trending?k=1").json()["items"][0]
        assert (first["new"], first["row"], first["usual"], first["customers"]) == (True, -1, 0.0, 50)
        assert first["reason"] == "50 customers in the last 7 days, usually fewer than one"
        assert trending(service, "&categories=coats")[0] == "fresh"
        assert trend_of(service)["unknown"] == 0


def test_both_clients_ask_for_trending_items(file_shop: Store, tmp_path: Path) -> None:
    buy(file_shop)
    options = "--trend-seconds", SHORT
    with service_process(file_shop.url, tmp_path, *options) as service:
        wait_for_counts(service)
        with Client(service.url) as client:
            found = client.trending(2, categories=["hats"], fields=["price"])
            assert [item.category for item in found.items] == ["hats", "hats"]
            assert found.items[0].customers > found.items[0].usual > 0
            trend = client.model().trend
            assert trend is not None
            assert (trend.source, trend.weight) == ("events", 2.0)
            with pytest.raises(TypeError, match="diversity"):
                client.trending(diversity=1.0)


def test_a_version_without_a_clock_counts_customers_as_well(tmp_path: Path) -> None:
    with closing(open_store(f"file:{tmp_path / 'store'}", create=True)) as store:
        path = tmp_path / "version"
        name = str(write_version(path, shop_model(), items=shop_table())["name"])
        store.upload(path)
        store.activate(name)
        with service_here(store.url, trend_seconds=0.05, poll_seconds=0.05) as service:
            wait_until(lambda: trend_of(service)["refreshed"] is not None)
            assert (trend_of(service)["source"], trend_of(service)["days"]) == ("off", 28.0)
            buy(store)
            wait_until(lambda: trend_of(service)["source"] == "events")
            assert trend_of(service)["weight"] == 0.0
            popular = service.post("/v1/recommend", json={"history": [], "k": 2}).json()
            assert [item["id"] for item in popular["items"]] == ["i39", "i38"]
            assert trending(service)[0] == "i39"


def test_each_arm_has_the_days_of_its_version(file_shop: Store, tmp_path: Path) -> None:
    numbers = np.full(ITEMS, 9, np.float32)
    model = shop_model(geometry="euclidean", score="inner").with_points(
        trend=Trend(numbers, numbers, 0.0, 28.0, time.time())
    )
    path = tmp_path / "flat"
    name = str(write_version(path, model, items=shop_table())["name"])
    file_shop.upload(path)
    file_shop.activate(name, arm="flat")
    now = time.time()
    file_shop.add_events([Event(f"u{number}", "i1", now - DAY, "1") for number in range(150)])
    file_shop.add_events([Event(f"v{number}", "i2", now - 9 * DAY, "1") for number in range(150)])
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        wait_until(lambda: trending(service) == ["i1"] and trending(service, "&arm=flat") == ["i1", "i2"])
        assert service.get("/v1/trending?arm=flat").json()["days"] == 28.0


def test_the_days_of_a_version_that_is_gone_are_neither_read_nor_kept(file_shop: Store, tmp_path: Path) -> None:
    now, numbers = time.time(), np.full(ITEMS, 9, np.float32)
    file_shop.add_events([Event(f"u{number}", "i1", now - DAY, "1") for number in range(150)])
    file_shop.add_events([Event(f"v{number}", "i2", now - 20 * DAY, "1") for number in range(150)])
    recommenders = list[Recommender]()
    for days in (7.0, 28.0):
        model = shop_model().with_points(trend=Trend(numbers, numbers, 0.0, days, now))
        write_version(tmp_path / f"{days}", model, items=shop_table())
        recommenders.append(Recommender(open_version(tmp_path / f"{days}")))
    guarded = GuardedStore(lambda: file_shop, seconds=PATIENCE, threads=2)
    watcher = TrendWatcher(guarded, Metrics(), PATIENCE)

    def counted(*recommenders: Recommender) -> dict[float, int]:
        for recommender in recommenders:
            watcher.apply(recommender, "main")
        watcher.refresh()
        live = watcher.apply(recommenders[0], "main").trend
        assert live is not None
        assert live.counted is not None
        return {days: int(counts.recent.sum()) for days, counts in live.counted.by_days.items()}

    short, long = recommenders
    assert counted(short, long) == {7.0: 150, 28.0: 300}
    del long
    recommenders.clear()
    gc.collect()
    assert counted(short) == {7.0: 150}
    again = Recommender(open_version(tmp_path / "28.0"))
    assert counted(again, short) == {7.0: 150, 28.0: 300}


def test_a_store_that_cannot_list_its_events_still_reads_histories(
    file_shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = list[bool]()

    def fail(*_: object) -> None:
        failed.append(True)
        raise StoreUnavailable("throttled")

    monkeypatch.setattr(type(file_shop), "recent_events", fail)
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=PATIENCE) as service:
        wait_until(lambda: len(failed) > 2)
        found = service.get("/v1/users/ann/recommendations").json()
        assert found["degraded"] is None
        warning = "the trend cannot be counted from the events; see the log of the service"
        assert warning in service.get("/readyz").json()["warnings"]


def test_old_events_leave_the_counts_although_new_ones_cannot_be_read(
    file_shop: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a damaged page")

    buy(file_shop)
    now, name = time.time(), file_shop.state().version
    assert name is not None
    recommender = Recommender(open_version(file_shop.fetch(name, tmp_path)))
    watcher = TrendWatcher(GuardedStore(lambda: file_shop, seconds=PATIENCE, threads=2), Metrics(), PATIENCE)
    watcher.apply(recommender, "main")
    watcher.refresh()
    live = watcher.apply(recommender, "main").trend
    assert live is not None
    assert live.source == "events"
    monkeypatch.setattr(type(file_shop), "recent_events", fail)
    monkeypatch.setattr("time.time", lambda: now + 7 * DAY)
    watcher._refresh_safely()
    live = watcher.apply(recommender, "main").trend
    assert live is not None
    assert live.total == 0


def test_a_fault_of_the_trend_does_not_keep_a_version_from_use(
    file_shop: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lorentzrec.serving.worker import trend_watcher

    def fail(*_: object) -> None:
        raise RuntimeError("no counts")

    monkeypatch.setattr(trend_watcher, "find_live_trend", fail)
    with service_here(file_shop.url, trend_seconds=0.05, poll_seconds=0.05) as service:
        assert service.post("/v1/recommend", json={"history": ["i3"]}).status_code == 200
        assert (
            "the trend of arm main cannot be used; see the log of the service"
            in service.get("/readyz").json()["warnings"]
        )
        assert trend_of(service) is None
