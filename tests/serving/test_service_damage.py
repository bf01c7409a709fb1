"""Files damaged while a service runs: no worker dies, no response is a 500, good versions stay in use."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lorentzrec.base.atomic import MARKER
from lorentzrec.base.manifest import describe_files, write_manifest
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.versions.publish import publish, rollback
from lorentzrec.serving.versions.version import write_version
from lorentzrec.serving.worker.version_watcher import VersionWatcher
from tests.serving.running_service import published, service_here, service_process, shop_store, wait_until
from tests.serving.small_shop import shop_model, shop_table

LONG_TITLES = shop_table().with_columns(title=pl.concat_str(pl.col("title"), pl.lit(" long" * 3000)))
"""Each takes pages of its own, which are read only when the item is."""


def place_of(store: Store, name: str, tmp_path: Path) -> Path:
    return store.fetch(name, tmp_path)


def overwrite(path: Path, content: bytes) -> None:
    """In place, as `cp` does: processes that have the file open see it."""
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(content)


def workers_of(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no list of child processes here")
def test_files_cut_short_under_a_service_kill_no_worker(tmp_path: Path) -> None:
    store = shop_store(tmp_path, items=LONG_TITLES)
    good = str(store.state().version)
    damaged = published(store, tmp_path, items=LONG_TITLES)
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: service.http.get("/readyz").status_code == 200)
        wait_until(lambda: len(workers_of(service.process.pid)) >= 2)
        workers = workers_of(service.process.pid)
        for path in place_of(store, damaged, tmp_path).iterdir():
            os.truncate(path, path.stat().st_size // 3 // 4096 * 4096)

        def settled() -> bool:
            responses = [service.http.post("/v1/recommend", json={"history": ["i3"], "k": 20})]
            responses += [service.http.get("/v1/items", params={"query": f"Piece {n}"}) for n in range(20)]
            assert {response.status_code for response in responses} <= {200, 503}, [one.text for one in responses]
            return all(response.status_code == 200 and response.json()["model"] == good for response in responses)

        wait_until(settled)
        assert workers_of(service.process.pid) == workers, "no worker died"
        assert service.http.get("/readyz").json()["warnings"] == [
            f"version {damaged} is refused; see the log of the service"
        ]
    assert "Traceback" not in service.log.read_text()
    store.close()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no list of mapped files here")
def test_workers_share_one_copy_of_the_points_which_goes_with_its_version(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    first = str(store.state().version)

    def copies(name: str) -> list[set[str]]:
        """For each worker, the inodes of the copies it uses."""
        maps = [Path(f"/proc/{pid}/maps").read_text().splitlines() for pid in workers_of(service.process.pid)]
        found = [{line.split()[4] for line in lines if f"/versions/{name}.points" in line} for lines in maps]
        return [inodes for inodes in found if inodes]

    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: len(copies(first)) == 2)
        assert len(set.union(*copies(first))) == 1
        second = published(store, tmp_path)
        wait_until(lambda: len(copies(second)) == 2 and not copies(first))
        folder = next(Path(tempfile.gettempdir()).glob(f"lorentzrec-serve.scratch-*/versions/{second}.*")).parent
        wait_until(lambda: not list(folder.glob(f"{first}.*")))
        service.process.terminate()
        service.process.wait()
    assert not folder.exists()
    store.close()


def search_all(service: Any) -> set[int]:
    return {service.get(f"/v1/items/i{n}").status_code for n in range(40)}


def test_a_version_damaged_in_use_is_replaced_by_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = shop_store(tmp_path)
    good = str(store.state().version)
    damaged = published(store, tmp_path, items=LONG_TITLES)
    with service_here(store.url, poll_seconds=0.05) as service:
        path = place_of(store, damaged, tmp_path) / "items.sqlite"
        overwrite(path, path.read_bytes()[:8192] + b"\xff" * (path.stat().st_size - 8192))
        assert search_all(service) <= {200, 503}
        wait_until(lambda: service.get("/readyz").json().get("model") == good)
        assert search_all(service) == {200}
        workers = service.get("/metrics").text
        assert f'lorentzrec_version_workers{{version="{good}"}} 1.0' in workers
    assert len([line for line in caplog.messages if "was damaged while in use" in line]) == 1
    assert len([line for line in caplog.messages if f"version {damaged} is refused" in line]) == 1
    store.close()


@pytest.mark.parametrize("rest", [b"\xff", b""], ids=["overwritten", "truncated"])
def test_a_service_whose_only_version_cannot_be_read_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rest: bytes
) -> None:
    store = shop_store(tmp_path, items=LONG_TITLES)
    name = str(store.state().version)
    with service_here(store.url, poll_seconds=0.05) as service:
        path = place_of(store, name, tmp_path) / "items.sqlite"
        overwrite(path, path.read_bytes()[:8192] + rest * (path.stat().st_size - 8192))
        assert 503 in search_all(service)
        wait_until(lambda: service.get("/readyz").status_code == 503)
        assert f"nothing can be recommended from version {name}, which is damaged" in service.get("/readyz").text
        assert service.post("/v1/recommend", json={"history": ["i1"]}).status_code == 503
        refused = service.get("/v1/items/i17")
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:lorentzrec:not-ready")
        assert str(tmp_path) not in refused.text
        assert service.get("/v1/model").json()["model"] == name
        after = published(store, tmp_path)
        wait_until(lambda: service.get("/readyz").json().get("warnings") == [])
        assert service.get("/readyz").json()["model"] == after
        assert search_all(service) == {200}
    assert not any(record.exc_info for record in caplog.records)
    store.close()


@pytest.mark.postgres
def test_a_damaged_copy_is_downloaded_again(postgres_url: str, tmp_path: Path) -> None:
    with closing(open_store(postgres_url, create=True)) as store:
        name = published(store, tmp_path, items=LONG_TITLES)
    with service_here(postgres_url, poll_seconds=0.05, cache=tmp_path / "cache") as service:
        (path,) = (tmp_path / "cache").glob(f"*/{name}/items.sqlite")
        overwrite(path, path.read_bytes()[:8192] + b"\xff" * (path.stat().st_size - 8192))
        assert 503 in search_all(service)
        wait_until(lambda: search_all(service) == {200})
        assert service.get("/readyz").json() == {"ready": True, "model": name, "warnings": []}


def resealed(folder: Path, **changes: Any) -> None:
    """Give a version the checksums of its files as they are now, as an attacker with write access would."""
    manifest = json.loads((folder / MARKER).read_text())
    manifest["files"] = describe_files(folder)
    del manifest["files"][MARKER], manifest["checksum"]
    write_manifest(folder, manifest | changes)


def other_points(**changes: Any) -> Callable[[Path], None]:
    """Change what the manifest says of the points."""

    def forge(folder: Path) -> None:
        resealed(folder, points=json.loads((folder / MARKER).read_text())["points"] | changes)

    return forge


def wrong_rows(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "items.sqlite")) as connection:
        connection.execute("UPDATE items SET row = row + 7 WHERE row = 39")
        connection.commit()
    resealed(folder)


def no_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "items.sqlite")) as connection:
        connection.execute("DROP TABLE words")
        connection.execute("ALTER TABLE items DROP COLUMN price")
        connection.commit()
    resealed(folder)


FORGERIES: dict[str, Callable[[Path], None]] = {
    "items": other_points(items="40"),
    "dimension": other_points(dimension=None),
    "index": lambda folder: resealed(folder, index=[1]),
    "geometry": other_points(geometry=1),
    "config": lambda folder: resealed(folder, config={}),
    "name": lambda folder: resealed(folder, name="20990101T000000-000000"),
    "recency": other_points(recency="often"),
    "rows": wrong_rows,
    "table": no_table,
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_version_is_refused_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, forge: Callable[[Path], None]
) -> None:
    """Its checksums are right, so only the content can show that it is no version."""
    store = shop_store(tmp_path)
    good = str(store.state().version)
    forged = published(store, tmp_path)
    forge(tmp_path / "store" / "versions" / forged)
    with service_here(store.url, poll_seconds=0.02) as service:
        assert service.get("/readyz").json()["model"] == good
        wait_until(lambda: service.get("/readyz").json()["warnings"] != [])
        for _ in range(20):
            assert service.get("/v1/items/i3").status_code == 200
        (warning,) = service.get("/readyz").json()["warnings"]
        assert warning == f"version {forged} is refused; see the log of the service"
    assert len([line for line in caplog.messages if f"version {forged} is refused" in line]) == 1
    assert not any(record.exc_info for record in caplog.records)
    store.close()


def test_a_current_version_that_vanished(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Removed by hand: the version that was live before is used, and neither a rejected one nor one never live."""
    store = shop_store(tmp_path)
    first = str(store.state().version)
    second = published(store, tmp_path)
    assert rollback(store) == first  # so that the newest one that was live is not the one that stands
    never_live = str(write_version(tmp_path / "never", shop_model(), items=shop_table())["name"])
    store.upload(tmp_path / "never")

    def vanish() -> str:
        name = published(store, tmp_path)
        shutil.rmtree(tmp_path / "store" / "versions" / name)
        return name

    caplog.set_level(logging.INFO)
    with service_here(store.url, poll_seconds=0.02) as service:
        vanished = vanish()
        wait_until(lambda: "is missing or not complete" in service.get("/readyz").text)
        warning = (
            f"the current version {vanished} is missing or not complete, so version {first}, which was live before, "
            "is used: publish again"
        )
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [warning])
        for _ in range(20):
            assert service.get("/v1/model").json()["model"] == first
        assert caplog.messages.count(warning) == 1
        with service_here(store.url) as another:
            assert another.get("/readyz").json() == {"ready": True, "model": first, "warnings": [warning]}
        assert rollback(store) == first, "restored, not the version before it"
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [])
        vanish()
        newest = publish(shop_model(), store).name
        wait_until(lambda: service.get("/readyz").json() == {"ready": True, "model": newest, "warnings": []})
    assert store.versions() == [newest, first]
    assert not {second, never_live} & set(store.versions())
    assert not any(record.exc_info for record in caplog.records)
    store.close()


def test_a_failed_poll_of_the_store_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unforeseen defect must not fill the disk with tracebacks."""
    store = shop_store(tmp_path)
    with service_here(store.url, poll_seconds=0.02) as service:
        with monkeypatch.context() as broken:
            broken.setattr(VersionWatcher, "_use", lambda *_: 1 / 0)
            wait_until(lambda: service.get("/readyz").json()["warnings"] != [])
            for _ in range(20):
                assert service.get("/v1/model").status_code == 200
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [])
    assert len([record for record in caplog.records if record.exc_info]) == 1
    store.close()
