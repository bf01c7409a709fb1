"""The paper's small graphs: simulations with what was learned from them, and a graph beside its projection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.figures.canvas import GREY, PAGE_WIDTH, canvas
from lorentzrec.figures.disk import plot_small_disk, plot_small_graph

USER_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


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
    """Left: customers (rows) and items (columns) with each item's degree. Right: items that share customers, lines as
    wide as they share many, with each item's weighted degree."""
    users, items = list(USER_LETTERS[: graph.shape[0]]), [str(item + 1) for item in range(graph.shape[1])]
    shared = graph.T.astype(np.int64) @ graph.astype(np.int64)
    np.fill_diagonal(shared, 0)
    with canvas(path, PAGE_WIDTH, 2.6) as figure:
        left, right = figure.subplots(1, 2)
        plot_small_graph(left, [(int(user), int(item)) for user, item in np.argwhere(graph)], users, items)
        left.set_title("customers and items (number below: degree)")
        for item, degree in enumerate(graph.sum(axis=0)):
            left.text((item + 0.5) / len(items), -0.2, str(degree), ha="center", va="center", fontsize=7, color=GREY)
        angles = np.pi / 2 - 2 * np.pi * np.arange(len(items)) / len(items)
        places = np.column_stack([np.cos(angles), np.sin(angles)])
        for one, other in np.argwhere(np.triu(shared)):
            (x, y), (to_x, to_y) = places[one], places[other]
            right.plot([x, to_x], [y, to_y], color=GREY, linewidth=0.7 * shared[one, other], alpha=0.6, zorder=1)
        box = {"boxstyle": "square,pad=0.25", "facecolor": "#CFE3F2", "edgecolor": "black", "linewidth": 0.7}
        for place, label, weight in zip(places, items, shared.sum(axis=0), strict=True):
            right.text(*place, label, ha="center", va="center", fontsize=6, bbox=box)
            right.text(*(1.22 * place), str(weight), ha="center", va="center", fontsize=7, color=GREY)
        right.set(title="projection on items (number outside: weighted degree)", xlim=(-1.5, 1.5), ylim=(-1.35, 1.35))
        right.set_aspect("equal")
        right.set_axis_off()
