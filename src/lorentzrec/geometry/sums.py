"""Histories as weighted sums of points; the same in both geometries.

`points` has the shape (..., count, coordinates) and `weights` (..., count). Without weights all points count equally.
Weights are positive or zero, and are taken in the dtype of the points. A midpoint is a sum made a point again: see
`lorentzrec.geometry.midpoint.normalise_sum`, and in flat space the division by `total_weight`.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray


def find_weights(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """The weights as an array in the dtype of the points; ones where none are given."""
    return np.ones(points.shape[:-1], points.dtype) if weights is None else np.asarray(weights, points.dtype)


def total_weight(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """W = sum_i w_i, which must be positive: a mean of nothing is 0/0."""
    total: FloatArray = find_weights(points, weights).sum(axis=-1)
    if not np.all(total > 0):
        raise InputError("the weights of a midpoint sum to zero or less: give it at least one point of positive weight")
    return total


def weighted_sum(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """S = sum_i w_i x_i (the numerator of paper equation 24)."""
    total: FloatArray = (find_weights(points, weights)[..., None] * points).sum(axis=-2)
    return total
