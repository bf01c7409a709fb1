"""Maximal marginal relevance: results that are good and differ from one another, by the model's own distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lorentzrec.errors import InputError
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.topk import Rows

POOL = 5
"""Candidates per requested item ..."""
LARGEST_POOL = 1000
"""... but no more than this, or than the number requested."""


def check_diversity(diversity: float) -> None:
    if not 0 <= diversity <= 1:
        raise InputError(f"diversity is {diversity!r}: give a number from 0 to 1")


def pool_size(k: int, diversity: float) -> int:
    """The number of best items from which `diversify` chooses `k`."""
    return k if diversity == 0 else max(k, min(POOL * k, LARGEST_POOL))


def diversify(ranker: Ranker, rows: Rows, scores: NDArray[np.float32], k: int, diversity: float) -> NDArray[np.int64]:
    """Positions of `k` of the candidates, in the order in which they are chosen; `rows` and `scores` are best first.

    The first is the best. Each next one has the largest

        (1 - diversity) r(v) + diversity min_s d(v, s) / D

    over the candidates v that are left, where s runs over those already chosen, d is the distance between item points,
    D the largest distance of a candidate from the best one, and r(v) = (score - least) / (greatest - least). Equal ones
    go by their order in `rows`. So 0 is the order of the scores, and 1 takes the item farthest from all chosen ones.
    """
    k = min(k, len(rows))
    if diversity == 0 or k < 2:
        return np.arange(k)
    points = ranker.precise_items(rows)
    distance = ranker.points.space.distance
    relevance = scores.astype(np.float64) - float(scores.min())
    relevance /= relevance.max() or 1.0
    apart = distance(points[0], points)
    unit = apart.max() or 1.0
    chosen = [0]
    while len(chosen) < k:
        value = (1 - diversity) * relevance + diversity * apart / unit
        value[chosen] = -np.inf
        chosen.append(int(value.argmax()))
        apart = np.minimum(apart, distance(points[chosen[-1]], points))
    return np.array(chosen)
