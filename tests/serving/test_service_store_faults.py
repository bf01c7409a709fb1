"""The store goes away under a running service, and comes back."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from litestar.testing import TestClient

from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.http import app
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.worker.guarded_store import GuardedStore
from tests.serving.running_service import misses_store, published, service_here, shop_store, wait_until
from tests.serving.servers import CosmosServer, PostgresServer, Server
from tests.serving.small_shop import shop_model


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for one test alone, since it is stopped in it."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.fixture
def own_cosmos(monkeypatch: pytest.MonkeyPatch) -> Iterator[CosmosServer]:
    from tests.serving.servers import COSMOS_KEY

    monkeypatch.setenv("COSMOS_KEY", COSMOS_KEY)
    server = CosmosServer()
    server.start()
    yield server
    server.remove()


def publish_shop(url: str, folder: Path) -> str:
    """The small shop in a new store; the name of its version."""
    with closing(open_store(url, create=True)) as store:
        return published(store, folder)


def assert_away(service: TestClient[Any]) -> None:
    """Queries with a history get full results, customers the popular items, and nothing is lost silently."""
    body = service.post("/v1/recommend", json={"history": ["i3"], "k": 3}).json()
    assert [item["id"] for item in body["items"]] == shop_model().recommend(["i3"], k=3).ids
    assert (body["fallback"], body["degraded"]) == (None, None)
    for response in (
        service.post("/v1/recommend", json={"user": "ann", "k": 2}),
        service.get("/v1/users/ann/recommendations?k=2"),
    ):
        assert response.status_code == 200
        degraded = response.json()
        assert [item["id"] for item in degraded["items"]] == ["i0", "i1"]
        assert degraded["degraded"].startswith("the history of the customer could not be read: ")
        assert "127.0.0.1" not in response.text, "the address of the store belongs in the log"
    for response in (
        service.post("/v1/events", json={"user": "ann", "item": "i9", "id": "late"}),
        service.get("/v1/users/ann/history"),
        service.delete("/v1/users/ann"),
        service.put("/v1/live", json={"items": None}),
    ):
        assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
        assert response.json()["type"] == "urn:lorentzrec:store-unavailable"
        assert "127.0.0.1" not in response.text
    assert service.get("/healthz").status_code == 200
    assert misses_store(service), "a load balancer keeps a service that can recommend"
    assert "127.0.0.1" not in service.get("/readyz").text
    assert "lorentzrec_store_up 0.0" in service.get("/metrics").text


def outlasts_a_hang(service: TestClient[Any], server: Server) -> None:
    server.freeze()
    try:
        wait_until(lambda: misses_store(service))
        assert_away(service)
    finally:
        server.thaw()
    wait_until(lambda: not misses_store(service))


@pytest.mark.postgres
def test_postgresql_stops_and_starts(own_postgres: PostgresServer, tmp_path: Path) -> None:
    url = own_postgres.create_database("shop")
    publish_shop(url, tmp_path)
    with service_here(url, cache=tmp_path / "cache", poll_seconds=0.2) as service:
        first = {"user": "ann", "item": "i3", "id": "first"}
        assert service.post("/v1/events", json=first).json()["accepted"] == 1
        own_postgres.stop()
        wait_until(lambda: misses_store(service))
        assert_away(service)
        own_postgres.start()
        wait_until(lambda: not misses_store(service))
        body = service.post("/v1/recommend", json={"user": "ann", "k": 3}).json()
        assert [item["id"] for item in body["items"]] == shop_model().recommend(["i3"], k=3).ids
        assert body["degraded"] is None
        assert service.post("/v1/events", json=first).json()["duplicates"] == 1


@pytest.mark.postgres
def test_postgresql_hangs(own_postgres: PostgresServer, tmp_path: Path) -> None:
    """It accepts connections and does not respond: every call must end by our own deadline."""
    url = own_postgres.create_database("shop")
    publish_shop(url, tmp_path)
    with service_here(url, cache=tmp_path / "cache", poll_seconds=0.2, store_seconds=2) as service:
        outlasts_a_hang(service, own_postgres)
        wait_until(lambda: service.post("/v1/events", json={"user": "ann", "item": "i3"}).status_code == 200)


@pytest.mark.cosmos
def test_cosmos_stops_and_starts(own_cosmos: CosmosServer, tmp_path: Path) -> None:
    """The emulator forgets everything when it stops; the service continues with the version it has."""
    url = own_cosmos.address("shop")
    publish_shop(url, tmp_path)
    with service_here(url, cache=tmp_path / "cache", poll_seconds=0.2, store_seconds=2) as service:
        first = {"user": "ann", "item": "i3", "id": "first"}
        wait_until(lambda: service.post("/v1/events", json=first).status_code == 200)
        outlasts_a_hang(service, own_cosmos)
        wait_until(lambda: service.post("/v1/events", json=first).json().get("duplicates") == 1)
        own_cosmos.stop()
        wait_until(lambda: misses_store(service))
        assert_away(service)


@pytest.mark.postgres
def test_a_service_starts_before_its_store(own_postgres: PostgresServer, tmp_path: Path) -> None:
    url = own_postgres.create_database("shop")
    name = publish_shop(url, tmp_path)
    own_postgres.stop()
    with service_here(url, cache=tmp_path / "cache", poll_seconds=0.2) as service:
        assert service.get("/readyz").status_code == 503
        assert service.post("/v1/recommend", json={"history": ["i3"]}).status_code == 503
        own_postgres.start()
        wait_until(lambda: service.get("/readyz").status_code == 200)
        assert service.get("/v1/model").json()["model"] == name


def test_the_folder_of_a_file_store_vanishes(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url, poll_seconds=0.1) as service:
        (tmp_path / "store").rename(tmp_path / "elsewhere")
        wait_until(lambda: misses_store(service))
        # The version in use needs no file to be opened again.
        assert service.post("/v1/recommend", json={"history": ["i3"]}).status_code == 200
        (tmp_path / "elsewhere").rename(tmp_path / "store")
        wait_until(lambda: not misses_store(service))
        assert service.post("/v1/recommend", json={"history": ["i3"]}).status_code == 200
    store.close()


def test_a_worker_has_a_connection_for_each_of_its_store_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a store that connects to a server; as many threads as are set read, and half as many write."""
    asked = []

    def opened(url: str, *, connections: int) -> Store:
        asked.append(connections)
        return open_store(url, connections=connections)

    monkeypatch.setattr(app, "open_store", opened)
    shop_store(tmp_path).close()
    with service_here(f"file:{tmp_path / 'store'}", store_threads=40) as service:
        wait_until(lambda: service.get("/readyz").status_code == 200)
    assert min(asked) >= 60
    asked.clear()
    with service_here(f"file:{tmp_path / 'store'}", store_threads=40, store_connections=5) as service:
        wait_until(lambda: service.get("/readyz").status_code == 200)
    assert set(asked) == {5}


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedStore]:
    guard = GuardedStore(lambda: shop_store(tmp_path), seconds=0.2, threads=2)
    yield guard
    guard.close()


