"""The means that the paper compares with the Einstein midpoint: the Fréchet mean, and the midpoint as it is printed.

`points` has the shape (..., count, d + 1) and `weights` (..., count); the result is one point (..., d + 1).
"""

from __future__ import annotations

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import from_klein, to_klein
from lorentzrec.geometry.euclidean import dot
from lorentzrec.geometry.hyperboloid import distance, exp_map, log_map, tangent_norm
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.geometry.sums import total_weight, weighted_sum, weights_of


def einstein_midpoint_as_printed(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """The same with the paper's gamma = 1 / (1 - |k|^2) = x0^2 (equation 25), for comparison only.

    The square root is missing in print: the paper's own derivative (equation 33 has gamma^3) is that of the root, and
    this form favours far points so much that the midpoint of two points is not half-way and moves when the origin does.
    """
    klein = to_klein(points)
    factors = weights_of(points, weights) * points[..., 0] ** 2
    return from_klein(weighted_sum(klein, factors) / total_weight(klein, factors)[..., None])


def frechet_mean(
    points: FloatArray, weights: FloatArray | None = None, *, tolerance: float = 1e-6, iterations: int = 1000
) -> FloatArray:
    """argmin_p sum_i w_i d(p, x_i)^2 (paper equation 23), by Riemannian descent from the Einstein midpoint.

    A step is v / L, with v = sum w log_p(x) / sum w minus the gradient of half the mean squared distance, and
    L = sum w d coth(d) / sum w a bound of its curvature: with it every step descends, and the minimum is the only one.
    It stops when |v| <= tolerance; an error tells when `iterations` steps were not enough.
    """
    shares = _shares(points, weights)
    mean = einstein_midpoint(points, weights)
    for _ in range(iterations + 1):
        pull = _mean_pull(mean, points, shares)
        length = tangent_norm(mean, pull)
        if np.all(length <= tolerance):
            return mean
        distances = distance(mean[..., None, :], points)
        # d coth(d) is 1 at d = 0, the one place where it is 0/0.
        curvatures = np.divide(distances, np.tanh(distances), out=np.ones_like(distances), where=distances != 0)
        mean = exp_map(mean, pull / dot(shares, curvatures)[..., None])
    raise InputError(
        f"a Frechet mean still has a gradient of {np.max(length):.3g} after {iterations} iterations "
        f"(tolerance {tolerance:g}): allow more iterations or a larger tolerance"
    )


def frechet_mean_by_iterations(
    points: FloatArray, weights: FloatArray | None = None, *, iterations: int = 10, learning_rate: float = 0.5
) -> FloatArray:
    """The Frechet mean as the paper's comparison had it: plain gradient descent for ten steps (section 5.4), unchecked.

    p <- exp_p(rate sum w log_p(x) / sum w) from the first point. The paper gives no rate; at 0.5 each step along a
    geodesic halves the error, so ten leave 1/1024 of it, in line with the 0.3 % it reports.
    """
    shares = _shares(points, weights)
    mean = points[..., 0, :]
    for _ in range(iterations):
        mean = exp_map(mean, learning_rate * _mean_pull(mean, points, shares))
    return mean


def _mean_pull(mean: FloatArray, points: FloatArray, shares: FloatArray) -> FloatArray:
    """sum_i share_i log_p(x_i): minus the Riemannian gradient of half the mean squared distance."""
    return weighted_sum(log_map(mean[..., None, :], points), shares)


def _shares(points: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Weights that sum to one."""
    return weights_of(points, weights) / total_weight(points, weights)[..., None]
