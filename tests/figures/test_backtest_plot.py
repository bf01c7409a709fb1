"""The plot of a backtest."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from lorentzrec.figures.comparison import plot_backtest


@pytest.mark.parametrize("count", [3, 30])
def test_an_svg_holds_days_and_systems_and_is_the_same_each_time(count: int, tmp_path: Path) -> None:
    days = [date(2024, 3, 1) + timedelta(days=number) for number in range(count)]
    quality = {name: [0.1 + number / 100 for number in range(count)] for name in ("retrain", "update", "none")}
    for name in ("a.svg", "b.svg"):
        plot_backtest(days, quality, {"retrain": [9.0] * count, "update": [1.0] * count}, tmp_path / name, title="shop")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(f"<!-- {label} -->" in text for label in ("shop", "01 Mar", "full retrain", "update", "no update"))
