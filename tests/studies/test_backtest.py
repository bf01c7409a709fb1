"""The backtest."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.evaluation.baselines import Popularity
from lorentzrec.evaluation.next_events import next_events
from lorentzrec.evaluation.protocol import evaluate
from lorentzrec.evaluation.shop_baselines import OwnFrequency
from lorentzrec.learning.trainer import train
from lorentzrec.model.config import TrainingConfig
from lorentzrec.model.model import Model
from lorentzrec.points.trend import Trend
from lorentzrec.studies import backtest as backtest_module
from lorentzrec.studies.backtest import WEEK, backtest, summarise

QUICK = TrainingConfig(dimension=4, epochs=3, threads=1)


def shop(days: int = 10, **columns: Any) -> Interactions:
    """Two groups of customers with items of their own; a new item per day, and no events on the fourth day."""
    random = np.random.default_rng(0)
    day = np.sort(random.choice([d for d in range(days) if d != 3], 1200))
    user = random.integers(0, 40, 1200)
    item = user % 2 * 100 + random.integers(0, 12, 1200) + day
    return Interactions.from_pairs(user, item, **({"times": day * 86_400 + np.arange(1200)} | columns))


def test_every_day_has_every_way() -> None:
    lines: list[str] = []
    found = list(backtest(shop(), 3, QUICK, say=lines.append))
    assert [one.day for one in found] == [date(1970, 1, 8), date(1970, 1, 9), date(1970, 1, 10)]
    assert len(lines) == 4
    for one in found:
        assert list(one.systems) == ["retrain", "without trend", "update", "none", "popularity", "recent-popularity"]
        assert all(0 < measured.ndcg < 1 for measured in one.systems.values())
        assert one.evaluated <= one.events
        assert one.systems["none"].seconds < one.systems["update"].seconds
        assert one.new_items > 0
    means = summarise(found)
    assert means["retrain"]["ndcg_share"] == 1
    assert means["update"]["ndcg"] == pytest.approx(np.mean([one.systems["update"].ndcg for one in found]))
    assert found[0].to_dict()["day"] == "1970-01-08"


def test_days_without_events_do_not_count_and_later_ones_are_left_out() -> None:
    found = list(backtest(shop(), 2, QUICK, until=date(1970, 1, 6), most_events=20))
    assert [one.day for one in found] == [date(1970, 1, 3), date(1970, 1, 5)]
    assert {one.evaluated for one in found} == {20}


def test_weeks_end_with_the_newest_event() -> None:
    data, until = shop(24), date(1970, 1, 24)
    found = list(backtest(data, 1, QUICK, until=until, length=WEEK))
    assert data.times is not None
    week = (data.times >= 16 * 86_400) & (data.times < 23 * 86_400)
    assert [(one.day, one.events) for one in found] == [(date(1970, 1, 17), week.sum())]
    with pytest.raises(InputError, match="there are 4 weeks with events, too few to measure 3"):
        list(backtest(data, 3, QUICK, length=WEEK))


def test_clocks_ahead_are_left_out() -> None:
    data, lines = shop(), list[str]()
    assert data.times is not None
    ahead = replace(data, times=np.where(np.arange(len(data)) == data.offsets[1] - 1, 4e9, data.times))
    (one,) = backtest(ahead, 1, QUICK, say=lines.append)
    assert one.day == date(1970, 1, 10)
    assert lines[0] == "1 event is later than the clock of this computer: left out"


def test_baselines_are_those_of_the_days_before() -> None:
    """The first customer buys item 1 every day, and everybody else something new."""
    days, rest = np.arange(12), np.random.default_rng(1).integers(0, 60, 240)
    users, items = np.append(np.zeros(12, int), 1 + rest % 20), np.append(np.ones(12, int), 2 + rest % 57)
    times = np.append(days, np.arange(240) % 12) * 86_400 + np.arange(252)
    data = Interactions.from_pairs(users, items, times)
    (one,) = backtest(data, 1, QUICK, candidates="all")
    late = np.asarray(data.times) >= 11 * 86_400
    past, task = data.select(~late), next_events(data, late)
    for name, system in {"popularity": Popularity(past), "own-frequency": OwnFrequency(past, 80.0)}.items():
        report = evaluate(system, task.test, histories=task.histories, candidates="all")
        assert one.systems[name].ndcg == pytest.approx(report["ndcg@10"])


def test_a_model_with_a_trend_is_measured_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def train_with_trend(data: Interactions, *args: Any, **options: Any) -> Model:
        model = train(data, *args, **options)
        random = np.random.default_rng(0)
        recent, usual = (random.integers(0, 90, len(model.items)).astype(np.float32) for _ in range(2))
        return model.with_points(trend=Trend(recent, usual, 20.0, 7.0, 0.0))

    monkeypatch.setattr(backtest_module, "train", train_with_trend)
    (one,) = backtest(shop(), 1, QUICK)
    monkeypatch.undo()
    (plain,) = backtest(shop(), 1, QUICK)
    assert one.systems["without trend"].ndcg == plain.systems["without trend"].ndcg == plain.systems["retrain"].ndcg
    assert one.systems["retrain"].ndcg != plain.systems["retrain"].ndcg


@pytest.mark.parametrize(
    ("data", "days", "message"),
    [
        (shop(), 9, "there are 9 days with events, too few to measure 9"),
        (shop(times=None), 2, "a backtest needs times"),
        (shop(), 0, "give 1 or more"),
    ],
)
def test_bad_input_is_one_error(data: Interactions, days: int, message: str) -> None:
    with pytest.raises((InputError, ConfigError), match=message):
        list(backtest(data, days, QUICK))
