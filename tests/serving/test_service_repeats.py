"""What a customer bought before is recommended again, with its reason, and still is after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lorentzrec.points.repeats import Repeats
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.version import write_version
from tests.serving.running_service import service_process
from tests.serving.small_shop import ITEMS, shop_model, shop_table

DAY = 86_400.0
NOW = 1_700_000_000.0


def test_a_repeat_is_recommended_before_and_after_a_crash(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path / 'store'}", create=True)
    model = shop_model().with_points(repeats=Repeats(np.ones(ITEMS, np.float32), 50.0, 10.0))
    name = str(write_version(tmp_path / "version", model, items=shop_table())["name"])
    store.upload(tmp_path / "version")
    store.activate(name)
    store.close()
    bought = [("i7", NOW - 3 * DAY), ("i7", NOW - 2 * DAY), ("i9", NOW - 30 * DAY), ("i3", NOW)]
    events = [{"user": "u", "item": item, "time": time, "id": f"e{row}"} for row, (item, time) in enumerate(bought)]

    def recommend(service: Any, **options: Any) -> list[dict[str, Any]]:
        body = {"user": "u", "k": 3, "reasons": True} | options
        found: list[dict[str, Any]] = service.http.post("/v1/recommend", json=body).raise_for_status().json()["items"]
        return found

    with service_process(f"file:{tmp_path / 'store'}", tmp_path) as service:
        service.http.post("/v1/events", json={"events": events}).raise_for_status()
        before = recommend(service)
        # i7 twice a few days ago, i3 once just now, and i9 too long ago to count more than them.
        assert [item["id"] for item in before] == ["i7", "i3", "i9"]
        reason = before[0]["because"][0]
        assert (reason["kind"], reason["item"], reason["bought"]) == ("bought_before", "i7", 2)
        assert not {"i7", "i3", "i9"} & {item["id"] for item in recommend(service, exclude_seen=True)}
        assert "i7" not in {item["id"] for item in recommend(service, context=["i7"])}
        basket = service.http.post("/v1/outfits", json={"basket": ["i3"], "k": ITEMS}).json()["items"]
        assert "i3" not in {item["id"] for item in basket}
        service.kill()
    with service_process(f"file:{tmp_path / 'store'}", tmp_path) as service:
        assert recommend(service) == before
