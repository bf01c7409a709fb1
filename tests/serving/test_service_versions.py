"""Versions are switched while requests are under way; damaged ones are refused."""

from __future__ import annotations

import gc
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partialmethod
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from lorentzrec.base import array_files
from lorentzrec.points.files import POINTS
from lorentzrec.serving.http.messages import HistoryQuery
from lorentzrec.serving.http.requests import RequestThreads, Worker
from lorentzrec.serving.http.routes.customers import get_history
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores import histories
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.worker.event_writer import EventWriter
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.health import Health
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.query import RankingOptions
from lorentzrec.serving.worker.recommender import DEFAULTS, Recommender
from lorentzrec.serving.worker.version_watcher import VersionWatcher
from tests.serving.running_service import PATIENCE, published, service_here, service_process, shop_store, wait_until


def damage(store: Store, name: str, cache: Path) -> None:
    """Turn one bit of the points of a version in a file store."""
    points = store.fetch(name, cache) / POINTS
    content = bytearray(points.read_bytes())
    content[-1] ^= 1
    points.chmod(0o644)
    points.write_bytes(content)


def model_of(service: Any) -> str:
    return str(service.get("/v1/model").json()["model"])


def test_a_history_has_the_titles_of_the_version_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version comes into use while the history is read."""
    store = open_store(f"file:{tmp_path / 'store'}", create=True)
    first = published(store, tmp_path, "first")
    store.add_events([histories.Event("ann", "i1", 1.0, "a")])
    guard, metrics = GuardedStore(lambda: store, seconds=PATIENCE, threads=2), Metrics()
    versions = VersionWatcher(guard, metrics, ServiceSettings(store.url))
    versions.refresh()
    read = store.history

    def read_slowly(user: str, limit: int) -> list[histories.StoredEvent]:
        published(store, tmp_path, "second")
        versions.refresh()
        return read(user, limit)

    monkeypatch.setattr(store, "history", read_slowly)
    health = Health(versions, guard, metrics, None, 1)
    request = SimpleNamespace(query=HistoryQuery())
    response: Any = get_history.fn(
        "ann", request, Worker(versions, guard, metrics, RequestThreads(), health, EventWriter(guard))
    )
    assert (response.model, response.history[0].title) == (first, "first Piece number 1")
    assert versions.name != first
    guard.close()


def test_twenty_versions_under_load(tmp_path: Path) -> None:
    """No request fails, and every response is of one version: all its titles have the label of the model it names."""
    store = open_store(f"file:{tmp_path / 'store'}", create=True)
    labels = {published(store, tmp_path, "label-0"): "label-0"}
    done, mixed, served = Event(), list[str](), set[str]()

    def keep_requesting(url: str) -> int:
        requests = 0
        with httpx.Client(base_url=url, timeout=60) as http:
            while not done.is_set():
                response = http.post("/v1/recommend", json={"history": ["i3"], "k": 5, "reasons": True})
                assert response.status_code == 200, response.text
                body = response.json()
                titles = [item["title"] for item in body["items"]]
                titles += [reason["title"] for item in body["items"] for reason in item["because"]]
                served.add(body["model"])
                mixed.extend(f"{body['model']} {title}" for title in titles)
                requests += 1
        return requests

    with service_process(store.url, tmp_path, "--workers", "2") as service, ThreadPoolExecutor(3) as pool:
        clients = [pool.submit(keep_requesting, service.url) for _ in range(3)]
        try:
            for number in range(1, 21):
                name = published(store, tmp_path, f"label-{number}")
                labels[name] = f"label-{number}"
                if number % 5 == 0:
                    wait_until(lambda name=name: model_of(service.http) == name)  # type: ignore[misc]
                for old in store.versions()[3:]:
                    store.discard(old)
        finally:
            done.set()
        assert all(future.result() > 0 for future in clients)
    assert len(served) >= 4
    assert [line for line in mixed if labels[line.split()[0]] != line.split()[1]] == []
    store.close()


def test_a_version_is_warm_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first query of a kind is slow, so the worker runs it itself."""
    queries: list[tuple[str, bool]] = []
    for name in ("recommend", "similar"):

        def record(
            recommender: Recommender,
            query: Any,
            options: RankingOptions = DEFAULTS,
            *,
            name: str,
            method: Any,
            **more: Any,
        ) -> Any:
            if options.k > 1:  # else it is a test of the version, of which there is one each second
                queries.append((name, options.reasons))
            return method(recommender, query, options, **more)

        method = getattr(Recommender, name)
        monkeypatch.setattr(Recommender, name, partialmethod(record, name=name, method=method))
    warm = [("recommend", True), ("similar", False)]
    store = shop_store(tmp_path)
    with service_here(store.url, poll_seconds=0.05) as service:
        assert service.get("/readyz").status_code == 200
        assert queries == warm
        name = published(store, tmp_path)
        wait_until(lambda: model_of(service) == name)
        assert queries == [*warm, *warm]
    store.close()


