"""The backtest."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from lorentzrec.data.interactions import Interactions
from lorentzrec.errors import ConfigError, InputError
from lorentzrec.model.config import TrainingConfig
from lorentzrec.studies.backtest import backtest, summarise

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
        assert list(one.systems) == ["retrain", "update", "none"]
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
