"""The folder or the database of a file store is moved and replaced under a service that events are sent to."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from lorentzrec.serving.stores.address import open_store
from tests.serving.event_load import EventLoad, Found, look_for
from tests.serving.running_service import misses_store, published, service_here, service_process, shop_store, wait_until

NOTHING_WRONG = Found(missing=[], duplicated=[])


def test_a_folder_that_is_moved_away_and_back_loses_no_acknowledged_event(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    place, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    with service_process(store.url, tmp_path, "--workers", "2") as service, EventLoad(service.url) as load:
        for _ in range(10):
            load.wait_for(10)
            place.rename(elsewhere)
            before = load.refused["503"]
            wait_until(lambda before=before: load.refused["503"] > before)  # type: ignore[misc]
            elsewhere.rename(place)
        load.wait_for(10)
        load.stop()
        assert service.http.get("/readyz").status_code == 200
    store.close()
    assert set(load.refused) == {"503"}
    assert look_for(load.acknowledged, store.url) == NOTHING_WRONG


@pytest.mark.parametrize("replaced", ["folder", "database"])
def test_events_are_in_the_older_copy_that_took_the_place(tmp_path: Path, replaced: str) -> None:
    store = shop_store(tmp_path)
    store.close()
    place = tmp_path / "store"
    shutil.copytree(place, tmp_path / "copy")
    with service_process(store.url, tmp_path, "--workers", "2") as service, EventLoad(service.url) as load:
        load.wait_for(20)
        if replaced == "folder":
            place.rename(tmp_path / "gone")
            (tmp_path / "copy").rename(place)
        else:
            for file in place.glob("store.sqlite*"):
                file.unlink()
            shutil.copyfile(tmp_path / "copy" / "store.sqlite", tmp_path / "new")
            (tmp_path / "new").rename(place / "store.sqlite")
        moment = time.monotonic()
        load.wait_for(50)
        load.stop()
        wait_until(lambda: "was replaced by another one" in service.http.get("/readyz").text)
        assert service.http.get("/readyz").status_code == 200
        assert str(tmp_path) not in service.http.get("/readyz").text
    after = [event for event in load.acknowledged if event.begun > moment]
    assert len(after) > 20
    assert look_for(after, store.url) == NOTHING_WRONG


def test_events_are_in_a_store_that_was_removed_and_published_again(tmp_path: Path) -> None:
    shop_store(tmp_path).close()
    with service_here(f"file:{tmp_path / 'store'}", poll_seconds=0.1) as service:
        assert service.post("/v1/events", json={"user": "ann", "item": "i3"}).status_code == 200
        shutil.rmtree(tmp_path / "store")
        wait_until(lambda: misses_store(service))
        store = open_store(f"file:{tmp_path / 'store'}", create=True)
        published(store, tmp_path)
        wait_until(lambda: not misses_store(service))
        wait_until(lambda: service.post("/v1/events", json={"user": "bob", "item": "i3"}).status_code == 200)
        assert [event.item for event in store.history("bob")] == ["i3"]
        assert store.history("ann") == []
        store.close()
