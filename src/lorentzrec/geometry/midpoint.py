"""A history as one point: the Einstein midpoint and its gradient.

`points` has the shape (..., count, d + 1) and `weights` (..., count), as in `lorentzrec.geometry.sums`; the result is
one point (..., d + 1).
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import (
    lift,
    minkowski_squared_norm,
    project_to_tangent,
)
from lorentzrec.geometry.sums import weighted_sum


def normalise_sum(total: FloatArray) -> FloatArray:
    """u = S / n with n = sqrt(-<S, S>): the point of the sheet in the direction of S."""
    return lift(total[..., 1:] / _length_of_sum(total))


def einstein_midpoint(points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """S / sqrt(-<S, S>) with S = sum_i w_i x_i: the centre of mass of special relativity (paper equation 24).

    In Klein coordinates it is sum w gamma k / sum w gamma with gamma = 1 / sqrt(1 - |k|^2) = x0, and gamma k is the
    space part of x, so no chart is needed. It minimises the weighted sum of `squared_lorentzian_distance`, hence goes
    along with every isometry. The paper prints another gamma: see
    `lorentzrec_paper.midpoints`.
    """
    return normalise_sum(weighted_sum(points, weights))


def midpoint_gradient(total: FloatArray, gradient: FloatArray) -> FloatArray:
    """h_S = (h + <u, h> u) / n: the gradient in S, from the gradient h in u = S / n, with n = sqrt(-<S, S>).

    The gradient in x_i is then w_i h_S. It replaces paper equation 33, which goes through Klein coordinates.
    """
    length = _length_of_sum(total)
    return project_to_tangent(total / length, gradient) / length


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


def __getattr__(name: str) -> Any:
    """Until 0.3, the import of `einstein_midpoint_as_printed` that the documentation of 0.1 shows."""
    if name != "einstein_midpoint_as_printed":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(
        f"import {name} from lorentzrec_paper.midpoints: removed here in 0.3", DeprecationWarning, stacklevel=2
    )
    return getattr(import_module("lorentzrec_paper.midpoints"), name)
