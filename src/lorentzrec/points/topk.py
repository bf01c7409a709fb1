"""Selection of the largest scores, for evaluation and nearest neighbours.

Recommendations are selected in compiled code (`native.py`), and popular items are kept sorted (`LiveSet.popular`).

`np.partition` of all scores costs more than computing them, and far more where most are equal. So columns are cut into
groups, and only the groups' maxima are sorted: at least `count` scores reach the count-th highest of them, and few do.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.integer[Any]]
Scores = TypeVar("Scores", bound=np.floating[Any])

GROUP_SIZE = 64


def _group_maxima(scores: NDArray[Scores], count: int) -> NDArray[Scores]:
    """The largest score of each group, several groups for each of `count`: column c is in group c % groups. The few
    columns that are left over at the end do not belong to any."""
    groups = scores.shape[1] // max(1, min(GROUP_SIZE, scores.shape[1] // (4 * count)))
    size = scores.shape[1] // groups  # as callers find it from the number of groups
    maxima: NDArray[Scores] = scores[:, : size * groups].reshape(len(scores), size, groups).max(axis=1)
    return maxima


def _bound(scores: NDArray[Scores], count: int) -> NDArray[Scores]:
    """For each row a number that at least `count` scores reach, and fewer than `count` groups exceed."""
    maxima = _group_maxima(scores, count)
    rest = scores[:, scores.shape[1] // maxima.shape[1] * maxima.shape[1] :]
    bound: NDArray[Scores] = np.sort(np.hstack([maxima, rest]), axis=1)[:, -count]
    return bound


def best_scores(scores: NDArray[Scores], count: int) -> NDArray[Scores]:
    """(rows, count): the highest scores of each row, in decreasing order."""
    bound = _bound(scores, count)
    owners, columns = rows_and_columns(scores > bound[:, None])
    values = scores[owners, columns]
    order = np.lexsort((-values, owners))
    ranks = np.arange(len(order)) - np.searchsorted(owners, owners)
    first = ranks < count
    best = np.repeat(bound[:, None], count, axis=1)
    best[owners[first], ranks[first]] = values[order][first]
    return best


def rows_and_columns(chosen: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`np.nonzero`, several times faster."""
    row_count, column_count = chosen.shape
    flat = np.flatnonzero(chosen)
    bounds = np.searchsorted(flat, np.arange(row_count + 1) * column_count)
    owners = np.repeat(np.arange(row_count), np.diff(bounds))
    return owners, flat - owners * column_count


def top_columns(scores: NDArray[Scores], count: int) -> tuple[NDArray[np.int64], NDArray[Scores]]:
    """(rows, count) each: columns and values of the highest scores of each row, decreasing; ties in any order.

    Reads all scores only once, so selecting costs less than scoring.
    """
    maxima = _group_maxima(scores, count)
    groups = maxima.shape[1]
    size = scores.shape[1] // groups
    columns = _largest(maxima, count)[:, None, :] + groups * np.arange(size)[:, None]
    rest = np.broadcast_to(np.arange(size * groups, scores.shape[1]), (len(scores), scores.shape[1] - size * groups))
    columns = np.concatenate([columns.reshape(len(scores), -1), rest], axis=1)
    values = np.take_along_axis(scores, columns, axis=1)
    chosen = _largest(values, count)
    order = np.take_along_axis(chosen, np.argsort(-np.take_along_axis(values, chosen, axis=1), axis=1), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)


def _largest(scores: NDArray[Scores], count: int) -> NDArray[np.int64]:
    """Columns of the `count` largest of each row, in no order."""
    first_index = scores.shape[1] - count
    return np.argpartition(scores, first_index, axis=1)[:, first_index:]
