"""The paper's degree plot: the share of items with at least a given degree, on logarithmic scales, with the fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lorentzrec.base.canvas import BLUE, COLUMN_WIDTH, VERMILION, canvas
from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.errors import InputError
from lorentzrec_paper.network_statistics import NetworkStatistics
from lorentzrec_paper.power_law import PowerLawFit, log_zeta

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_HEIGHT = 2.7
"""Inches; a panel is one column wide."""


def plot_degrees(many: Sequence[NetworkStatistics], path: str | Path, *, columns: int | None = None) -> None:
    """Draw one panel per data set, to a PNG, SVG or PDF file by the suffix of `path`.

    Main plot: weighted degrees in the item-item projection. Inset: degrees of items in the bipartite graph. A point at
    (x, y) means that a share y of the items has a degree of at least x; the dashed line is the fit of the tail.
    """
    if not many:
        raise InputError("there is nothing to plot: give at least one data set")
    columns = min(len(many), columns or (2 if len(many) in (2, 4) else 3))
    rows = math.ceil(len(many) / columns)
    with canvas(path, COLUMN_WIDTH * columns, PANEL_HEIGHT * rows) as figure:
        for number, statistics in enumerate(many, start=1):
            axes = figure.add_subplot(rows, columns, number)
            axes.set_title(statistics.name)
            axes.set_xlabel("weighted degree in the item-item projection")
            axes.set_ylabel("share of items at or above")
            _draw(axes, statistics.weighted_degrees, statistics.weighted_degree_fit)
            _label(axes, statistics.weighted_degree_fit, x=0.97, y=0.95, ha="right", va="top", fontsize=8)
            inset = axes.inset_axes((0.14, 0.12, 0.42, 0.42))
            inset.set_title("item degree", fontsize=7, pad=2)
            inset.tick_params(labelsize=6, pad=1)
            _draw(inset, statistics.degrees, statistics.degree_fit)
            _label(inset, statistics.degree_fit, x=0.06, y=0.06, ha="left", va="bottom", fontsize=7)


def cumulative_shares(degrees: Integers) -> tuple[Integers, Floats]:
    """The distinct positive degrees, and the share of all items that has at least that degree."""
    distinct, counts = np.unique(degrees, return_counts=True)
    shares = np.cumsum(counts[::-1])[::-1] / len(degrees)
    return distinct[distinct > 0], shares[distinct > 0]


def _draw(axes: Axes, degrees: Integers, fit: PowerLawFit | None) -> None:
    distinct, shares = cumulative_shares(degrees)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(distinct, shares, ".", color=BLUE, markersize=2.5, rasterized=len(distinct) > 5_000)
    if fit:
        tail = np.unique(np.geomspace(fit.minimum, distinct[-1], 50).astype(np.int64))
        start = shares[np.searchsorted(distinct, fit.minimum)]
        line = start * np.exp(log_zeta(fit.exponent, tail) - log_zeta(fit.exponent, tail[:1]))
        axes.plot(tail, line, "--", color=VERMILION, linewidth=1.2)


def _label(axes: Axes, fit: PowerLawFit | None, *, x: float, y: float, **text: Any) -> None:
    if fit:
        exponent = f"$\\hat\\gamma$ = {fit.exponent:.2f}"
        axes.text(x, y, exponent, color=VERMILION, transform=axes.transAxes, **text)
