"""The paper's small graphs: simulations with what was learned from them, and a graph next to its projection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.figures.canvas import GREY, PAGE_WIDTH, canvas
from lorentzrec.figures.disk import check_coordinates, draw_empty_disk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

USER_COLOUR, ITEM_COLOUR = "#FFFFFF", "#CFE3F2"
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
        box = {"boxstyle": "square,pad=0.25", "facecolor": ITEM_COLOUR, "edgecolor": "black", "linewidth": 0.7}
        for place, label, weight in zip(places, items, shared.sum(axis=0), strict=True):
            right.text(*place, label, ha="center", va="center", fontsize=6, bbox=box)
            right.text(*(1.22 * place), str(weight), ha="center", va="center", fontsize=7, color=GREY)
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
    """A handful of users (circles with letters) and items (squares with numbers) on the disk; Poincare coordinates."""
    check_coordinates("user points", user_points)
    check_coordinates("item points", item_points)
    draw_empty_disk(axes)
    _nodes(axes, item_points, item_labels, round_shape=False)
    _nodes(axes, user_points, user_labels, round_shape=True)


def plot_small_graph(
    axes: Axes,
    links: Iterable[tuple[int, int]],
    user_labels: Sequence[str],
    item_labels: Sequence[str],
) -> None:
    """The bipartite graph that such a disk was learned from: users above, items below; a link is (user, item) rows."""
    users, items = _on_a_line(len(user_labels), 1.0), _on_a_line(len(item_labels), 0.0)
    for user, item in links:
        (x, y), (to_x, to_y) = users[user], items[item]
        axes.plot([x, to_x], [y, to_y], color=GREY, linewidth=0.8, zorder=1)
    _nodes(axes, items, item_labels, round_shape=False)
    _nodes(axes, users, user_labels, round_shape=True)
    axes.set_axis_off()
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-0.35, 1.35)


def _on_a_line(count: int, height: float) -> NDArray[np.float64]:
    places = (np.arange(count) + 0.5) / max(1, count)
    return np.column_stack([places, np.full(count, height)])


def _nodes(axes: Axes, places: NDArray[Any], labels: Sequence[str], *, round_shape: bool) -> None:
    box = {
        "boxstyle": "circle,pad=0.22" if round_shape else "square,pad=0.25",
        "facecolor": USER_COLOUR if round_shape else ITEM_COLOUR,
        "edgecolor": "black",
        "linewidth": 0.7,
    }
    for (x, y), label in zip(places, labels, strict=True):
        axes.text(x, y, label, ha="center", va="center", fontsize=6, bbox=box, zorder=3 if round_shape else 2)
