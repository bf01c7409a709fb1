"""Arms of a running service: customers by their hash, requests by name, damage, rollback and the end of an arm."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from litestar.testing import TestClient

from lorentzrec.points.files import POINTS
from lorentzrec.serving.stores.activations import choose_arm
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State
from lorentzrec.serving.versions.gate import PublishRefused
from lorentzrec.serving.versions.publish import publish, rollback
from lorentzrec.serving.versions.version import Version, open_version, write_version
from lorentzrec.serving.worker.new_item_watcher import NewItemWatcher
from lorentzrec.serving.worker.recommender import Recommender
from lorentzrec.serving.worker.version_watcher import VersionWatcher
from tests.serving.running_service import service_here, service_process, shop_store, wait_until
from tests.serving.small_shop import shop_model, shop_table

FLAT = shop_model(geometry="euclidean", score="inner")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(shop_store(tmp_path)) as opened:
        yield opened


def add_arm(store: Store, folder: Path, arm: str, share: float | None = None, **options: Any) -> str:
    """Make another model of the shop the current version of an arm."""
    path = folder / "version-of-an-arm"
    model = shop_model(**{"geometry": "euclidean", "score": "inner", **options})
    name = str(write_version(path, model, items=shop_table())["name"])
    store.upload(path)
    store.activate(name, arm=arm, share=share)
    return name


def recommended(service: TestClient[Any] | httpx.Client, **query: Any) -> tuple[str, str, list[str]]:
    body = service.post("/v1/recommend", json={"k": 5, **query}).json()
    return body["arm"], body["model"], [item["id"] for item in body["items"]]


def live_arms(service: TestClient[Any] | httpx.Client) -> dict[str, str | None]:
    return {arm["arm"]: arm["model"] for arm in service.get("/v1/model").json()["arms"]}


def test_each_customer_is_answered_by_their_arm(store: Store, tmp_path: Path) -> None:
    main = str(store.state().version)
    flat = add_arm(store, tmp_path, "flat", 0.4)
    arms = store.state().arms
    users = [f"u{number}" for number in range(40)]
    chosen = {user: choose_arm(arms, user) for user in users}
    assert {*chosen.values()} == {"main", "flat"}
    with service_here(store.url, poll_seconds=0.05) as service:
        assert service.get("/readyz").json()["warnings"] == []
        for user, arm in chosen.items():
            version = {"main": main, "flat": flat}[arm]
            assert recommended(service, user=user)[:2] == (arm, version)
            personal = service.get(f"/v1/users/{user}/recommendations").json()
            assert (personal["arm"], personal["model"]) == (arm, version)
        expected = {"main": shop_model().recommend(["i3"], k=5).ids, "flat": FLAT.recommend(["i3"], k=5).ids}
        assert expected["main"] != expected["flat"]
        assert recommended(service, history=["i3"]) == ("main", main, expected["main"])
        assert recommended(service, history=["i3"], arm="flat") == ("flat", flat, expected["flat"])
        assert recommended(service, user=users[0], arm="main")[0] == "main"
        similar = service.get("/v1/items/i9/similar?arm=flat&k=3").json()
        assert (similar["arm"], [one["id"] for one in similar["items"]]) == ("flat", FLAT.similar_items("i9", 3).ids)
        assert service.post("/v1/outfits", json={"basket": ["i3"], "arm": "flat"}).json()["arm"] == "flat"
        refused = service.post("/v1/recommend", json={"history": ["i3"], "arm": "deep"})
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:lorentzrec:unknown-arm")
        detail = "there is no arm 'deep' (arms: main, flat): check the name, or leave `arm` out"
        assert refused.json()["detail"] == detail
        assert service.get("/v1/items/i9/similar?arm=No").status_code == 400
        listed = service.get("/v1/model").json()["arms"]
        assert [(one["arm"], one["share"], one["geometry"]) for one in listed] == [
            ("main", 0.6, "hyperboloid"),
            ("flat", 0.4, "euclidean"),
        ]
        metrics = service.get("/metrics").text
        assert 'lorentzrec_arm_responses_total{arm="flat"}' in metrics
        assert f'lorentzrec_version_workers{{version="{flat}"}} 1.0' in metrics


def test_shares_rollbacks_and_the_end_of_an_arm_are_followed(store: Store, tmp_path: Path) -> None:
    with service_here(store.url, poll_seconds=0.05) as service:
        assert [*live_arms(service)] == ["main"]
        first = add_arm(store, tmp_path, "flat", 0.0)
        wait_until(lambda: live_arms(service).get("flat") == first)
        assert recommended(service, user="ann")[0] == "main"
        store.set_share("flat", 1.0)
        wait_until(lambda: recommended(service, user="ann")[:2] == ("flat", first))
        second = add_arm(store, tmp_path, "flat", score="distance")
        wait_until(lambda: recommended(service, user="ann")[:2] == ("flat", second))
        assert rollback(store, arm="flat") == first
        wait_until(lambda: recommended(service, user="ann")[:2] == ("flat", first))
        store.set_live_items(["i1", "i2"])
        wait_until(lambda: {*recommended(service, history=["i3"], arm="flat")[2]} == {"i1", "i2"})
        store.set_live_items(None)
        assert service.put("/v1/items/boot", json={"title": "Boot", "like": ["i3"]}).status_code == 200
        for arm in ("main", "flat"):
            query = {"history": ["i3"], "arm": arm, "k": 50}
            wait_until(lambda query=query: "boot" in recommended(service, **query)[2])  # type: ignore[misc]
        store.end_arm("flat")
        wait_until(lambda: [*live_arms(service)] == ["main"])
        assert recommended(service, user="ann")[0] == "main"
        assert service.post("/v1/recommend", json={"history": ["i3"], "arm": "flat"}).status_code == 404
        assert f'version="{first}"' not in service.get("/metrics").text


def test_main_answers_for_an_arm_that_is_damaged(store: Store, tmp_path: Path) -> None:
    main = str(store.state().version)
    damaged = add_arm(store, tmp_path, "flat", 1.0)
    points = store.fetch(damaged, tmp_path) / POINTS
    content = points.read_bytes()
    points.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with service_process(store.url, tmp_path, "--workers", "2") as service:
        wait_until(lambda: service.http.get("/readyz").status_code == 200)
        assert (
            "arm flat cannot be used, so main answers for it: publish to it again"
            in (service.http.get("/readyz").json()["warnings"])
        )
        assert recommended(service.http, user="ann")[:2] == ("main", main)
        assert recommended(service.http, history=["i3"], arm="flat")[:2] == ("main", main)
        assert live_arms(service.http) == {"main": main, "flat": None}
        assert 'lorentzrec_arm_fallbacks_total{arm="flat"}' in service.http.get("/metrics").text
        good = add_arm(store, tmp_path, "flat")
        wait_until(lambda: recommended(service.http, user="ann")[:2] == ("flat", good))
        wait_until(lambda: service.http.get("/readyz").json()["warnings"] == [])


def test_a_fault_in_the_new_items_of_one_arm_does_not_hold_up_the_others(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_arm(store, tmp_path, "flat", 0.1)
    extend = NewItemWatcher.extend

    def fail_in_arms(watcher: NewItemWatcher, recommender: Recommender, found: State) -> Recommender:
        if recommender.version.name != main:
            raise ValueError("a fault of new items")
        return extend(watcher, recommender, found)

    with service_here(store.url, poll_seconds=0.05) as service:
        main = live_arms(service)["main"]
        monkeypatch.setattr(NewItemWatcher, "extend", fail_in_arms)
        add_arm(store, tmp_path, "deep", 0.1)
        wait_until(lambda: [*live_arms(service)] == ["main", "deep", "flat"])
        store.end_arm("flat")
        wait_until(lambda: [*live_arms(service)] == ["main", "deep"])
        assert recommended(service, history=["i3"], arm="deep")[0] == "deep"


def test_the_version_of_an_arm_that_is_promoted_stays_counted(store: Store, tmp_path: Path) -> None:
    with service_here(store.url, poll_seconds=0.05) as service:
        name = add_arm(store, tmp_path, "flat", 0.1)
        wait_until(lambda: live_arms(service).get("flat") == name)
        store.activate(name)
        wait_until(lambda: live_arms(service)["main"] == name)
        store.end_arm("flat")
        wait_until(lambda: [*live_arms(service)] == ["main"])
        assert f'lorentzrec_version_workers{{version="{name}"}} 1.0' in service.get("/metrics").text


def test_the_first_version_of_an_arm_is_compared_with_main_and_later_ones_with_the_arm(store: Store) -> None:
    small = shop_model(items=30)
    with pytest.raises(PublishRefused):
        publish(small, store, arm="small", share=0.1)
    publish(small, store, arm="small", share=0.1, force=True)
    second = publish(small, store, arm="small").name
    assert store.state().arms["small"] == (second, 0.1)
    assert len(store.versions()) == 3
    publish(small, store, arm="small", keep=1)
    assert store.standing_versions() == [store.state().version], "main is not touched"
    assert len(store.versions()) == 2


def test_an_arm_whose_only_version_vanished_stays(store: Store, tmp_path: Path) -> None:
    """Its customers are answered by `main`, those of later arms do not move, and it can be replaced and ended."""
    main = str(store.state().version)
    vanished, later = add_arm(store, tmp_path, "bold", 0.3), add_arm(store, tmp_path, "calm", 0.3)
    users = [f"u{number}" for number in range(60)]
    chosen = {user: choose_arm(store.state().arms, user) for user in users}
    shutil.rmtree(tmp_path / "store" / "versions" / vanished)
    state = store.state()
    assert [(name, arm.share) for name, arm in state.arms.items()] == [("main", 0.4), ("bold", 0.3), ("calm", 0.3)]
    assert "so main answers for it: publish again" in state.warnings["bold"]
    assert {user: choose_arm(state.arms, user) for user in users} == chosen
    with service_here(store.url, poll_seconds=0.05) as service:
        for user, arm in chosen.items():
            assert recommended(service, user=user)[:2] == (("calm", later) if arm == "calm" else ("main", main))
        name = publish(FLAT, store, arm="bold", force=True).name
        wait_until(lambda: live_arms(service) == {"main": main, "bold": name, "calm": later})
    assert store.state().warnings == {}
    shutil.rmtree(tmp_path / "store" / "versions" / name)
    store.end_arm("bold")
    assert [*store.state().arms] == ["main", "calm"]


def test_a_version_of_an_arm_that_is_damaged_again_is_not_reopened_every_second(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flat = add_arm(store, tmp_path, "flat", 0.4)
    opened: list[str] = []

    def open_damaged(folder: Path, **options: Any) -> Version:
        version = open_version(folder, **options)
        opened.append(version.name)
        if version.name == flat:
            version.items.damage = "a query failed"
        return version

    polls: list[None] = []
    refresh = VersionWatcher.refresh

    def count_polls(self: VersionWatcher) -> None:
        refresh(self)
        polls.append(None)

    monkeypatch.setattr("lorentzrec.serving.worker.version_watcher.open_version", open_damaged)
    monkeypatch.setattr(VersionWatcher, "refresh", count_polls)
    with service_here(store.url, poll_seconds=0.02) as service:
        wait_until(lambda: live_arms(service)["flat"] is None)
        count, seen = opened.count(flat), len(polls)
        wait_until(lambda: len(polls) > seen + 3)
        assert opened.count(flat) == count == 2
        assert f"version {flat} is refused; see the log of the service" in service.get("/readyz").json()["warnings"]
    assert len([line for line in caplog.messages if f"version {flat} was damaged while in use" in line]) == 1
