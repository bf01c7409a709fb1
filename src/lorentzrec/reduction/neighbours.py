"""The nearest neighbours of many points among many: exact up to float32's rounding, on all cores, in bounded memory.

`Ranker` ranks single queries exactly. A map needs the neighbours of the whole catalogue, where selection must cost no
more than scoring: a full partition of each row of scores would take ten times as long as the product.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.model.ranking import BLOCK_BYTES
from lorentzrec.threads import SINGLE_THREADED_BLAS, available_cores

Geometry: TypeAlias = Literal["hyperboloid", "euclidean"]
Floats: TypeAlias = NDArray[np.float32]
GROUP = 64
"""Scores of which only the largest is looked at first."""


def nearest_neighbours(
    points: NDArray[Any], queries: NDArray[Any], count: int, geometry: Geometry
) -> tuple[NDArray[np.int64], Floats]:
    """For each query, the rows of the `count` nearest points, nearest first, and their squared distances.

    Squared distances are those of `squared_lorentzian_distance` on the hyperboloid. A query that is one of the points
    finds itself. With fewer points than `count`, all of them come back.
    """
    count, curved = min(count, len(points)), geometry == "hyperboloid"
    groups = -(-len(points) // GROUP)
    table = np.zeros((points.shape[1], groups * GROUP), np.float32)
    table[:, : len(points)] = points.T
    # The score u . v - |v|^2 / 2 falls with the distance in flat space; on the hyperboloid <u, v> does.
    offsets = None if curved else np.einsum("ij,ij->j", table, table) / 2
    if curved:
        table[0] *= -1
    size = max(1, BLOCK_BYTES // table[0].nbytes)
    rows = np.empty((len(queries), count), np.int64)
    squared = np.empty((len(queries), count), np.float32)

    def answer(span: NDArray[np.int64]) -> None:
        # One buffer for all blocks: fresh memory for each would cost as much as the product.
        buffer = np.empty((min(size, len(span)), table.shape[1]), np.float32)
        for first in range(0, len(span), size):
            block = span[first : first + size]
            asked = queries[block].astype(np.float32)
            scores = np.matmul(asked, table, out=buffer[: len(block)])
            if offsets is not None:
                scores -= offsets
            scores[:, len(points) :] = -np.inf
            rows[block], best = _top(scores, count)
            # |u - v|^2 = 2 (|u|^2 / 2 - score) in flat space, and q = 2 (-1 - <u, v>) on the hyperboloid.
            own = -1.0 if curved else np.einsum("ij,ij->i", asked, asked)[:, None] / 2
            squared[block] = np.maximum(2 * (own - best), 0)

    with SINGLE_THREADED_BLAS, ThreadPoolExecutor(available_cores()) as pool:
        list(pool.map(answer, np.array_split(np.arange(len(queries)), available_cores())))
    return rows, squared


def neighbours_of_each(points: NDArray[Any], count: int, geometry: Geometry) -> NDArray[np.int64]:
    """For each point the rows of the `count` others that are nearest to it, nearest first."""
    rows, _ = nearest_neighbours(points, points, count + 1, geometry)
    return without_own(rows, np.arange(len(points)))


def without_own(rows: NDArray[np.int64], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of neighbours less the query itself, or less the last where equal points kept it from the list."""
    itself = rows == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    others: NDArray[np.int64] = rows[~itself].reshape(len(rows), rows.shape[1] - 1)
    return others


def _top(scores: Floats, count: int) -> tuple[NDArray[np.int64], Floats]:
    """Columns and values of the `count` largest of each row, largest first.

    They lie in the `count` groups whose largest scores are largest, so only those groups are sorted.
    """
    groups = scores.shape[1] // GROUP
    best_groups = _largest(scores.reshape(len(scores), GROUP, groups).max(axis=1), min(count, groups))
    columns = (best_groups[:, None, :] + groups * np.arange(GROUP)[:, None]).reshape(len(scores), -1)
    values = np.take_along_axis(scores, columns, axis=1)
    chosen = _largest(values, count)
    order = np.take_along_axis(chosen, np.argsort(-np.take_along_axis(values, chosen, axis=1), axis=1), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)


def _largest(scores: Floats, count: int) -> NDArray[np.int64]:
    """Columns of the `count` largest of each row, in no order."""
    place = scores.shape[1] - count
    return np.argpartition(scores, place, axis=1)[:, place:]
