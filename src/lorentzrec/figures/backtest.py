"""Quality and time per day, for a full retrain, an update and no update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

from lorentzrec.figures.canvas import BLUE, GREY, PAGE_WIDTH, VERMILION, canvas

_COLOURS = {"retrain": BLUE, "update": VERMILION, "none": GREY}
_LABELS = {"retrain": "full retrain", "update": "update", "none": "no update"}


def plot_backtest(
    days: Sequence[date],
    quality: Mapping[str, Sequence[float]],
    seconds: Mapping[str, Sequence[float]],
    path: str | Path,
    *,
    title: str = "",
) -> None:
    """Save as PNG, SVG or PDF, by the suffix of `path`; both are by system, with a number per day."""
    with canvas(path, PAGE_WIDTH, 2.6) as figure:
        left, right = figure.subplots(1, 2)
        places, names = range(len(days)), [f"{day:%d %b}" for day in days]
        step = -(-len(days) // 8)
        for axes, values, label in ((left, quality, "NDCG@10 of the day's events"), (right, seconds, "seconds")):
            for name, numbers in values.items():
                style = "o-" if len(days) <= 14 else "-"
                axes.plot(places, numbers, style, color=_COLOURS[name], markersize=3, label=_LABELS[name])
            axes.set_xticks(places[::step], names[::step])
            axes.set_ylim(bottom=0)
            axes.set_ylabel(label)
            axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
            axes.set_axisbelow(True)
        left.legend(frameon=False)
        left.set_title(title, loc="left")
