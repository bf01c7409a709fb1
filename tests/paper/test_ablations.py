"""One change at a time: results are those of train and evaluate on validation, and the test is never used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import ablations
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context, Outcome
from lorentzrec_paper.twins import DATA_SETS
from tests.paper.official_layouts import write_gowalla, write_movielens_1m

CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"loss": "bpr"},
    {"recency": 0.5},
    {"initialisation": "ball"},
    {"learning_rate": 0.1},
)


@pytest.fixture(autouse=True)
def small_training(monkeypatch: pytest.MonkeyPatch, small_files: None) -> None:
    monkeypatch.setattr(ablations, "BASE", TrainingConfig(dimension=4, epochs=2))
    monkeypatch.setattr(ablations, "THREADS", 1)
    monkeypatch.setattr(ablations, "CHANGES", CHANGES)


def context_of(folder: Path) -> Context:
    return Context(DataFolder(folder), PartStore(folder / "parts"), say=lambda _: None)


def test_every_change_that_matters_is_measured_once(tmp_path: Path) -> None:
    write_movielens_1m(tmp_path)
    write_gowalla(tmp_path)
    written: list[Outcome] = []
    context = context_of(tmp_path)
    context.write = written.append
    found = ablations.run(context)
    films, places = found.tables
    # the ball is the default, and recency needs times
    assert [row[0] for row in films.rows] == ["none: the defaults", "loss bpr", "recency 0.5", "learning_rate 0.1"]
    assert [row[0] for row in places.rows] == ["none: the defaults", "loss bpr", "learning_rate 0.1"]
    assert written[-1] == found
    split = DATA_SETS[4].split(context.data.find("movielens-1m"))
    model = train(split.train, TrainingConfig(dimension=4, epochs=2, threads=1, learning_rate=0.1))
    report = evaluate(model, split.validation, k=10)
    assert films.rows[-1][1:3] == (report["ndcg@10"], report["recall@10"])
    assert films.rows[0][3] == 0
    assert films.rows[-1][3] == pytest.approx(films.rows[-1][1] / films.rows[0][1] - 1)
    again = context_of(tmp_path)
    assert ablations.run(again) == found
    assert again.parts.made == 0


def test_the_test_part_is_not_used(tmp_path: Path) -> None:
    write_gowalla(tmp_path)
    first = ablations.run(context_of(tmp_path))
    test = tmp_path / "gowalla" / "test.txt"
    lines = test.read_text().splitlines()
    owners, items = [line.split()[0] for line in lines], [line.split()[1:] for line in lines]
    test.write_text("\n".join(" ".join([owner, *some]) for owner, some in zip(owners, reversed(items), strict=True)))
    (tmp_path / "parts").rename(tmp_path / "old")
    second = ablations.run(context_of(tmp_path))
    assert [row[:4] for row in second.tables[0].rows] == [row[:4] for row in first.tables[0].rows]


def test_a_change_that_ends_in_infinite_points_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablations, "CHANGES", ({}, {"scale": 3e38}))
    write_movielens_1m(tmp_path)
    (films,) = ablations.run(context_of(tmp_path)).tables
    assert films.rows[1][:4] == ("scale 3e+38", "points became infinite", None, None)