def test_a_damaged_version_is_refused_and_the_last_good_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = shop_store(tmp_path)
    good = str(store.state().version)
    other = published(store, tmp_path)
    store.activate(good)
    damage(store, other, tmp_path)
    with service_here(store.url, poll_seconds=0.05) as service:
        assert service.get("/readyz").json() == {"ready": True, "model": good, "warnings": []}
        store.activate(other)
        wait_until(lambda: bool(service.get("/readyz").json()["warnings"]))
        (warning,) = service.get("/readyz").json()["warnings"]
        assert warning == f"version {other} is refused; see the log of the service"
        assert re.search(f"version {other} is refused.* is damaged or missing", caplog.text)
        assert model_of(service) == good
        assert b"lorentzrec_versions_refused_total 1.0" in service.get("/metrics").content
        better = published(store, tmp_path)
        wait_until(lambda: model_of(service) == better)
        wait_until(lambda: service.get("/readyz").json()["warnings"] == [])
        workers = re.findall(r"lorentzrec_version_workers\{(.*)\} (.*)", service.get("/metrics").text)
        assert workers == [(f'version="{better}"', "1.0")], "versions of the past are left out"
    store.close()


def test_a_service_that_starts_on_a_damaged_version_takes_the_newest_good_one(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    good = store.state().version
    damage(store, published(store, tmp_path), tmp_path)
    with service_here(store.url) as service:
        body = service.get("/readyz").json()
        assert (body["model"], len(body["warnings"])) == (good, 1)
        assert service.post("/v1/recommend", json={"history": ["i1"]}).json()["model"] == good
    store.close()


def test_a_service_without_any_version_is_not_ready_until_there_is_one(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path / 'store'}", create=True)
    with service_here(store.url, poll_seconds=0.05) as service:
        assert service.get("/healthz").status_code == 200
        for response in (service.get("/readyz"), service.post("/v1/recommend", json={"history": ["i1"]})):
            assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
            assert response.json()["type"] == "urn:lorentzrec:not-ready"
            assert "lorentzrec publish" in response.json()["detail"]
        stored = service.post("/v1/events", json={"user": "ann", "item": "i3"}).json()
        assert stored == {"accepted": 1, "duplicates": 0, "unknown_items": 1, "model": None}
        name = published(store, tmp_path)
        wait_until(lambda: service.get("/readyz").status_code == 200)
        body = service.post("/v1/recommend", json={"user": "ann"}).json()
        assert (body["model"], body["fallback"]) == (name, None)
    store.close()


def test_only_damaged_versions_are_none(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    damage(store, str(store.state().version), tmp_path)
    with service_here(store.url) as service:
        response = service.get("/readyz")
        assert response.status_code == 503
        assert "is refused" in response.json()["detail"]
        assert str(tmp_path) not in response.text
    store.close()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there is no list of mapped files here")
def test_the_memory_of_an_old_version_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_files, "READ_BYTES", 0)  # as if the files were large
    store = shop_store(tmp_path)
    first = str(store.state().version)

    def mapped(name: str) -> bool:
        gc.collect()
        return name in Path("/proc/self/maps").read_text()

    with service_here(store.url, poll_seconds=0.05) as service:
        service.post("/v1/recommend", json={"history": ["i1"]})
        assert mapped(first)
        second = published(store, tmp_path)
        wait_until(lambda: model_of(service) == second)
        wait_until(lambda: not mapped(first))
    store.close()


def test_the_cache_keeps_what_the_store_has_and_downloads_under_way(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    settings = ServiceSettings(store.url, cache=tmp_path / "cache")
    under_way = f".{store.state().version}.partial-1a2b"
    for name in ("discarded", ".discarded.partial-3c4d", under_way):
        (settings.cache_folder / name).mkdir(parents=True)
    (settings.cache_folder / ".discarded.lock").touch()
    with service_here(store.url, cache=settings.cache):
        assert [path.name for path in settings.cache_folder.iterdir()] == [under_way]


def test_a_version_of_a_later_format_is_refused_with_its_reason(tmp_path: Path) -> None:
    store = shop_store(tmp_path)
    good = store.state().version
    other = published(store, tmp_path)
    manifest = store.fetch(other, tmp_path) / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format_version": 99}))
    with service_here(store.url) as service:
        assert service.get("/readyz").json()["model"] == good
    store.close()
