"""The plot of a backtest."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from lorentzrec.studies.backtest import BacktestDay, Measurement
from lorentzrec.studies.plots import find_shown, plot_backtest

LABELS_SHOWN = ("full retrain", "the same, no trend", "update", "no update", "own frequency")


def test_no_trend_is_no_line() -> None:
    day = {"systems": {name: {"ndcg": 0.1} for name in ("retrain", "without trend", "popularity")}}
    assert find_shown([day]) == ["retrain", "popularity"]
    other = {"systems": day["systems"] | {"without trend": {"ndcg": 0.2}}}
    assert find_shown([day, other]) == ["retrain", "without trend", "popularity"]


@pytest.mark.parametrize("count", [3, 30])
def test_an_svg_holds_days_and_systems_and_is_the_same_each_time(count: int, tmp_path: Path) -> None:
    seconds = {"retrain": 9.0, "without trend": 0.0, "update": 1.0, "none": 0.0, "own-frequency": 0.1}
    days = [
        BacktestDay(
            date(2024, 3, 1) + timedelta(days=number),
            *(100, 100, 0),
            {name: Measurement(0.1 + number / 100 + time / 90, time, time, None) for name, time in seconds.items()},
        ).to_dict()
        for number in range(count)
    ]
    for name in ("a.svg", "b.svg"):
        plot_backtest(days, tmp_path / name, title="shop")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(f"<!-- {label} -->" in text for label in ("shop", "01 Mar", *LABELS_SHOWN))
