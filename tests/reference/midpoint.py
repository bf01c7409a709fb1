"""The formulas of `lorentzrec.geometry.midpoint`, and the gradient that training computes in its kernels alone."""

from __future__ import annotations

import numpy as np

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.hyperboloid import minkowski_squared_norm, project_to_tangent
from lorentzrec.geometry.midpoint import *  # noqa: F403


def midpoint_gradient(total: FloatArray, gradient: FloatArray) -> FloatArray:
    """h_S = (h + <u, h> u) / n: the gradient in S, from the gradient h in u = S / n, with n = sqrt(-<S, S>).

    The gradient in x_i is then w_i h_S. It replaces paper equation 33, which goes through Klein coordinates.
    """
    length = np.sqrt(-minkowski_squared_norm(total))[..., None]
    return project_to_tangent(total / length, gradient) / length
