"""The best items for a history, one item at a time; see `lorentzrec.points.native`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.points.points import Points
from tests.reference import memory


def rank(
    points: Points,
    k: int,
    history: list[int],
    *,
    query: FloatArray | None = None,
    event_weights: list[float] | None = None,
    repeats: Mapping[int, float] | None = None,
    excluded: Collection[int] = (),
    eligible: Collection[int] | None = None,
    by_points_alone: bool = False,
) -> list[tuple[int, float]]:
    """Rows and scores: best first, ties by row.

    repeats: what is added to the scores of some items.
    """
    count, space = len(points), points.space
    if query is None:
        weights = [space.recency**age for age in range(len(history))][::-1]
        if event_weights is not None:
            weights = [one * other for one, other in zip(weights, event_weights, strict=True)]
        query = space.midpoint(points.precise_histories(np.array(history)), np.array(weights))
    boosts = np.zeros(count)
    if points.memory is not None and not by_points_alone:
        matrix = dense(points.memory)
        given = None if event_weights is None else list(event_weights)
        ordered, weight = points.memory.ordered, points.memory.weight
        boosts += memory.boosts(matrix, history, weight, ordered=ordered, event_weights=given)
    for row, boost in (repeats or {}).items():
        boosts[row] += boost
    left = [row for row in range(count) if row not in excluded and (eligible is None or row in eligible)]
    scored = [
        (row, float(space.score_points(query, points.precise_items(np.array([row])))[0] + boosts[row])) for row in left
    ]
    return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k]


def dense(remembered: Any) -> FloatArray:
    """B: (items, items)."""
    matrix = np.zeros((remembered.item_count, remembered.item_count))
    rows = np.repeat(np.arange(remembered.item_count), np.diff(remembered.offsets))
    matrix[rows, remembered.columns] = remembered.values
    return matrix
