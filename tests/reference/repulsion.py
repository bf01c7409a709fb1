"""The midpoint of a history with dislikes, by bisection: see `lorentzrec.geometry.repulsion`."""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray


def find_query(points: FloatArray, weights: FloatArray, *, hyperbolic: bool) -> FloatArray:
    """The query of one history: points in rows, and weights that are negative for dislikes."""
    liked, disliked = np.zeros(points.shape[1] + 1), np.zeros(points.shape[1] + 1)
    for point, weight in zip(points, weights, strict=True):
        row = np.array([1.0, *point])  # the weight in front
        if weight > 0:
            liked += weight * row
        else:
            disliked -= weight * row

    def measure(total: FloatArray) -> float:
        if not hyperbolic:
            return float(total[0])
        squared = total[1] ** 2 - (total[2:] ** 2).sum()
        return float(np.sqrt(squared)) if squared > 0 and total[1] > 0 else 0.0

    least, share = measure(liked) / 2, 1.0
    if measure(liked - disliked) < least:
        low, high = 0.0, 1.0
        for _ in range(200):
            share = (low + high) / 2
            low, high = (share, high) if measure(liked - share * disliked) >= least else (low, share)
    total = liked - share * disliked
    query: FloatArray = total[1:] / measure(total)
    return query
