"""The Poincare disk for print, with items, categories and customers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.canvas import BLUE, COLUMN_WIDTH, GREEN, ORANGE, PURPLE, SKY, VERMILION, canvas
from lorentzrec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CATEGORY_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, "#F0E442", "#8C564B")
"""Okabe and Ito's palette and a brown: as many categories as a reader can distinguish; the others are grey."""
OTHERS = "#BBBBBB"
MANY_POINTS = 2_000
"""From this number on, points are an image inside the vector file, which keeps it small."""
LEGEND_COLUMNS = 4
LABEL_SIZE, LONGEST_LABEL, LABEL_TURNS = 5.5, 28, 0.35
"""Font size, characters, and the x from which on labels are to the left of their item."""
LABEL_OFFSET = 5
"""Points of print between an item and its label; a line joins them."""


def plot_disk(
    coordinates: NDArray[Any],
    path: str | Path,
    *,
    categories: Sequence[str | None] | None = None,
    counts: NDArray[Any] | None = None,
    customers: NDArray[Any] | None = None,
    labels: Mapping[int, str] | None = None,
    width: float = COLUMN_WIDTH,
) -> None:
    """Draw items on the disk, to a PNG, SVG or PDF file by the suffix of `path`.

    coordinates: Poincare coordinates, one row per item, inside the unit disk.
    categories: one per item; the largest ones have a colour each, and other items are grey.
    counts: the popularity of items, which decides the size of their points.
    customers: Poincare coordinates of some customers, drawn as black stars.
    labels: row -> text next to its point.
    """
    check_coordinates("coordinates", coordinates)
    if customers is not None:
        check_coordinates("customers", customers)
    codes, names = _codes(categories, len(coordinates))
    sizes = _sizes(len(coordinates), counts)
    marks = _marks(names, categories is not None and bool((codes < 0).any()), customers is not None)
    with canvas(path, width, width + 0.16 * math.ceil(len(marks) / LEGEND_COLUMNS)) as figure:
        axes = figure.add_subplot()
        draw_empty_disk(axes)
        # Grey first, then unpopular to popular, so that what matters is on top.
        order = np.lexsort((sizes, codes >= 0))
        colours = np.array([*CATEGORY_COLOURS, OTHERS if names else BLUE])
        axes.scatter(
            coordinates[order, 0],
            coordinates[order, 1],
            s=sizes[order],
            c=colours[codes[order]],
            linewidths=0,
            alpha=0.75,
            rasterized=len(order) > MANY_POINTS,
        )
        if customers is not None:
            x, y = customers.T
            axes.scatter(x, y, s=22, marker="*", c="black", linewidths=0.3, edgecolors="white", zorder=3)
        for row, text in (labels or {}).items():
            _label(axes, coordinates[row, 0], coordinates[row, 1], text)
        if marks:
            handles = [axes.scatter([], [], marker=mark, c=colour, s=14, label=name) for name, mark, colour in marks]
            figure.legend(
                handles=handles,
                loc="outside lower center",
                ncols=LEGEND_COLUMNS,
                frameon=False,
                handletextpad=0.1,
                columnspacing=0.9,
                fontsize=6.5,
            )


def choose_labels(
    coordinates: NDArray[Any], texts: Iterable[tuple[int, str]], limit: int, width: float = COLUMN_WIDTH
) -> dict[int, str]:
    """At most `limit` of the (row, text) pairs, most important first, without those that would overlap earlier ones."""
    unit = 72 * width / 2  # radius of the disk in points of print
    boxes: list[tuple[float, float, float, float]] = []
    chosen: dict[int, str] = {}
    for row, text in texts:
        if len(chosen) == limit:
            break
        short = text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1].rstrip()}…"
        x, y = coordinates[row].tolist()
        wide, high = 0.55 * LABEL_SIZE * len(short) / unit, 2 * LABEL_SIZE / unit
        gap = LABEL_OFFSET / unit
        left = x - gap - wide if x > LABEL_TURNS else x + gap
        box = (left, y + gap, left + wide, y + gap + high)
        if max(box[0] ** 2, box[2] ** 2) + max(box[1] ** 2, box[3] ** 2) > 1:  # would cross the boundary circle
            continue
        if all(box[0] > other[2] or box[2] < other[0] or box[1] > other[3] or box[3] < other[1] for other in boxes):
            boxes.append(box)
            chosen[row] = short
    return chosen


def draw_empty_disk(axes: Axes) -> None:
    """Draw the boundary circle, without axes."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, facecolor="none", edgecolor="black", linewidth=0.8, zorder=2))
    axes.set_aspect("equal")
    axes.set_xlim(-1.02, 1.02)
    axes.set_ylim(-1.02, 1.02)
    axes.set_axis_off()


def check_coordinates(name: str, coordinates: NDArray[Any]) -> None:
    """Raise an `InputError` for points that are not inside the unit disk."""
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise InputError(f"the {name} have the shape {coordinates.shape}: give Poincare coordinates, (n, 2)")
    outside = np.flatnonzero(~(np.square(coordinates.astype(np.float64)).sum(axis=1) < 1))
    if len(outside):
        raise InputError(f"row {outside[0]} of the {name} is not inside the unit disk: give Poincare coordinates")


def _codes(categories: Sequence[str | None] | None, count: int) -> tuple[NDArray[np.int64], list[str]]:
    """For each item the index of its category among the largest ones, -1 if it is not there; and their names."""
    if categories is None:
        return np.full(count, -1), []
    if len(categories) != count:
        raise InputError(f"there are {count} items and {len(categories)} categories: give one for each, or None")
    known, members = np.unique([name for name in categories if name is not None], return_counts=True)
    names = known[np.lexsort((known, -members))][: len(CATEGORY_COLOURS)].tolist()
    indices = {name: index for index, name in enumerate(names)}
    return np.array([indices.get(name or "", -1) for name in categories], np.int64), names


def _sizes(count: int, counts: NDArray[Any] | None) -> NDArray[np.float64]:
    """Areas in square points, proportional to the root of the popularity, that cover a fixed share of the disk."""
    weights = np.ones(count) if counts is None else np.sqrt(1.0 + np.asarray(counts, np.float64))
    areas: NDArray[np.float64] = np.clip(weights * (9_000 / max(1.0, weights.sum())), 0.15, 30)
    return areas


def _label(axes: Axes, x: float, y: float, text: str) -> None:
    from matplotlib.patheffects import withStroke

    axes.annotate(
        text,
        (x, y),
        xytext=(-LABEL_OFFSET if x > LABEL_TURNS else LABEL_OFFSET, LABEL_OFFSET),
        textcoords="offset points",
        ha="right" if x > LABEL_TURNS else "left",
        arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 0.4, "shrinkA": 0, "shrinkB": 1},
        fontsize=LABEL_SIZE,
        zorder=4,
        path_effects=[withStroke(linewidth=1.5, foreground="white")],
    )


def _marks(names: list[str], others: bool, customers: bool) -> list[tuple[str, str, str]]:
    """Name, shape and colour of the entries of the legend."""
    marks = [(name, "o", colour) for name, colour in zip(names, CATEGORY_COLOURS, strict=False)]
    marks += [("other", "o", OTHERS)] if others and names else []
    return marks + ([("customers", "*", "black")] if customers else [])
