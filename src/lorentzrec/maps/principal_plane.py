"""The plane that preserves most of the spread of points: principal components, in hyperbolic and in flat space.

On the hyperboloid a plane through the origin of Minkowski space is what a flat subspace is for ordinary PCA. Its axes
are eigenvectors with respect to the Minkowski form (Tabaghi, Khanzadeh, Wang and Dokmanic, "Principal component
analysis in space forms", 2024): closed form, O(n d^2), and the same plane whichever isometry moved the points before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import minkowski_gradient as flip_time  # J v for each row
from lorentzrec.geometry.hyperboloid import precise
from lorentzrec.maps.neighbours import Geometry

BLOCK_ROWS = 65_536
"""Points in float64 at a time."""
NEGLIGIBLE = 1e-12
"""Share of the largest eigenvalue below which an axis is rounding error, not spread."""


def principal_plane(points: NDArray[Any], geometry: Geometry) -> tuple[FloatArray, float]:
    """Points projected to their principal plane (n, 2), and the share of the spread that it preserves; on the
    hyperboloid, the two are space coordinates."""
    return hyperbolic_plane(points) if geometry == "hyperboloid" else flat_plane(points)


def hyperbolic_plane(points: NDArray[Any]) -> tuple[FloatArray, float]:
    """Points (n, d + 1) projected to their principal plane, and the share of the spread that it preserves.

    With C = mean of x x', the J-eigenvectors are the v with C J v = mu v, where J = diag(-1, 1, ..., 1). One has
    mu < 0: the centre c, which becomes the origin. The others are the directions of spread, largest mu first. With
    C = L L' they come from the symmetric matrix L' J L: if L' J L w = mu w then v = L w, and <v, v> = mu.
    A point is projected to its nearest point of the plane: its part in the span of c and two directions, normalised.
    """
    moments = _sum_over_blocks(points, lambda block: block.T @ block, curved=True) / len(points)
    squared, vectors = np.linalg.eigh(moments)
    root = vectors * np.sqrt(np.maximum(squared, 0))  # negative only by rounding
    spread, weights = np.linalg.eigh(root.T @ flip_time(root.T).T)
    centre = root @ weights[:, 0] / np.sqrt(-spread[0])
    centre *= np.sign(centre[0])
    directions, kept = _largest(root @ weights[:, 1:], spread[1:])
    basis = np.concatenate([-flip_time(centre)[:, None], flip_time(directions.T).T], axis=1)
    parts = _project(points, basis, curved=True)
    # -<part, part> = 1 + what is left out, squared: never below one but by rounding.
    length = np.sqrt(np.maximum(parts[:, 0] ** 2 - squared_norm(parts[:, 1:]), 1))
    return parts[:, 1:] / length[:, None], kept


def flat_plane(points: NDArray[Any]) -> tuple[FloatArray, float]:
    """Points (n, d) projected to their first two principal components (n, 2), and the share of the variance kept."""
    mean = _sum_over_blocks(points, lambda block: block.sum(axis=0), curved=False) / len(points)
    moments = _sum_over_blocks(points, lambda block: (block - mean).T @ (block - mean), curved=False) / len(points)
    variances, axes = np.linalg.eigh(moments)
    directions, kept = _largest(axes * np.sqrt(np.maximum(variances, 0)), variances)
    return _project(points, directions, curved=False) - mean @ directions, kept


def _largest(vectors: FloatArray, spread: FloatArray) -> tuple[FloatArray, float]:
    """The two columns of largest spread as unit vectors, zero where there is none, and their share of all spread.

    The sign of a direction is free: the largest coordinate is made positive, so that it does not depend on LAPACK.
    """
    spread = np.where(spread > NEGLIGIBLE * max(1.0, spread.max(initial=0)), spread, 0.0)
    chosen = np.argsort(-spread, kind="stable")[:2]
    directions = np.zeros((len(vectors), 2))
    for index, column in enumerate(chosen):
        if spread[column] > 0:
            direction = vectors[:, column] / np.sqrt(spread[column])
            directions[:, index] = direction * np.sign(direction[np.abs(direction).argmax()])
    total = spread.sum()
    return directions, float(spread[chosen].sum() / total) if total > 0 else 1.0


def _to_float64(block: NDArray[Any], curved: bool) -> FloatArray:
    return precise(block) if curved else block.astype(np.float64)


def _blocks(points: NDArray[Any]) -> list[NDArray[Any]]:
    return [points[start : start + BLOCK_ROWS] for start in range(0, len(points), BLOCK_ROWS)]


def _sum_over_blocks(points: NDArray[Any], function: Any, *, curved: bool) -> FloatArray:
    total: FloatArray = np.sum([function(_to_float64(block, curved)) for block in _blocks(points)], axis=0)
    return total


def _project(points: NDArray[Any], basis: FloatArray, *, curved: bool) -> FloatArray:
    return np.concatenate([_to_float64(block, curved) @ basis for block in _blocks(points)])
