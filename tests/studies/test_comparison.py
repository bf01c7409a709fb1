"""Comparisons of systems: saved runs, their settings, and paired differences."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError
from lorentzrec.evaluation.baselines import ItemKNN
from lorentzrec.evaluation.protocol import Recommender, evaluate
from lorentzrec.evaluation.shop_baselines import OwnFrequency
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies import comparison
from lorentzrec.studies.comparison import Comparer, System, geometry_table, make_systems, register_system
from lorentzrec.studies.parts import PartStore
from tests.studies.small_data import small_task

CONFIGS = {geometry: TrainingConfig(dimension=4, epochs=2) for geometry in ("hyperboloid", "euclidean")}


def comparer(folder: Path, seeds: int = 2) -> Comparer:
    return Comparer(small_task(), PartStore(folder), "ndcg@5", range(seeds), threads=1)


def test_every_system_is_measured_on_the_test_and_runs_are_kept(tmp_path: Path) -> None:
    first = comparer(tmp_path)
    systems = make_systems(["hyperboloid", "item-knn"], CONFIGS)
    curved, neighbours = first.run(systems)
    assert first.store.made == 3, "two seeds of the one, and one run of the other, which is deterministic"
    task = first.task
    report = evaluate(ItemKNN(task.before_test), task.require_test(), k=5)
    assert neighbours.value == report["ndcg@5"]
    assert neighbours.all_metrics["coverage@5"] == report["coverage@5"]
    np.testing.assert_allclose(neighbours.per_user, report.per_user["ndcg@5"], atol=1e-7)
    assert curved.values[0] != curved.values[1]
    assert curved.interval is curved.interval, "a bootstrap is made once"

    more = comparer(tmp_path, seeds=3)
    again = more.run(make_systems(["hyperboloid", "popularity"], CONFIGS))[0]
    assert (more.store.made, more.store.reused) == (2, 2), "a third seed and another system"
    assert again.values[:2] == curved.values


def test_a_system_can_be_trained_without_the_validation_part(tmp_path: Path) -> None:
    measure = replace(comparer(tmp_path), leave_validation_out=True)
    (neighbours,) = measure.run(make_systems(["item-knn"]))
    task = measure.task
    report = evaluate(ItemKNN(task.train), task.require_test(), k=5, histories=task.before_test)
    assert neighbours.value == report["ndcg@5"]
    (usual,) = comparer(tmp_path).run(make_systems(["item-knn"]))
    assert usual.value != neighbours.value, "runs of both are kept apart"


def test_shops_compare_all_items_with_habits(tmp_path: Path) -> None:
    measure = replace(comparer(tmp_path), candidates="all")
    (habits,) = measure.run(make_systems(["own-frequency"]))
    task = measure.task
    report = evaluate(OwnFrequency(task.before_test), task.require_test(), k=5, candidates="all")
    assert habits.value == report["ndcg@5"]
    (tuned,) = measure.tune(make_systems(["tifu-knn"]))
    assert tuned.settings.keys() == {"own", "between", "group_size"}


def test_differences_are_paired_and_tested_twice(tmp_path: Path) -> None:
    measure = comparer(tmp_path)
    curved, popular, neighbours = measure.run(make_systems(["hyperboloid", "popularity", "item-knn"], CONFIGS))
    difference = measure.compare(curved, popular)
    assert difference.over_users.difference == pytest.approx(curved.value - popular.value, abs=1e-6)
    assert difference.over_seeds is not None
    assert difference.over_seeds.difference == pytest.approx(curved.value - popular.value)
    assert measure.compare(neighbours, popular).over_seeds is None, "both are deterministic"


def test_a_comparison_as_a_frame_and_as_tables(tmp_path: Path) -> None:
    measure = comparer(tmp_path)
    report = measure.report(make_systems(["hyperboloid", "popularity", "item-knn"], CONFIGS))
    curved, popular, neighbours = report.runs
    frame = report.to_frame()
    assert frame["system"].to_list() == ["hyperboloid", "popularity", "item-knn"]
    assert frame["value"].to_list() == [curved.value, popular.value, neighbours.value]
    assert frame["deviation"].to_list() == [pytest.approx(np.std(curved.values, ddof=1)), None, None]
    assert frame["difference"].to_list() == [None, *(one.over_users.difference for one in report.differences)]
    assert frame["recall@5"].to_list() == [run.all_metrics["recall@5"] for run in report.runs]
    assert pl.read_csv(io.StringIO(report.to_csv())).columns == frame.columns
    head, line, first, second, _ = report.to_markdown().splitlines()
    assert head == "| system | ndcg@5 | 95 % interval | difference | p over customers | p over seeds |"
    assert line == "| --- | ---: | ---: | ---: | ---: | ---: |"
    assert first.startswith(f"| hyperboloid | {curved.value:.4f} ± ")
    assert second.startswith(f"| popularity | {popular.value:.4f} | ")
    assert f"| {curved.value - popular.value:+.4f}" in second
    assert rf"hyperboloid & {curved.value:.4f} $\pm$ " in report.to_latex()


def test_stars_are_for_p_values_after_the_correction(tmp_path: Path) -> None:
    """Three differences: p = 0.016 becomes 0.048, 0.003 becomes 0.009, and 0.02 is 0.06."""
    report = comparer(tmp_path, seeds=1).report(make_systems(["popularity", "item-knn"]))
    (difference,) = report.differences
    changed = [replace(difference, over_users=replace(difference.over_users, p_value=p)) for p in (0.016, 0.003, 0.02)]
    rows = replace(report, runs=[report.runs[0], *[report.runs[1]] * 3], differences=changed).to_text().rows
    shown = f"{difference.over_users.difference:+.4f}"
    assert [row[3] for row in rows] == ["", f"{shown}*", f"{shown}**", shown]


def test_a_system_of_ones_own_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "_REGISTERED", {})
    seen = []

    @register_system("neighbours")
    def neighbours(train: Interactions, seed: int) -> Recommender:
        seen.append(seed)
        return ItemKNN(train)

    ours, theirs = comparer(tmp_path).run(make_systems(["neighbours", "item-knn"]))
    assert seen == [0, 1]
    assert ours.values == (theirs.value, theirs.value)
    with pytest.raises(ConfigError, match="item-knn is a system of lorentzrec: give another name"):
        register_system("item-knn")(neighbours)
    with pytest.raises(ConfigError, match="implicit-bpr, neighbours"):
        make_systems(["neighbour"])


def test_grids_are_chosen_by_validation(tmp_path: Path) -> None:
    measure = comparer(tmp_path)
    curved, neighbours = measure.tune(make_systems(["hyperboloid", "item-knn"], CONFIGS))
    assert curved == make_systems(["hyperboloid"], CONFIGS)[0], "a geometry has no grid: it has lorentzrec tune"
    task = measure.task
    values = {
        (count, shrinkage): evaluate(ItemKNN(task.train, count, shrinkage), task.validation, k=5)["ndcg@5"]
        for count in (20, 50, 100, 300)
        for shrinkage in (0.0, 10.0, 50.0)
    }
    assert values[neighbours.settings["neighbours"], neighbours.settings["shrinkage"]] == max(values.values())


def test_a_config_with_validation_is_trained_on_everything() -> None:
    system = make_systems(["hyperboloid"], {"hyperboloid": TrainingConfig(validation=0.5, geometry="euclidean")})[0]
    assert (system.config.validation, system.config.geometry) == (0.0, "hyperboloid")


def test_peers_have_the_dimension_of_the_hyperboloid() -> None:
    assert make_systems(["implicit-als"], CONFIGS) == [System("implicit-als", {"factors": 4})]
    assert make_systems(["implicit-bpr"], CONFIGS, dimension=7)[0].settings == {"factors": 7}
    with pytest.raises(ConfigError, match="there is no system 'als': choose from hyperboloid, euclidean, popularity"):
        make_systems(["als"])


def test_geometries_at_several_dimensions(tmp_path: Path) -> None:
    rows = geometry_table(comparer(tmp_path), CONFIGS, [2, 4])
    assert [row.dimension for row in rows] == [2, 4]
    for row in rows:
        assert row.hyperboloid.value == pytest.approx(np.mean(row.hyperboloid.values))
        assert [runs.system.settings["dimension"] for runs in (row.hyperboloid, row.euclidean)] == [row.dimension] * 2
        assert min(row.hyperboloid.seconds, row.euclidean.seconds) > 0
        difference = row.hyperboloid.value - row.euclidean.value
        assert row.difference.over_users.difference == pytest.approx(difference, abs=1e-6)
        assert row.relative[0] == pytest.approx(100 * difference / row.euclidean.value, abs=1e-3)
