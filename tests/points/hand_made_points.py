"""Points and rankers of arrays, without a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.points.memory import Memory
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.space import Space


def make_points(
    item_points: NDArray[np.float32],
    history_points: NDArray[np.float32] | None = None,
    *,
    geometry: Any,
    score: Any,
    recency: float = 1.0,
    memory: Memory | None = None,
) -> Points:
    """Points of items that nobody bought; histories are made of `item_points`, unless others are given."""
    counts = np.zeros(len(item_points), np.int64)
    others = item_points if history_points is None else history_points
    return Points(item_points, others, counts, Space(geometry, score, recency), memory)


def make_ranker(item_points: NDArray[np.float32], *others: NDArray[np.float32], **settings: Any) -> Ranker:
    return Ranker(make_points(item_points, *others, **settings))
