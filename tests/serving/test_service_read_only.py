"""A store that can be read and not written: its service serves, and reports what it refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from lorentzrec.errors import InputError, StoreUnavailable
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import Event, StoredEvent
from lorentzrec.serving.stores.new_items import NewItem
from tests.serving.running_service import published, service_here, service_process, shop_store, wait_until
from tests.serving.servers import PostgresServer
from tests.serving.small_shop import shop_model
from tests.serving.stores.next_release import add_step
from tests.serving.stores.raises_fault import raises_fault

READ_ONLY = "the store is read-only: events, erasures, live items and new items are refused"


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Shows the folder `store` in another place, where nothing can be written."""
    place = tmp_path / "read-only"
    place.mkdir()

    def mount() -> Path:
        for options in (["--bind", str(tmp_path / "store")], ["-o", "remount,bind,ro"]):
            done = subprocess.run(["mount", *options, str(place)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"this user cannot mount a folder read-only: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)


def assert_reads_and_refuses(service: TestClient[Any]) -> None:
    body = service.post("/v1/recommend", json={"user": "ann", "k": 3}).json()
    assert [item["id"] for item in body["items"]] == shop_model().recommend(["i3"], k=3).ids
    assert body["degraded"] is None
    for response in (
        service.post("/v1/events", json={"user": "ann", "item": "i9"}),
        service.delete("/v1/users/ann"),
        service.put("/v1/live", json={"items": None}),
    ):
        assert response.status_code == 503
        assert response.json()["type"] == "urn:lorentzrec:store-unavailable"
    assert [event["item"] for event in service.get("/v1/users/ann/history").json()["history"]] == ["i3"]
    ready = service.get("/readyz")
    assert ready.status_code == 200
    assert "writes to the store fail, and the log of the service has the reason" in ready.json()["warnings"]
    wait_until(lambda: "lorentzrec_store_writable 0.0" in service.get("/metrics").text)
    assert "lorentzrec_store_up 1.0" in service.get("/metrics").text


def test_a_service_on_a_read_only_file_system(tmp_path: Path, read_only: Callable[[], Path]) -> None:
    store = shop_store(tmp_path)
    store.add_events([Event("ann", "i3", 1, "1")])
    store.close()
    with service_here(f"file:{read_only()}", poll_seconds=0.1) as service:
        assert READ_ONLY in service.get("/readyz").json()["warnings"]
        assert_reads_and_refuses(service)
    with closing(open_store(store.url)) as again:
        assert again.history("ann") == [StoredEvent("i3", 1.0)]


def test_full_new_items_of_a_read_only_store_are_reported(tmp_path: Path, read_only: Callable[[], Path]) -> None:
    """Also if some are in the version, which the service would remove if it could."""
    with closing(shop_store(tmp_path)) as store:
        store.describe_item(NewItem("i3", title="known"), limit=10)
        store.describe_item(NewItem("new", title="new", like=("i3",)), limit=10)
    with service_here(f"file:{read_only()}", poll_seconds=0.1, new_items=2) as service:
        full = "there are 2 new items by put, and no more are added"
        wait_until(lambda: any(warning.startswith(full) for warning in service.get("/readyz").json()["warnings"]))


def test_what_others_write_is_read_through_a_read_only_mount(tmp_path: Path, read_only: Callable[[], Path]) -> None:
    store = shop_store(tmp_path)
    with service_process(f"file:{read_only()}", tmp_path) as service:
        for number in range(1, 4):
            store.add_events([Event("ann", f"i{number}", number, str(number))])
            assert len(service.http.get("/v1/users/ann/history").json()["history"]) == number
        store.close()  # the write-ahead log goes, and the file changes
        assert len(service.http.get("/v1/users/ann/history").json()["history"]) == 3
        with closing(open_store(store.url)) as again:
            again.add_events([Event("ann", "i4", 4, "4")])
            assert len(service.http.get("/v1/users/ann/history").json()["history"]) == 4
        assert len(service.http.get("/v1/users/ann/history").json()["history"]) == 4
        name = published_again(store.url, tmp_path)
        wait_until(lambda: service.http.get("/v1/model").json()["model"] == name)


def published_again(url: str, folder: Path) -> str:
    with closing(open_store(url)) as store:
        return published(store, folder, "again")


def test_a_store_that_becomes_read_only_and_writable_again(tmp_path: Path, read_only: Callable[[], Path]) -> None:
    store = shop_store(tmp_path)
    place = read_only()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "store")
    with service_here(f"file:{link}", poll_seconds=0.1) as service:
        assert service.post("/v1/events", json={"user": "ann", "item": "i3", "id": "1"}).status_code == 200
        link.unlink()
        link.symlink_to(place)
        assert_reads_and_refuses(service)
        link.unlink()
        link.symlink_to(tmp_path / "store")
        wait_until(lambda: service.post("/v1/events", json={"user": "ann", "item": "i9"}).status_code == 200)
        assert service.get("/readyz").json()["warnings"] == []
    assert len(store.history("ann")) == 2
    store.close()


def test_what_cannot_be_done_with_a_read_only_store(tmp_path: Path, read_only: Callable[[], Path]) -> None:
    shop_store(tmp_path).close()
    place = read_only()
    with (
        closing(open_store(f"file:{place}")) as store,
        pytest.raises(StoreUnavailable, match="is read-only: make the file and its folder writable"),
    ):
        store.activate(store.versions()[0])
    with pytest.raises(InputError, match="cannot make a store in"):
        open_store(f"file:{place / 'new'}", create=True)


def test_a_migration_needs_a_store_that_can_be_written(
    tmp_path: Path, read_only: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(f"file:{tmp_path / 'store'}", create=True).close()
    place = read_only()
    add_step("file:", monkeypatch)
    with raises_fault(StoreFault.OLDER):
        open_store(f"file:{place}")
    with raises_fault(StoreFault.READ_ONLY):
        open_store(f"file:{place}", migrate=lambda *_: None)


@pytest.mark.postgres
def test_postgresql_that_became_read_only(postgres_server: PostgresServer, postgres_url: str, tmp_path: Path) -> None:
    """As a server does after another one took over: sessions stay read-only until the next connection."""
    with closing(open_store(postgres_url, create=True)) as store:
        published(store, tmp_path)
    with service_here(postgres_url, cache=tmp_path / "cache", poll_seconds=0.1) as service:
        assert service.post("/v1/events", json={"user": "ann", "item": "i3", "id": "1"}).status_code == 200
        postgres_server.run("ALTER DATABASE test SET default_transaction_read_only = on")
        try:
            postgres_server.run(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'lorentzrec'"
            )
            wait_until(lambda: "was lost at" in service.get("/readyz").text)
            assert_reads_and_refuses(service)
        finally:
            postgres_server.run("ALTER DATABASE test RESET default_transaction_read_only")
        wait_until(lambda: service.post("/v1/events", json={"user": "ann", "item": "i9"}).status_code == 200)
        assert "writes to the store fail" not in service.get("/readyz").text
        assert "127.0.0.1" not in service.get("/readyz").text
