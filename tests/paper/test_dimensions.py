"""Few dimensions in tiny form: tuned at each, by popularity, and what the radius has to do with it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from lorentzrec.data.interactions import Interactions
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import PartStore
from lorentzrec.studies.task import TuningTask
from lorentzrec_paper import dimensions, twins
from lorentzrec_paper.data_sets import DamagedData, DataFolder
from lorentzrec_paper.experiment import Context, Outcome
from tests.paper.official_layouts import write_five_core, write_movielens_100k

TOYS = "Toys_and_Games"
TITLE = "Toys and Games, 5-core"


@pytest.fixture
def small_training(monkeypatch: pytest.MonkeyPatch, small_files: None) -> None:
    monkeypatch.setattr(twins, "THREADS", 1)
    monkeypatch.setattr(dimensions, "SETTINGS", dimensions.SETTINGS | {"epochs": 2, "negative_count": 20})
    monkeypatch.setattr(dimensions, "DIMENSIONS", (2, 3))
    monkeypatch.setattr(dimensions, "SEEDS", (0, 1))
    monkeypatch.setattr(dimensions, "DATA_SETS", tuple(replace(one, trials=2) for one in dimensions.DATA_SETS))


def write_attributes(folder: Path, attributes: dict[Any, list[int]] | str) -> None:
    text = attributes if isinstance(attributes, str) else json.dumps(attributes)
    (folder / "amazon-5core" / f"{TOYS}_item2attributes.json").write_text(text)


def context_of(folder: Path, *, quick: bool = False) -> Context:
    return Context(DataFolder(folder), PartStore(folder / "parts"), quick, say=lambda _: None)


def require_rows(outcome: Outcome, table: int, title: str) -> list[dict[str, Any]]:
    chosen = outcome.tables[table]
    rows = [dict(zip([one.name for one in chosen.columns], row, strict=True)) for row in chosen.rows]
    return [row for row in rows if title in (row.get("data set"), row.get("data set, metric"))]


@pytest.mark.usefixtures("small_training")
def test_a_small_run_gives_the_numbers_of_train_and_evaluate_and_is_stored(tmp_path: Path) -> None:
    write_movielens_100k(tmp_path)
    write_five_core(tmp_path, TOYS)
    depths: dict[Any, int] = {item: 1 + item % 4 for item in range(150)}
    write_attributes(tmp_path, {item: [7] + [8] * depth for item, depth in depths.items()})
    context = context_of(tmp_path)
    found = dimensions.run(context)
    assert [row["d"] for row in require_rows(found, 0, f"{TITLE}, NDCG@10")] == [2, 3]
    assert [row["trials"] for row in require_rows(found, 3, TITLE)] == [2] * 4
    edges = {row["at an edge of what was tried"] for row in require_rows(found, 3, TITLE)}
    assert edges == {"learning_rate, scale"}, "one trial of each score"

    split = dimensions.DATA_SETS[3].split(context.data.find(dimensions.DATA_SETS[3].name))
    test, counts = split.require_test(), split.before_test.item_counts
    popular = counts[test.item_rows]
    head = popular > np.quantile(popular, 2 / 3)
    for geometry in ("hyperboloid", "euclidean"):
        chosen = found.settings["chosen"][f"{TITLE}, d = 2"][geometry]
        config = TrainingConfig.from_mapping(chosen["config"]).replace(threads=1)
        assert (config.dimension, config.recency) == (2, 0.7), "tuned where it is tested"
        models = [train(split.before_test, config.replace(seed=seed), progress=False) for seed in (0, 1)]
        of_customers = np.mean([evaluate(model, test).per_user["ndcg@10"] for model in models], axis=0)
        (row,) = (row for row in require_rows(found, 1, TITLE) if row["d"] == 2 and "head" in str(row.values()))
        assert row["test events"] == head.sum()
        assert row[geometry] == pytest.approx(of_customers[head].mean(), abs=1e-6)

        points, known = models[0].item_points.astype(float), counts > 0
        radii = np.arccosh(points[:, 0]) if geometry == "hyperboloid" else np.linalg.norm(points, axis=1)
        (row,) = (row for row in require_rows(found, 2, TITLE) if (row["d"], row["geometry"]) == (2, geometry))
        assert row["popularity"] == pytest.approx(spearmanr(radii[known], counts[known]).statistic)
        deep = np.array([depths[item] for item in models[0].item_ids])
        assert row["depth"] == pytest.approx(spearmanr(radii[known], deep[known]).statistic)
    assert {row["depth"] for row in require_rows(found, 2, "MovieLens 100K")} == {None}

    again = context_of(tmp_path)
    assert dimensions.run(again) == found
    assert (again.parts.made, again.parts.reused) == (0, context.parts.made)
    found.figures["bytes"].draw(tmp_path / "bytes.png")
    assert (tmp_path / "bytes.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("small_training")
def test_a_quick_run_has_fewer_of_everything(tmp_path: Path) -> None:
    write_movielens_100k(tmp_path)
    found = dimensions.run(context_of(tmp_path, quick=True))
    assert found.settings["seeds"] == (0,)
    assert [row["d"] for row in require_rows(found, 0, "MovieLens 100K, NDCG@10")] == [2, 3]


def test_bins_have_a_third_of_the_test_events_each_and_never_divide_equal_counts() -> None:
    # item 0 has one training event, 1 and 2 two each, 3 four
    data = Interactions.from_pairs(range(15), [3, 0, 1, 2, 0, 3, 0, 1, 1, 2, 2, 3, 3, 3, 3])
    test, before = data.select(data.user_rows < 6), data.select(data.user_rows >= 6)
    task = TuningTask(before, test, before, test, before)
    curved, flat = np.array([0.5, 0.0, 1.0, 0.0, 0.2, 0.1]), np.array([0.3, 0.0, 0.0, 0.0, 0.0, 0.1])
    tail, middle, head = dimensions.bins_of(curved, flat, task)
    assert [(one.fewest, one.most, one.events) for one in (tail, middle, head)] == [(1, 1, 2), (2, 2, 2), (4, 4, 2)]
    assert [one.hyperboloid for one in (tail, middle, head)] == pytest.approx([0.1, 0.5, 0.3])
    assert head.euclidean == pytest.approx(0.2)
    assert head.difference.difference == pytest.approx(0.1)
    (only,) = dimensions.bins_of(curved[[0, 5]], flat[[0, 5]], replace(task, test=test.select(test.item_rows == 0)))
    assert (only.name, only.events) == ("tail", 2)


def test_bytes_per_item_are_those_of_the_tables_without_the_time_coordinate() -> None:
    assert dimensions.bytes_per_item(TrainingConfig(dimension=8, targets="separate")) == 2 * 8 * 4
    assert dimensions.bytes_per_item(TrainingConfig(dimension=8, targets="shared")) == 8 * 4


@pytest.mark.usefixtures("small_files")
def test_depths_are_path_lengths_without_the_brand(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOYS)
    name = dimensions.DATA_SETS[3].name
    assert dimensions.read_depths(DataFolder(tmp_path).find(name)) == {}
    write_attributes(tmp_path, {3: [1, 2, 4], 5: [1], 6: [1, *range(2, 9)], 7: [1, *range(2, 10)]})
    assert dimensions.read_depths(DataFolder(tmp_path).find(name)) == {3: 2, 6: 7}
    write_attributes(tmp_path, '{"3": 4}')
    with pytest.raises(DamagedData, match=r"item2attributes.json is not an object of lists .*: get it again"):
        dimensions.read_depths(DataFolder(tmp_path).find(name))
