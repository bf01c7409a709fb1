"""Table 2 in tiny form: both kinds of files, both grids, and a run that resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.errors import TrainingError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import amazon, amazon_grid
from lorentzrec_paper.amazon_grid import GEOMETRIES, Category, Final, HitRates, Measured, Metrics, Round, Setting
from lorentzrec_paper.data_sets import CATEGORIES, DATA_SETS, DataFolder, FoundData, complete_name, five_core_name
from lorentzrec_paper.experiment import Context, Outcome
from tests.paper.official_layouts import write_complete, write_five_core

TOYS, TOOLS, PHONES = "Toys_and_Games", "Tools_and_Home_Improvement", "Cell_Phones_and_Accessories"


@pytest.fixture
def small_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amazon_grid, "SHARED", amazon_grid.SHARED.replace(dimension=4, epochs=2))


def outcome(folder: Path, parts: Path) -> tuple[Outcome, PartStore]:
    store = PartStore(parts)
    return amazon.run(Context(DataFolder(folder), store, quick=True, say=lambda line: None)), store


def column(outcome: Outcome, table: int, heading: str) -> dict[str, Any]:
    chosen = outcome.tables[table]
    place = [one.heading for one in chosen.columns].index(heading)
    return {row[0]: row[place] for row in chosen.rows}


@pytest.mark.usefixtures("small_files", "small_training")
def test_complete_files_are_the_papers_and_5_core_files_are_named(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOYS)
    write_five_core(tmp_path, PHONES)
    write_complete(tmp_path, TOOLS)
    found, store = outcome(tmp_path, tmp_path / "parts")
    few = ", over 20 events"
    names = ["Toys and Games, 5-core", "Cell Phones and Accessories, 5-core"]
    customers = column(found, 0, "customers (ours)")
    assert customers == {
        "Tools and Home Improvement": 30,
        **dict.fromkeys(names, 60),
        **{name + few: 30 for name in names},
    }
    ours = column(found, 1, "hyperboloid (ours)")
    assert [name for name, cell in ours.items() if cell is not None] == ["Tools and Home Improvement"]
    assert list(column(found, 1, "hyperboloid (paper)").values()) == [printed[0] for printed in amazon.PAPER.values()]
    assert len(found.verdicts) == 5
    assert any("order of Cell Phones' events is lost" in note for note in found.notes)
    assert store.made == 3 + 5 * (2 * 6 + 3)  # three files to read, five sets of customers
    again, resumed = outcome(tmp_path, tmp_path / "parts")
    assert (resumed.made, resumed.reused) == (0, store.made)
    assert again == found


@pytest.mark.usefixtures("small_files", "small_training")
def test_one_cell_has_the_numbers_of_train_and_evaluate(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOYS)
    category = Category(TOYS, DataFolder(tmp_path).find("amazon-toys-and-games-5core"), 1)
    config = amazon_grid.config_of("hyperboloid", Setting(0.1, 1.0)).replace(initial_width=1.0)
    twins = [config, config.replace(geometry="euclidean")]
    cell = amazon_grid.hit_rates(lambda: category.testing, twins, 2)
    train_part, test = category.data.split("leave_last_out", drop_unseen_items=True)
    for one in twins:
        for seed in range(2):
            report = evaluate(train(train_part, one.replace(seed=seed), progress=False), test, "sampled")
            assert cell[one.geometry][seed] == pytest.approx(report["hr@10"])
    assert cell["hyperboloid"] != cell["euclidean"]


@pytest.mark.usefixtures("small_files")
def test_one_star_is_no_positive(tmp_path: Path) -> None:
    write_complete(tmp_path, TOYS)
    found = DataFolder(tmp_path).find("amazon-toys-and-games")
    data = Category(TOYS, found, amazon_grid.MINIMUM_EVENTS).data
    assert found.events == 30 * 30
    assert (data.lengths == 24).all()  # a fifth of 30 events has one star


def rates(hyperboloid: list[float | None], euclidean: list[float | None]) -> HitRates:
    return {"hyperboloid": hyperboloid, "euclidean": euclidean}


def test_settings_with_a_failed_training_cannot_be_chosen() -> None:
    grid = {
        Setting(0.1, 1): rates([0.9, None], [0.2, 0.1]),
        Setting(0.01, 1): rates([0.3, 0.3], [0.2, 0.2]),
        Setting(0.001, 1): rates([0.5, 0.2], [0.1, 0.1]),
    }
    assert amazon_grid.best_of(grid, "hyperboloid") == Setting(0.001, 1)
    assert amazon_grid.best_of(grid, "euclidean") == Setting(0.01, 1)
    with pytest.raises(TrainingError, match="every setting of the hyperboloid has a training that diverged"):
        amazon_grid.best_of({Setting(0.1, 1): grid[Setting(0.1, 1)]}, "hyperboloid")


def test_the_appendix_is_in_the_grid() -> None:
    points = {(rate, reg) for rate in amazon_grid.RATES[:2] for reg in amazon_grid.REGULARISATIONS[:3]}
    assert all(set(amazon_grid.appendix(category).values()) <= points for category in CATEGORIES)


def result(hyperboloid: float, euclidean: float, *, complete: bool) -> Measured:
    """A category in which every number of a geometry is near one value."""
    curved, flat = ([value - 0.001, value, value + 0.001] for value in (hyperboloid, euclidean))
    runs, setting = rates(list(curved), list(flat)), Setting(0.1, 1)
    points = {setting, *amazon_grid.appendix(TOYS).values()}
    worse = rates([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    found = FoundData(DATA_SETS[complete_name(TOYS) if complete else five_core_name(TOYS)], (), "")
    return Measured(
        category=Category(TOYS, found, minimum_events=1),
        grid={point: runs if point == setting else worse for point in points},
        best=dict.fromkeys(GEOMETRIES, setting),
        chosen=dict.fromkeys(GEOMETRIES, setting),
        per_triplet=runs,
        beyond=runs,
        final=Final(0.3, 1, 1, 0, 0, {"hyperboloid": Metrics(*[curved] * 3), "euclidean": Metrics(*[flat] * 3)}),
    )


def test_verdicts_follow_the_numbers() -> None:
    better, worse = result(0.55, 0.5, complete=True), result(0.4, 0.5, complete=True)
    statuses = [one.status for one in amazon.outcome_of([better, better], {}).verdicts]
    assert statuses == ["holds", "holds", "holds", "partly", "holds"]  # the rate of one geometry is the paper's
    statuses = [one.status for one in amazon.outcome_of([worse, worse], {}).verdicts]
    assert statuses == ["fails", "fails", "fails", "partly", "fails"]
    mixed = amazon.outcome_of([better, result(0.4, 0.5, complete=False)], {})
    assert mixed.verdicts[0].status == "partly"
    assert mixed.verdicts[0].measured == "higher in 1 of 1 on complete files; 0 of 1 on 5-core files"
    assert "cannot be compared" in mixed.verdicts[0].remark
    assert mixed.verdicts[2].measured == "by -20% to +10% of the Euclidean HR@10"


def test_runs_that_are_all_equal_are_not_significant() -> None:
    one = result(0.5, 0.4, complete=True)
    equal = replace(one, grid={**one.grid, Setting(0.1, 1): rates([0.5, 0.5], [0.25, 0.25])})
    verdicts = amazon.outcome_of([equal], {}).verdicts
    assert (verdicts[0].status, verdicts[1].status) == ("holds", "fails")


def test_removed_events_and_failed_trainings_are_noted() -> None:
    one = result(0.5, 0.4, complete=True)
    failed = replace(one, grid={**one.grid, Setting(0.1, 0.5): rates([0.9, None], [0.1, 0.1])})
    notes = amazon.outcome_of([replace(failed, final=replace(one.final, removed=1_234))], {}).notes
    assert notes[-2].startswith("1 trainings of the grid ended in infinite points")
    assert notes[-1] == "Toys and Games: 1,234 test events removed because their item has no training event"


@pytest.mark.usefixtures("small_files", "small_training")
def test_failed_trainings_with_the_chosen_settings_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(self: Round, config: TrainingConfig) -> Model | None:
        """The twin of the second seed fails, and all of the hyperboloid."""
        fails = config.seed == 1 or config.geometry == "hyperboloid"
        return None if fails else train(self.train, config, progress=False)

    monkeypatch.setattr(Round, "learn", learn)
    write_five_core(tmp_path, TOYS)
    category = Category(TOYS, DataFolder(tmp_path).find(five_core_name(TOYS)), 1)
    configs = [amazon_grid.config_of(geometry, Setting(0.1, 1.0)) for geometry in GEOMETRIES]
    final = amazon_grid.measure_in_full(category, configs, 3)
    assert final.failed == 4
    assert [len(final.metrics[geometry].full_ndcg) for geometry in GEOMETRIES] == [0, 2]
    outcome = amazon.outcome_of([replace(result(0.5, 0.4, complete=False), final=final)], {})
    assert any(
        note.startswith("Toys and Games, 5-core: 4 trainings with the settings chosen on validation ended in infinite")
        for note in outcome.notes
    )
    _, curved, flat, p_value, *_ = outcome.tables[2].rows[0]
    assert (curved, flat[:2], p_value) == ("diverged", "0.", 1.0)
    assert outcome.verdicts[4].measured.startswith("with settings chosen on validation, significantly better in 0 of 1")


@pytest.mark.usefixtures("small_files", "small_training")
def test_a_category_whose_trainings_all_fail_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learn(self: Round, config: TrainingConfig) -> Model | None:
        return None if len(self.train.users) == 60 else train(self.train, config, progress=False)

    monkeypatch.setattr(Round, "learn", learn)
    write_five_core(tmp_path, TOYS)
    write_five_core(tmp_path, TOOLS, customers=50)
    context = Context(DataFolder(tmp_path), PartStore(tmp_path / "parts"), quick=True, say=lambda line: None)
    titles = [row[0] for row in amazon.run(context).tables[0].rows]
    assert titles == [
        "Tools and Home Improvement, 5-core",
        "Tools and Home Improvement, 5-core, over 20 events",
        "Toys and Games, 5-core, over 20 events",
    ]
    line = "Toys and Games, 5-core: every setting of the hyperboloid has a training that diverged: check the data"
    assert context.failed == {line: TrainingError.exit_code}


def test_the_figure_takes_the_best_regularisation_for_each_rate(tmp_path: Path) -> None:
    one = result(0.5, 0.4, complete=True)
    cells = {Setting(0.1, 1): one.grid[Setting(0.1, 1)], Setting(0.1, 0.5): rates([0.6] * 3, [0.1] * 3)}
    panel = amazon._panel(replace(one, grid=cells))
    assert [np.round(curve.values, 3).tolist() for curve in panel.curves] == [[0.6], [0.4]]
    amazon.outcome_of([one], {}).figures["rates"].draw(tmp_path / "rates.svg")
    assert (tmp_path / "rates.svg").read_text().startswith("<?xml")
