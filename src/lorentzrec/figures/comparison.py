"""Several systems in one plot: the mean of each as a dot, its interval as a line, and the single runs as ticks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lorentzrec.figures.canvas import BLUE, GREY, VERMILION, canvas


class ShownSystem(NamedTuple):
    """One row of the plot."""

    name: str
    value: float
    low: float
    high: float
    runs: tuple[float, ...]


def plot_comparison(systems: Sequence[ShownSystem], metric: str, path: str | Path, *, title: str = "") -> None:
    """Save as PNG, SVG or PDF, by the suffix of `path`; the best system is on top."""
    ordered = sorted(systems, key=lambda system: system.value)
    with canvas(path, 5.6, 0.9 + 0.36 * len(ordered)) as figure:
        axes = figure.add_subplot()
        for row, system in enumerate(ordered):
            colour = {"hyperboloid": BLUE, "euclidean": VERMILION}.get(system.name, GREY)
            axes.plot([system.low, system.high], [row, row], color=colour, linewidth=1.8, solid_capstyle="butt")
            axes.plot(system.value, row, "o", color=colour, markersize=6)
            # Single runs go below the line, where the interval does not hide them.
            axes.plot(system.runs, [row - 0.26] * len(system.runs), "|", color=colour, markersize=5)
            axes.annotate(f"{system.value:.4f}", (1.01, row), xycoords=("axes fraction", "data"), va="center")
        axes.set_yticks(range(len(ordered)), [system.name for system in ordered])
        axes.set_ylim(-0.6, len(ordered) - 0.4)
        axes.set_xlabel(f"{metric} with 95 % interval over customers; ticks: single runs")
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_title(title, loc="left")