def test_a_guard_has_a_deadline_and_then_fails_at_once(guarded: GuardedStore) -> None:
    guarded.call(lambda store: store.state(), seconds=60)
    hanging = Event()

    def hang(_: Store) -> None:
        hanging.wait(60)

    with pytest.raises(StoreUnavailable, match=r"has not responded in 0\.2 seconds"):
        guarded.call(hang)
    with pytest.raises(StoreUnavailable, match="has not responded"):
        guarded.call(lambda store: store.state())  # not even tried
    assert guarded.call(lambda store: store.state(), probe=True, seconds=60).live_revision == 0
    assert guarded.trouble is None
    with pytest.raises(StoreUnavailable, match="has not responded"):
        guarded.call(hang)
    with pytest.raises(StoreUnavailable, match="too many calls to the store are under way"):
        guarded.call(lambda store: store.state(), probe=True)  # both threads hang
    hanging.set()
    wait_until(lambda: _responds(guarded))
    assert guarded.trouble is None


def test_no_call_has_less_time_than_the_settings_give(tmp_path: Path) -> None:
    guard = GuardedStore(lambda: shop_store(tmp_path), seconds=60, threads=2)

    def read_slowly(store: Store) -> str | None:
        time.sleep(0.3)
        return store.state().version

    assert guard.call(read_slowly, seconds=0.1) is not None
    guard.close()


def test_a_guard_passes_other_errors_on(guarded: GuardedStore) -> None:
    guarded.call(lambda store: store.state(), seconds=60)
    with pytest.raises(InputError, match="no complete version"):
        guarded.call(lambda store: store.activate("none"), seconds=60)
    assert guarded.trouble is None


def test_calls_beyond_the_threads_of_a_guard_wait_their_turn(guarded: GuardedStore) -> None:
    """Many clients at once and a healthy store: every response is complete."""
    guarded.call(lambda store: store.state(), seconds=60)

    def slowly(store: Store) -> int:
        time.sleep(0.01)
        return store.state().live_revision

    with ThreadPoolExecutor(8) as askers:
        assert list(askers.map(lambda _: guarded.call(slowly, seconds=60), range(16))) == [0] * 16


