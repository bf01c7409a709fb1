"""Flat space, the twin of `reference.hyperboloid` and `reference.midpoint` under the same names.

Every gradient is the ordinary one.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.euclidean import *  # noqa: F403
from lorentzrec.geometry.euclidean import distance, midpoint, squared_norm


def distance_gradient(point: FloatArray, target: FloatArray) -> FloatArray:
    """-(y - x) / |y - x|: the unit vector that points away from y; zero at x = y, as in the twin."""
    away, length = point - target, distance(point, target)[..., None]
    return np.divide(away, length, out=np.zeros_like(away), where=length != 0)


def project_to_tangent(point: FloatArray, vector: FloatArray) -> FloatArray:
    """Every vector is tangent everywhere."""
    return vector


def riemannian_gradient(point: FloatArray, euclidean_gradient: FloatArray) -> FloatArray:
    """The partial derivatives are the gradient."""
    return euclidean_gradient


def parallel_transport(point_from: FloatArray, point_to: FloatArray, tangent: FloatArray) -> FloatArray:
    """A vector does not change along a straight line."""
    return tangent


def descent_step(point: FloatArray, gradient: FloatArray, learning_rate: float) -> FloatArray:
    """x - rate * h."""
    return point - learning_rate * gradient


def squared_distance_to_origin(point: FloatArray) -> FloatArray:
    """|x|^2."""
    return squared_norm(point)


def squared_distance_to_origin_gradient(point: FloatArray) -> FloatArray:
    """2 x."""
    return 2 * point


def midpoint_gradient(weight: FloatArray, gradient: FloatArray) -> FloatArray:
    """h / W: the gradient in the weighted sum S, from the gradient h in the midpoint S / W."""
    return gradient / weight[..., None]


def frechet_mean(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """argmin_p sum_i w_i |p - x_i|^2 (paper equation 23), which in flat space is the weighted mean itself."""
    return midpoint(points, weights)
