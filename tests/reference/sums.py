"""All histories of one customer in linear time, as the kernels compute them. Shapes: see `lorentzrec.geometry.sums`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import find_weights


def prefix_sums(points: FloatArray, weights: FloatArray | None = None, recency: float = 1.0) -> FloatArray:
    """S_t = recency S_(t-1) + w_(t-1) x_(t-1), with S_0 = 0: the sum of the history before every row t.

    A point counts less by the factor `recency` for every step back from the target. Row 0 has no history and no
    midpoint. All rows together cost as much as one sum.
    """
    weighted = find_weights(points, weights)[..., None] * points
    sums = np.zeros_like(weighted)
    for row in range(1, points.shape[-2]):
        sums[..., row, :] = recency * sums[..., row - 1, :] + weighted[..., row - 1, :]
    return sums


def prefix_sums_gradient(gradients: FloatArray, weights: FloatArray | None = None, recency: float = 1.0) -> FloatArray:
    """From the gradients h_t in all S_t those in all x_t: w_t r_t, with r_(t-1) = recency r_t + h_t from a last r of 0.

    The recurrence of `prefix_sums` run backwards, at the same linear cost.
    """
    running = np.zeros_like(gradients)
    for row in range(gradients.shape[-2] - 1, 0, -1):
        running[..., row - 1, :] = recency * running[..., row, :] + gradients[..., row, :]
    return find_weights(gradients, weights)[..., None] * running


def leave_out_sums(
    points: FloatArray, weights: FloatArray | None = None, folds: NDArray[np.int64] | None = None
) -> FloatArray:
    """S less w_s x_s of all rows s in the fold of t, for every row t: the sum of the rest, for a history that has no
    order. Without folds, of `count` numbers, every row is one of its own."""
    weighted = find_weights(points, weights)[..., None] * points
    rest: FloatArray = weighted.sum(axis=-2, keepdims=True) - _sums_of_folds(weighted, folds)
    return rest


def leave_out_sums_gradient(
    gradients: FloatArray, weights: FloatArray | None = None, folds: NDArray[np.int64] | None = None
) -> FloatArray:
    """From the gradients h_t in all sums of `leave_out_sums` those in all x_t: w_t times the sum of h_s over all rows
    outside the fold of t."""
    return find_weights(gradients, weights)[..., None] * leave_out_sums(gradients, folds=folds)


def _sums_of_folds(values: FloatArray, folds: NDArray[np.int64] | None) -> FloatArray:
    if folds is None:
        return values
    sums: FloatArray = (folds[:, None] == folds).astype(values.dtype) @ values
    return sums
