"""Array types, masks of rows, rank correlation, the largest entries of sparse rows, and groups in flat arrays: group g
is `values[offsets[g]:offsets[g + 1]]`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

PART = 1_000_000
"""Entries of large arrays that are converted at a time."""
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]


def make_mask(rows: NDArray[np.integer[Any]], count: int) -> Booleans:
    """Which of `count` rows are among `rows`."""
    mask = np.zeros(count, bool)
    mask[rows] = True
    return mask


def make_offsets(counts: NDArray[np.integer[Any]]) -> Integers:
    """Where each group starts, and at the end the total, from the sizes of the groups."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of rows: group g is `rows[offsets[g]:offsets[g + 1]]`."""

    offsets: Integers
    rows: NDArray[np.integer[Any]]

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> Groups:
        """One group for each list."""
        lengths = np.array([len(rows) for rows in lists], np.int64)
        return cls(make_offsets(lengths), np.array([row for rows in lists for row in rows], np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Integers:
        """The number of rows of each group."""
        return np.diff(self.offsets)

    @property
    def owners(self) -> Integers:
        """The group of each row."""
        return np.repeat(np.arange(len(self)), self.counts)


def gather_groups(offsets: Integers, groups: Integers) -> tuple[Integers, Integers]:
    """The rows of some groups, one after another: for each row its position in `groups`, and its index."""
    lengths = offsets[groups + 1] - offsets[groups]
    positions = np.repeat(np.arange(len(groups)), lengths)
    rows = np.repeat(offsets[groups] - make_offsets(lengths)[:-1], lengths)
    rows += np.arange(len(rows))
    return positions, rows


def spans_within(sizes: NDArray[Any], limit: int) -> Iterator[tuple[int, int]]:
    """All groups in spans of consecutive ones, from the first to before the second number: each as long as their sizes
    sum to at most `limit`, or a single group that is larger."""
    totals = make_offsets(sizes)
    start = 0
    while start < len(sizes):
        end = int(np.searchsorted(totals, totals[start] + limit, side="right")) - 1
        end = max(end, start + 1)
        yield start, end
        start = end


def count_pairs(matrix: Any) -> Floats:
    """For each column of a CSR matrix, the entries of all rows that have an entry in it."""
    sizes = np.diff(matrix.indptr)
    totals = np.zeros(matrix.shape[1])
    for first, last in spans_within(sizes, PART):  # whole numbers, so parts sum up exactly
        columns = matrix.indices[matrix.indptr[first] : matrix.indptr[last]]
        some = sizes[first:last]
        totals += np.bincount(columns, np.repeat(some, some), len(totals))
    return totals


def sum_columns(matrix: Any, power: int) -> Floats:
    """The sums of the columns of a CSR matrix with each entry to this power, added up from the first row on."""
    totals = np.zeros(matrix.shape[1])
    for start in range(0, len(matrix.indices), PART):
        part = slice(start, start + PART)
        np.add.at(totals, matrix.indices[part], matrix.data[part] ** power)
    return totals


def rank_correlation(left: NDArray[Any], right: NDArray[Any]) -> float | None:
    """Spearman's, from -1 to 1; None if it is not defined, because all values of either are equal or there are none."""
    from scipy.stats import rankdata

    if not len(left) or np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    return float(np.corrcoef(rankdata(left), rankdata(right))[0, 1])


def update_digest(digest: hashlib._Hash, arrays: Iterable[NDArray[Any]]) -> None:
    """Add arrays to a running hash in a byte order that does not depend on the machine."""
    for array in arrays:
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)


def are_lists_of_entries(offsets: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> bool:
    """Whether list i is `columns[offsets[i]:offsets[i + 1]]` with its `values`, for as many lists as columns exist: the
    types, the shapes, and the bounds of the offsets and the columns. The values are not looked at."""
    arrays = (offsets, columns, values)
    count = len(offsets) - 1 if offsets.ndim == 1 else -1
    return (
        [(array.dtype.str, array.ndim) for array in arrays] == [("<i8", 1), ("<i4", 1), ("<f4", 1)]
        and count >= 0
        and columns.shape == values.shape
        and (offsets[0], offsets[-1]) == (0, len(columns))
        and bool((np.diff(offsets) >= 0).all())
        and (not len(columns) or bool(0 <= columns.min() <= columns.max() < count))
    )


def strongest(values: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Indices of the `count` largest values in rising order; among equal ones, the first."""
    return np.flatnonzero(_are_strongest(values, count))


def _are_strongest(values: NDArray[Any], count: int) -> Booleans:
    """Which values are the `count` largest; among equal ones, the first."""
    if len(values) <= count:
        return np.ones(len(values), bool)
    bound = np.partition(values, len(values) - count)[len(values) - count]
    chosen: Booleans = values > bound
    chosen[np.flatnonzero(values == bound)[: count - np.count_nonzero(chosen)]] = True
    return chosen


def strongest_entries(matrix: Any, count: int) -> Any:
    """A sparse matrix with the `count` largest entries of each row, zeros left out; among equal ones, the first."""
    from scipy import sparse

    matrix.eliminate_zeros()
    matrix.sort_indices()
    lengths, kept = np.diff(matrix.indptr), np.ones(len(matrix.data), bool)
    for row in np.flatnonzero(lengths > count).tolist():
        span = slice(matrix.indptr[row], matrix.indptr[row + 1])
        kept[span] = _are_strongest(matrix.data[span], count)
    offsets = make_offsets(np.minimum(lengths, count))
    return sparse.csr_array((matrix.data[kept], matrix.indices[kept], offsets), matrix.shape)
