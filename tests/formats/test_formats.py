"""Files written by lorentzrec 0.1 still open and give the numbers that 0.1 gave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec import TrainingConfig, evaluate, load, train
from lorentzrec.ingest.dataset import open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.stores.store import LiveItems
from serving.running_service import service_here

FILES = Path(__file__).parent / "0.1"
EXPECTED: dict[str, Any] = json.loads((FILES / "expected.json").read_text())


@pytest.fixture
def store(tmp_path: Path) -> str:
    """The address of a copy of the store, migrated as its operator does."""
    shutil.copytree(FILES / "store", tmp_path / "store")
    url = f"file:{tmp_path / 'store'}"
    open_store(url, migrate=lambda *_: None).close()
    return url


@pytest.mark.parametrize("name", list(EXPECTED["models"]))
def test_models_recommend_the_same_items_with_the_same_scores(name: str) -> None:
    model, expected = load(FILES / "models" / name), EXPECTED["models"][name]
    found = model.recommend(**expected["query"], k=5)
    assert list(found.ids) == expected["items"]
    assert found.scores.tolist() == pytest.approx(expected["scores"], rel=1e-5)


def test_a_model_can_be_evaluated_and_saved_again(tmp_path: Path) -> None:
    model, (_, test) = load(FILES / "models" / "asymmetric"), open_dataset(FILES / "dataset").parts()
    report = evaluate(model, test)
    model.save(tmp_path / "model")
    assert evaluate(load(tmp_path / "model"), test)["ndcg@10"] == report["ndcg@10"] > 0


def test_the_dataset_keeps_its_digest_and_trains(tmp_path: Path) -> None:
    dataset, expected = open_dataset(FILES / "dataset"), EXPECTED["dataset"]
    dataset.verify()
    assert dataset.digest == expected["digest"]
    data, test = dataset.parts()
    assert (len(data), len(test)) == (expected["train"], expected["test"])
    assert dataset.items["title"].to_list()[0].startswith("Piece ")
    assert len(train(data, TrainingConfig(dimension=4, epochs=1, threads=1), progress=False).record) == 1


def test_the_same_events_still_give_the_same_digest(tmp_path: Path) -> None:
    events, items = FILES / "events.csv", FILES / "items.csv"
    config = PrepareConfig(events=(str(events),), out=str(tmp_path / "d"), split="leave_last_out", items=str(items))
    assert prepare(config).digest == EXPECTED["dataset"]["digest"]


def test_a_checkpoint_resumes_to_the_points_of_0_1(tmp_path: Path) -> None:
    shutil.copytree(FILES / "checkpoint", tmp_path / "checkpoint")
    data, _ = open_dataset(FILES / "dataset").parts()
    config = TrainingConfig(dimension=4, epochs=4, seed=1, threads=1)
    model = train(data, config, checkpoint=tmp_path / "checkpoint", resume=True, progress=False)
    losses, before = ([epoch.loss for epoch in one.record] for one in (model, load(FILES / "models" / "asymmetric")))
    assert losses == pytest.approx(before, rel=1e-3)
    np.testing.assert_allclose(model.item_points, EXPECTED["checkpoint"]["item_points"], atol=1e-3)


def test_the_store_keeps_versions_events_erasures_and_live_items(store: str) -> None:
    opened, expected = open_store(store), EXPECTED["store"]
    try:
        assert opened.versions() == expected["versions"]
        assert opened.state().version == expected["current"]
        for user in ("visitor", "u3"):
            assert [[event.item, event.time] for event in opened.history(user)] == expected[user]
        assert opened.history("u0") == []
        assert opened.live_items() == LiveItems(sorted(expected["live_items"]))
        opened.set_live_items(None)
        opened.change_live_items(remove=["i3"])
        assert opened.live_items() == LiveItems(None, ["i3"])
    finally:
        opened.close()


def test_the_service_serves_from_the_store(store: str) -> None:
    with service_here(store) as client:
        body = client.post("/v1/recommend", json={"user": "visitor", "k": 5}).json()
        assert body["model"] == EXPECTED["store"]["current"]
        assert [item["id"] for item in body["items"]] == [item for item, _ in EXPECTED["store"]["recommended"]]
        scores = [score for _, score in EXPECTED["store"]["recommended"]]
        assert [item["score"] for item in body["items"]] == pytest.approx(scores, rel=1e-5)
        event = {"user": "visitor", "item": "i1", "time": 1_760_000_000}
        assert client.post("/v1/events", json={"events": [event]}).status_code == 200
        again = client.post("/v1/recommend", json={"user": "visitor", "k": 5}).json()
        assert "i1" not in [item["id"] for item in again["items"]]
