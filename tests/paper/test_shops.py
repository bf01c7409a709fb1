"""Next orders of shops: the parts are those of the dates, and results are those of train and evaluate."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lorentzrec.errors import InputError
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.shop_baselines import OwnFrequency
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.parts import PartStore
from lorentzrec_paper import shops
from lorentzrec_paper.data_sets import DataFolder
from lorentzrec_paper.experiment import Context

START = datetime(2017, 1, 2, 4)
CONFIG = TrainingConfig(dimension=4, epochs=2, threads=1)


def write_grocer(folder: Path, *, customers: int = 30, items: int = 40) -> pl.DataFrame:
    """40 weeks, each with an order of four items for everyone, most of them items of the customer's taste."""
    random, rows = np.random.default_rng(0), []
    for week in range(1, 41):
        for customer in range(customers):
            time = START + timedelta(weeks=week - 1, minutes=customer)
            liked = (customer % 5) * 8 + random.choice(8, 3, replace=False)
            bought = {*liked.tolist(), int(random.integers(items))}
            rows += [(customer, 1000 * week + customer, item, 1, week, time) for item in sorted(bought)]
    names = ["household_id", "basket_id", "product_id", "quantity", "week", "transaction_timestamp"]
    frame = pl.DataFrame(rows, names, orient="row")
    (folder / "complete-journey").mkdir()
    frame.write_parquet(folder / "complete-journey" / "transactions.parquet")
    return frame


def make_context(folder: Path, *, quick: bool = False) -> Context:
    return Context(DataFolder(folder), PartStore(folder / "parts"), quick=quick, say=lambda _: None)


@pytest.fixture(autouse=True)
def small_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shops, "BASE", CONFIG)
    monkeypatch.setattr(shops, "SEEDS", 2)
    chosen = {name: shops.SYSTEMS[name] for name in ("popularity", "own frequency, decay", "item-kNN")}
    monkeypatch.setattr(shops, "SYSTEMS", {name: (make, grid[:2]) for name, (make, grid) in chosen.items()})


def test_the_test_is_the_first_order_after_a_date(tmp_path: Path) -> None:
    frame = write_grocer(tmp_path)
    validation, first, second = shops.read_complete_journey(tmp_path / "complete-journey/transactions.parquet").tasks
    for task, week in ((validation, 32), (first, 35), (second, 38)):
        before, after = frame.filter(pl.col("week") < week), frame.filter(week=week)
        assert len(task.train) == len(before)
        assert sorted(task.test.to_frame().select("user", "item").rows()) == sorted(
            after.select("household_id", "product_id").rows()
        )


def test_rare_items_are_missed_and_unknown_customers_are_left_out() -> None:
    days = [START + timedelta(days=day) for day in range(8)]
    rows = [("a", "x", days[0], "1", 1)] * 5 + [("a", "rare", days[1], "2", 1), ("a", "y", days[1], "2", 1)]
    rows += [("b", "y", days[1], "3", 1)] * 4
    rows += [("a", "x", days[4], "4", 1), ("a", "rare", days[4], "4", 1), ("a", "y", days[5], "5", 1)]
    rows += [("new", "x", days[4], "6", 1)]
    events = pl.DataFrame(rows, ["user", "item", "time", "order", "quantity"], orient="row")
    (task,) = shops.Shop("small", events, (days[3], days[7])).tasks
    assert sorted(task.train.items.series) == ["x", "y"]
    assert task.test.to_frame().select("user", "item").rows() == [("a", "rare"), ("a", "x")]


def test_ours_and_the_tuned_baselines(tmp_path: Path) -> None:
    write_grocer(tmp_path)
    outcome = shops.run(make_context(tmp_path))
    (table,) = outcome.tables
    assert [row[0] for row in table.rows] == ["lorentzrec", "popularity", "own frequency, decay", "item-kNN"]
    validation, first, _ = shops.read_complete_journey(tmp_path / "complete-journey/transactions.parquet").tasks
    values = [
        evaluate(train(first.train, CONFIG.replace(seed=seed), progress=False), first.test, candidates="all")["ndcg@10"]
        for seed in range(2)
    ]
    assert table.rows[0][2] == pytest.approx(np.mean(values))
    found = {
        days: evaluate(OwnFrequency(validation.train, days), validation.test, candidates="all")["ndcg@10"]
        for days in (10, 20)
    }
    best = max(found, key=lambda days: found[days])
    assert table.rows[2][1] == f"half life {best}"
    assert len(outcome.verdicts) == 2
    again = make_context(tmp_path)
    assert shops.run(again) == outcome
    assert again.parts.made == 0


def test_a_quick_run_leaves_the_second_test_alone(tmp_path: Path) -> None:
    write_grocer(tmp_path)
    (table,) = shops.run(make_context(tmp_path, quick=True)).tables
    assert not [column for column in table.columns if "test 2" in column.name]


def test_missing_data_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"complete-journey/transactions\.parquet: get it from"):
        shops.run(make_context(tmp_path))
