"""By how much one system is ahead of another on several data sets, with intervals, group beside group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill

from lorentzrec.figures.canvas import BLUE, GREEN, GREY, PAGE_WIDTH, PURPLE, VERMILION, canvas

Span = tuple[float, float, float]
"""A value, and the low and the high end of its interval."""


def plot_differences(
    places: Sequence[str], groups: Mapping[str, Sequence[Span]], y_label: str, path: str | Path
) -> None:
    """A place for each data set and in it a dot for each group, told apart by colour and by form; 0 is a line."""
    with canvas(path, PAGE_WIDTH, 2.8) as figure:
        axes = figure.add_subplot()
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        for number, (label, spans) in enumerate(groups.items()):
            beside = 0.2 * (number - (len(groups) - 1) / 2)
            reach = [[value - low for value, low, _ in spans], [high - value for value, _, high in spans]]
            axes.errorbar(
                [place + beside for place in range(len(places))],
                [value for value, _, _ in spans],
                yerr=reach,
                fmt="os^d"[number % 4],
                color=(BLUE, VERMILION, GREEN, PURPLE)[number % 4],
                markersize=4,
                linewidth=1.2,
                label=label,
            )
        axes.set_xticks(range(len(places)), [fill(place, 15) for place in places])
        axes.set_xlim(-0.5, len(places) - 0.5)
        axes.set_ylabel(y_label)
        axes.legend(frameon=False, ncols=len(groups), loc="lower left", bbox_to_anchor=(0, 1))  # clear of the dots
