"""A history as one point: the Einstein midpoint and its gradient, and the Frechet mean it stands in for.

`points` has the shape (..., count, d + 1) and `weights` (..., count), as in `lorentzrec.geometry.sums`; the answer is
one point (..., d + 1).
"""

from __future__ import annotations

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.charts import from_klein, to_klein
from lorentzrec.geometry.euclidean import dot
from lorentzrec.geometry.hyperboloid import (
    distance,
    exp_map,
    lift,
    log_map,
    minkowski_squared_norm,
    project_to_tangent,
    tangent_norm,
)
from lorentzrec.geometry.sums import total_weight, weighted_sum, weights_of


def normalise_sum(total: FloatArray) -> FloatArray:
    """u = S / n with n = sqrt(-<S, S>): the point of the sheet that lies in the direction of S."""
    return lift(total[..., 1:] / _length_of_sum(total))


def einstein_midpoint(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """S / sqrt(-<S, S>) with S = sum_i w_i x_i: the centre of mass of special relativity (paper equation 24).

    In Klein coordinates it is sum w gamma k / sum w gamma with gamma = 1 / sqrt(1 - |k|^2) = x0, and gamma k is the
    space part of x, so no chart is needed. It minimises the weighted sum of `squared_lorentzian_distance`, hence goes
    along with every isometry. The paper prints another gamma: see `einstein_midpoint_as_printed`.
    """
    return normalise_sum(weighted_sum(points, weights))


def einstein_midpoint_as_printed(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """The same with the paper's gamma = 1 / (1 - |k|^2) = x0^2 (equation 25), for comparison only.

    The square root is missing in print: the paper's own derivative (equation 33 has gamma^3) is that of the root, and
    this form favours far points so much that the midpoint of two points is not half-way and moves when the origin does.
    """
    klein = to_klein(points)
    factors = weights_of(points, weights) * points[..., 0] ** 2
    return from_klein(weighted_sum(klein, factors) / total_weight(klein, factors)[..., None])


def midpoint_gradient(total: FloatArray, gradient: FloatArray) -> FloatArray:
    """h_S = (h + <u, h> u) / n: the gradient in S, from the gradient h in u = S / n, with n = sqrt(-<S, S>).

    The gradient in x_i is then w_i h_S. It takes the place of paper equation 33, which goes through Klein coordinates.
    """
    length = _length_of_sum(total)
    return project_to_tangent(total / length, gradient) / length


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


def _length_of_sum(total: FloatArray) -> FloatArray:
    """n = sqrt(-<S, S>) with a last axis of 1, at least the sum of the weights: n^2 = sum_ij w_i w_j cosh(d_ij)."""
    squared = -minkowski_squared_norm(total)[..., None]
    inside = (squared > 0) & (total[..., :1] > 0)
    if not inside.all():
        raise InputError(
            f"the sum in row {np.argwhere(~inside)[0, :-1].tolist()} has no midpoint, as -<S, S> is "
            f"{squared[~inside][0]:.3g}: give every history at least one point of positive weight, none of negative "
            "weight, and no point so far out that its digits are gone"
        )
    return np.sqrt(squared)
