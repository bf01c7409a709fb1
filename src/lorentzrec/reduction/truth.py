"""How well a map preserves the model: measured on a sample, by the distances of model and map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.reduction.neighbours import Geometry, nearest_neighbours, without_own

SAMPLED = 1_000
"""Points whose neighbourhoods are compared."""


def measure_map(places: FloatArray, points: NDArray[Any], geometry: Geometry, seed: int) -> dict[str, float]:
    """Compare the map (places on the hyperboloid, (n, 3)) with the model.

    neighbours@10: the share of a point's 10 nearest neighbours that are among its 10 nearest on the map.
    distances: the rank correlation of distances between sampled points.
    centre: the rank correlation of distances to the midpoint, for hyperbolic models.
    A number that is not defined (fewer than three points, or all distances equal) is left out.
    """
    if len(points) < 3:
        return {}
    sample = np.random.default_rng(seed).permutation(len(points))[:SAMPLED]
    true = without_own(nearest_neighbours(points, points[sample], 11, geometry)[0], sample)
    found = without_own(nearest_neighbours(places, places[sample], 11, "hyperboloid")[0], sample)
    kept = {"neighbours@10": float((true[:, :, None] == found[:, None, :]).any(axis=2).mean())}
    kept["distances"] = _rank_correlation(
        _distances(points, sample, geometry), _distances(places, sample, "hyperboloid")
    )
    if geometry == "hyperboloid":
        kept["centre"] = _rank_correlation(centrality(points, geometry), places[:, 0])
    return {name: value for name, value in kept.items() if np.isfinite(value)}


def centrality(points: NDArray[Any], geometry: Geometry) -> FloatArray:
    """The distance of each point to the midpoint of all."""
    if geometry == "euclidean":
        return euclidean.distance(points, points.mean(axis=0, dtype=np.float64))
    middle = normalise_sum(points.sum(axis=0, dtype=np.float64))
    return np.arccosh(np.maximum(-hyperboloid.minkowski_dot(points, middle), 1))


def _distances(points: NDArray[Any], rows: NDArray[np.int64], geometry: Geometry) -> FloatArray:
    """The distance from each of the rows to the next."""
    distance = hyperboloid.distance if geometry == "hyperboloid" else euclidean.distance
    return distance(points[rows[:-1]], points[rows[1:]])


def _rank_correlation(left: FloatArray, right: FloatArray) -> float:
    from scipy.stats import rankdata

    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])