def test_failed_writes_leave_reads_alone(guarded: GuardedStore) -> None:
    guarded.call(lambda store: store.state(), seconds=60)
    hanging, tried = Event(), []

    def hang(_: Store) -> None:
        tried.append(1)
        hanging.wait(60)

    with pytest.raises(StoreUnavailable, match="has not responded"):
        guarded.call(hang, writes=True)
    with pytest.raises(StoreUnavailable, match="has not responded"):
        guarded.call(hang, writes=True)  # not tried
    assert len(tried) == 1
    assert guarded.call(lambda store: store.history("ann"), seconds=60) == []
    assert guarded.trouble is None
    assert guarded.warnings == ["writes to the store fail, and the log of the service has the reason"]
    hanging.set()
    wait_until(lambda: _writes(guarded))
    assert guarded.warnings == []


def test_a_write_lock_of_another_process_degrades_no_response(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    database = tmp_path / "store" / "store.sqlite"
    with (
        service_here(store.url, poll_seconds=0.1, store_seconds=2) as service,
        closing(sqlite3.connect(database, isolation_level=None)) as other,
    ):
        assert service.post("/v1/events", json={"user": "ann", "item": "i3", "time": 1}).status_code == 200
        other.execute("BEGIN IMMEDIATE")
        for number in range(20):
            refused = service.post("/v1/events", json={"user": "ann", "item": "i4", "time": number})
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            body = service.post("/v1/recommend", json={"user": "ann", "k": 3}).json()
            assert body["degraded"] is None
        assert service.get("/readyz").status_code == 200
        other.execute("ROLLBACK")
        wait_until(lambda: service.post("/v1/events", json={"user": "ann", "item": "i5"}).status_code == 200)
    store.close()


def test_a_damaged_history_concerns_one_customer(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    with service_here(store.url, poll_seconds=0.1) as service:
        for user in ("ann", "bob"):
            assert service.post("/v1/events", json={"user": user, "item": "i3"}).status_code == 200
        with closing(sqlite3.connect(tmp_path / "store" / "store.sqlite", isolation_level=None)) as other:
            other.execute("UPDATE events SET item_id = CAST(x'ff41ff' AS TEXT) WHERE user_id = 'ann'")
        for _ in range(3):
            damaged = service.get("/v1/users/ann/history")
            assert (damaged.status_code, damaged.json()["type"]) == (500, "urn:lorentzrec:damaged-history")
            body = service.post("/v1/recommend", json={"user": "ann", "k": 2}).json()
            assert [item["id"] for item in body["items"]] == ["i0", "i1"]
            assert "the history of this customer is damaged" in body["degraded"]
            assert service.get("/v1/users/bob/history").status_code == 200
            assert service.get("/readyz").status_code == 200
        assert service.delete("/v1/users/ann").json()["events"] == 1
        assert service.get("/v1/users/ann/history").json()["history"] == []
    store.close()


def test_a_broken_store_is_opened_again(tmp_path: Path) -> None:
    shop_store(tmp_path).close()
    opened = []

    def opening() -> Store:
        opened.append(open_store(f"file:{tmp_path / 'store'}"))
        return opened[-1]

    guard = GuardedStore(opening, seconds=60, threads=2)
    assert guard.call(lambda store: store.history("ann")) == []
    (tmp_path / "store").rename(tmp_path / "sound")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "store.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        guard.call(lambda store: store.state(), probe=True)
    (tmp_path / "store").rename(tmp_path / "broken")
    (tmp_path / "sound").rename(tmp_path / "store")
    assert guard.call(lambda store: store.state(), probe=True).live_revision == 0
    assert len(opened) == 2
    guard.close()


def test_a_broken_store_is_unavailable_and_not_the_fault_of_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = GuardedStore(lambda: open_store(f"file:{tmp_path}"), seconds=60, threads=2)
    with pytest.raises(StoreUnavailable, match="holds no store: publish"):
        guard.call(lambda store: store.history("ann"))
    assert re.search(f"the store is unavailable: (file:)?{tmp_path} holds no store", caplog.text)
    shop_store(tmp_path).close()
    (tmp_path / "store" / "store.sqlite").write_bytes(b"no database" * 100)
    guard = GuardedStore(lambda: open_store(f"file:{tmp_path / 'store'}"), seconds=60, threads=2)
    with pytest.raises(StoreUnavailable, match=r"is damaged .*: (put a copy back|restore a backup)"):
        guard.call(lambda store: store.history("ann"), probe=True)
    assert "is damaged" in str(guard.trouble)


def _writes(guarded: GuardedStore) -> bool:
    try:
        guarded.call(lambda store: store.forget("nobody"), writes=True, seconds=60)
    except StoreUnavailable:
        return False
    return True


def _responds(guarded: GuardedStore) -> bool:
    try:
        guarded.call(lambda store: store.state(), probe=True, seconds=60)
    except StoreUnavailable:
        return False
    return True
