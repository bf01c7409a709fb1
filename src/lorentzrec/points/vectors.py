"""Vectors of items and queries for other tools: their plain inner product is in the order of the scores by points.

With z = -<u, v>, and v . w the plain product, the vectors of an item v and a query u are, by space and score:

    hyperboloid             v                        (-u0, u1, ...)
    flat, inner             v                        u
    flat, distance          (v, -|v|^2 / 2)          (u, 1)

With masses m, the score of an item is higher by its mass, and the products are in the order of the scores up to what
is said here:

    inner                   (v, m)                   (u as above, 1)                exactly
    hyperboloid, distance   (n v, n), n = e^-m       (c (-u0, u1, ...), -a)         nearly
    flat, distance          (v, -|v|^2 / 2, m)       (u, 1, d)                      nearly

For distances on the hyperboloid, scores are in the falling order of n e^d, and e^d = z + sqrt(z^2 - 1) is nearly linear
in z: its tangent at a distance t is a + c z with c = e^t / sinh t and a = e^t - c cosh t. In flat space, the tangent of
-d at a distance t is linear in d^2. The tangent of a query touches at the mean distance of its best ten among the most
popular items. Products give candidates, to be scored by the model: docs/recommending.md has a recipe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.points.points import Points

SAMPLED_ITEMS, BEST_ITEMS = 1_000, 10
"""The most popular items, and the best of them for a query, at whose mean distance its tangent touches."""
LEAST_DISTANCE = 0.05
"""The least distance at which a tangent touches: at 0 it would be vertical."""
BLOCK = 1_024
"""Queries at a time, to spare memory."""


def item_vectors(points: Points) -> NDArray[np.float32]:
    """The vector of each item."""
    items, space, masses = points.item_points, points.space, points.masses
    if masses is not None and space.hyperbolic and space.by_distance:
        factors = np.exp(masses.min(initial=0) - masses.astype(np.float64))[:, None]
        return np.column_stack([factors * items, factors]).astype(np.float32)
    columns = [items]
    if space.by_distance and not space.hyperbolic:
        columns.append(-np.einsum("ij,ij->i", items, items)[:, None] / 2)
    if masses is not None:
        columns.append(masses[:, None])
    return items if len(columns) == 1 else np.column_stack(columns)


def query_vectors(points: Points, queries: FloatArray) -> NDArray[np.float32]:
    """The vector of each query point."""
    space, masses = points.space, points.masses
    signed = np.array(queries, np.float64)
    if space.hyperbolic:
        signed[:, 0] *= -1
    ones = np.ones((len(signed), 1))
    if masses is None:
        flat_distance = space.by_distance and not space.hyperbolic
        return (np.column_stack([signed, ones]) if flat_distance else signed).astype(np.float32)
    if not space.by_distance:
        return np.column_stack([signed, ones]).astype(np.float32)
    touching = _find_touching(points, queries)[:, None]
    if not space.hyperbolic:
        return np.column_stack([signed, ones, touching]).astype(np.float32)
    slopes = np.exp(touching) / np.sinh(touching)
    constants = np.exp(touching) - slopes * np.cosh(touching)
    # The same order after a division by a positive number, which keeps the numbers of a query near 1.
    return np.column_stack([signed, -constants / slopes]).astype(np.float32)


def _find_touching(points: Points, queries: FloatArray) -> FloatArray:
    """The mean distance from each query of its best items among the most popular ones."""
    popular = np.sort(np.argsort(-points.item_counts, kind="stable")[:SAMPLED_ITEMS])
    some = points.take(popular).scorer
    assert some.item_offsets is not None
    found, count = np.empty(len(queries)), min(BEST_ITEMS, len(popular))
    for start in range(0, len(queries), BLOCK):
        scores = some.ordered_scores(queries[start : start + BLOCK])
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        distances = some.item_offsets[best] - np.take_along_axis(scores, best, axis=1)
        found[start : start + BLOCK] = distances.mean(axis=1)
    return np.maximum(found, LEAST_DISTANCE)
