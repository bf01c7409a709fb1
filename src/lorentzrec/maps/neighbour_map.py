"""Maps that keep neighbours together, with free radii or with the model's own order from centre to rim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.euclidean import squared_norm
from lorentzrec.geometry.hyperboloid import lift
from lorentzrec.geometry.midpoint import einstein_midpoint
from lorentzrec.maps.layout import Layout
from lorentzrec.maps.neighbours import Geometry, Singles, nearest_neighbours, neighbours_of_each
from lorentzrec.maps.principal_plane import principal_plane

Progress: TypeAlias = Callable[[float], None]
"""Called with the share of the work that is done."""

NEIGHBOURS = 10
"""Neighbours that attract a point."""
LANDMARKS = 30_000
"""Maximum number of points that are laid out: the most popular ones; the others are placed among them."""
PLACED_BY, SHARPNESS = 5, 8
"""Landmarks by which another point is placed, and the power of their squared distance that is their weight."""
STEPS = 300
FREE_RADIUS = 1.8
"""Root mean square distance to the centre with free radii: 0.72 of the disk's radius, as for evenly spread points."""
LEVELLED_RIM = 0.97
"""Poincare radius of the outermost point with given radii."""
INNERMOST = 0.05
"""Share of the points that are moved to fill the hole which repulsion leaves in the centre with given radii."""


def neighbour_map(
    points: NDArray[Any],
    geometry: Geometry,
    *,
    counts: NDArray[Any] | None,
    centrality: FloatArray | None,
    seed: int,
    progress: Progress,
) -> FloatArray:
    """Places on the hyperboloid (n, 3), so that near points are near on the map.

    With `centrality` (distances to the centre of the model), points are also pulled to the radius of their rank in it;
    the ranks are spread evenly over the area of the disk.
    """
    levels = None
    if centrality is not None:
        ranks = np.argsort(np.argsort(centrality, kind="stable"))
        levels = _level(ranks, len(ranks)).astype(np.float32)
    if len(points) <= LANDMARKS:
        return _lay_out(points, geometry, levels, seed, lambda share: progress(0.1 + 0.8 * share))
    order = np.random.default_rng(seed).permutation(len(points)) if counts is None else np.argsort(-counts)
    landmarks, others = np.sort(order[:LANDMARKS]), np.sort(order[LANDMARKS:])
    chosen = _lay_out(
        points[landmarks],
        geometry,
        None if levels is None else levels[landmarks],
        seed,
        lambda share: progress(0.1 + share / 4),
    )
    positions = np.empty((len(points), 3))
    positions[landmarks] = chosen
    positions[others] = _place_others(points, others, landmarks, chosen, geometry, levels)
    progress(0.9)
    return positions


def _lay_out(
    points: NDArray[Any], geometry: Geometry, levels: Singles | None, seed: int, progress: Progress
) -> FloatArray:
    neighbours = neighbours_of_each(points, min(NEIGHBOURS, len(points) - 1), geometry)
    plane, _ = principal_plane(points, geometry)
    radius = FREE_RADIUS if levels is None else float(np.sqrt(np.mean(levels**2)))
    spread = float(np.sqrt(squared_norm(plane).mean())) or 1.0
    # A little noise, because equal positions would never separate.
    start = plane / spread + np.random.default_rng(seed).normal(0, 1e-3, plane.shape)
    start *= radius / np.sqrt(squared_norm(start).mean())
    positions = Layout(neighbours, lift(start.astype(np.float32)), radius, levels, seed).run(STEPS, progress)
    return positions if levels is None else _fill_centre(positions)


def _level(ranks: NDArray[np.int64], count: int) -> FloatArray:
    """The radius for each rank from the centre, so that `count` points are spread evenly over the area."""
    radii: FloatArray = 2 * np.arctanh(LEVELLED_RIM * np.sqrt((ranks + 0.5) / count))
    return radii


def _fill_centre(positions: FloatArray) -> FloatArray:
    """Move the innermost points inwards, the first to its level and the last not at all; their order is unchanged."""
    lengths = np.sqrt(squared_norm(positions[:, 1:]))
    inner = np.argsort(lengths, kind="stable")[: int(INNERMOST * len(positions))]
    ranks = np.arange(len(inner))
    weights = ranks / max(len(inner), 1)
    radii = np.arcsinh(lengths[inner])
    moved = np.minimum(weights * radii + (1 - weights) * _level(ranks, len(positions)), radii)
    factors = np.ones(len(positions))
    factors[inner] = np.sinh(moved) / np.maximum(lengths[inner], 1e-12)
    return lift(positions[:, 1:] * factors[:, None])


def _place_others(
    points: NDArray[Any],
    others: NDArray[np.int64],
    landmarks: NDArray[np.int64],
    chosen: FloatArray,
    geometry: Geometry,
    levels: Singles | None,
) -> FloatArray:
    """Place the others at the weighted midpoint of their nearest landmarks."""
    near, squared = nearest_neighbours(points[landmarks], points[others], PLACED_BY, geometry)
    apart = squared.astype(np.float64) + 1e-6  # a point may be at a landmark
    weights = (apart[:, :1] / apart) ** SHARPNESS
    positions = einstein_midpoint(chosen[near].astype(np.float64), weights)
    if levels is None:
        return positions
    lengths = np.sqrt(squared_norm(positions[:, 1:]))[:, None]
    return lift(positions[:, 1:] / np.maximum(lengths, 1e-12) * np.sinh(levels[others].astype(np.float64))[:, None])
