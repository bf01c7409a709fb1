"""Figures of the reproduction; each function draws to the path it is given: a PNG, SVG or PDF file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.canvas import BLUE, GREEN, GREY, ORANGE, PAGE_WIDTH, PURPLE, VERMILION, canvas
from lorentzrec.maps.disk_plot import check_coordinates, draw_empty_disk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lorentzrec_paper.midpoints import DrawnScan

COLOURS = {"hyperboloid": BLUE, "euclidean": VERMILION, "asymmetric": ORANGE, "symmetric": BLUE}
"""A system has the same colour in all figures; the paper's asymmetric model is orange, its symmetric one blue."""
OTHER_COLOURS, MARKERS = (GREEN, PURPLE, GREY), "os^dv"
USER_COLOUR, ITEM_COLOUR = "#FFFFFF", "#CFE3F2"
USER_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_TICKS = 6
"""Up to this many positions on a logarithmic axis are all labelled."""

Interval = tuple[float, float, float]
"""A value, and the low and the high end of its interval."""
XY = tuple[Sequence[float], Sequence[float]]
"""Horizontal positions and values."""


@dataclass(frozen=True)
class Curve:
    label: str
    positions: Sequence[float]
    values: Sequence[float]
    deviations: Sequence[float] | None = None
    """Drawn as a band on both sides."""


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    logarithmic: bool = False
    """Of the horizontal axis."""
    level: float | None = None
    """A dotted horizontal line: the baseline."""


def plot_curves(panels: Sequence[Panel], path: str | Path, *, columns: int = 3) -> None:
    """Panels in a grid: a metric by epochs, seconds or a setting, one line per system. The first has the legend."""
    from matplotlib.ticker import MaxNLocator

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with canvas(path, PAGE_WIDTH, 2.2 * rows) as figure:
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, columns, number)
            others = iter(OTHER_COLOURS)
            for curve, marker in zip(panel.curves, cycle(MARKERS), strict=False):
                colour = COLOURS.get(curve.label) or next(others, GREY)
                style: dict[str, Any] = {"marker": marker, "markersize": 2.5, "linewidth": 1.2, "color": colour}
                axes.plot(curve.positions, curve.values, label=curve.label, **style)
                if curve.deviations:
                    values, band = np.asarray(curve.values), np.asarray(curve.deviations)
                    axes.fill_between(
                        curve.positions, values - band, values + band, color=colour, alpha=0.2, linewidth=0
                    )
            if panel.level is not None:
                axes.axhline(panel.level, color=GREY, linestyle=":", linewidth=1)
            axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
            axes.set_title(panel.title, loc="left")
            if panel.logarithmic:
                axes.set_xscale("log")
                positions = sorted({position for curve in panel.curves for position in curve.positions})
                if len(positions) <= MOST_TICKS:
                    axes.set_xticks(positions, [f"{position:g}" for position in positions])
                    axes.minorticks_off()
            elif all(float(position).is_integer() for curve in panel.curves for position in curve.positions):
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_ylim(bottom=0)
            if number == 1:
                axes.legend(frameon=True, edgecolor="none", framealpha=1.0)  # a line may run behind it


def plot_differences(
    data_sets: Sequence[str], groups: Mapping[str, Sequence[Interval]], y_label: str, path: str | Path
) -> None:
    """For each data set one dot per group, with its interval; groups differ in colour and marker. 0 is a line."""
    with canvas(path, PAGE_WIDTH, 2.8) as figure:
        axes = figure.add_subplot()
        axes.axhline(0.0, color=GREY, linewidth=0.8)
        for number, (label, intervals) in enumerate(groups.items()):
            offset = 0.2 * (number - (len(groups) - 1) / 2)
            values, low, high = np.array(intervals).T
            axes.errorbar(
                np.arange(len(data_sets)) + offset,
                values,
                yerr=[values - low, high - values],
                fmt="os^d"[number % 4],
                color=(BLUE, VERMILION, GREEN, PURPLE)[number % 4],
                markersize=4,
                linewidth=1.2,
                label=label,
            )
        axes.set_xticks(range(len(data_sets)), [fill(name, 15) for name in data_sets])
        axes.set_xlim(-0.5, len(data_sets) - 0.5)
        axes.set_ylabel(y_label)
        axes.legend(frameon=False, ncols=len(groups), loc="lower left", bbox_to_anchor=(0, 1))  # clear of the dots


def plot_midpoints(scan: DrawnScan, uneven: Mapping[str, XY], histories: Mapping[str, XY], path: str | Path) -> None:
    """Einstein midpoints and Fréchet means: the paper's scan of pairs, uneven sets, and histories in many dimensions.

    uneven: label -> distances between two positions, differences of the means in per cent.
    histories: label -> items in the history, differences in per cent of its radius.
    """
    with canvas(path, PAGE_WIDTH, 2.5) as figure:
        pairs, sets, many = figure.subplots(1, 3)
        _draw_scan(pairs, scan)
        for (label, curve), colour in zip(uneven.items(), (BLUE, VERMILION, GREEN, PURPLE), strict=False):
            sets.plot(*curve, color=colour, label=label)
        sets.set(title="uneven sets", xlabel="distance between the two positions")
        for (label, curve), colour, marker in zip(histories.items(), (BLUE, VERMILION, GREEN), "os^", strict=False):
            many.plot(*curve, marker=marker, markersize=3.5, color=colour, label=label)
        many.set(title="histories in 50 dimensions", xlabel="items in the history", xscale="log")
        ticks = sorted({position for positions, _ in histories.values() for position in positions})
        many.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        many.minorticks_off()
        for axes in (sets, many):
            axes.set_ylabel("difference, Einstein and Fréchet (%)")
            axes.set_ylim(bottom=0)
            axes.legend(frameon=False)


