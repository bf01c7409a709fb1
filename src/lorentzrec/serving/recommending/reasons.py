"""Why an item is recommended: which items of the history contribute to its score, and by how much."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.model.ranking import Ranker, Rows, recency_weights


class Reasons:
    """Splits the score of a recommended item into shares of the history.

    A query is a normalised sum of history points, so the score of an item v is, but for terms that all items share, the
    sum over the history of w_i s(x_i, v), with s = <x, v> on the hyperboloid, x . v or -|x - v|^2 / 2 in flat space.
    The parts mean little by themselves: on the hyperboloid every one is negative. So v is compared with the centre c of
    the catalogue, the midpoint of all items:

        pull_i = w_i (s(x_i, v) - s(x_i, c)),      which add up to the difference of the scores of v and c.

    On the hyperboloid, and wherever the score is a distance, a pull is positive exactly if v is nearer to x_i than the
    centre is. The share of an item of the history is its positive pull, over the sum of all positive pulls. If there is
    none, v is recommended for its place near the centre, and no item of the history is a reason.
    """

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker

    @cached_property
    def _centre(self) -> FloatArray:
        total = self._ranker.item_points.sum(axis=0, dtype=np.float64)
        return normalise_sum(total) if self._ranker.hyperbolic else total / len(self._ranker.item_points)

    def shares(
        self, history: Rows, recommended: Rows, event_weights: FloatArray | None = None
    ) -> tuple[Rows, FloatArray]:
        """The distinct items of a history (rows, oldest first), and a matrix of their shares in `recommended`.

        Line j holds the shares in `recommended[j]`: they add up to 1, or are all 0.
        """
        ranker, centre = self._ranker, self._centre
        distinct, place = np.unique(history, return_inverse=True)
        weights = np.bincount(place, recency_weights(len(history), ranker.recency, event_weights))
        points = ranker.precise(ranker.history_points[distinct])
        items = ranker.precise(ranker.item_points[recommended])
        towards = items - centre
        if ranker.hyperbolic:
            towards[:, 0] *= -1
        pulls = towards @ points.T
        if ranker.by_distance and not ranker.hyperbolic:
            pulls -= (euclidean.squared_norm(items) - euclidean.squared_norm(centre))[:, None] / 2
        pulls *= weights
        positive = np.maximum(pulls, 0, out=pulls)
        total = positive.sum(axis=1, keepdims=True)
        return distinct, np.divide(positive, total, out=positive, where=total > 0)
