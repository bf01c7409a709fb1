"""Several systems in one plot: by their quality on a data set, or day by day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from lorentzrec.base.canvas import BLUE, GREEN, GREY, ORANGE, PAGE_WIDTH, PURPLE, SKY, VERMILION, canvas

_STYLES = {
    "retrain": (BLUE, "-"),
    "without trend": (SKY, "--"),
    "update": (VERMILION, "-"),
    "none": (GREY, "-"),
    "popularity": (GREEN, ":"),
    "recent-popularity": (ORANGE, ":"),
    "own-frequency": (PURPLE, ":"),
}
LABELS = {
    "retrain": "full retrain",
    "without trend": "the same, no trend",
    "update": "update",
    "none": "no update",
    "popularity": "popularity",
    "recent-popularity": "recent popularity",
    "own-frequency": "own frequency",
}
"""The systems of a backtest, for readers."""


def find_shown(days: Sequence[Mapping[str, Any]]) -> list[str]:
    """The systems of a backtest in their order; without the one that has no trend, if no model has a trend."""
    same = all(_value(day, "without trend") == _value(day, "retrain") for day in days)
    return [name for name in LABELS if name in days[0]["systems"] and not (same and name == "without trend")]


def _value(day: Mapping[str, Any], name: str) -> float | None:
    return day["systems"][name]["ndcg"] if name in day["systems"] else None


def plot_comparison(systems: Sequence[Mapping[str, Any]], metric: str, path: str | Path, *, title: str = "") -> None:
    """Save as PNG, SVG or PDF, by the suffix of `path`; the best system is on top.

    systems: from `Runs.to_dict`. The mean of each is a dot, its interval a line, and single runs are ticks.
    """
    ordered = sorted(systems, key=lambda system: system["value"])
    with canvas(path, 5.6, 0.9 + 0.36 * len(ordered)) as figure:
        axes = figure.add_subplot()
        for row, system in enumerate(ordered):
            colour = {"hyperboloid": BLUE, "euclidean": VERMILION}.get(system["name"], GREY)
            axes.plot([system["low"], system["high"]], [row, row], color=colour, linewidth=1.8, solid_capstyle="butt")
            axes.plot(system["value"], row, "o", color=colour, markersize=6)
            # Single runs go below the line, where the interval does not hide them.
            axes.plot(system["runs"], [row - 0.26] * len(system["runs"]), "|", color=colour, markersize=5)
            axes.annotate(f"{system['value']:.4f}", (1.01, row), xycoords=("axes fraction", "data"), va="center")
        axes.set_yticks(range(len(ordered)), [system["name"] for system in ordered])
        axes.set_ylim(-0.6, len(ordered) - 0.4)
        axes.set_xlabel(f"{metric} with 95 % interval over customers; ticks: single runs")
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_title(title, loc="left")


def plot_backtest(days: Sequence[Mapping[str, Any]], path: str | Path, *, title: str = "") -> None:
    """Quality per day of all systems, and the time of a full retrain and of an update.

    Save as PNG, SVG or PDF, by the suffix of `path`. days: from `BacktestDay.to_dict`.
    """
    shown = find_shown(days)
    with canvas(path, PAGE_WIDTH, 3.0) as figure:
        left, right = figure.subplots(1, 2)
        indices, names = range(len(days)), [f"{date.fromisoformat(day['day']):%d %b}" for day in days]
        step, marker = -(-len(days) // 7), "o" if len(days) <= 14 else ""
        for axes, value, label in ((left, "ndcg", "NDCG@10 of the next events"), (right, "seconds", "seconds")):
            for name in shown:
                if axes is left or name in ("retrain", "update"):
                    numbers, (colour, style) = [day["systems"][name][value] for day in days], _STYLES[name]
                    line = {"color": colour, "linestyle": style, "marker": marker, "markersize": 3}
                    axes.plot(indices, numbers, **line, label=LABELS[name])
            axes.set_xticks(indices[::step], names[::step])
            axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
            axes.set_ylabel(label)
            axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
            axes.set_axisbelow(True)
        figure.legend(*left.get_legend_handles_labels(), frameon=False, ncols=4, loc="outside lower center")
        left.set_title(title, loc="left")
