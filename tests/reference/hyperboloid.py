"""The formulas of `lorentzrec.geometry.hyperboloid`, and those that training computes in its kernels alone.

A gradient, unless its name states otherwise, is a Minkowski gradient: the h with df = <h, dx>. Its projection to the
tangent space is the Riemannian gradient, so any multiple of x may be added to h without changing a step.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import *  # noqa: F403
from lorentzrec.geometry.hyperboloid import (
    _displacement,
    _sinh_over,
    distance,
    distance_to_origin,
    lift,
    log_map,
    minkowski_dot,
    minkowski_gradient,
    origin,
    project_to_tangent,
    squared_lorentzian_distance,
    tangent_norm,
)


def distance_gradient(point: FloatArray, target: FloatArray) -> FloatArray:
    """Gradient of d(x, y) in x: -(y - cosh(d) x) / sinh(d), the unit tangent vector that points away from y.

    Paper equation 18 prints g y / sqrt(<x, y>^2 - 1), which lacks the minus sign; the projection is already done here.
    Only at x = y is it 0/0; there no direction is special, and this function returns zero.
    """
    towards, length = log_map(point, target), distance(point, target)[..., None]
    gradient: FloatArray = np.divide(-towards, length, out=np.zeros_like(towards), where=length != 0)
    return gradient


def riemannian_gradient(point: FloatArray, euclidean_gradient: FloatArray) -> FloatArray:
    """The tangent vector along which f grows fastest, from its partial derivatives (paper equations 20 and 21)."""
    return project_to_tangent(point, minkowski_gradient(euclidean_gradient))


def parallel_transport(point_from: FloatArray, point_to: FloatArray, tangent: FloatArray) -> FloatArray:
    """v + <y, v> / (1 - <x, y>) (x + y): a tangent vector at x carried along the geodesic to y.

    Lengths and angles stay. The divisor is 2 + q/2, at least 2; <y, v> is taken as <y - x, v>, equal as <x, v> = 0.
    """
    along = minkowski_dot(_displacement(point_from, point_to), tangent)
    factor = along / (2 + squared_lorentzian_distance(point_from, point_to) / 2)
    return tangent + factor[..., None] * (point_from + point_to)


def descent_step(point: FloatArray, gradient: FloatArray, learning_rate: float) -> FloatArray:
    """exp_x(-rate * projected h), the whole step of RSGD (paper equations 21 and 22), as a x + b h with two scalars.

    With p = <x, h>, N = |h + p x| and s = sinh(rate N) / N: a = cosh(rate N) - s p and b = -s.
    """
    along = minkowski_dot(point, gradient)[..., None]
    length = learning_rate * tangent_norm(point, gradient + along * point)[..., None]
    sinh_over_norm = learning_rate * _sinh_over(length)
    return lift((np.cosh(length) - sinh_over_norm * along) * point[..., 1:] - sinh_over_norm * gradient[..., 1:])


def squared_distance_to_origin(point: FloatArray) -> FloatArray:
    """d(x, o)^2: what regularisation penalises (||Theta||^2 in paper equation 13)."""
    return distance_to_origin(point) ** 2


def squared_distance_to_origin_gradient(point: FloatArray) -> FloatArray:
    """-2 (d / sinh d) o with the origin o = (1, 0, ..., 0); projected to the tangent space it is -2 log_x(o)."""
    return (-2 / _sinh_over(distance_to_origin(point)))[..., None] * origin(point.shape[-1] - 1, point.dtype)
