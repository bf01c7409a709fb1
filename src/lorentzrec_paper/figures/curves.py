"""Curves in panels: a metric against epochs, seconds or a setting, one line for each system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lorentzrec.figures.canvas import BLUE, GREEN, GREY, ORANGE, PAGE_WIDTH, PURPLE, VERMILION, canvas

COLOURS = {"hyperboloid": BLUE, "euclidean": VERMILION, "asymmetric": ORANGE, "symmetric": BLUE}
"""Systems keep their colours from figure to figure; the paper's asymmetric model is orange, its symmetric one blue."""
OTHER_COLOURS, MARKERS = (GREEN, PURPLE, GREY), "os^dv"


@dataclass(frozen=True)
class Curve:
    label: str
    places: Sequence[float]
    values: Sequence[float]
    deviations: Sequence[float] | None = None
    """Drawn as a band on both sides."""
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    logarithmic: bool = False
    """Of the horizontal axis."""
    level: float | None = None
    """A dotted line across, for what there is to beat."""


def plot_curves(panels: Sequence[Panel], path: str | Path, *, columns: int = 3) -> None:
    """One panel beside the other, to a PNG, SVG or PDF file; the first one has the legend."""
    from matplotlib.ticker import MaxNLocator

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with canvas(path, PAGE_WIDTH, 2.2 * rows) as figure:
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, columns, number)
            others = iter(OTHER_COLOURS)
            for curve, marker in zip(panel.curves, MARKERS, strict=False):
                colour = COLOURS.get(curve.label.split(",")[0]) or next(others, GREY)
                axes.plot(
                    curve.places,
                    curve.values,
                    "--" if curve.dashed else "-",
                    marker=marker,
                    markersize=2.5,
                    linewidth=1.2,
                    color=colour,
                    label=curve.label,
                )
                if curve.deviations:
                    low, high = (
                        [value + sign * by for value, by in zip(curve.values, curve.deviations, strict=True)]
                        for sign in (-1, 1)
                    )
                    axes.fill_between(curve.places, low, high, color=colour, alpha=0.2, linewidth=0)
            if panel.level is not None:
                axes.axhline(panel.level, color=GREY, linestyle=":", linewidth=1)
            axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
            axes.set_title(panel.title, loc="left")
            if panel.logarithmic:
                axes.set_xscale("log")
            elif all(float(place).is_integer() for curve in panel.curves for place in curve.places):
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylim(bottom=0)
            if number == 1:
                axes.legend(frameon=True, edgecolor="none", framealpha=1.0)  # a line may run behind it
