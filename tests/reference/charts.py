"""The metric of the Poincare ball and its distance, computed in the ball."""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.geometry.charts import gap_to_boundary


def poincare_metric(poincare: FloatArray) -> FloatArray:
    """g_ij = 4 delta_ij / (1 - |p|^2)^2, a d x d matrix for each point (paper equation 1)."""
    factor = 4 / gap_to_boundary(poincare) ** 2
    return factor[..., None] * np.eye(poincare.shape[-1], dtype=poincare.dtype)


def poincare_distance(poincare: FloatArray, target: FloatArray) -> FloatArray:
    """arccosh(1 + 2 |p - q|^2 / ((1 - |p|^2) (1 - |q|^2))) (paper equation 2).

    Computed as 2 asinh(|p - q| / sqrt(...)), equal by cosh(d) - 1 = 2 sinh(d/2)^2 and exact for near points too.
    """
    gaps = gap_to_boundary(poincare) * gap_to_boundary(target)
    return 2 * np.arcsinh(euclidean.distance(poincare, target) / np.sqrt(gaps[..., 0]))
