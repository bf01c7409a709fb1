"""Updates that read the new deliveries of a dataset only, compared with updates that read everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec import load, train
from lorentzrec.cli.inputs import training_data
from lorentzrec.ingest.appending import append, compact
from lorentzrec.ingest.dataset import Dataset, open_dataset
from lorentzrec.ingest.prepare import PrepareConfig, prepare
from lorentzrec.learning.new_events import find_new_events
from lorentzrec.learning.updating import update, update_with
from lorentzrec.model.config import TrainingConfig

CONFIG = TrainingConfig(dimension=4, epochs=2, threads=1, seed=5)


def write_day(folder: Path, day: int, items: int) -> str:
    """200 events of 40 customers in one day; customers return every other day."""
    random = np.random.default_rng(day)
    users = random.integers(0, 40, 200)
    frame = pl.DataFrame(
        {
            "user": [f"u{user}" for user in users],
            "item": [f"i{item}" for item in (users % 7 + random.integers(0, items, 200))],
            "time": 86_400 * day + random.integers(0, 80_000, 200),
            "weight": random.choice([0.5, 1.0], 200),
        }
    )
    frame.write_csv(folder / f"{day}.csv")
    return str(folder / f"{day}.csv")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A dataset of three days, and two models: of the first day, and of the first two."""
    prepare(PrepareConfig(events=(write_day(tmp_path, 0, 20),)), tmp_path / "shop")
    train(open_dataset(tmp_path / "shop").interactions(), CONFIG).save(tmp_path / "model")
    append(tmp_path / "shop", [write_day(tmp_path, 1, 24)])
    append(tmp_path / "shop", [write_day(tmp_path, 2, 28)])
    return tmp_path / "shop"


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders whose events are read from now on."""
    read: list[str] = []
    known = Dataset._read_events

    def note_read(dataset: Dataset) -> object:
        if len(dataset.members) == 1:
            read.append(Path(dataset.address).name)
        return known(dataset)

    monkeypatch.setattr(Dataset, "_read_events", note_read)
    return read


def test_only_new_deliveries_are_read_and_the_model_is_the_same(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(shop.parent / "model")
    read = count_reads(monkeypatch)
    found = training_data(str(shop)).read_with(model)
    data = found.data
    assert found.own
    assert read == ["00001", "00002"]
    whole = open_dataset(shop).interactions()
    assert data.digest == whole.digest
    assert data.deliveries == whole.deliveries == open_dataset(shop).deliveries
    everything = find_new_events(model, whole)
    assert not everything.own
    assert found.late == everything.late
    assert np.array_equal(found.new, everything.new)
    one, other = update_with(model, found), update(model, whole)
    assert one.fingerprint == other.fingerprint
    one.save(shop.parent / "next")
    append(shop, [write_day(shop.parent, 3, 30)])
    read.clear()
    again = training_data(str(shop)).read_with(load(shop.parent / "next"))
    assert (again.own, read) == (True, ["00003"])
    assert len(again.data) == 800
    assert update_with(load(shop.parent / "next"), again).histories is not None


def test_everything_is_read_if_known_and_new_deliveries_are_compacted_together(shop: Path) -> None:
    model = load(shop.parent / "model")
    compact(shop)
    found = training_data(str(shop)).read_with(model)
    assert not found.own
    assert found.data.to_frame().equals(open_dataset(shop).interactions().to_frame())


def test_compaction_of_known_deliveries_changes_nothing(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(open_dataset(shop).interactions(), CONFIG).save(shop.parent / "all")
    compact(shop)
    append(shop, [write_day(shop.parent, 3, 30)])
    read = count_reads(monkeypatch)
    found = training_data(str(shop)).read_with(load(shop.parent / "all"))
    assert (found.own, read, len(found.data)) == (True, ["00001"], 800)


def test_everything_is_read_if_a_known_delivery_was_replaced(shop: Path) -> None:
    train(open_dataset(shop).interactions(), CONFIG).save(shop.parent / "all")
    write_day(shop.parent, 2, 31)
    append(shop, [str(shop.parent / "2.csv")], replace_earlier=True)
    append(shop, [write_day(shop.parent, 3, 30)])
    found = training_data(str(shop)).read_with(load(shop.parent / "all"))
    assert (found.own, len(found.data)) == (False, 800)
