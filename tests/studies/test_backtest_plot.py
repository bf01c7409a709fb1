"""The plot of a backtest."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from lorentzrec.studies.backtest import BacktestDay, Measurement
from lorentzrec.studies.plots import plot_backtest


@pytest.mark.parametrize("count", [3, 30])
def test_an_svg_holds_days_and_systems_and_is_the_same_each_time(count: int, tmp_path: Path) -> None:
    seconds = {"retrain": 9.0, "update": 1.0, "none": 0.0}
    days = [
        BacktestDay(
            date(2024, 3, 1) + timedelta(days=number),
            *(100, 100, 0),
            {name: Measurement(0.1 + number / 100, time, time, None) for name, time in seconds.items()},
        ).to_dict()
        for number in range(count)
    ]
    for name in ("a.svg", "b.svg"):
        plot_backtest(days, tmp_path / name, title="shop")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(f"<!-- {label} -->" in text for label in ("shop", "01 Mar", "full retrain", "update", "no update"))