def _draw_scan(axes: Axes, scan: DrawnScan) -> None:
    columns = np.array([scan.start, scan.end, scan.printed, scan.einstein, scan.frechet])
    for start in np.unique(columns[0]):
        _, ends, printed, einstein, frechet = columns[:, columns[0] == start]
        axes.plot(ends, printed, "--", color=GREY, linewidth=1)
        axes.plot(ends, einstein, color=ORANGE, linewidth=1.6)
        axes.plot(ends[::2], frechet[::2], ".", color=BLUE, markersize=3.5)
        axes.plot([start], [start], "*", color=PURPLE, markersize=7)
    axes.legend(axes.lines[:4], ["Einstein, as printed", "Einstein", "Fréchet", "first point"], frameon=False)
    axes.set(title="pairs, as in the paper", xlabel=r"$\alpha$ of the second point", ylabel=r"$\alpha$ of the mean")


class SmallEmbedding(NamedTuple):
    """A small graph and its points on the Poincaré disk."""

    title: str
    links: Sequence[tuple[int, int]]
    """Rows of (user, item)."""
    users: Sequence[str]
    items: Sequence[str]
    user_points: NDArray[np.float64]
    item_points: NDArray[np.float64]


def plot_embeddings(many: Sequence[SmallEmbedding], path: str | Path) -> None:
    """Graphs above, disks below: users are circles with letters, items squares with numbers."""
    with canvas(path, PAGE_WIDTH, 3.4) as figure:
        above, below = figure.subplots(2, len(many), squeeze=False, height_ratios=(1, 2.2))
        for one, graph, disk in zip(many, above, below, strict=True):
            graph.set_title(one.title)
            plot_small_graph(graph, one.links, one.users, one.items)
            plot_small_disk(disk, one.user_points, one.item_points, one.users, one.items)


def plot_projection(graph: NDArray[np.bool_], path: str | Path) -> None:
    """Left: customers (rows) and items (columns) with each item's degree. Right: items that share customers; the width
    of a line is their number. Also each item's weighted degree."""
    users, items = list(USER_LETTERS[: graph.shape[0]]), [str(item + 1) for item in range(graph.shape[1])]
    shared = graph.T.astype(np.int64) @ graph.astype(np.int64)
    np.fill_diagonal(shared, 0)
    text = {"ha": "center", "va": "center"}
    with canvas(path, PAGE_WIDTH, 2.6) as figure:
        left, right = figure.subplots(1, 2)
        plot_small_graph(left, [(int(user), int(item)) for user, item in np.argwhere(graph)], users, items)
        left.set_title("customers and items (number below: degree)")
        for item, degree in enumerate(graph.sum(axis=0)):
            left.text((item + 0.5) / len(items), -0.2, str(degree), fontsize=7, color=GREY, **text)
        angles = np.pi / 2 - 2 * np.pi * np.arange(len(items)) / len(items)
        positions = np.column_stack([np.cos(angles), np.sin(angles)])
        for pair in np.argwhere(np.triu(shared)):
            right.plot(*positions[pair].T, color=GREY, linewidth=0.7 * shared[tuple(pair)], alpha=0.6, zorder=1)
        _draw_nodes(right, positions, items, round_shape=False)
        for position, weight in zip(positions, shared.sum(axis=0), strict=True):
            right.text(*(1.22 * position), str(weight), fontsize=7, color=GREY, **text)
        right.set(title="projection on items (number outside: weighted degree)", xlim=(-1.5, 1.5), ylim=(-1.35, 1.35))
        right.set_aspect("equal")
        right.set_axis_off()


def plot_small_disk(
    axes: Axes,
    user_points: NDArray[Any],
    item_points: NDArray[Any],
    user_labels: Sequence[str],
    item_labels: Sequence[str],
) -> None:
    """Some users (circles with letters) and items (squares with numbers) on the disk, in Poincaré coordinates."""
    check_coordinates("user points", user_points)
    check_coordinates("item points", item_points)
    draw_empty_disk(axes)
    _draw_nodes(axes, item_points, item_labels, round_shape=False)
    _draw_nodes(axes, user_points, user_labels, round_shape=True)


def plot_small_graph(
    axes: Axes, links: Iterable[tuple[int, int]], user_labels: Sequence[str], item_labels: Sequence[str]
) -> None:
    """The bipartite graph behind such a disk: users above, items below; a link is (user, item) rows."""
    users, items = _place_on_line(len(user_labels), 1.0), _place_on_line(len(item_labels), 0.0)
    for user, item in links:
        axes.plot(*np.stack([users[user], items[item]]).T, color=GREY, linewidth=0.8, zorder=1)
    _draw_nodes(axes, items, item_labels, round_shape=False)
    _draw_nodes(axes, users, user_labels, round_shape=True)
    axes.set_axis_off()
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-0.35, 1.35)


def _place_on_line(count: int, height: float) -> NDArray[np.float64]:
    return np.column_stack([(np.arange(count) + 0.5) / max(1, count), np.full(count, height)])


def _draw_nodes(axes: Axes, positions: NDArray[Any], labels: Sequence[str], *, round_shape: bool) -> None:
    box = {
        "boxstyle": "circle,pad=0.22" if round_shape else "square,pad=0.25",
        "facecolor": USER_COLOUR if round_shape else ITEM_COLOUR,
        "edgecolor": "black",
        "linewidth": 0.7,
    }
    for (x, y), label in zip(positions, labels, strict=True):
        axes.text(x, y, label, ha="center", va="center", fontsize=6, bbox=box, zorder=3 if round_shape else 2)
