"""Two charts of the hyperboloid in the unit ball: Klein (geodesics are straight) and Poincare (preserves angles).

A point has d coordinates in the ball. Both are needed only to draw, to compare with the paper and to
initialise: far points crowd at the boundary, where rounding soon puts them on it (Klein first, at radius 18 in float64
and 8 in float32; Poincare at twice that). Such a point has no inverse, and the functions here refuse it.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.geometry.hyperboloid import lift


def to_klein(point: FloatArray) -> FloatArray:
    """k = space part / x0: the central projection of the point onto the plane x0 = 1 (paper equation 4)."""
    return point[..., 1:] / point[..., :1]


def from_klein(klein: FloatArray) -> FloatArray:
    """(1, k) / sqrt(1 - |k|^2) (paper equation 5)."""
    return lift(klein / np.sqrt(gap_to_boundary(klein)))


def to_poincare(point: FloatArray) -> FloatArray:
    """p = space part / (1 + x0): the projection of the point from (-1, 0, ..., 0) onto the plane x0 = 0."""
    return point[..., 1:] / (1 + point[..., :1])


def from_poincare(poincare: FloatArray) -> FloatArray:
    """(1 + |p|^2, 2 p) / (1 - |p|^2), the inverse of `to_poincare`."""
    return lift(2 * poincare / gap_to_boundary(poincare))


def gap_to_boundary(ball: FloatArray) -> FloatArray:
    """1 - |b|^2 with a last axis of 1, or an error that names the first row outside the open unit ball."""
    gap = 1 - euclidean.squared_norm(ball)[..., None]
    inside = gap > 0
    if not inside.all():
        raise InputError(
            f"the point in row {np.argwhere(~inside)[0, :-1].tolist()} is not inside the unit ball, as 1 - |b|^2 is "
            f"{gap[~inside][0]:.3g}: scale it inside, or keep far points on the hyperboloid"
        )
    return gap
