"""The nearest neighbours of many points among many: exact up to float32's rounding, on all cores, in bounded memory.

`Scorer` ranks single queries exactly. A map needs the neighbours of the whole catalogue, where selection must cost no
more than scoring: a full partition of each row of scores would take ten times as long as the product.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.points.scoring import BLOCK_BYTES
from lorentzrec.points.topk import top_columns

Geometry: TypeAlias = Literal["hyperboloid", "euclidean"]
Singles: TypeAlias = NDArray[np.float32]
"""In single precision, unlike `Floats` elsewhere."""


def nearest_neighbours(
    points: NDArray[Any], queries: NDArray[Any], count: int, geometry: Geometry
) -> tuple[NDArray[np.int64], Singles]:
    """For each query, the rows of the `count` nearest points, nearest first, and their squared distances.

    Squared distances are those of `squared_lorentzian_distance` on the hyperboloid. A query that is one of the points
    finds itself. With fewer points than `count`, all of them come back.
    """
    count, curved = min(count, len(points)), geometry == "hyperboloid"
    table = np.array(points.T, np.float32, order="C")
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
            rows[block], best = top_columns(scores, count)
            # |u - v|^2 = 2 (|u|^2 / 2 - score) in flat space, and q = 2 (-1 - <u, v>) on the hyperboloid.
            own = -1.0 if curved else np.einsum("ij,ij->i", asked, asked)[:, None] / 2
            squared[block] = np.maximum(2 * (own - best), 0)

    with thread_pool(available_cores()) as in_threads:
        list(in_threads(answer, np.array_split(np.arange(len(queries)), available_cores())))
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
