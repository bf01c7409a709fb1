"""Einstein midpoints beside Fréchet means: the paper's scan of pairs, uneven sets, and histories in many dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lorentzrec.figures.canvas import BLUE, GREEN, GREY, ORANGE, PAGE_WIDTH, PURPLE, VERMILION, canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = tuple[Sequence[float], Sequence[float]]
"""Places and values."""


def plot_midpoints(
    scan: Mapping[str, Sequence[float]], uneven: Mapping[str, Curve], histories: Mapping[str, Curve], path: str | Path
) -> None:
    """Three panels.

    scan: `start`, `end` and, for each pair of points, the `einstein`, `frechet` and `printed` mean on their line.
    uneven: label -> (distance between two places, difference of the means in per cent).
    histories: label -> (items in the history, difference in per cent of its radius).
    """
    with canvas(path, PAGE_WIDTH, 2.5) as figure:
        pairs, sets, many = figure.subplots(1, 3)
        _draw_scan(pairs, scan)
        for (label, curve), colour in zip(uneven.items(), (BLUE, VERMILION, GREEN, PURPLE), strict=False):
            sets.plot(*curve, color=colour, label=label)
        sets.set(title="uneven sets", xlabel="distance between the two places")
        for (label, curve), colour, marker in zip(histories.items(), (BLUE, VERMILION, GREEN), "os^", strict=False):
            many.plot(*curve, marker=marker, markersize=3.5, color=colour, label=label)
        many.set(title="histories in 50 dimensions", xlabel="items in the history", xscale="log")
        ticks = sorted({place for places, _ in histories.values() for place in places})
        many.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        many.minorticks_off()
        for axes in (sets, many):
            axes.set_ylabel("Einstein against Fréchet (%)")
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False)


def _draw_scan(axes: Axes, scan: Mapping[str, Sequence[float]]) -> None:
    for start in sorted(set(scan["start"])):
        rows = [row for row, other in enumerate(scan["start"]) if other == start]
        ends, printed, einstein, frechet = (
            [scan[name][row] for row in rows] for name in ("end", "printed", "einstein", "frechet")
        )
        axes.plot(ends, printed, "--", color=GREY, linewidth=1)
        axes.plot(ends, einstein, color=ORANGE, linewidth=1.6)
        axes.plot(ends[::2], frechet[::2], ".", color=BLUE, markersize=3.5)
        axes.plot([start], [start], "*", color=PURPLE, markersize=7)
    axes.legend(axes.lines[:4], ["Einstein, as printed", "Einstein", "Fréchet", "first point"], frameon=False)
    axes.set(title="pairs, as in the paper", xlabel=r"$\alpha$ of the second point", ylabel=r"$\alpha$ of the mean")
