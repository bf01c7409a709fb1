"""How much curvature points use: the angles of triangles.

In flat space the angles of a triangle are 180 degrees together. On the hyperboloid they are less, by the triangle's
area; of a small triangle nearly nothing is missing, however curved the space is.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import distance

TRIANGLES = 10_000


def angle_sum(first: FloatArray, second: FloatArray, third: FloatArray) -> FloatArray:
    """The sum of the angles in degrees of geodesic triangles; NaN where two corners are one point.

    tan(A / 2) = sqrt(sinh(s - b) sinh(s - c) / (sinh s sinh(s - a))), with a the side opposite of A and s half the
    perimeter.
    """
    sides = np.stack([distance(second, third), distance(first, third), distance(first, second)])
    half = sides.sum(axis=0) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = np.sinh(np.maximum(half - sides, 0))
        tangents = [
            np.sqrt(gaps[one] * gaps[two] / (np.sinh(half) * gaps[opposite]))
            for opposite, one, two in ((0, 1, 2), (1, 0, 2), (2, 0, 1))
        ]
    angles = np.degrees(2 * np.arctan(tangents).sum(axis=0))
    return np.where((sides > 0).all(axis=0), angles, np.nan)


def mean_angle_sum(points: FloatArray, *, triangles: int = TRIANGLES, seed: int = 0) -> float:
    """The mean of `angle_sum` over triangles of random points; NaN if there is none."""
    corners = np.random.default_rng(seed).integers(0, len(points), (3, triangles))
    chosen = points.astype(np.float64)
    sums = angle_sum(*(chosen[rows] for rows in corners))
    return float(np.nanmean(sums)) if np.isfinite(sums).any() else float("nan")
