"""The space that points are in: its geometry, what a score is, and how a history becomes a query."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.hyperboloid import squared_lorentzian_distance
from lorentzrec.geometry.midpoint import einstein_midpoint, normalise_sum
from lorentzrec.geometry.repulsion import find_flat_share, find_share
from lorentzrec.geometry.sums import weighted_sum

Geometry: TypeAlias = Literal["hyperboloid", "euclidean"]
Score: TypeAlias = Literal["inner", "distance"]


class Space(NamedTuple):
    """A score is, by `geometry` and `score`: hyperboloid inner <u, v>, hyperboloid distance -d(u, v), Euclidean inner
    u . v, Euclidean distance -|u - v|."""

    geometry: Geometry
    score: Score
    recency: float = 1.0
    """The weight of an item of a history, relative to the item after it, or with `by_orders` to the order after it."""
    by_orders: bool = False
    """Whether recency counts orders, whose items weigh alike. Histories without known orders count items."""

    @property
    def hyperbolic(self) -> bool:
        return self.geometry == "hyperboloid"

    @property
    def by_distance(self) -> bool:
        return self.score == "distance"

    def precise(self, points: NDArray[np.float32]) -> FloatArray:
        """See `hyperboloid.precise`."""
        return hyperboloid.precise(points) if self.hyperbolic else euclidean.precise(points)

    def distance(self, point: FloatArray, points: FloatArray) -> FloatArray:
        """The distance of each of some points from `point`."""
        return hyperboloid.distance(point, points) if self.hyperbolic else euclidean.distance(point, points)

    def midpoint(self, points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Hyperboloid: the Einstein midpoint, S / sqrt(-<S, S>) with S = sum_i w_i x_i. Euclidean: the mean.

        Negative weights are of dislikes, which push it away. At least one weight is positive.
        """
        if weights is not None and (weights < 0).any():
            liked, disliked = np.maximum(weights, 0), np.maximum(-weights, 0)
            sums = weighted_sum(points, liked), weighted_sum(points, disliked)
            return self.midpoints_from_sums(*self.push(*sums, liked.sum(axis=-1), disliked.sum(axis=-1)))
        return einstein_midpoint(points, weights) if self.hyperbolic else euclidean.midpoint(points, weights)

    def midpoints_from_sums(self, sums: FloatArray, weights: Any) -> FloatArray:
        """Midpoints from weighted sums of points; `weights` are the sums of the weights."""
        return normalise_sum(sums) if self.hyperbolic else sums / weights

    def push(
        self, liked: FloatArray, disliked: FloatArray, liked_weights: FloatArray, disliked_weights: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Sums of what is liked and of what is disliked as one sum, and its weight: see `geometry.repulsion`.

        The weights are the sums of the weights, one per sum.
        """
        flat = not self.hyperbolic
        shares = find_flat_share(liked_weights, disliked_weights) if flat else find_share(liked, disliked)
        return liked - shares[..., None] * disliked, (liked_weights - shares * disliked_weights)[..., None]

    def recency_weights(
        self, count: int, event_weights: NDArray[Any] | None = None, order_ages: NDArray[Any] | None = None
    ) -> FloatArray:
        """Weights of a history, oldest first: event weight * recency^(steps back), and the newest is 0 steps back.

        order_ages: how many orders back each event is, used instead of steps if recency counts orders.
        """
        ages = np.arange(count - 1, -1, -1, dtype=np.float64)
        if self.by_orders and order_ages is not None and count:
            ages = (order_ages - order_ages.min()).astype(np.float64)
        weights = np.power(self.recency, ages)
        return weights if event_weights is None else weights * event_weights

    def score_points(self, query: FloatArray, points: FloatArray) -> FloatArray:
        """The scores of items with these points, in float64 and stable for near points; without boosts."""
        if self.by_distance:
            return -self.distance(query, points)
        # <u, v> = -1 - q / 2, and q keeps the order of near points, whose <u, v> are all -1 within rounding.
        return -1 - squared_lorentzian_distance(query, points) / 2 if self.hyperbolic else euclidean.dot(query, points)
