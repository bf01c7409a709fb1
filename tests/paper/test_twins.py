"""The twins in tiny form: chosen on validation, compared with each other, and a run that resumes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lorentzrec.errors import TrainingError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.significance import Comparison
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies import search as tuning
from lorentzrec.studies.comparison import Difference, Runs, System, TwinRow
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import results, twins
from lorentzrec_paper.data_sets import DataFolder, FoundData, MissingData
from lorentzrec_paper.experiment import EXPERIMENTS, OF_THE_PAPER, Context, Outcome, find_experiments
from tests.paper.official_layouts import write_five_core, write_gowalla, write_movielens_1m

TOOLS = "Tools_and_Home_Improvement"
TITLES = ["Tools and Home Improvement, 5-core", "MovieLens 1M", "Gowalla"]


@pytest.fixture
def small_training(monkeypatch: pytest.MonkeyPatch, small_files: None) -> None:
    monkeypatch.setattr(twins, "SETTINGS", {"dimension": 4, "epochs": 2})
    monkeypatch.setattr(twins, "THREADS", 1)
    monkeypatch.setattr(twins, "DIMENSIONS", (3, 4))
    monkeypatch.setattr(twins, "SEEDS", (0, 1))
    monkeypatch.setattr(twins, "DATA_SETS", tuple(replace(one, trials=3) for one in twins.DATA_SETS))


def context_of(data: Path, out: Path, lines: list[str] | None = None) -> Context:
    say = (lambda line: None) if lines is None else lines.append
    return Context(DataFolder(data), PartStore(out / "twins" / "parts"), say=say)


def column(outcome: Outcome, table: int, heading: str) -> list[Any]:
    chosen = outcome.tables[table]
    place = [one.heading for one in chosen.columns].index(heading)
    return [row[place] for row in chosen.rows]


@pytest.mark.usefixtures("small_training")
def test_a_small_run_gives_the_numbers_of_train_and_evaluate_and_is_stored(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOOLS)
    write_movielens_1m(tmp_path)
    write_gowalla(tmp_path)
    lines: list[str] = []
    written: list[Outcome] = []
    context = context_of(tmp_path, tmp_path, lines)
    context.write = written.append
    found = twins.run(context)
    for table, metric in enumerate(("NDCG", "Recall")):
        keys = [f"{title}, {metric}@{20 if title == 'Gowalla' else 10}" for title in TITLES for _ in range(2)]
        assert column(found, table, "data set, metric") == keys
        assert column(found, table, "d") == [3, 4] * 3
    assert column(found, 2, "trials (ours)") == [3] * 6
    assert [len(one.tables[0].rows) for one in written] == [2, 4, 6]
    assert written[0].notes[0].startswith("1 of 3 data sets so far")
    assert "so far" not in written[-1].notes[0]
    missing = [line for line in lines if line.startswith("left out: ")]
    assert [line.split(",")[0] for line in missing] == [
        "left out: Toys and Games",
        "left out: Clothing Shoes and Jewelry",
        "left out: Sports and Outdoors",
    ]

    for task, title in ((twins.DATA_SETS[0], TITLES[0]), (twins.DATA_SETS[-1], TITLES[-1])):
        split = task.split(context.data.find(task.name))
        row = 2 * TITLES.index(title)
        for geometry in ("hyperboloid", "euclidean"):
            config = TrainingConfig.from_mapping(found.settings["chosen"][title][geometry]["config"])
            config = config.replace(dimension=3, threads=1)
            k = 20 if title == "Gowalla" else 10
            reports = [
                evaluate(train(split.before_test, config.replace(seed=seed)), split.require_test(), k=k)
                for seed in (0, 1)
            ]
            values = [report[f"ndcg@{k}"] for report in reports]
            shown = f"{np.mean(values):.4f} ± {abs(values[0] - values[1]) / 2**0.5:.4f}"
            assert column(found, 0, f"{geometry} (ours)")[row] == shown
            recall = np.mean([report[f"recall@{k}"] for report in reports])
            assert column(found, 1, f"{geometry} (ours)")[row] == pytest.approx(recall)

    again = context_of(tmp_path, tmp_path)
    assert twins.run(again) == found
    assert (again.parts.made, again.parts.reused) == (0, context.parts.made)
    found.figures["differences"].draw(tmp_path / "differences.png")
    assert (tmp_path / "differences.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("small_training")
def test_a_stopped_run_shows_what_is_finished_and_resumes_with_the_next_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_five_core(tmp_path, TOOLS)
    write_gowalla(tmp_path)
    trials = tuning._Worker._try
    tried = 0

    def stopped_at_the_ninth(*arguments: Any) -> None:
        nonlocal tried
        tried += 1
        if tried == 9:
            raise KeyboardInterrupt
        trials(*arguments)

    monkeypatch.setattr(tuning._Worker, "_try", stopped_at_the_ninth)
    command = ["lorentzrec", "reproduce", "twins"]
    with pytest.raises(KeyboardInterrupt):
        results.reproduce(twins.EXPERIMENT, context_of(tmp_path, tmp_path), tmp_path, command)
    page = (tmp_path / "twins" / "table.md").read_text()
    assert "| Tools and Home Improvement, 5-core, NDCG@10 | 3 |" in page
    assert "- 1 of 2 data sets so far: run the same command to continue" in page
    assert "| claim | measured (ours) | verdict |" in page
    assert "(paper)" not in page

    # Six trials of Tools, two complete ones of Gowalla and one that was interrupted: four of its six are left.
    found = results.reproduce(twins.EXPERIMENT, context_of(tmp_path, tmp_path), tmp_path, command)
    assert tried == 9 + 4
    assert len(found.tables[0].rows) == 4


@pytest.mark.usefixtures("small_training")
def test_the_test_does_not_affect_what_is_chosen(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOOLS)
    found = twins.run(context_of(tmp_path, tmp_path / "first"))
    path = tmp_path / "amazon-5core" / f"{TOOLS}.txt"
    histories = [line.split() for line in path.read_text().splitlines()]
    # Each customer gets the test item of the next.
    turned = [[*one[:-1], other[-1]] for one, other in zip(histories, histories[1:] + histories[:1], strict=True)]
    path.write_text("\n".join(map(" ".join, turned)) + "\n")
    other = twins.run(context_of(tmp_path, tmp_path / "second"))
    assert column(other, 0, "hyperboloid (ours)") != column(found, 0, "hyperboloid (ours)")
    chosen = [one.settings["chosen"][TITLES[0]] for one in (found, other)]
    for geometry in ("hyperboloid", "euclidean"):
        assert chosen[0][geometry] == chosen[1][geometry] | {"seconds": chosen[0][geometry]["seconds"]}
    tuned = [{path.name for path in tmp_path.glob(f"{run}/twins/parts/tune-*.json")} for run in ("first", "second")]
    assert tuned[0] == tuned[1]
    assert len(tuned[0]) == 1


@pytest.mark.usefixtures("small_training")
def test_a_training_that_fails_costs_one_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_five_core(tmp_path, TOOLS)
    write_gowalla(tmp_path)
    monkeypatch.setattr(twins, "DATA_SETS", tuple(replace(one, trials=1) for one in twins.DATA_SETS))
    measure = twins.measure

    def fails_on_tools(task: twins.DataSetTask, found: FoundData, *others: Any) -> twins.Measured:
        if found.title == TITLES[0]:
            raise TrainingError("a point became infinite")
        return measure(task, found, *others)

    monkeypatch.setattr(twins, "measure", fails_on_tools)
    context = context_of(tmp_path, tmp_path)
    found = twins.run(context)
    assert set(column(found, 0, "data set, metric")) == {"Gowalla, NDCG@20"}
    assert context.failed == {f"{TITLES[0]}: a point became infinite": TrainingError.exit_code}
    (tmp_path / "gowalla" / "test.txt").unlink()
    with pytest.raises(TrainingError, match=f"{TITLES[0]}: a point became infinite"):
        twins.run(context_of(tmp_path, tmp_path))


@pytest.mark.usefixtures("small_training")
def test_positives_and_parts_of_each_data_set(tmp_path: Path) -> None:
    write_five_core(tmp_path, TOOLS)
    write_movielens_1m(tmp_path)
    write_gowalla(tmp_path)
    tools, films, places = (
        twins.DATA_SETS[place].split(DataFolder(tmp_path).find(twins.DATA_SETS[place].name)) for place in (0, 4, 5)
    )
    assert (len(tools.before_test), len(tools.train)) == (30 * (7 + 23), 30 * (6 + 22))
    assert (len(films.before_test), len(films.require_test())) == (50 * 7, 50), "of ten ratings two are 3 stars"
    assert (len(places.before_test), len(places.require_test())) == (40 * 9, 40 * 3)
    assert 0 < len(places.validation) < 0.2 * 360
    assert len(places.train) + len(places.validation) == 360, "validation is of training alone"
    first = (tmp_path / "gowalla" / "test.txt").read_text().split("\n")[0].split()
    owner = places.require_test().history_ids(int(first[0]))
    assert sorted(owner) == sorted(map(int, first[1:]))


def row(dimension: int, euclidean: float, difference: float, p_value: float) -> TwinRow:
    over = Comparison(difference, difference - 0.01, difference + 0.01, p_value, "by hand")
    curved, flat = (
        Runs(System(name, {}), (value,), np.array([value]), {}, 1.0)
        for name, value in (("hyperboloid", euclidean + difference), ("euclidean", euclidean))
    )
    return TwinRow(dimension, curved, flat, Difference("hyperboloid", "euclidean", over, None))


def test_verdicts_count_who_is_ahead() -> None:
    rows = [
        [row(10, 0.1, 0.02, 0.001), row(50, 0.2, 0.01, 0.04)],
        [row(10, 0.1, 0.01, 0.3), row(50, 0.1, -0.02, 0.02)],
    ]
    both, small, large = twins.verdicts_of(rows)
    # in per cent: +20 and +5, +10 and -20
    assert both.measured == (
        "ahead in 3 of 4, significantly (5 %, over customers) in 2; significantly behind in 1; by +3.8 % on average"
    )
    assert both.remark == "at p < 0.013, corrected for 4 comparisons, ahead in 1 and behind in 0"
    assert small.measured.endswith("in 1; significantly behind in 0; by +15.0 % on average")
    assert large.measured.endswith("in 1; significantly behind in 1; by -7.5 % on average")
    assert {one.status for one in (both, small, large)} == {"partly"}
    assert twins.verdicts_of([[rows[0][0]]])[0].status == "holds"
    assert twins.verdicts_of([[rows[1][0]]])[0].status == "fails"


def test_relative_differences_are_of_the_euclidean_value() -> None:
    assert row(10, 0.2, 0.01, 0.5).relative == pytest.approx((5.0, 0.0, 10.0))


def test_all_is_the_paper_and_twins_come_last() -> None:
    assert EXPERIMENTS[-4:] == ("twins", "dimensions", "ablations", "shops")
    assert [one.name for one in find_experiments(["all"])] == list(OF_THE_PAPER)
    assert [one.name for one in find_experiments(["twins", "all", "twins"])] == ["twins", *OF_THE_PAPER]


def test_without_data_every_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=rf"{TOOLS}\.txt: .*ml-1m/ratings\.dat: .*gowalla/train\.txt and .*test\.txt"):
        twins.run(context_of(tmp_path, tmp_path))
