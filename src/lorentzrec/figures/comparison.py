"""Systems side by side: a dot for the mean of each, its interval, and the single runs behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lorentzrec.atomic import atomic_file
from lorentzrec.errors import InputError, how_to_get

COLOURS = ("#0072B2", "#D55E00", "#595959")
"""Blue, vermilion and grey of Okabe and Ito's palette: the hyperboloid, its twin, and whatever else there is."""


class ShownSystem(NamedTuple):
    """One line of the plot."""

    name: str
    value: float
    low: float
    high: float
    runs: tuple[float, ...]


def plot_comparison(systems: Sequence[ShownSystem], metric: str, path: str | Path, *, title: str = "") -> None:
    """To a PNG, SVG or PDF file by the ending of `path`; the best system stands on top."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"{path} does not say the kind of picture: end the name in .png, .svg or .pdf")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(f"figures need matplotlib: {how_to_get('plots')}") from None

    ordered = sorted(systems, key=lambda system: system.value)
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "lorentzrec"}
    with rc_context(style):
        figure = Figure(figsize=(5.6, 0.9 + 0.36 * len(ordered)), dpi=200, layout="constrained")
        axes = figure.add_subplot()
        for place, system in enumerate(ordered):
            colour = {"hyperboloid": COLOURS[0], "euclidean": COLOURS[1]}.get(system.name, COLOURS[2])
            axes.plot([system.low, system.high], [place, place], color=colour, linewidth=1.8, solid_capstyle="butt")
            axes.plot(system.value, place, "o", color=colour, markersize=6)
            # Single runs lie just below their line, where the interval does not hide them.
            axes.plot(system.runs, [place - 0.26] * len(system.runs), "|", color=colour, markersize=5)
            axes.annotate(f"{system.value:.4f}", (1.01, place), xycoords=("axes fraction", "data"), va="center")
        axes.set_yticks(range(len(ordered)), [system.name for system in ordered])
        axes.set_ylim(-0.6, len(ordered) - 0.4)
        axes.set_xlabel(f"{metric} with 95 % interval over customers; ticks: single runs")
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        if title:
            axes.set_title(title, fontsize=10, loc="left")
        with atomic_file(path) as partial:
            # Without the date equal data give equal files.
            figure.savefig(partial, metadata={"Date": None} if partial.suffix.lower() == ".svg" else None)
