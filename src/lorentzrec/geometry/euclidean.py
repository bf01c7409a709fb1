"""Flat space, the twin of `lorentzrec.geometry.hyperboloid` and `lorentzrec.geometry.midpoint` under the same names.

Every formula is the flat limit of its twin, so that one code path serves both and a comparison changes nothing else.
A point is (x1, ..., xd), and all tangent spaces are the space itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import total_weight, weighted_sum


def dot(left: FloatArray, right: FloatArray) -> FloatArray:
    """u . v = u1 v1 + ... + ud vd, the twin of `minkowski_dot`."""
    product: FloatArray = np.vecdot(left, right)
    return product


def squared_norm(vector: FloatArray) -> FloatArray:
    """v . v, the twin of `minkowski_squared_norm`."""
    return dot(vector, vector)


def precise(point: FloatArray) -> FloatArray:
    """The point in float64."""
    return point.astype(np.float64)


def origin(dimension: int, dtype: DTypeLike = np.float64) -> FloatArray:
    """(0, ..., 0)."""
    return np.zeros(dimension, dtype)


def distance(point: ArrayLike, target: ArrayLike) -> FloatArray:
    """|y - x|."""
    return np.sqrt(squared_norm(np.subtract(target, point)))


def tangent_norm(point: FloatArray, tangent: FloatArray) -> FloatArray:
    """|v|, the same at every point."""
    return np.sqrt(squared_norm(tangent))


def exp_map(point: FloatArray, tangent: FloatArray) -> FloatArray:
    """x + v."""
    return point + tangent


def log_map(point: FloatArray, target: FloatArray) -> FloatArray:
    """y - x."""
    return target - point


def distance_to_origin(point: FloatArray) -> FloatArray:
    """|x|."""
    return np.sqrt(squared_norm(point))


def midpoint(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """sum_i w_i x_i / sum_i w_i over the axis before the last (paper section 5.4); all equal without weights."""
    return weighted_sum(points, weights) / total_weight(points, weights)[..., None]
