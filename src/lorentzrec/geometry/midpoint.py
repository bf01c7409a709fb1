"""A history as one point: the Einstein midpoint.

`points` has the shape (..., count, d + 1) and `weights` (..., count), as in `lorentzrec.geometry.sums`; the result is
one point (..., d + 1).
"""

from __future__ import annotations

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import lift, minkowski_squared_norm
from lorentzrec.geometry.sums import weighted_sum


def normalise_sum(total: FloatArray) -> FloatArray:
    """u = S / n with n = sqrt(-<S, S>): the point of the sheet in the direction of S.

    n is at least the sum of the weights: n^2 = sum_ij w_i w_j cosh(d_ij).
    """
    squared = -minkowski_squared_norm(total)[..., None]
    inside = (squared > 0) & (total[..., :1] > 0)
    if not inside.all():
        raise InputError(
            f"the sum in row {np.argwhere(~inside)[0, :-1].tolist()} has no midpoint, as -<S, S> is "
            f"{squared[~inside][0]:.3g}: give every history at least one point of positive weight, none of negative "
            "weight, and no point so far out that its digits are gone"
        )
    return lift(total[..., 1:] / np.sqrt(squared))


def einstein_midpoint(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """S / sqrt(-<S, S>) with S = sum_i w_i x_i: the centre of mass of special relativity (paper equation 24).

    In Klein coordinates it is sum w gamma k / sum w gamma with gamma = 1 / sqrt(1 - |k|^2) = x0, and gamma k is the
    space part of x, so no chart is needed. It minimises the weighted sum of `squared_lorentzian_distance`, so every
    isometry maps it to the midpoint of the mapped points. The paper prints another gamma: see
    `lorentzrec_paper.midpoints`.
    """
    return normalise_sum(weighted_sum(points, weights))
