"""Hyperbolic space as the upper sheet of a hyperboloid; `lorentzrec.geometry.euclidean` is its flat twin.

A point is x = (x0, x1, ..., xd) with <x, x> = -1 and x0 > 0: a time part x0 = sqrt(1 + |space part|^2), then the space
part. The origin is (1, 0, ..., 0). A tangent vector at x is a v with <x, v> = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.euclidean import dot, squared_norm


def minkowski_dot(left: FloatArray, right: FloatArray) -> FloatArray:
    """<u, v> = -u0 v0 + u1 v1 + ... + ud vd (paper equation 7). For points it is -cosh(d): larger means nearer."""
    return dot(left[..., 1:], right[..., 1:]) - left[..., 0] * right[..., 0]


def minkowski_squared_norm(vector: FloatArray) -> FloatArray:
    """<v, v>: -1 for points, positive for tangent vectors (paper section 3.1.3)."""
    return minkowski_dot(vector, vector)


def lift(space: ArrayLike) -> FloatArray:
    """The point above a space part: x0 = sqrt(1 + |space|^2), from <x, x> = -1 (paper equation 8).

    Every finite vector has one, so a point whose time part is recomputed is on the sheet and cannot drift from it.
    """
    part = np.asarray(space)
    return np.concatenate([np.sqrt(1 + squared_norm(part))[..., None], part], axis=-1)


def require_points(name: str, point: ArrayLike, tolerance: float = 1e-4) -> FloatArray:
    """The points as an array of floats; a `ValueError` if one is not on the sheet, x0 = sqrt(1 + |space part|^2).

    The formulas of this module do not check their arguments: they run in loops over millions of points.
    """
    points = np.asarray(point)
    points = points if np.issubdtype(points.dtype, np.floating) else points.astype(np.float64)
    times = np.sqrt(1 + squared_norm(points[..., 1:]))
    wrong = ~(np.abs(points[..., 0] - times) <= tolerance * times)
    if np.any(wrong):
        first = points[wrong][0] if points.ndim > 1 else points
        raise ValueError(
            f"{name} has a row that is not on the hyperboloid: its time part is {first[0]:g}, and its space part "
            f"needs {np.sqrt(1 + squared_norm(first[1:])):g}: use `lift` for space parts"
        )
    return points


def precise(point: FloatArray) -> FloatArray:
    """The point in float64, with x0 recomputed: the stored one has too few digits for differences of squares."""
    return lift(point[..., 1:].astype(np.float64))


def origin(dimension: int, dtype: DTypeLike = np.float64) -> FloatArray:
    """(1, 0, ..., 0): the point with the zero space part."""
    return lift(np.zeros(dimension, dtype))


def squared_lorentzian_distance(point: FloatArray, target: FloatArray) -> FloatArray:
    """q = <y - x, y - x> = 2 (cosh(distance) - 1), computed from the difference (see `distance`)."""
    # |dt| < |dx|, as |x + y| < x0 + y0: only rounding can make q negative, by at most (d + 4) epsilon |dx|^2.
    return np.maximum(minkowski_squared_norm(_displacement(point, target)), 0)


def distance(point: ArrayLike, target: ArrayLike) -> FloatArray:
    """d = arccosh(-<x, y>) (paper equations 9 and 17), computed as 2 asinh(|y - x| / 2) with |y - x|^2 = |dx|^2 - dt^2.

    arccosh loses every digit of a small distance, because -<x, y> is then 1 plus something below rounding. Taking the
    difference first, with dt = (|y|^2 - |x|^2) / (x0 + y0), keeps them; the margin of paper equation 19 is not needed.
    Both arguments must be on the sheet: see `require_points`.
    """
    return 2 * np.arcsinh(np.sqrt(squared_lorentzian_distance(np.asarray(point), np.asarray(target))) / 2)


def project_to_tangent(point: FloatArray, vector: FloatArray) -> FloatArray:
    """v + <x, v> x: the part of an ambient vector that is tangent at x (paper equation 11)."""
    return vector + minkowski_dot(point, vector)[..., None] * point


def minkowski_gradient(euclidean_gradient: FloatArray) -> FloatArray:
    """h = g^-1 grad: the sign of the time part is flipped, so that df = <h, dx> (paper equation 20, step 1 of RSGD)."""
    return np.concatenate([-euclidean_gradient[..., :1], euclidean_gradient[..., 1:]], axis=-1)


def tangent_norm(point: FloatArray, tangent: FloatArray) -> FloatArray:
    """|v| = sqrt(<v, v>) (paper section 3.1.3), computed as the flat length of v carried to the origin.

    That is |space part of v - v0 / (1 + x0) * space part of x|: a sum of squares, never the root of a negative number.
    """
    at_origin = tangent[..., 1:] - (tangent[..., :1] / (1 + point[..., :1])) * point[..., 1:]
    return np.sqrt(squared_norm(at_origin))


def exp_map(point: FloatArray, tangent: FloatArray) -> FloatArray:
    """cosh(|v|) x + sinh(|v|) v / |v|: where the geodesic from x along v ends (paper equation 12)."""
    length = tangent_norm(point, tangent)[..., None]
    return lift(np.cosh(length) * point[..., 1:] + _sinh_over(length) * tangent[..., 1:])


def log_map(point: FloatArray, target: FloatArray) -> FloatArray:
    """d / sinh(d) * (y - cosh(d) x): the tangent vector at x whose `exp_map` is y; its length is the distance."""
    squared = squared_lorentzian_distance(point, target)
    towards = _displacement(point, target) - (squared / 2)[..., None] * point  # of length sinh(d), as cosh(d) = 1 + q/2
    length = 2 * np.arcsinh(np.sqrt(squared) / 2)
    return towards / _sinh_over(length[..., None])


def boost(point: FloatArray) -> FloatArray:
    """The isometry that moves the origin to x without rotation: [[x0, x'], [x, I + x x' / (1 + x0)]].

    The matrix is symmetric, so rows of points move by `points @ boost(point)`; its inverse is the boost to (x0, -x).
    """
    space = point[..., 1:]
    block = space[..., :, None] * space[..., None, :] / (1 + point[..., :1, None])
    block = block + np.eye(space.shape[-1], dtype=point.dtype)
    return np.concatenate([point[..., None, :], np.concatenate([space[..., :, None], block], axis=-1)], axis=-2)


def distance_to_origin(point: FloatArray) -> FloatArray:
    """d(x, o) = asinh(|space part|): the radius of a point."""
    return np.arcsinh(np.sqrt(squared_norm(point[..., 1:])))


def _displacement(point: FloatArray, target: FloatArray) -> FloatArray:
    """y - x, its time part from the space parts: y0 - x0 = (|y|^2 - |x|^2) / (y0 + x0) = dx . (y + x) / (y0 + x0)."""
    space = target[..., 1:] - point[..., 1:]
    time = dot(space, target[..., 1:] + point[..., 1:]) / (target[..., 0] + point[..., 0])
    return np.concatenate([time[..., None], space], axis=-1)


def _sinh_over(length: FloatArray) -> FloatArray:
    """sinh(n) / n, which is 1 at n = 0; floating point is exact enough near zero, so only zero itself is guarded."""
    return np.divide(np.sinh(length), length, out=np.ones_like(length), where=length != 0)
