"""`lorentzrec train --engine keras`: the same artifact, which is published and served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import lorentzrec
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.serving.stores.address import open_store
from lorentzrec.serving.versions.publish import publish
from tests.keras.test_back_ends import run_python
from tests.serving.running_service import service_here

pytestmark = pytest.mark.keras


@pytest.fixture
def events(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    columns = {"user": random.integers(0, 60, 900), "item": random.zipf(1.5, 900) % 40, "time": np.arange(900)}
    pl.DataFrame(columns).write_csv(tmp_path / "events.csv")
    return tmp_path / "events.csv"


def test_a_model_trained_on_keras_is_published_and_served(tmp_path: Path, events: Path) -> None:
    """Attributes, which the dataset has but nobody asked for, are left out with a line that says so."""
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    items = tmp_path / "items.csv"
    items.write_text("item,brand\n" + "".join(f"{item},{item % 3}\n" for item in range(40)))
    dataset, out = tmp_path / "dataset", tmp_path / "model"
    prepare(PrepareConfig(events=(str(events),), items=str(items), attributes=("brand",)), str(dataset))
    settings = ["--set", "dimension=6", "--set", "epochs=2"]
    done = run_python("jax", "-m", "lorentzrec", "train", dataset, "--out", out, "--engine", "keras", *settings)
    assert done.returncode == 0, done.stderr
    assert " ".join(done.stderr.split()).count("--engine keras does not use the attributes of") == 1
    model = lorentzrec.load(out)
    assert len(model.record) == 2
    history = model.item_ids[:3]
    address = f"file:{tmp_path / 'store'}"
    publish(model, open_store(address, create=True))
    with service_here(address) as client:
        response = client.post("/v1/recommend", json={"history": history, "k": 5})
    assert response.status_code == 200, response.text
    found = [one["id"] for one in response.json()["items"]]
    assert found == list(map(str, model.recommend(history=history, k=5).ids))


def test_a_model_trained_on_keras_is_updated_here(tmp_path: Path, events: Path) -> None:
    pytest.importorskip("jax", reason="jax is not installed: pip install jax")
    out = tmp_path / "model"
    settings = ["--set", "dimension=6", "--set", "epochs=1"]
    done = run_python("jax", "-m", "lorentzrec", "train", events, "--out", out, "--engine", "keras", *settings)
    assert done.returncode == 0, done.stderr
    start, known = lorentzrec.load(out), pl.read_csv(events)
    today = pl.DataFrame({"user": [0, 0, 1, 1], "item": [3, 99, 4, 99], "time": [1000, 1001, 1002, 1003]})
    data = lorentzrec.Interactions.from_frame(pl.concat([known, today]))
    updated = lorentzrec.update(start, data, progress=False)
    assert updated.item_ids == [*start.item_ids, 99]
    assert updated.newest_time == 1003
    assert not np.array_equal(updated.item_points[:-1], start.item_points)


def test_unsupported_settings_are_named(tmp_path: Path, events: Path) -> None:
    out, settings = tmp_path / "model", ["--set", "geometry=euclidean", "--set", "blocks_per_step=8"]
    done = run_python("jax", "-m", "lorentzrec", "train", events, "--out", out, "--engine", "keras", *settings)
    assert done.returncode == 2
    assert "does not support geometry=euclidean, blocks_per_step=8" in " ".join(done.stderr.split())
    assert not (tmp_path / "model").exists()
